// A received message as an email client shows it: its contents, whether its sender is authenticated, and the email that
// it answers. Also the forms to reply to it and to forward it.
import { html } from 'hono/html'
import { semaphore } from '../base/semaphore.ts'
import { outboundEmails } from '../mail/api.ts'
import { parseAddrSpec } from '../message/address.ts'
import { mailboxesOf, shownMailbox } from '../message/mailboxes.ts'
import { button, dangers, fieldMaker, form } from '../views/html/forms.ts'
import { documentWithFile } from '../views/html/document-with-file.ts'
import { page } from '../views/html/frame.ts'
import { found, done, type Form, type Place } from '../views/html/place.ts'
import {
  flag,
  objects,
  record,
  relatedId,
  text,
  texts,
  those,
  type Answer,
  type Thing,
  type Visit,
  wholeOf,
} from '../views/html/visit.ts'
import { badge, facts, looks, octets, time, type Cell, type Html } from '../views/html/widgets.ts'
import { inboundEmails } from './api-emails.ts'
import { inboxMessages } from './api-messages.ts'
import { inboxes } from './api.ts'

type Message = Thing<typeof inboundEmails>

/** The name in a From field, or its address when it has no name. */
export const nameOf = (from: string): string =>
  mailboxesOf(from)
    .map(({ address, name }) => name || address)
    .join(', ')

/** The address for a reply: the first one that email can be sent to. */
function answerTo(one: Message): string {
  const given = [...texts(one, 'reply_to'), text(one, 'from'), text(one, 'sender')].flatMap((each) => mailboxesOf(each))
  const mailbox = given.find(({ address }) => parseAddrSpec(address))
  return mailbox ? shownMailbox(mailbox) : ''
}

const MEANING: Record<string, string> = {
  received: '',
  virus_detected: 'A virus was found. The content is not shown.',
  oversized: 'The message exceeded the size limit. Only its header is stored.',
  parse_rejected: 'The message exceeded the parsing limits. Its source is stored.',
}

/** Whether the domain of the From field is proven, in words, and by which methods. */
function senderCheck(given: Record<string, string>): Html {
  const all = Object.entries(given).filter(([, value]) => typeof value === 'string')
  const proven = given['dmarc'] === 'pass'
  return html`<span class="badge ${proven ? 'good' : 'waits'}">${proven ? 'authenticated' : 'not authenticated'}</span>
    <span class="soft">${all.map(([name, value]) => `${name.toUpperCase()} ${value}`).join(', ')}</span>`
}

const idOf = (visit: Visit): string => visit.context.req.param('id')!
const inboxOf = (visit: Visit): string => visit.context.req.param('inbox')!
const pathOf = (visit: Visit): string => `/inboxes/${inboxOf(visit)}/mail/${idOf(visit)}`

/** Opening a message marks it as read, except for visitors with read-only access. */
async function marked(visit: Visit): Promise<Thing<typeof inboxMessages>> {
  const path = `/inbox-messages/${idOf(visit)}`
  const { one } = found(await visit.get(inboxMessages, path))
  const opened = visit.context.req.method === 'GET' && visit.query('said') === ''
  if (opened && !flag(one, 'seen') && !visit.reading && !visit.elsewhere)
    await visit.ask('PATCH', path, { type: 'inbox-messages', id: one.id, attributes: { seen: true } })
  return one
}

/** The email that a message answers, as a link. */
async function answeredBy(visit: Visit, id: string): Promise<Cell> {
  if (id === '') return ''
  const { one } = await visit.get(outboundEmails, `/outbound-emails/${id}`)
  return one ? html`<a href="/mail/${id}">${text(one, 'subject')}</a>` : ''
}

function contentsOf(visit: Visit, one: Message): Html {
  const { id } = one
  const words = text(one, 'text')
  const files = objects(one, 'attachments')
  const headers = Object.entries(record(one, 'headers'))
  const plain = html`<pre tabindex="0">${words}</pre>`
  return html`${text(one, 'html') === '' ? (words === '' ? '' : plain) : looks(visit, text(one, 'html'), `/inbound/${id}/html`, 'Message preview')}
    ${
      files.length === 0
        ? ''
        : html`<h2>Attachments</h2>
            <ul>
              ${files.map((file) => html`<li><a href="/inbound/${id}/attachments/${file.id}" download>${file.filename ?? 'attachment'}</a> <span class="soft">${file.content_type}, ${octets(file.size)}</span></li>`)}
            </ul>`
    }
    ${
      text(one, 'html') === '' || words === ''
        ? ''
        : html`<details>
            <summary>Plain text</summary>
            ${plain}
          </details>`
    }
    <details>
      <summary>Headers</summary>
      <pre tabindex="0">
${headers.flatMap(([name, value]) => [value].flat().map((each) => `${name}: ${each}\n`)).join('')}</pre>
    </details>`
}

async function showMessage(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const id = idOf(visit)
  const message = await marked(visit)
  const { one, included } = found(await visit.get(inboundEmails, `/inbound-emails/${id}?include=inbox`))
  const answered = await answeredBy(visit, text(message, 'in_reply_to_email_id'))
  const meaning = MEANING[text(one, 'status')] ?? ''
  const here = pathOf(visit)
  const inbox = those(inboxes, included).find((each) => each.id === relatedId(one, 'inbox'))
  return page(visit, {
    title: text(one, 'subject') || '(no subject)',
    crumbs: [
      ['/inboxes', 'Inboxes'],
      [`/inboxes/${inboxOf(visit)}`, inbox ? text(inbox, 'name') : 'Inbox'],
    ],
    actions: html`${
        visit.reading
          ? ''
          : html`<a class="button" href="${here}/reply">Reply</a>
              <a class="button plain" href="${here}/forward">Forward</a>
              ${button(visit, 'unseen', 'Mark as unread')}`
      } <a class="button plain" href="/inbound/${id}/raw" download>Download .eml</a>`,
    errors,
    done: done(visit),
    body: html`${meaning === '' ? '' : html`<div class="alert">${meaning} ${text(one, 'reason')}</div>`}
    ${facts([
      ['From', text(one, 'from') || text(one, 'sender')],
      ['Sender', senderCheck(record(one, 'authentication'))],
      ['To', texts(one, 'recipients').join(', ')],
      ['Received', time(one.attributes.received_at)],
      ...(answered === '' ? [] : [['In reply to', answered] as const]),
      ...(text(one, 'status') === 'received' ? [] : [['Status', badge(text(one, 'status'))] as const]),
    ])}
    ${contentsOf(visit, one)}
    ${dangers(visit, [
      [
        'Deletes the message permanently, in the console and in the API.',
        button(visit, 'remove', 'Delete message', {
          danger: true,
          confirm: 'This deletes the message permanently, in the console and in the API.',
        }),
      ],
    ])}`,
  })
}

const message: Place = {
  path: '/inboxes/:inbox/mail/:id',
  show: (visit) => showMessage(visit),
  async act(visit, given) {
    const path = `/inbox-messages/${idOf(visit)}`
    if (given.action === 'remove') {
      const gone = await visit.ask('DELETE', path)
      return gone.status === 204
        ? visit.say(`/inboxes/${inboxOf(visit)}`, 'Message deleted.')
        : showMessage(visit, gone.errors)
    }
    const unseen = { type: 'inbox-messages', id: idOf(visit), attributes: { seen: false } }
    const answer = await visit.ask('PATCH', path, unseen)
    return answer.errors.length === 0
      ? visit.say(`/inboxes/${inboxOf(visit)}`, 'Marked as unread.')
      : showMessage(visit, answer.errors)
  },
}

const LABELS = { to: 'To', subject: 'Subject', text: 'Message' } as const

/** The lines of a text, each marked as quoted. */
const quoted = (words: string): string => words.replace(/\n$/, '').replace(/^/gm, '> ')

/** The most characters that a reply quotes. */
const QUOTED = 20_000

/** A subject with its prefix, once. */
const prefixed = (prefix: string, subject: string): string =>
  subject.toLowerCase().startsWith(prefix.toLowerCase()) ? subject : `${prefix} ${subject}`

interface DraftFields {
  title: string
  to: string
  subject: string
  text: string
  /** The text below the fields. */
  note: string
}

const replyTo = (one: Message): DraftFields => ({
  title: 'Reply',
  to: answerTo(one),
  subject: prefixed('Re:', text(one, 'subject')),
  text: `\n\n${nameOf(text(one, 'from'))} wrote:\n${quoted(text(one, 'text').slice(0, QUOTED))}\n`,
  note: 'Sent from the address of the inbox.',
})

const forwardOf = (one: Message): DraftFields => ({
  title: 'Forward',
  to: '',
  subject: prefixed('Fwd:', text(one, 'subject')),
  text: '',
  note: 'The original message is attached as a file.',
})

async function showDraft(
  visit: Visit,
  draftOf: (one: Message) => DraftFields,
  errors: Answer['errors'] = [],
  typed?: Form,
): Promise<Response> {
  const { one } = found(await visit.get(inboundEmails, `/inbound-emails/${idOf(visit)}`))
  const { note, title, ...draft } = draftOf(one)
  const entry = fieldMaker(LABELS, errors, typed)
  const sender = await visit.get(inboxes, `/inboxes/${inboxOf(visit)}`)
  return page(visit, {
    title,
    about: sender.one ? `From ${text(sender.one, 'address')}.` : 'This inbox was deleted, so you cannot send from it.',
    crumbs: [
      ['/inboxes', 'Inboxes'],
      [pathOf(visit), text(one, 'subject') || '(no subject)'],
    ],
    errors,
    labels: LABELS,
    body: form(
      visit,
      'send',
      html`${entry('to', { required: true, value: draft.to })}
        ${entry('subject', { required: true, value: draft.subject })}
        ${entry('text', { lines: 14, value: draft.text, hint: note })} <button>Send</button>`,
      { kind: 'keep' },
    ),
  })
}

/** Forwarding a message takes several times its size in memory, so messages are forwarded one after the other. */
const oneOf = semaphore(1)

/** An email with the message as an attachment. */
async function withMessage(visit: Visit, attributes: Record<string, unknown>): Promise<MailDocument> {
  const response = await visit.download(`/inbound-emails/${idOf(visit)}/raw`)
  if (response.status !== 200 || !response.body) return mailOf(attributes)
  const file = { filename: 'message.eml', content_type: 'message/rfc822' }
  return documentWithFile(
    (content) => wholeOf(mailOf({ ...attributes, attachments: [{ ...file, content }] })),
    response.body,
  )
}

const mailOf = (attributes: Record<string, unknown>) => ({ type: 'outbound-emails', attributes })
type MailDocument = ReturnType<typeof mailOf> | ReadableStream<Uint8Array>

async function send(
  visit: Visit,
  given: Form,
  draftOf: (one: Message) => DraftFields,
  made: (attributes: Record<string, unknown>, one: Message) => MailDocument | Promise<MailDocument>,
): Promise<Response> {
  const { one } = found(await visit.get(inboundEmails, `/inbound-emails/${idOf(visit)}`))
  const sender = found(await visit.get(inboxes, `/inboxes/${inboxOf(visit)}`)).one
  const attributes = {
    from: text(sender, 'address'),
    to: given.get('to').trim(),
    subject: given.get('subject'),
    html: '',
    text: given.get('text'),
  }
  const answer = await visit.ask('POST', '/outbound-emails', await made(attributes, one))
  return answer.one
    ? visit.say(pathOf(visit), `Your email to ${given.get('to').trim()} is on its way.`)
    : showDraft(visit, draftOf, answer.errors, given)
}

/** The longest value of a custom header field that always fits (message/headers.ts). */
const MAX_THREAD = 900

/** The fields that make an email client show the reply below the message (RFC 5322 §3.6.4). */
function threadOf(one: Message): Record<string, string> {
  const usable = (id: string): boolean => /^<[!-~]+>$/.test(id) && id.length <= MAX_THREAD
  const id = text(one, 'message_id')
  if (!usable(id)) return {}
  let references = id
  for (const each of texts(one, 'references').filter(usable).toReversed()) {
    if (each.length + 1 + references.length > MAX_THREAD) break
    references = `${each} ${references}`
  }
  return { 'In-Reply-To': id, References: references }
}

const reply: Place = {
  path: '/inboxes/:inbox/mail/:id/reply',
  changes: true,
  show: (visit) => showDraft(visit, replyTo),
  act: (visit, given) => send(visit, given, replyTo, (mail, one) => mailOf({ ...mail, headers: threadOf(one) })),
}

const forward: Place = {
  path: '/inboxes/:inbox/mail/:id/forward',
  changes: true,
  show: (visit) => showDraft(visit, forwardOf),
  act: (visit, given) => oneOf(() => send(visit, given, forwardOf, (mail) => withMessage(visit, mail))),
}

export const messagePlaces = [forward, reply, message]
