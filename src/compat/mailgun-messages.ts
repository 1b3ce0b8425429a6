// Sends the messages of Mailgun's clients: one email, one email for each of many recipients with their variables, or a
// complete MIME message.
import { isObject, jsonOf } from '../base/json.ts'
import { JsonGuard } from '../jsonapi/json-guard.ts'
import { isZone } from '../jsonapi/schemas.ts'
import { parseAddress } from '../message/address.ts'
import { MAX_HEADER } from '../message/mime-tree.ts'
import { ignoredHeader, invalid, type CompatAttributes, type CompatAnswer, type CompatCall } from './kit.ts'
import { addressesIn, MailgunForm, withMailgunForm } from './mailgun-form.ts'
import { textOf, unsubscribeOf, withReachableOneClick } from './mailgun-unsubscribe.ts'

const MAX_BATCH = 1000

/** A field of a message, for the documentation. A name that ends with "*" is a prefix. */
export interface MailgunField {
  name: string
  about: string
  fate?: 'ignored' | 'refused'
}

/** Fields that change who gets an email, or whether it is sent at all, and have no equivalent. */
const REFUSED: Readonly<Record<string, string>> = {
  'o:testmode': 'there is no test mode, so the email would be sent',
  template: 'Postrider has no templates, so send "html" or "text"',
  't:variables': 'Postrider has no templates, so send "html" or "text"',
  't:version': 'Postrider has no templates, so send "html" or "text"',
  't:text': 'Postrider has no templates, so send "html" or "text"',
}

export const MAILGUN_FIELDS: readonly MailgunField[] = [
  { name: 'from', about: 'Required. Sender. Its domain must be that of the path, or a parent of it.' },
  { name: 'to', about: `Required. Recipient. Up to ${MAX_BATCH} with \`recipient-variables\`, otherwise one.` },
  { name: 'cc', about: 'Visible additional recipients, at most 10.' },
  { name: 'bcc', about: 'Hidden additional recipients, at most 10.' },
  { name: 'subject', about: 'Subject.' },
  { name: 'text', about: 'Plain text body.' },
  { name: 'html', about: 'HTML body.' },
  { name: 'attachment', about: 'File.' },
  { name: 'inline', about: 'File that the HTML body shows as `cid:NAME`. `NAME` is the file name.' },
  { name: 'h:Reply-To', about: 'Address for replies.' },
  { name: 'h:Message-Id', about: 'Message-ID. Ignored if its domain is not that of the sender.' },
  {
    name: 'h:List-Unsubscribe',
    about: 'Unsubscribe links. With `recipient-variables`, the emails are sent as bulk email.',
  },
  { name: 'h:List-Unsubscribe-Post', about: 'Turns on one-click unsubscribe, which is a POST to the https link.' },
  { name: 'h:X-Mailgun-Variables', about: 'JSON object. Its members are added to `metadata`.' },
  { name: 'h:*', about: 'Header field. Fields that Postrider writes itself, such as `h:Date`, are ignored.' },
  { name: 'v:*', about: 'Variable. It is added to `metadata`.' },
  { name: 'o:tag', about: 'Tag. Up to 10.' },
  { name: 'o:deliverytime', about: 'Time when the email is sent: an RFC 5322 date, or seconds since 1970.' },
  { name: 'o:tracking', about: '`no` turns tracking off.' },
  { name: 'o:tracking-opens', about: 'Whether opens are tracked.' },
  { name: 'o:tracking-clicks', about: 'Whether clicks are tracked.' },
  { name: 'o:require-tls', about: '`yes`. Set `tls_policy` of the domain to `Require`.', fate: 'refused' },
  { name: 'recipient-variables', about: 'JSON object of values by recipient. Each recipient gets a separate email.' },
  ...Object.entries(REFUSED).map(([name, why]) => ({ name, about: `${why}.`, fate: 'refused' as const })),
  { name: 'amp-html', about: 'the AMP body is not sent.', fate: 'ignored' },
  { name: 'o:*', about: 'other options.', fate: 'ignored' },
]

/** Header fields that composing writes, and that some clients send unasked. */
const COMPOSED = new Set(
  'content-type content-transfer-encoding mime-version date to cc bcc from subject x-mailgun-variables'.split(' '),
)

function refuseUnsafe(form: MailgunForm): void {
  for (const [name, why] of Object.entries(REFUSED)) {
    const value = form.text(name)
    const isOff = name === 'o:testmode' && form.flag(name) !== true
    if (value !== undefined && value !== '' && !isOff) throw invalid(name, `"${name}" is not supported: ${why}.`)
  }
  if (form.flag('o:require-tls') === true)
    throw invalid('o:require-tls', '"o:require-tls" is not supported. Set the TLS policy of the domain to Require.')
}

/** The headers of a message: attributes for those that have one, and the others. */
function headersOf(form: MailgunForm, domain: string, isBatch: boolean): CompatAttributes {
  const headers = new Map<string, string>()
  const to: CompatAttributes = {}
  let [list, post] = ['', false]
  for (const name of form.names().filter((each) => each.startsWith('h:'))) {
    const field = name.slice(2)
    const lower = field.toLowerCase()
    const isSender = lower === 'sender' && isSameAddress(form.text(name), form.text('from'))
    if (isSender) form.ignore(name)
    if (COMPOSED.has(lower) || isSender) continue
    const text = form.text(name) ?? ''
    if (lower === 'reply-to') to['reply_to'] = addressesIn([text])
    else if (lower === 'message-id') {
      if (isOfDomain(text, domain) || (isBatch && text.includes('%recipient.'))) to['message_id'] = text
    } else if (lower === 'list-unsubscribe') list = text
    else if (lower === 'list-unsubscribe-post') post = true
    else headers.set(field, text)
  }
  if (list !== '') Object.assign(to, unsubscribeOf(list, post, isBatch))
  return headers.size > 0 ? { ...to, headers: Object.fromEntries(headers) } : to
}

const isOfDomain = (messageId: string, domain: string): boolean => messageId.toLowerCase().endsWith(`@${domain}>`)

const isSameAddress = (one = '', other = ''): boolean => {
  const [a, b] = [parseAddress(one), parseAddress(other)]
  return a !== undefined && a.address.toLowerCase() === b?.address.toLowerCase()
}

/** The metadata of an email is at most 4 KB, before and after placeholders are filled. */
const MAX_METADATA = 8192

/** The value of a JSON text within the limits of a request, or undefined if it is not JSON. Throws a Refusal. */
function guardedJson(text: string): unknown {
  new JsonGuard().read(text)
  return jsonOf(text)
}

function metadataOf(form: MailgunForm): CompatAttributes {
  const members = new Map<string, string>()
  const given = form.text('h:X-Mailgun-Variables')
  if (given !== undefined && given !== '') {
    const read = guardedJson(given)
    if (!isObject(read)) throw invalid('h:X-Mailgun-Variables', '"h:X-Mailgun-Variables" must be a JSON object.')
    for (const [name, value] of Object.entries(read)) members.set(name, textOf(value))
  }
  for (const name of form.names().filter((each) => each.startsWith('v:')))
    members.set(name.slice(2), form.text(name) ?? '')
  const metadata = Object.fromEntries(members)
  if (JSON.stringify(metadata).length > MAX_METADATA)
    throw invalid('v:*', `The variables must be at most ${MAX_METADATA} characters long together.`)
  return members.size > 0 ? { metadata } : {}
}

/** Tracking, tags and the time of sending. */
function optionsOf(form: MailgunForm): CompatAttributes {
  const to: CompatAttributes = {}
  const all = form.flag('o:tracking', ['htmlonly'])
  for (const [name, attribute] of [
    ['o:tracking-opens', 'track_opens'],
    ['o:tracking-clicks', 'track_clicks'],
  ] as const) {
    const value = all === false ? false : form.flag(name, ['htmlonly'])
    form.text(name)
    if (value !== undefined) to[attribute] = value
  }
  const tags = form.texts('o:tag')
  if (tags.length > 0) to['tags'] = tags
  const time = form.text('o:deliverytime')
  if (time !== undefined && time !== '') to['scheduled_at'] = timeIn('o:deliverytime', time)
  return to
}

/** An RFC 5322 date or epoch seconds, as a timestamp. Throws a CompatError. */
export function timeIn(name: string, text: string): string {
  const isEpoch = /^\d{1,12}(?:\.\d{1,9})?$/.test(text)
  const at = isEpoch ? Math.round(Number(text) * 1000) : Date.parse(text)
  // A date without a time zone would be read in that of this server.
  const [, zone] = /([+-]\d\d:?\d\d|GMT|UTC?|Z)\s*(?:\([^()]*\))?$/.exec(text) ?? []
  const isZoned = isEpoch || (zone !== undefined && isZone(zone))
  if (Number.isNaN(at) || !isZoned || Math.abs(at) > 8.64e15)
    throw invalid(
      name,
      `"${name}" must be a date with a time zone up to 14 hours from UTC such as "Fri, 14 Oct 2011 23:10:10 +0000", or seconds since 1970.`,
    )
  return new Date(at).toISOString()
}

function filesOf(form: MailgunForm): CompatAttributes {
  const attachments: CompatAttributes[] = []
  for (const [field, inline] of [
    ['attachment', false],
    ['inline', true],
  ] as const)
    for (const file of form.files(field)) {
      const name = file.filename === '' ? `${field}-${attachments.length + 1}` : file.filename.replace(/^.*[/\\]/, '')
      attachments.push({
        filename: name,
        content: file.bytes,
        ...(/^[\w.+-]+\/[\w.+-]+$/.test(file.type) && { content_type: file.type }),
        ...(inline && { content_id: name, disposition: 'inline' }),
      })
    }
  return attachments.length > 0 ? { attachments } : {}
}

/** Values by the address in lower case, or undefined without the field. Throws a CompatError. */
function variablesOf(form: MailgunForm): Map<string, Record<string, unknown>> | undefined {
  const given = form.text('recipient-variables')
  if (given === undefined || given === '') return undefined
  const read = guardedJson(given)
  if (!isObject(read) || !Object.values(read).every(isObject))
    throw invalid('recipient-variables', '"recipient-variables" must be a JSON object of recipients to objects.')
  return new Map(
    Object.entries(read as Record<string, Record<string, unknown>>).map(([address, values]) => [
      address.trim().toLowerCase(),
      values,
    ]),
  )
}

/** Variables that every recipient has. */
const OWN = { recipient: 'postrider:to', recipient_email: 'postrider:email', recipient_name: 'postrider:name' } as const
const UNKNOWN =
  /%(?:unsubscribe_url|tag_unsubscribe_url|mailing_list_unsubscribe_url|unsubscribe_email|tag_unsubscribe_email)%/

function refusePlaceholder(name: string, text: string): void {
  const [unknown] = UNKNOWN.exec(text) ?? []
  if (unknown !== undefined)
    throw invalid(
      name,
      `${unknown} is not supported in "${name}". Use your own link, or "h:List-Unsubscribe" with <%unsubscribe_email%>.`,
    )
}

/** A text with placeholders of the API instead of those of Mailgun. */
function placed(name: string, text: string): string {
  refusePlaceholder(name, text)
  return text.replace(
    /%(recipient|recipient_email|recipient_name)%/g,
    (_, key: keyof typeof OWN) => `%recipient.${OWN[key]}%`,
  )
}

/** All texts of an email with placeholders of the API. Throws a CompatError for placeholders that are not supported. */
function mapTexts(value: unknown, name: string): unknown {
  if (typeof value === 'string') return placed(name, value)
  if (Array.isArray(value)) return value.map((each) => mapTexts(each, name))
  if (!isObject(value)) return value
  const nameOf = (key: string): string => (name === 'headers' ? `h:${key}` : name === '' ? key : name)
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, mapTexts(each, nameOf(key))]))
}

const QUEUED = 'Queued. Thank you.'

/** The answer to an accepted email. Its id is the Message-ID. */
const queued = (id: string, headers: Record<string, string>): CompatAnswer => ({
  body: { id, message: QUEUED },
  headers,
})

function keyOf({ header }: CompatCall): CompatAttributes {
  const key = header('idempotency-key')
  return key === undefined ? {} : { idempotency_key: key }
}

/** The domain of the sender, which must be that of the path or its parent. Throws a CompatError. */
function senderDomain(name: string, from: string | undefined): string {
  const address = from === undefined ? undefined : parseAddress(from)
  if (!address)
    throw invalid('from', '"from" must be one email address such as ann@example.org or "Ann" <ann@example.org>.')
  const own = name.toLowerCase()
  if (own !== address.domain && !own.endsWith(`.${address.domain}`))
    throw invalid(
      'from',
      `The sender ${address.address} does not belong to ${own}, the domain in the URL. Use the domain ${address.domain} there.`,
    )
  return address.domain
}

export const sendMessage = (call: CompatCall): Promise<CompatAnswer> =>
  withMailgunForm(call, async (form) => {
    refuseUnsafe(form)
    const from = form.text('from')
    const domain = senderDomain(call.params['domain'] ?? '', from)
    const variables = variablesOf(form)
    const [html, text] = [form.text('html') ?? '', form.text('text')]
    if (html === '' && !text) throw invalid('text', 'The email has neither "html" nor "text".', 'required')
    const attributes: CompatAttributes = {
      from,
      subject: form.text('subject') ?? '',
      html,
      ...(text ? { text } : {}),
      ...headersOf(form, domain, variables !== undefined),
      ...metadataOf(form),
      ...optionsOf(form),
      ...filesOf(form),
    }
    const to = addressesIn(form.texts('to'))
    const copies = { cc: addressesIn(form.texts('cc')), bcc: addressesIn(form.texts('bcc')) }
    if (to.length === 0) throw invalid('to', '"to" is required.', 'required')
    if (variables) return sendBatch(call, form, { attributes, to, copies, variables })
    if (to.length > 1)
      throw invalid(
        'to',
        '"to" can have one address here, because every recipient would see the others. Send "recipient-variables", so that each gets a separate email, or use "cc".',
      )
    const { attachments: _, metadata: _own, ...texts } = attributes
    mapTexts(texts, '')
    const { created, headers } = await call.create('outbound-emails', {
      ...attributes,
      to: to[0],
      ...withoutEmpty(copies),
      on_suppressed: 'record',
      ...keyOf(call),
    })
    const { attributes: sent, id } = created
    return queued(String(sent['message_id']), {
      'Postrider-Email': id,
      ...ignoredHeader(form.ignored()),
      ...headers,
    })
  })

const withoutEmpty = (lists: Record<string, unknown[]>): CompatAttributes =>
  Object.fromEntries(Object.entries(lists).filter(([, list]) => list.length > 0))

interface MailgunBatch {
  attributes: CompatAttributes
  to: string[]
  copies: { cc: string[]; bcc: string[] }
  variables: Map<string, Record<string, unknown>>
}

async function sendBatch(
  call: CompatCall,
  form: MailgunForm,
  { attributes, copies, to, variables }: MailgunBatch,
): Promise<CompatAnswer> {
  if (copies.cc.length + copies.bcc.length > 0)
    throw invalid('cc', '"cc" and "bcc" cannot be used with "recipient-variables": each copy would go there.')
  if (to.length > MAX_BATCH) throw invalid('to', `"to" can have at most ${MAX_BATCH} addresses.`)
  const recipients = to.map((each, index) => {
    const address = parseAddress(each)
    if (!address) throw invalid('to', `"${each.slice(0, 100)}" (number ${index + 1} of "to") is not an email address.`)
    const own = { [OWN.recipient]: each, [OWN.recipient_email]: address.address, [OWN.recipient_name]: address.name }
    return { to: each, variables: { ...variables.get(address.address.toLowerCase()), ...own } }
  })
  const { from, message_id, metadata, tags, attachments, ...texts } = attributes
  const domain = parseAddress(String(from))?.domain ?? ''
  const email = {
    ...withReachableOneClick(mapTexts(texts, '') as CompatAttributes, recipients),
    ...withoutUndefined({ from, metadata, tags, attachments }),
  }
  const { created, headers } = await call.create('outbound-email-batches', {
    email,
    recipients: recipients.map((each) => ({
      ...each,
      ...perRecipient({ message_id, metadata }, each.variables, domain),
    })),
    syntax: 'percent',
    on_suppressed: 'record',
    ...keyOf(call),
  })
  const { id } = created
  const answer = queued(`<${id}@${domain}>`, {
    'Postrider-Batch': id,
    ...ignoredHeader(form.ignored()),
    ...headers,
  })
  return { ...answer, batch: id }
}

/** Metadata and Message-ID of one recipient, with their values. */
function perRecipient(
  { metadata, message_id }: CompatAttributes,
  values: Record<string, unknown>,
  domain: string,
): CompatAttributes {
  const filled = (text: string): string => {
    let { length } = text
    return text.replace(/%recipient\.([^%]+)%/g, (placeholder, key: string) => {
      const value = Object.hasOwn(values, key) ? textOf(values[key] ?? '') : placeholder
      length += value.length
      if (length > MAX_METADATA)
        throw invalid('v:*', `A variable with its values must be at most ${MAX_METADATA} characters long.`)
      return value
    })
  }
  const own = Object.entries((metadata ?? {}) as Record<string, string>).filter(([, text]) =>
    text.includes('%recipient.'),
  )
  const id = typeof message_id === 'string' ? filled(message_id) : ''
  return {
    ...(own.length > 0 && { metadata: Object.fromEntries(own.map(([name, text]) => [name, filled(text)])) }),
    ...(isOfDomain(id, domain) && { message_id: id }),
  }
}

const withoutUndefined = (given: CompatAttributes): CompatAttributes =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))

/** Options in the header of a MIME message, by their field in a form. */
const MIME_OPTIONS: Readonly<Record<string, string>> = {
  'x-mailgun-tag': 'o:tag',
  'x-mailgun-variables': 'h:X-Mailgun-Variables',
  'x-mailgun-deliver-by': 'o:deliverytime',
  'x-mailgun-drop-message': 'o:testmode',
  'x-mailgun-track': 'o:tracking',
  'x-mailgun-track-opens': 'o:tracking-opens',
  'x-mailgun-track-clicks': 'o:tracking-clicks',
}

const noVariables = (field: string) =>
  invalid(field, 'A MIME message cannot have recipient variables. Use "messages" with "recipient-variables".')

export const sendMime = (call: CompatCall): Promise<CompatAnswer> =>
  withMailgunForm(call, async (form) => {
    const message = form.content('message')
    if (!message || message.length === 0)
      throw invalid('message', '"message" is required: the MIME message.', 'required')
    if (form.text('recipient-variables')) throw noVariables('recipient-variables')
    // Most messages have no such word, and a large one would be in memory twice.
    if (message.includes('unsubscribe_')) refusePlaceholder('message', message.toString('latin1'))
    const { options, raw } = withoutOptions(message, form)
    refuseUnsafe(options)
    const recipients = addressesIn(form.texts('to')).map((text) => parseAddress(text)?.address ?? text)
    if (recipients.length === 0) throw invalid('to', '"to" is required.', 'required')
    const { created, headers } = await call.create('raw-emails', {
      raw: raw.toString('base64'),
      recipients,
      ...metadataOf(options),
      ...optionsOf(options),
      on_suppressed: 'record',
      ...keyOf(call),
    })
    const { attributes, id } = created
    return queued(String(attributes['message_id']), {
      'Postrider-Email': id,
      ...ignoredHeader(new Set([...form.ignored(), ...options.ignored()])),
      ...headers,
    })
  })

/** Takes the fields X-Mailgun-* out of the header of a message, and returns them as the fields of a form. */
function withoutOptions(message: Buffer, form: MailgunForm): { raw: Buffer; options: MailgunForm } {
  const found = /\r?\n\r?\n/.exec(message.toString('latin1', 0, MAX_HEADER))
  const end = found?.index ?? Math.min(message.length, MAX_HEADER)
  const fields = message.toString('latin1', 0, end).split(/\r?\n(?![ \t])/)
  const own = fields.filter((field) => /^x-mailgun-/i.test(field))
  const values = new Map<string, string[]>(
    form
      .names()
      .filter((name) => /^[ovt]:/.test(name))
      .map((name) => [name, form.texts(name)]),
  )
  for (const field of own) {
    const [, name = '', text = ''] = /^([^:]+):([^]*)$/.exec(field.replace(/\r?\n[ \t]+/g, ' ')) ?? []
    const option = MIME_OPTIONS[name.trim().toLowerCase()]
    if (name.trim().toLowerCase() === 'x-mailgun-recipient-variables') throw noVariables('message')
    const key = option ?? name.trim()
    values.set(key, [...(values.get(key) ?? []), text.trim()])
  }
  if (own.length === 0) return { raw: message, options: new MailgunForm(values) }
  const rest = fields.filter((field) => !own.includes(field)).join('\r\n')
  return { raw: Buffer.concat([Buffer.from(rest, 'latin1'), message.subarray(end)]), options: new MailgunForm(values) }
}
