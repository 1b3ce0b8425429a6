// The header of a message from SMTP submission, read field by field from its bytes: the mail is sent on unchanged,
// except for the fields that must be removed or added (D75, D77).
import { sole } from '../base/lists.ts'
import { isNameIn } from '../base/one-of.ts'
import { comparable } from '../base/recipient-hash.ts'
import { rfc5322Date } from './compose.ts'
import { AI_DISCLOSURE } from './headers.ts'
import { formatAddress, parseAddress, parseAddrSpec, toAscii, type Address } from './address.ts'
import { MAX_FIELDS } from './mime-tree.ts'
import { decoded, utf8 } from './charset.ts'
import { mailboxesOf } from './mailboxes.ts'

/** Why a header cannot be sent. The text is for the sender. */
export class UnsendableHeader extends Error {
  /** True when a request to this server is wrong, not the mail itself. */
  readonly wish: boolean

  constructor(text: string, wish = false) {
    super(text)
    this.wish = wish
  }
}

/** One field with its line ends, bytes as latin1 characters. */
interface RawField {
  /** Lower case. */
  name: string
  raw: string
}

/** Requests of the sender to this server, from fields of its own, which are removed. */
export interface SubmittedWishes {
  agent_id?: string
  track_opens?: boolean
  track_clicks?: boolean
  ai_disclosure?: boolean
  idempotency_key?: string
}

export interface SubmittedHeader {
  from: Address
  /** As the API shows it. */
  fromText: string
  /** Mailboxes of To and Cc, by their comparable address, as the API shows them. */
  to: ReadonlyMap<string, string>
  cc: ReadonlyMap<string, string>
  subject: string
  /** With its angle brackets, as the sender gave it, or null without a valid one. */
  messageId: string | null
  wishes: SubmittedWishes
  /**
   * The header to send, bytes as latin1 characters, without the empty line. `messageId` and `now` are used when the
   * mail has no valid Message-ID or Date (RFC 6409 §8.2, §8.3).
   */
  edited: (given: { messageId: string; now: number }) => string
}

const WISHES = {
  'x-postrider-agent': 'agent_id',
  'x-postrider-track-opens': 'track_opens',
  'x-postrider-track-clicks': 'track_clicks',
  'x-postrider-ai-disclosure': 'ai_disclosure',
  'idempotency-key': 'idempotency_key',
} as const

/** Fields that this server writes itself (composeJob), and fields that are meant only for this server. */
const OURS = [AI_DISCLOSURE[0], 'Feedback-ID', 'CFBL-Address', 'CFBL-Feedback-ID'].map((name) => name.toLowerCase())
const GOES = new Set(['bcc', 'resent-bcc', 'return-path', ...Object.keys(WISHES), ...OURS])
/** Bytes of an agent's name and of an idempotency key, the same as in the API. */
const MOST = { agent_id: 128, idempotency_key: 256 }

/** Fields that must have a value (RFC 5322 §3.6, RFC 2045): an empty one is left out, as if it were not there. */
const FILLED = new Set(
  `date sender reply-to to cc message-id in-reply-to references
  mime-version content-type content-transfer-encoding`.split(/\s+/),
)

/** Fields that occur once (RFC 5322 §3.6): an equal duplicate is removed. */
const ONCE = new Set([...FILLED, 'from', 'subject'])

/** A comment without another in it. */
const COMMENT = '\\([^()]*\\)'
/** A message identifier (RFC 5322 §3.6.4), tolerant on its left side, as some clients need. */
const MESSAGE_ID = new RegExp(
  `^(?:${COMMENT} *)?(<[^<>\\s@]{1,450}@(?:[^<>\\s@.[\\]]+(?:\\.[^<>\\s@.[\\]]+)*|\\[[^<>\\s@[\\]]+\\])>)(?: *${COMMENT})?$`,
)
/** A date (RFC 5322 §3.3, §4.3), without its comments. */
const DATE =
  /^(?:(?:mon|tue|wed|thu|fri|sat|sun)\s*,)?\s*(?:0?[1-9]|[12]\d|3[01])\s+(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\s+(?:\d{4}|\d\d)\s+(?:[01]?\d|2[0-3])\s*:\s*[0-5]\d(?:\s*:\s*(?:[0-5]\d|60))?\s+(?:[+-]\d{4}|[a-z]{1,5})$/i

const isDate = (value: string): boolean => DATE.test(value.replaceAll(new RegExp(COMMENT, 'g'), ' ').trim())

/** Reads a header: the bytes before the empty line, each line with its CRLF. Throws UnsendableHeader. */
export function readSubmitted(header: Buffer): SubmittedHeader {
  const fields = neededOf(fieldsOf(header.toString('latin1')))
  const from = mailboxOf('From', needed(fields, 'from'))
  const sender = only(fields, 'sender')
  if (sender !== undefined && mailboxOf('Sender', sender).domain !== from.domain)
    throw new UnsendableHeader('The Sender field has a different domain than From. Remove it.')
  const [, messageId = null] = MESSAGE_ID.exec(sole(valuesOf(fields, 'message-id')) ?? '') ?? []
  const dated = isDate(sole(valuesOf(fields, 'date')) ?? '')
  const subject = only(fields, 'subject')
  const wishes = wishesOf(fields)
  return {
    from,
    fromText: formatAddress({ name: decoded(from.name), address: from.address }),
    to: listed(fields, 'to'),
    cc: listed(fields, 'cc'),
    subject: subject === undefined ? '' : decoded(subject),
    messageId,
    wishes,
    edited: ({ messageId: made, now }) => {
      const goes = new Set([...(dated ? [] : ['date']), ...(messageId === null ? ['message-id'] : [])])
      const kept = fields.filter(
        (field) => !GOES.has(field.name) && !goes.has(field.name) && !isOwnSignature(field, from.domain),
      )
      return [
        ...(dated ? [] : [`Date: ${rfc5322Date(now)}\r\n`]),
        ...(messageId === null ? [`Message-ID: ${made}\r\n`] : []),
        ...(fields.some(({ name }) => name === 'mime-version') ? [] : ['MIME-Version: 1.0\r\n']),
        ...kept.map(({ raw }) => raw),
      ].join('')
    },
  }
}

/** Removes empty fields that must have a value, and duplicates of fields that occur once. */
function neededOf(fields: readonly RawField[]): RawField[] {
  const seen = new Set<string>()
  return fields.filter((field) => {
    const { name } = field
    if (!ONCE.has(name)) return true
    const value = valueOf(field)
    const isNeeded = (value !== '' || !FILLED.has(name)) && !seen.has(`${name}:${value}`)
    seen.add(`${name}:${value}`)
    return isNeeded
  })
}

function fieldsOf(header: string): RawField[] {
  const fields = header === '' ? [] : header.split(/(?<=\r\n)(?![ \t])/)
  if (fields.length > MAX_FIELDS) throw new UnsendableHeader(`The header has more than ${MAX_FIELDS} fields.`)
  return fields.map((raw) => {
    const [, name] = /^([\x21-\x39\x3b-\x7e]+)[ \t]*:/.exec(raw) ?? []
    if (name === undefined)
      throw new UnsendableHeader(
        'The header has a line that is not a field. A field is a name, a colon and a value (RFC 5322 §2.2).',
      )
    return { name: name.toLowerCase(), raw }
  })
}

/** The value of a field on one line. Bytes that are UTF-8 are decoded. */
function valueOf({ raw }: RawField): string {
  return utf8(raw.slice(raw.indexOf(':') + 1).replaceAll('\r\n', '')).trim()
}

const shownField = (name: string): string => name.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase())

const valuesOf = (fields: readonly RawField[], name: string): string[] =>
  fields.filter((field) => field.name === name).map(valueOf)

function only(fields: readonly RawField[], name: string): string | undefined {
  const [first, second] = valuesOf(fields, name)
  if (second !== undefined)
    throw new UnsendableHeader(`The header has several ${shownField(name)} fields. Send only one (RFC 5322 §3.6).`)
  return first
}

function needed(fields: readonly RawField[], name: string): string {
  const value = only(fields, name)
  if (value === undefined)
    throw new UnsendableHeader(`The header has no ${shownField(name)} field. Add one with an address in your domain.`)
  return value
}

function mailboxOf(field: 'From' | 'Sender', value: string): Address {
  const address = parseAddress(value)
  if (!address)
    throw new UnsendableHeader(
      `The ${field} field must contain exactly one mailbox, such as "Shop <shop@example.org>", without a list, group, route or comment.`,
    )
  return address
}

function listed(fields: readonly RawField[], name: string): Map<string, string> {
  const mailboxes = new Map<string, string>()
  for (const field of fields.filter((each) => each.name === name))
    for (const { address: given, name } of mailboxesOf(valueOf(field))) {
      const address = parseAddrSpec(given)
      if (!address) continue
      const key = comparable(address.address)
      if (key !== undefined && !mailboxes.has(key))
        mailboxes.set(key, formatAddress({ name, address: address.address }))
    }
  return mailboxes
}

function wishesOf(fields: readonly RawField[]): SubmittedWishes {
  const wishes: Record<string, string | boolean> = {}
  for (const field of fields) {
    const wish: keyof SubmittedWishes | undefined = isNameIn(WISHES, field.name) ? WISHES[field.name] : undefined
    if (wish === undefined) {
      if (field.name.startsWith('x-postrider-'))
        throw new UnsendableHeader(`Unknown field ${field.name}. Supported: ${Object.keys(WISHES).join(', ')}.`, true)
      continue
    }
    if (wish in wishes) throw new UnsendableHeader(`The header has several ${field.name} fields. Send only one.`, true)
    const value = valueOf(field)
    if (wish === 'agent_id' || wish === 'idempotency_key') {
      if (value === '' || value.length > MOST[wish])
        throw new UnsendableHeader(`The field ${field.name} must have 1 to ${MOST[wish]} characters.`, true)
      wishes[wish] = decoded(value)
    } else if (/^(?:yes|no)$/i.test(value)) wishes[wish] = /^yes$/i.test(value)
    else throw new UnsendableHeader(`The field ${field.name} must be yes or no.`, true)
  }
  return wishes
}

/**
 * A signature of the sending domain, by any signer: the message is changed here and signed again for this domain, so
 * the old signature is no longer valid (D123). Signatures of other domains stay.
 */
function isOwnSignature({ name, raw }: RawField, domain: string): boolean {
  if (name !== 'dkim-signature') return false
  const tags = raw
    .slice(raw.indexOf(':') + 1)
    .replace(/\s+/g, '')
    .split(';')
  return tags.some((tag) => tag.startsWith('d=') && toAscii(utf8(tag.slice(2)).replace(/\.$/, '')) === domain)
}
