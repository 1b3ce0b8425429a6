// A received message as a mail program shows it: what it says, whether its sender is proven, the mail that it answers;
// an answer to it, and the message sent on to somebody else.
import { html } from 'hono/html'
import { semaphore } from '../base/semaphore.ts'
import { outboundEmails } from '../mail/api.ts'
import { button, dangers, fieldMaker, form } from '../webui/forms.ts'
import { documentWithFile } from '../webui/document-with-file.ts'
import { page } from '../webui/frame.ts'
import { found, done, type Form, type Place } from '../webui/place.ts'
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
} from '../webui/visit.ts'
import { badge, facts, looks, octets, time, type Cell, type Html } from '../webui/widgets.ts'
import { inboundEmails } from './api-emails.ts'
import { inboxMessages } from './api-messages.ts'
import { inboxes } from './api.ts'

type Message = Thing<typeof inboundEmails>

/** The name in a From field, or its address when it has no name. */
export function nameOf(from: string): string {
  const [name, address] = from.split(/<(?=[^<]*$)/)
  return name!.trim().replaceAll('"', '') || (address ?? '').replace(/>\s*$/, '')
}

const MEANING: Record<string, string> = {
  received: '',
  virus_detected: 'A virus was found in it; its text is not shown.',
  oversized: 'It was larger than this server takes; only its header was kept.',
  parse_rejected: 'It could not be read within the limits; its bytes are kept.',
}

/** Whether the domain of the From field is proven, in words, and by what. */
function senderCheck(given: Record<string, string>): Html {
  const all = Object.entries(given).filter(([, value]) => typeof value === 'string')
  const proven = given['dmarc'] === 'pass'
  return html`<span class="badge ${proven ? 'good' : 'waits'}">${proven ? 'sender proven' : 'sender not proven'}</span>
    <span class="soft">${all.map(([name, value]) => `${name.toUpperCase()} ${value}`).join(', ')}</span>`
}

const idOf = (visit: Visit): string => visit.context.req.param('id')!
const inboxOf = (visit: Visit): string => visit.context.req.param('inbox')!
const placeOf = (visit: Visit): string => `/inboxes/${inboxOf(visit)}/mail/${idOf(visit)}`

/** Opening a message marks it as read, but not for who only looks at the account. */
async function marked(visit: Visit): Promise<Thing<typeof inboxMessages>> {
  const path = `/inbox-messages/${idOf(visit)}`
  const { one } = found(await visit.get(inboxMessages, path))
  const opened = visit.context.req.method === 'GET' && visit.query('said') === ''
  if (opened && !flag(one, 'seen') && !visit.reading && !visit.elsewhere)
    await visit.ask('PATCH', path, { type: 'inbox-messages', id: one.id, attributes: { seen: true } })
  return one
}

/** The mail that a message answers, as a link. */
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
  return html`${text(one, 'html') === '' ? (words === '' ? '' : plain) : looks(visit, text(one, 'html'), `/inbound/${id}/html`, 'The message as it looks')}
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
  const answered = await answeredBy(visit, text(message, 'answers'))
  const meaning = MEANING[text(one, 'status')] ?? ''
  const here = placeOf(visit)
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
      ['Sender check', senderCheck(record(one, 'authentication'))],
      ['To', texts(one, 'recipients').join(', ')],
      ['Received', time(one.attributes.received_at)],
      ...(answered === '' ? [] : [['Answers', answered] as const]),
      ...(text(one, 'status') === 'received' ? [] : [['Status', badge(text(one, 'status'))] as const]),
    ])}
    ${contentsOf(visit, one)}
    ${dangers(visit, [
      [
        'The message is deleted for good, for programs too.',
        button(visit, 'remove', 'Delete the message', {
          danger: true,
          confirm: 'The message is deleted for good, for programs too.',
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
        ? visit.say(`/inboxes/${inboxOf(visit)}`, 'The message is deleted.')
        : showMessage(visit, gone.errors)
    }
    const unseen = { type: 'inbox-messages', id: idOf(visit), attributes: { seen: false } }
    const answer = await visit.ask('PATCH', path, unseen)
    return answer.errors.length === 0
      ? visit.say(`/inboxes/${inboxOf(visit)}`, 'The message is unread again.')
      : showMessage(visit, answer.errors)
  },
}

const LABELS = { to: 'To', subject: 'Subject', text: 'Message' } as const

/** The lines of a text, each marked as somebody else's. */
const quoted = (words: string): string => words.replace(/\n$/, '').replace(/^/gm, '> ')

/** The most characters that an answer quotes. */
const QUOTED = 20_000

/** A subject with its prefix, once. */
const prefixed = (prefix: string, subject: string): string =>
  subject.toLowerCase().startsWith(prefix.toLowerCase()) ? subject : `${prefix} ${subject}`

interface DraftFields {
  title: string
  to: string
  subject: string
  text: string
  /** What is said below the fields. */
  note: string
}

const replyTo = (one: Message): DraftFields => ({
  title: 'Reply',
  to: texts(one, 'reply_to')[0] ?? (text(one, 'from') || text(one, 'sender')),
  subject: prefixed('Re:', text(one, 'subject')),
  text: `\n\n${nameOf(text(one, 'from'))} wrote:\n${quoted(text(one, 'text').slice(0, QUOTED))}\n`,
  note: 'It goes out from the address of the inbox, as a mail of yours.',
})

const forwardOf = (one: Message): DraftFields => ({
  title: 'Forward',
  to: '',
  subject: prefixed('Fwd:', text(one, 'subject')),
  text: '',
  note: 'The message travels with it as a file, whole.',
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
    about: sender.one ? `From ${text(sender.one, 'address')}.` : 'The inbox was removed: nothing can be sent from it.',
    crumbs: [
      ['/inboxes', 'Inboxes'],
      [placeOf(visit), text(one, 'subject') || '(no subject)'],
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

/** A message on its way to somebody else takes several times its size in memory: they go one after the other. */
const oneOf = semaphore(1)

/** A mail with the message as its file. */
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
    ? visit.say(placeOf(visit), `Your mail to ${given.get('to').trim()} is on its way.`)
    : showDraft(visit, draftOf, answer.errors, given)
}

/** The longest value of a header field of one's own that surely fits (message/custom-headers.ts). */
const MAX_THREAD = 900

/** The fields that make a mail program show the answer below what it answers (RFC 5322 §3.6.4). */
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
