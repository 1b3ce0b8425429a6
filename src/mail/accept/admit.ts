// The rules of sending that need the store: which user may send which mail to which recipients. Each refusal points at
// the field that it is about (specification "POST /outbound-emails rules", D21, D22).
import { refuse, refuseAttribute, Refusal, type Problem } from '../../base/errors.ts'
import type { Keyring } from '../../base/keyring.ts'
import { inFamily, knownAddress, parseAddress, type Address } from '../../message/address.ts'
import type { Reader } from '../../store/database.ts'
import { db, statement } from '../../store/query.ts'
import type { RowOf } from '../../schema/tables.ts'
import { listed, type Recipient } from './recipients.ts'
import type { NewEmail } from './email.ts'
import { stopsOf } from '../../suppressions/stops.ts'

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
 * Throws 404 when the user owns no domain of the from address.
 * Does not throw for a malformed address: the 422 for it follows later.
 */
export function requireSendingDomain(reader: Reader, userKey: number, from: unknown): void {
  const address = typeof from === 'string' ? parseAddress(from) : undefined
  if (address) domainOf(reader, userKey, address)
}

export const UNSUBSCRIBED = 'Sending needs an active subscription; ask the operator of this server.'

export const isSubscribed = (reader: Reader, userKey: number): boolean =>
  reader.fact(subscription({ key: userKey }))?.subscription_state === 'active'

export function requireSubscription(reader: Reader, userKey: number): void {
  if (!isSubscribed(reader, userKey)) throw refuse('subscription_inactive', UNSUBSCRIBED)
}

/**
 * The agent of a mail: the one that it names, or that of the token. A token with an agent sends as that agent alone, so
 * that a paused agent stays paused (D117).
 */
export function agentOf(bound: string | null | undefined, named: string | null | undefined): string | null | undefined {
  if (bound && named && named !== bound)
    throw refuseAttribute('invalid', 'agent_id', `This token sends as the agent ${bound} alone; name it, or no agent.`)
  return named ?? bound
}

/** A well-formed mail that a user submits. */
export interface Submission {
  userKey: number
  from: Address
  recipients: readonly Recipient[]
  given: NewEmail
}

/** Makes the checks that a well-formed mail must pass before the queue. Returns its domain; throws a Refusal. */
export function admit(
  reader: Reader,
  keyring: Keyring,
  { from, given, recipients, userKey }: Submission,
  now: number,
): SendingDomain {
  requireSubscription(reader, userKey)
  const domain = domainOf(reader, userKey, from)
  if (domain.status !== 'active')
    throw refuseAttribute(
      'domain_not_active',
      'from',
      `The domain ${domain.name} is ${domain.status}, not active; ${
        domain.status === 'suspended'
          ? 'its removal was begun: delete it again, or ask the operator to resume it.'
          : 'publish its DNS records and wait until they are verified.'
      }`,
    )
  const problems = [...strangers(domain.name, listed('reply_to', given.reply_to)), ...untracked(domain, given)]
  const stops = stopsOf(
    reader,
    keyring,
    recipients.map(({ address: { address } }) => ({ domain_key: domain.key, address })),
    now,
  )
  for (const [index, { address, pointer }] of recipients.entries()) {
    const suppression = stops[index]
    if (suppression)
      problems.push({
        code: 'recipient_suppressed',
        detail: `${address.address} is suppressed on ${domain.name} (${suppression.erased ? 'it was forgotten on request' : suppression.reason}).`,
        source: { pointer: `/data/attributes/${pointer}` },
        meta: { recipient: address.address, reason: suppression.reason },
      })
  }
  if (problems.length > 0) throw new Refusal(problems)
  return domain
}

function domainOf(reader: Reader, userKey: number, from: Address): SendingDomain {
  const domain = reader.fact(sendingDomain({ user_key: userKey, name: from.domain }))
  if (!domain)
    throw refuse('not_found', `You have no sending domain ${from.domain}; register it first.`, {
      pointer: '/data/attributes/from',
    })
  return domain
}

/** Addresses outside the sending domain's family (specification "Outbound email"). */
export function strangers(domain: string, addresses: readonly Pick<Recipient, 'text' | 'pointer'>[]): Problem[] {
  return addresses.flatMap(({ text, pointer }): Problem[] => {
    const address = knownAddress(text)
    if (inFamily(domain, address.domain)) return []
    const detail = `${address.address} is outside the family of ${domain} (the domain itself, its subdomains and parents).`
    return [{ code: 'address_outside_domain', detail, source: { pointer: `/data/attributes/${pointer}` } }]
  })
}

/** Problems for tracking that is requested although the sending domain does not allow it. */
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
    const detail = `"${name}" cannot be true: it is disabled on the domain ${domain.name}.`
    return [{ code: 'tracking_disabled', detail, source: { pointer: `/data/attributes/${name}` } }]
  })
}
