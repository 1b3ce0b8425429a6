// The sending rules that need the store: which user may send which email to which recipients. Each refusal points at
// its field (specification "POST /outbound-emails rules", D21, D22).
import { refuse, refuseAttribute, Refusal, type Problem } from '../../base/errors.ts'
import type { Keyring } from '../../base/keyring.ts'
import { inFamily, knownAddress, parseAddress, type Address } from '../../message/address.ts'
import type { Caller } from '../../jsonapi/resource.ts'
import type { Reader } from '../../store/database.ts'
import { db, statement } from '../../store/query.ts'
import type { RowOf } from '../../store/schema/tables.ts'
import { stopsOf, stopWords, type Stop } from '../../suppressions/stops.ts'
import type { StoredAttachment, WrittenBody } from '../../message/stored-body.ts'
import type { Unsubscribe } from '../../message/list-unsubscribe.ts'
import type { MailText } from '../../message/part-text.ts'
import type { NewAttachment } from './attachments.ts'
import { comparable } from '../../base/recipient-hash.ts'

export type SendingDomain = Pick<
  RowOf<'domains'>,
  'key' | 'name' | 'status' | 'open_tracking_enabled' | 'click_tracking_enabled'
>

const sendingDomain = statement<{ user_key: number; name: string }>()((arg) =>
  db
    .selectFrom('domains')
    .select(['key', 'name', 'status', 'open_tracking_enabled', 'click_tracking_enabled'])
    .where('user_key', '=', arg.user_key)
    .where('name', '=', arg.name)
    .where('deleted_at', 'is', null)
    // The same name may be registered in several regions: a domain that can send is preferred.
    .orderBy((eb) => eb.case().when('status', '=', 'active').then(0).else(1).end())
    .orderBy('key')
    .limit(1),
)

const subscription = statement<{ key: number }>()((arg) =>
  db.selectFrom('users').select('subscription_state').where('key', '=', arg.key),
)

/**
 * Throws 404 if the user does not own the domain of the from address. Does not throw for a malformed address: the 422
 * for it follows later.
 */
export function requireSendingDomain(reader: Reader, userKey: number, from: unknown): void {
  const address = typeof from === 'string' ? parseAddress(from) : undefined
  if (address) domainOf(reader, userKey, address)
}

export const UNSUBSCRIBED = 'Sending requires an active subscription. Ask the operator of this server.'

export const isSubscribed = (reader: Reader, userKey: number): boolean =>
  reader.fact(subscription({ key: userKey }))?.subscription_state === 'active'

export function requireSubscription(reader: Reader, userKey: number): void {
  if (!isSubscribed(reader, userKey)) throw refuse('subscription_inactive', UNSUBSCRIBED)
}

/**
 * The agent of an email: the one that it names, or that of the token. A token with an agent can only send as that
 * agent, so that a paused agent stays paused (D117).
 */
export function agentOf(bound: string | null | undefined, named: string | null | undefined): string | null | undefined {
  if (bound && named && named !== bound)
    throw refuseAttribute(
      'invalid',
      'agent_id',
      `This token can only send as the agent ${bound}. Set "agent_id" to it, or leave it out.`,
    )
  return named ?? bound
}

/** A well-formed email that a user submits. */
export interface Submission {
  userKey: number
  from: Address
  recipients: readonly Recipient[]
  given: NewEmail
}

/** A submission that can be queued. `stops`: why a recipient gets nothing, in the order of the recipients. */
export interface Admitted {
  domain: SendingDomain
  stops: readonly (Stop | undefined)[]
}

/**
 * Makes the checks that a well-formed email must pass before it is queued. Suppressed recipients are refused, or with
 * `on_suppressed` "record" returned. Throws a Refusal.
 */
export function admit(
  reader: Reader,
  keyring: Keyring,
  { from, given, recipients, userKey }: Submission,
  now: number,
): Admitted {
  requireSubscription(reader, userKey)
  const domain = domainOf(reader, userKey, from)
  if (domain.status !== 'active')
    throw refuseAttribute(
      'domain_not_active',
      'from',
      `The domain ${domain.name} is ${domain.status}, not active. ${
        domain.status === 'suspended'
          ? 'Its removal failed: delete it again, or ask the operator to resume it.'
          : 'Publish its DNS records and wait until they are verified.'
      }`,
    )
  const problems = [
    ...(given.any_reply_to ? [] : strangers(domain.name, listed('reply_to', given.reply_to))),
    ...untracked(domain, given),
    ...foreignId(domain.name, given.message_id),
    ...sharedLeave(given, recipients),
  ]
  const stops = stopsOf(
    reader,
    keyring,
    recipients.map(({ address: { address } }) => ({ domain_key: domain.key, address })),
    now,
    given.stream === 'bulk' ? 'marketing' : 'all',
  )
  for (const [index, { address, pointer }] of recipients.entries()) {
    const suppression = stops[index]
    if (suppression && given.on_suppressed !== 'record')
      problems.push(suppressedProblem(address.address, domain.name, suppression, pointer))
  }
  if (problems.length > 0) throw new Refusal(problems)
  return { domain, stops }
}

export const suppressedProblem = (to: string, domain: string, stop: Stop, pointer = 'to'): Problem => ({
  code: 'recipient_suppressed',
  detail: `${knownAddress(to).address} is suppressed on ${domain}: ${stopWords(stop)}. Remove the recipient.`,
  source: { pointer: `/data/attributes/${pointer}` },
  meta: { recipient: knownAddress(to).address, reason: stop.reason },
})

function domainOf(reader: Reader, userKey: number, from: Address): SendingDomain {
  const domain = reader.fact(sendingDomain({ user_key: userKey, name: from.domain }))
  if (!domain)
    throw refuse('not_found', `You have no sending domain ${from.domain}. Create it first.`, {
      pointer: '/data/attributes/from',
    })
  return domain
}

/** Addresses outside the sending domain's family (specification "Outbound email"). */
export function strangers(domain: string, addresses: readonly Pick<Recipient, 'text' | 'pointer'>[]): Problem[] {
  return addresses.flatMap(({ text, pointer }): Problem[] => {
    const address = knownAddress(text)
    if (inFamily(domain, address.domain)) return []
    const detail = `${address.address} does not belong to ${domain}. Use an address on this domain, its subdomains or its parent domains.`
    return [{ code: 'address_outside_domain', detail, source: { pointer: `/data/attributes/${pointer}` } }]
  })
}

/** The problem of a Message-ID of another domain, which could be that of another sender's email. */
export function foreignId(domain: string, messageId: string | null | undefined): Problem[] {
  const right = messageId?.slice(messageId.lastIndexOf('@') + 1, -1)
  if (right === undefined || inFamily(domain, right.toLowerCase())) return []
  const detail = `"message_id" must end with "@${domain}>", or a subdomain or parent domain of it.`
  return [{ code: 'address_outside_domain', detail, source: { pointer: '/data/attributes/message_id' } }]
}

/** This server's unsubscribe address is that of one recipient: with it, a copy would unsubscribe another recipient. */
function sharedLeave({ unsubscribe }: NewEmail, recipients: readonly Recipient[]): Problem[] {
  if (!unsubscribe?.mail || recipients.length < 2) return []
  const detail = '"mail" can be true only for an email with one recipient. Remove cc and bcc, or send separate emails.'
  return [{ code: 'invalid', detail, source: { pointer: '/data/attributes/unsubscribe/mail' } }]
}

/** Problems for tracking that is requested but not allowed for the sending domain. */
export function untracked(
  domain: Pick<SendingDomain, 'name' | 'open_tracking_enabled' | 'click_tracking_enabled'>,
  given: { track_opens?: boolean | null | undefined; track_clicks?: boolean | null | undefined },
): Problem[] {
  const asked = [
    ['track_opens', given.track_opens, domain.open_tracking_enabled],
    ['track_clicks', given.track_clicks, domain.click_tracking_enabled],
  ] as const
  return asked.flatMap(([name, wanted, enabled]): Problem[] => {
    if (wanted !== true || enabled !== 0) return []
    const detail = `"${name}" cannot be true, because it is disabled for the domain ${domain.name}. Enable it there, or leave it out.`
    return [{ code: 'tracking_disabled', detail, source: { pointer: `/data/attributes/${name}` } }]
  })
}

// Types of this folder for an email: its row, and the checked content of a new one.

export type Email = RowOf<'outbound_emails'>

/** When an email is sent: a time (ms), or a duration (ms) from the moment at which it is accepted. */
export type SendTime = number | { after: number }

export type EmailStream = NonNullable<Email['stream']>

/** An email as it is submitted: every value is in its checked form. */
export interface NewEmail {
  from: string
  to: string
  cc?: OneOrMore
  bcc?: OneOrMore
  reply_to?: OneOrMore
  /** Whether `reply_to` may be outside the family of the sending domain. */
  any_reply_to?: boolean | undefined
  subject: string
  /** Empty for an email from SMTP submission, like the text and the headers: `message` contains all of them. */
  html: string
  text?: string | null | undefined
  idempotency_key?: string | null | undefined
  agent_id?: string | null | undefined
  /** The agent of an OAuth client, which cannot send while that agent is paused, even as another agent. */
  program?: string | undefined
  track_opens?: boolean | null | undefined
  track_clicks?: boolean | null | undefined
  ai_disclosure?: boolean | null | undefined
  /** What happens to suppressed recipients: the email is refused, or they are recorded as suppressed. */
  on_suppressed?: 'refuse' | 'record' | undefined
  /** In angle brackets. If absent, it is made of the email's id. */
  message_id?: string | null | undefined
  tags?: readonly string[] | null | undefined
  metadata?: Readonly<Record<string, string>> | null | undefined
  scheduled_at?: SendTime | null | undefined
  /** Bulk email has separate lanes, and does not go to recipients who unsubscribed. */
  stream?: EmailStream | undefined
  unsubscribe?: Unsubscribe | null | undefined
  attachments?: readonly NewAttachment[] | undefined
  headers?: readonly (readonly [name: string, value: string])[] | undefined
  /** An email from SMTP submission. It is sent as it arrived. */
  message?: SubmittedMessage | undefined
  /** The token whose daily limit of recipients counts, or undefined if it has no limit. */
  cappedToken?: number | undefined
  /** Called in the transaction that accepts the email. Throws a Refusal if it comes too late. */
  begin?: (() => void) | undefined
}

/** The body of an email without its attachments. */
export const writtenBody = ({ headers = [], html, text = null, unsubscribe }: NewEmail): WrittenBody => ({
  html,
  text,
  headers: headers.map(([name, value]) => [name, value]),
  ...(unsubscribe && { unsubscribe }),
})

/** What the caller means for the emails that they send. */
export const ofCaller = ({
  begin,
  cappedToken,
  compat,
  program,
}: Caller): Pick<NewEmail, 'any_reply_to' | 'begin' | 'cappedToken' | 'program'> => ({
  program,
  any_reply_to: compat,
  cappedToken,
  begin,
})

export interface SubmittedMessage {
  /** The id of the email, created when the message started. */
  id: string
  messageId: string
  html: MailText
  text: MailText
  /** Its bytes as they are sent, or the file of the spool that holds them. */
  bytes: Buffer | { spooled: string }
  attachments: readonly Omit<StoredAttachment, 'content'>[]
  /** A repeated message has the same hash. */
  hash: Buffer
}

// The recipients of an email: the primary recipient, then cc, then bcc. An address that was named before is dropped
// (specification "Outbound email"): a repeat within a list, a repeat of `to`, and in bcc a repeat of cc.

export type Role = 'to' | 'cc' | 'bcc'

export interface Recipient {
  role: Role
  /** As the sender wrote it. */
  text: string
  address: Address
  /** Its position in the request, as a JSON pointer below /data/attributes. */
  pointer: string
}

/** One address or a list, as the API accepts them. */
export type OneOrMore = string | readonly string[] | null | undefined

export interface Addressed {
  to: string
  cc?: OneOrMore
  bcc?: OneOrMore
}

/** The addresses of a field with their positions in the request. */
export function listed(field: string, value: OneOrMore): { text: string; pointer: string }[] {
  if (value === null || value === undefined) return []
  return typeof value === 'string'
    ? [{ text: value, pointer: field }]
    : value.map((text, index) => ({ text, pointer: `${field}/${index}` }))
}

/**
 * Local parts are compared without case:
 * in practice no two mailboxes differ by case alone, and one would get two copies.
 */
export const sameMailbox = ({ address }: Pick<Address, 'address'>): string => comparable(address)

export function recipientsOf({ to, cc, bcc }: Addressed): Recipient[] {
  const seen = new Set<string>()
  const recipients: Recipient[] = []
  for (const [role, value] of [
    ['to', to],
    ['cc', cc],
    ['bcc', bcc],
  ] as const)
    for (const { text, pointer } of listed(role, value)) {
      const address = knownAddress(text)
      if (seen.has(sameMailbox(address))) continue
      seen.add(sameMailbox(address))
      recipients.push({ role, text, address, pointer })
    }
  return recipients
}
