// The header of a mail from SMTP submission, read field by field from its octets: the mail is sent on unchanged, except
// for the fields that must be removed or added (D75, D77).
import { comparable } from '../base/recipient-hash.ts'
import { rfc5322Date } from './compose.ts'
import { AI_DISCLOSURE } from './custom-headers.ts'
import { formatAddress, parseAddress, toAscii, type Address } from './address.ts'
import { MAX_FIELDS } from './mime-tree.ts'
import { decoded, splitAddresses, utf8 } from './parse.ts'

/** Why a header cannot be sent; the text is for the sender. */
export class UnsendableHeader extends Error {
  /** True when a request to this server is wrong, not the mail itself. */
  readonly wish: boolean

  constructor(text: string, wish = false) {
    super(text)
    this.wish = wish
  }
}

/** One field with its line ends, octets as latin1 characters. */
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
  /** With its angle brackets, as the sender gave it; null when there was none. */
  messageId: string | null
  wishes: SubmittedWishes
  /**
   * The header to send, octets as latin1 characters, without the empty line.
   * `messageId` is used when the mail has none.
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
/** Octets of an agent's name and of an idempotency key, the same as in the API. */
const MOST = { agent_id: 128, idempotency_key: 256 }

/** Reads a header: the octets before the empty line, each line with its CRLF. Throws UnsendableHeader. */
export function readSubmitted(header: Buffer): SubmittedHeader {
  const fields = fieldsOf(header.toString('latin1'))
  const from = mailboxOf('From', needed(fields, 'from'))
  const sender = only(fields, 'sender')
  if (sender !== undefined && mailboxOf('Sender', sender).domain !== from.domain)
    throw new UnsendableHeader('The Sender field names another domain than From; leave it out.')
  const messageId = only(fields, 'message-id')
  if (messageId !== undefined && !/^<[^<>\s]{1,900}>$/.test(messageId))
    throw new UnsendableHeader('The Message-ID field must hold one identifier in angle brackets.')
  const subject = only(fields, 'subject')
  const wishes = wishesOf(fields)
  return {
    from,
    fromText: formatAddress({ name: decoded(from.name), address: from.address }),
    to: listed(fields, 'to'),
    cc: listed(fields, 'cc'),
    subject: subject === undefined ? '' : decoded(subject),
    messageId: messageId ?? null,
    wishes,
    edited: ({ messageId: made, now }) => {
      const has = (name: string): boolean => fields.some((field) => field.name === name)
      const kept = fields.filter((field) => !GOES.has(field.name) && !isOwnSignature(field, from.domain))
      return [
        ...(has('date') ? [] : [`Date: ${rfc5322Date(now)}\r\n`]),
        ...(messageId === undefined ? [`Message-ID: ${made}\r\n`] : []),
        ...(has('mime-version') ? [] : ['MIME-Version: 1.0\r\n']),
        ...kept.map(({ raw }) => raw),
      ].join('')
    },
  }
}

function fieldsOf(header: string): RawField[] {
  const fields = header === '' ? [] : header.split(/(?<=\r\n)(?![ \t])/)
  if (fields.length > MAX_FIELDS) throw new UnsendableHeader(`The header has more than ${MAX_FIELDS} fields.`)
  return fields.map((raw) => {
    const [, name] = /^([\x21-\x39\x3b-\x7e]+)[ \t]*:/.exec(raw) ?? []
    if (name === undefined)
      throw new UnsendableHeader(
        'A line of the header is not a field; a name, a colon and a value make one (RFC 5322 §2.2).',
      )
    return { name: name.toLowerCase(), raw }
  })
}

/** The value of a field on one line; octets that are UTF-8 are decoded. */
function valueOf({ raw }: RawField): string {
  return utf8(raw.slice(raw.indexOf(':') + 1).replaceAll('\r\n', '')).trim()
}

const shownField = (name: string): string => name.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase())

function only(fields: readonly RawField[], name: string): string | undefined {
  const [first, second] = fields.filter((field) => field.name === name)
  if (second)
    throw new UnsendableHeader(`There are several ${shownField(name)} fields; a mail has one (RFC 5322 §3.6).`)
  return first && valueOf(first)
}

function needed(fields: readonly RawField[], name: string): string {
  const value = only(fields, name)
  if (value === undefined)
    throw new UnsendableHeader(`There is no ${shownField(name)} field; it says whose domain sends.`)
  return value
}

function mailboxOf(field: 'From' | 'Sender', value: string): Address {
  const address = parseAddress(value)
  if (!address)
    throw new UnsendableHeader(
      `The ${field} field must hold one mailbox, such as "Shop <shop@example.org>": no list, group, route or comment.`,
    )
  return address
}

function listed(fields: readonly RawField[], name: string): Map<string, string> {
  const mailboxes = new Map<string, string>()
  for (const field of fields.filter((each) => each.name === name))
    for (const text of splitAddresses(valueOf(field))) {
      const address = parseAddress(text) ?? parseAddress(/<[^<>]*>/.exec(text)?.[0] ?? '')
      if (!address) continue
      const key = comparable(address.address)
      if (key !== undefined && !mailboxes.has(key))
        mailboxes.set(key, formatAddress({ name: decoded(address.name), address: address.address }))
    }
  return mailboxes
}

function wishesOf(fields: readonly RawField[]): SubmittedWishes {
  const wishes: Record<string, string | boolean> = {}
  for (const field of fields) {
    const wish = WISHES[field.name as keyof typeof WISHES] as keyof SubmittedWishes | undefined
    if (wish === undefined) {
      if (field.name.startsWith('x-postrider-'))
        throw new UnsendableHeader(
          `The field ${field.name} is not known here; ${Object.keys(WISHES).join(', ')} are.`,
          true,
        )
      continue
    }
    if (wish in wishes) throw new UnsendableHeader(`There are several ${field.name} fields; send one.`, true)
    const value = valueOf(field)
    if (wish === 'agent_id' || wish === 'idempotency_key') {
      if (value === '' || value.length > MOST[wish])
        throw new UnsendableHeader(`The field ${field.name} must have 1 to ${MOST[wish]} characters.`, true)
      wishes[wish] = decoded(value)
    } else if (/^(?:yes|no)$/i.test(value)) wishes[wish] = /^yes$/i.test(value)
    else throw new UnsendableHeader(`The field ${field.name} must say yes or no.`, true)
  }
  return wishes
}

/**
 * A signature of the sending domain, whoever made it: the mail is changed here and signed again for this domain, so
 * that the old one no longer holds (D123). Signatures of other domains stay.
 */
function isOwnSignature({ name, raw }: RawField, domain: string): boolean {
  if (name !== 'dkim-signature') return false
  const tags = raw
    .slice(raw.indexOf(':') + 1)
    .replace(/\s+/g, '')
    .split(';')
  return tags.some((tag) => tag.startsWith('d=') && toAscii(utf8(tag.slice(2)).replace(/\.$/, '')) === domain)
}
