// Inboxes: addresses that receive mail, and their messages as an email client lists them.
import { html } from 'hono/html'
import { icon } from '../views/html/icons.ts'
import { badge, count, counted, pageOf, type Html } from '../views/html/widgets.ts'
import { inboxCounts, inboxMessages } from './api-messages.ts'
import { inboxes } from './api.ts'
import { MOST_UNREAD } from './messages.ts'
import { messagePlaces, nameOf } from './page-message.ts'
import { flag, number, text, type Thing, type Visit } from '../views/html/visit.ts'
import type { FormView } from '../views/form.ts'
import { listOf, type ListView } from '../views/list.ts'
import { listPlaces, onePlace } from '../views/pages.ts'

type InboxShown = Thing<typeof inboxes>
type MessageShown = Thing<typeof inboxMessages>

const unreadShown = (unread: number): Html | string =>
  unread === 0 ? '0' : html`<strong>${count(unread)}${unread === MOST_UNREAD ? ' or more' : ''}</strong>`

const domainOf = (address: string): string => address.slice(address.lastIndexOf('@') + 1)

/** Whether an inbox receives now. Visitors without access to this get true. */
async function isReceiving(visit: Visit, id: string): Promise<boolean> {
  const { one } = await visit.get(inboxCounts, `/inbox-counts/${id}`)
  return one === undefined || flag(one, 'receives')
}

async function allInboxes(visit: Visit): Promise<ListView<typeof inboxes>> {
  const { many } = await visit.get(inboxCounts, `/inbox-counts?${pageOf(visit)}`)
  const counts = new Map(many.map((each) => [each.id, each]))
  const address = (inbox: InboxShown): Html | string => {
    const [counted, whole] = [counts.get(inbox.id), text(inbox, 'address')]
    return counted && !flag(counted, 'receives')
      ? html`${whole} <span class="soft">receives once ${domainOf(whole)} is verified</span>`
      : whole
  }
  const unread = ({ id }: InboxShown): Html | string => {
    const counted = counts.get(id)
    return unreadShown(counted ? number(counted, 'unread') : 0)
  }
  return {
    of: inboxes,
    from: '/inboxes',
    caption: 'Inboxes',
    columns: [
      { title: 'Name', of: 'name', to: ({ id }) => `/inboxes/${id}` },
      { title: 'Address', of: address },
      { title: 'Unread', kind: 'figure', of: unread },
      { title: 'Created', kind: 'time', of: 'created_at' },
    ],
    empty: 'No inboxes yet. The first inbox of a domain requires an MX record.',
  }
}

const newInbox: FormView<typeof inboxes> = {
  title: 'Add inbox',
  of: inboxes,
  fields: {
    name: { label: 'Name' },
    address: { label: 'Address', type: 'email', hint: 'An address on one of your domains.' },
  },
  button: 'Add inbox',
  async done(visit, one, given) {
    const address = given.get('address').trim()
    const receives = await isReceiving(visit, one.id)
    const when = receives ? 'can receive messages now' : `receives messages once ${domainOf(address)} is verified`
    return visit.say(`/inboxes/${one.id}`, `${address} ${when}.`)
  },
}

const list = listPlaces({
  path: '/inboxes',
  title: 'Inboxes',
  about: 'Addresses on your domains that receive messages.',
  add: { label: 'Add inbox', domain: true },
  form: newInbox,
  list: allInboxes,
})

function subjectOf(message: MessageShown): Html {
  const subject = text(message, 'subject') || '(no subject)'
  return html`${flag(message, 'seen') ? subject : html`<strong>${subject}</strong>`}`
}

function senderOf(message: MessageShown): Html | string {
  const name = nameOf(text(message, 'from')) || text(message, 'sender') || '(no sender)'
  return flag(message, 'seen') ? name : html`<strong>${name}</strong><span class="hidden"> (unread)</span>`
}

function filesOf(message: MessageShown): Html | string {
  const files = number(message, 'attachments')
  return files === 0 ? '' : html`<span title="${counted(files, 'attachment')}">${icon('attachment')} ${files}</span>`
}

const messagesOf = (id: string, address: string, unread: boolean): ListView<typeof inboxMessages> => ({
  of: inboxMessages,
  from: `/inboxes/${id}/messages`,
  caption: 'Messages',
  search: 'Search messages',
  live: true,
  tabs: {
    label: 'Messages',
    name: 'show',
    filter: 'seen',
    options: [
      { value: '', name: 'All' },
      { value: 'unread', name: 'Unread', filter: 'false' },
    ],
  },
  columns: [
    { title: 'From', width: 20, of: senderOf },
    {
      title: 'Subject',
      of: (message) =>
        html`<a href="/inboxes/${id}/mail/${message.id}">${subjectOf(message)}</a>
          ${text(message, 'status') === 'received' ? '' : badge(text(message, 'status'))} ${filesOf(message)}
          <span class="soft">${text(message, 'snippet')}</span>`,
    },
    { title: 'Received', kind: 'time', of: 'received_at' },
  ],
  empty: `No messages yet. Messages to ${address} appear here as they arrive.`,
  noMatch: unread ? 'No unread messages.' : 'No messages match.',
})

const inbox = onePlace({
  path: '/inboxes/:id',
  of: inboxes,
  list: ['/inboxes', 'Inboxes'],
  title: 'name',
  async about(one, visit) {
    const address = text(one, 'address')
    return (await isReceiving(visit, one.id))
      ? `Messages to ${address}.`
      : `Messages to ${address}. It receives once ${domainOf(address)} is verified. Until then, senders are asked to retry later.`
  },
  actions: {
    remove: {
      label: 'Delete inbox',
      confirm: 'The inbox stops receiving. Messages that it received stay available.',
      danger: true,
      deletes: true,
      said: (one) => `Deleted ${text(one, 'address')}. It no longer receives messages.`,
    },
  },
  body: async ({ one, visit }) => {
    const unread = visit.query('q') === '' && visit.query('show') === 'unread'
    return (await listOf(visit, messagesOf(one.id, text(one, 'address'), unread))).body
  },
})

export const inboxPlaces = [...list, ...messagePlaces, inbox]
