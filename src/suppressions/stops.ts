// Checks whether the suppressions of a sending domain, or the domain itself, block mail to an address. This is checked
// when an email is accepted, when it is claimed, and again before it is sent.
import type { Keyring } from '../base/keyring.ts'
import { comparable, erasedForm } from '../base/recipient-hash.ts'
import { isNameIn } from '../base/one-of.ts'
import type { Reader } from '../store/database.ts'
import { db, sql, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { ownVerdict, type Verdict } from '../smtp/verdict.ts'

type Suppression = RowOf<'suppressions'>

/** The form in which addresses are compared. The domain of `address` is an A-label already. */
export const normalised = comparable

/** Entries of pairs of domain and address, given as JSON. Entries of every scope block a campaign. */
const entries = statement<{ pairs: string; scope: Suppression['scope']; now: number }>()((arg) =>
  db
    .selectFrom('suppressions')
    .select(['domain_key', 'email', 'reason'])
    .where(sql<boolean>`(domain_key, email) in (select value ->> 0, value ->> 1 from json_each(${arg.pairs}))`)
    .where(sql<boolean>`(scope = 'all' or ${arg.scope} = 'marketing')`)
    .where((eb) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', arg.now)])),
)

/**
 * Whether a domain has an entry of an erased address: such entries begin with "#". They are rare, so the hash is rarely
 * computed.
 */
const anyErased = statement<{ domain_key: number }>()((arg) =>
  db
    .selectFrom('suppressions')
    .select('key')
    .where('domain_key', '=', arg.domain_key)
    .where('email', '>=', '#')
    .where('email', '<', '$')
    .limit(1),
)

export const hasErased = (reader: Reader, domainKey: number): boolean =>
  reader.fact(anyErased({ domain_key: domainKey })) !== undefined

/** Why mail to an address is blocked. `erased`: the entry holds a hash. */
export interface Stop {
  reason: Suppression['reason']
  erased: boolean
}

/** The reasons in words, as the end of a sentence. */
const REASONS: Record<Suppression['reason'], string> = {
  unsubscribe: 'the recipient unsubscribed',
  hard_bounce: 'a receiving server reported that it does not exist',
  complaint: 'the recipient marked an email from you as spam',
  manual: 'added manually',
  list_import: 'imported as suppressed',
  soft_bounce: 'its mailbox rejected several emails',
}

/** Why an address is suppressed, in words. */
export const stopWords = ({ erased = false, reason }: { reason: string; erased?: boolean }): string =>
  erased ? 'the recipient was erased on request' : isNameIn(REASONS, reason) ? REASONS[reason] : reason

/** Why an address is suppressed, as the data of events have it. */
export const reasonOf = ({ erased, reason }: Stop): Suppression['reason'] | 'erasure' => (erased ? 'erasure' : reason)

export interface DomainRecipient {
  domain_key: number
  address: string
}

/**
 * Why mail from a domain to each of these addresses is blocked, in their order, or undefined if it is not blocked.
 * `scope` is the scope of the mail: `all` for transactional mail, `marketing` for campaigns. One statement reads all
 * entries.
 */
export function stopsOf(
  reader: Reader,
  keyring: Keyring,
  recipients: readonly DomainRecipient[],
  now: number,
  scope: Suppression['scope'] = 'all',
): (Stop | undefined)[] {
  const forms = recipients.map(({ address, domain_key }) => [
    [domain_key, normalised(address)] as const,
    // If the address of an entry is erased, the entry keeps a hash.
    ...(hasErased(reader, domain_key) ? [[domain_key, erasedForm(keyring, address)] as const] : []),
  ])
  const rows = reader.all(entries({ pairs: JSON.stringify(forms.flat()), scope, now }))
  if (rows.length === 0) return recipients.map(() => undefined)
  const reasons = new Map(rows.map(({ domain_key, email, reason }) => [`${domain_key} ${email}`, reason]))
  return forms.map((each) => {
    for (const [index, [domain, email]] of each.entries()) {
      const reason = reasons.get(`${domain} ${email}`)
      if (reason !== undefined) return { reason, erased: index > 0 }
    }
    return undefined
  })
}

/** The stops of recipients, and the generation of the table from which they were read. */
export interface KnownStops {
  generation: number
  stops: (Stop | undefined)[]
}

/** Like `stopsOf`, with a result that is kept until the email is sent. */
export const knownStops = (...[reader, ...asked]: Parameters<typeof stopsOf>): KnownStops => ({
  generation: reader.generation('suppressions', 'changed'),
  stops: stopsOf(reader, ...asked),
})

/**
 * The present stops. They are read again if an entry was added, changed or removed, and always after a stop, because it
 * may have expired.
 */
export function stopsNow(
  { generation, stops }: KnownStops,
  ...[reader, ...asked]: Parameters<typeof stopsOf>
): (Stop | undefined)[] {
  const free = stops.every((stop) => stop === undefined)
  return free && generation === reader.generation('suppressions', 'changed') ? stops : stopsOf(reader, ...asked)
}

/** Why mail from a domain to one address is blocked, or undefined if it is not blocked (`stopsOf`). */
export const suppressedFor = (
  reader: Reader,
  keyring: Keyring,
  domain_key: number,
  address: string,
  now: number,
): Stop | undefined => stopsOf(reader, keyring, [{ domain_key, address }], now)[0]

const domainNow = statement<{ key: number }>()((arg) =>
  db.selectFrom('domains').select(['status', 'deleted_at']).where('key', '=', arg.key),
)

/** A removed or suspended domain cannot send from that moment on, not even mail that is claimed already. */
export function domainStop(
  reader: Reader,
  { domain, domain_key }: { domain: string; domain_key: number },
): Verdict | undefined {
  const at = { stage: 'compose' } as const
  const now = reader.fact(domainNow({ key: domain_key }))
  if (!now || now.deleted_at !== null)
    return ownVerdict('rejected', '5.7.1', `The sending domain ${domain} was removed.`, at)
  if (now.status === 'suspended')
    return ownVerdict('deferred', '4.7.1', `The sending domain ${domain} is suspended.`, at)
  return undefined
}
