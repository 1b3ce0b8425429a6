// Inboxes: addresses that receive mail, and their messages as a mail program lists them.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { button, dangers, fieldMaker, form } from '../webui/forms.ts'
import { icon } from '../webui/icons.ts'
import {
  badge,
  count,
  counted,
  figures,
  live,
  pageOf,
  pager,
  search,
  table,
  tabs,
  time,
  type Cell,
  type Html,
} from '../webui/widgets.ts'
import { inboxCounts, inboxMessages } from './api-messages.ts'
import { inboxes } from './api.ts'
import { MOST_UNREAD } from './messages.ts'
import { messagePlaces, nameOf } from './page-message.ts'
import { done, found, type Form, type Place } from '../webui/place.ts'
import { flag, number, text, type Answer, type Thing, type Visit } from '../webui/visit.ts'

const LABELS = { name: 'Name', address: 'Address' } as const

const ADD = html`<a class="button" href="/inboxes/new">Add inbox</a>`

const unreadShown = (unread: number): Html | string =>
  unread === 0 ? '0' : html`<strong>${count(unread)}${unread === MOST_UNREAD ? ' or more' : ''}</strong>`

async function showAll(visit: Visit): Promise<Response> {
  const [answer, counts] = await Promise.all([
    visit.get(inboxes, `/inboxes?${pageOf(visit)}`),
    visit.get(inboxCounts, `/inbox-counts?${pageOf(visit)}`),
  ])
  const of = new Map(counts.many.map((each) => [each.id, each]))
  const rows = answer.many.map((inbox) => {
    const counted = of.get(inbox.id)
    const address = text(inbox, 'address')
    return [
      html`<a href="/inboxes/${inbox.id}">${text(inbox, 'name')}</a>`,
      counted && !flag(counted, 'receives')
        ? html`${address} <span class="soft">receives once ${domainOf(address)} is verified</span>`
        : address,
      unreadShown(counted ? number(counted, 'unread') : 0),
      time(inbox.attributes.created_at),
    ]
  })
  return page(visit, {
    title: 'Inboxes',
    about: 'Addresses of your domains whose mail is kept and shown here.',
    actions: visit.reading ? '' : ADD,
    done: done(visit),
    body: html`${table(
      'Inboxes',
      ['Name', 'Address', ...figures('Unread'), { title: 'Since', kind: 'time' }],
      rows,
      html`<p>No inbox yet. The first one of a domain asks for an MX record.</p>
        ${visit.reading ? '' : ADD}`,
    )}
    ${pager(visit, answer)}`,
  })
}

const domainOf = (address: string): string => address.slice(address.lastIndexOf('@') + 1)

/** Whether an inbox receives now; whoever may not know it is told nothing else. */
async function isReceiving(visit: Visit, id: string): Promise<boolean> {
  const { one } = await visit.get(inboxCounts, `/inbox-counts/${id}`)
  return one === undefined || flag(one, 'receives')
}

/** The form for a new inbox, empty or as it was refused. */
function showNew(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Response | Promise<Response> {
  const entry = fieldMaker(LABELS, errors, typed)
  return page(visit, {
    title: 'Add an inbox',
    crumbs: [['/inboxes', 'Inboxes']],
    errors,
    labels: LABELS,
    body: form(
      visit,
      'add',
      html`${entry('name', { required: true })}
        ${entry('address', { type: 'email', hint: 'On one of your domains.', required: true })}
        <button>Add inbox</button>`,
      { to: '/inboxes' },
    ),
  })
}

const fresh: Place = { path: '/inboxes/new', changes: true, show: (visit) => showNew(visit) }

const list: Place = {
  path: '/inboxes',
  show: (visit) => showAll(visit),
  async act(visit, given) {
    const answer = await visit.ask('POST', '/inboxes', {
      type: 'inboxes',
      attributes: { name: given.get('name'), address: given.get('address') },
    })
    if (!answer.one) return showNew(visit, answer.errors, given)
    const address = given.get('address').trim()
    return visit.say(
      `/inboxes/${answer.one.id}`,
      (await isReceiving(visit, answer.one.id))
        ? `${address} receives mail from now on.`
        : `${address} receives mail once ${domainOf(address)} is verified.`,
    )
  },
}

/** A message in the list: who wrote, what about, how it begins, and what is wrong with it. */
function rowOf(inboxId: string, message: Thing<typeof inboxMessages>): Cell[] {
  const seen = flag(message, 'seen')
  const files = number(message, 'attachments')
  const status = text(message, 'status')
  const subject = text(message, 'subject') || '(no subject)'
  const name = nameOf(text(message, 'from')) || text(message, 'sender') || '(no sender)'
  return [
    seen ? name : html`<strong>${name}</strong> <span class="badge">new</span>`,
    html`<a href="/inboxes/${inboxId}/mail/${message.id}">${seen ? subject : html`<strong>${subject}</strong>`}</a>
      <span class="soft">${text(message, 'snippet')}</span>`,
    files === 0 ? '' : html`<span title="${counted(files, 'attachment')}">${icon('attachment')} ${files}</span>`,
    status === 'received' ? '' : badge(status),
    time(message.attributes.received_at),
  ]
}

async function showInbox(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const id = visit.context.req.param('id')!
  const { one } = found(await visit.get(inboxes, `/inboxes/${id}`))
  const q = visit.query('q')
  const fresh = visit.query('show') === 'unread'
  const filters = `${fresh ? '&filter%5Bseen%5D=false' : ''}${q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`}`
  const [answer, receives] = await Promise.all([
    visit.get(inboxMessages, `/inboxes/${id}/messages?${pageOf(visit)}${filters}`),
    isReceiving(visit, id),
  ])
  const address = text(one, 'address')
  const here = `/inboxes/${id}`
  return page(visit, {
    title: text(one, 'name'),
    about: receives
      ? `What came to ${address}.`
      : `What came to ${address}. It receives once ${domainOf(address)} is verified; until then senders are told to try again later.`,
    crumbs: [['/inboxes', 'Inboxes']],
    errors: [...errors, ...answer.errors],
    done: done(visit),
    body: html`${search(visit, 'Search')}
    ${tabs('Messages', [
      { to: here, name: 'All', here: !fresh },
      { to: `${here}?show=unread`, name: 'Unread', here: fresh },
    ])}
    ${live(
      visit,
      html`${table(
        'Messages',
        [
          { title: 'From', width: 20 },
          'Subject',
          { title: 'Files', kind: 'figure' },
          { title: 'Status', kind: 'status' },
          { title: 'Received', kind: 'time' },
        ],
        answer.many.map((message) => rowOf(id, message)),
        q !== ''
          ? 'No message fits the search.'
          : fresh
            ? 'All is read.'
            : `Nothing came yet. Mail to ${address} appears here as it arrives.`,
      )}
      ${pager(visit, answer)}`,
    )}
    ${dangers(visit, [
      [
        'The inbox receives nothing any more. What it received stays readable.',
        button(visit, 'remove', 'Remove the inbox', {
          danger: true,
          confirm: 'It receives nothing any more. What it received stays readable.',
        }),
      ],
    ])}`,
  })
}

const inbox: Place = {
  path: '/inboxes/:id',
  show: (visit) => showInbox(visit),
  async act(visit) {
    const here = `/inboxes/${visit.context.req.param('id')!}`
    const { one } = found(await visit.get(inboxes, here))
    const gone = await visit.ask('DELETE', here)
    return gone.status === 204
      ? visit.say('/inboxes', `${text(one, 'address')} receives nothing any more.`)
      : showInbox(visit, gone.errors)
  },
}

export const inboxPlaces = [fresh, ...messagePlaces, inbox, list]
