// Queued email by receiver, and the recipient domains of a receiver. The receiver of a domain is known after an MX host
// has replied to its email. Until then, the domain is its own receiver, as in receivers.ts.
import { boundBetween, bulkLane, domainInSql, domainOf } from '../message/lane-names.ts'
import { providerNamed } from '../smtp/shaping.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { receiverOf } from './receivers.ts'

/** The number of queued emails that are read, newest first. This takes 10 to 60 ms. */
const LOOKED_AT = 10_000

export interface WaitingReceiver {
  /** Recipients whose email is queued. */
  waiting: number
  /** Their domains, most queued email first. */
  domains: string[]
}

interface WaitingCounted {
  lane: string
  host: string | null
  times: number
}

/** The queued email of an account, by receiver. */
export function waitingReceivers(reader: Reader, userKey: number): Map<string, WaitingReceiver> {
  const rows = reader.all(
    raw<WaitingCounted>(
      `select v.lane as lane, v.remote_mta as host, count(*) as times
       from (select key from outbound_emails where user_key = ? and status = 'queued' order by created_at desc limit ${LOOKED_AT}) e
         join deliveries v on v.email_key = e.key
       where v.status in ('queued', 'active', 'held') group by v.lane, v.remote_mta order by times desc`,
      [userKey],
    ),
  )
  // Email without a reply yet belongs to the receiver of the domain's other email.
  const known = new Map(
    rows.flatMap(({ host, lane }) =>
      host === null ? [] : [[domainOf(lane), receiverOf(host, domainOf(lane))] as const],
    ),
  )
  const found = new Map<string, WaitingReceiver>()
  for (const { lane, times } of rows) {
    const domain = domainOf(lane)
    const receiver = known.get(domain) ?? receiverOf(null, domain)
    const sum = found.get(receiver) ?? { waiting: 0, domains: [] }
    sum.waiting += times
    if (!sum.domains.includes(domain)) sum.domains.push(domain)
    found.set(receiver, sum)
  }
  return found
}

/** The number of recent emails that are read for the recipient domains. */
const LATE = 1000

/** The receiving domains of a receiver in the newest mail since a time (ms). */
export function lateDomains(
  reader: Reader,
  { receiver, since, userKey }: { userKey: number; receiver: string; since: number },
): string[] {
  const rows = reader.all(
    raw<Omit<WaitingCounted, 'times'>>(
      `select distinct v.lane as lane, v.remote_mta as host
       from (select key from outbound_emails where user_key = ? and created_at >= ? order by created_at desc limit ${LATE}) e
         join deliveries v on v.email_key = e.key`,
      [userKey, since],
    ),
  )
  const those = rows.filter(({ host, lane }) => receiverOf(host, domainOf(lane)) === receiver)
  return [...new Set(those.map(({ lane }) => domainOf(lane)))]
}

/** Waiting recipients of a domain that are looked at, of each kind of lane. */
const OF_DOMAIN = 1000

/**
 * The hosts that replied to email for a recipient domain, from its queued and its newest email. Null stands for email
 * without a reply. Empty if there is no such email. Without an account, the email of all accounts.
 */
export function hostsFor(reader: Reader, domain: string, userKey?: number): (string | null)[] {
  const lanes = [domain, bulkLane(domain)]
  const waiting = ['queued', 'held'].flatMap((status) =>
    ['lane = ?', 'lane = ?', 'lane > ? and lane < ?', 'lane > ? and lane < ?'].map(
      (lane) =>
        `select * from (select email_key, remote_mta from deliveries where status = '${status}' and ${lane} limit ${OF_DOMAIN})`,
    ),
  )
  const parameters = [...lanes, ...lanes.flatMap((lane) => boundBetween(lane))]
  const [ofAccount, own] = userKey === undefined ? ['', []] : ['where e.user_key = ?', [userKey]]
  const newest = userKey === undefined ? 'order by e.key desc' : `${ofAccount} order by e.created_at desc`
  const rows = reader.all(
    raw<Pick<WaitingCounted, 'host'>>(
      `select waiting.remote_mta as host from (${waiting.join(' union all ')}) waiting
         join outbound_emails e on e.key = waiting.email_key ${ofAccount}
       union select v.remote_mta from (select e.key as key from outbound_emails e ${newest} limit ${LATE}) e
         join deliveries v on v.email_key = e.key where ${domainInSql('v.lane')} = ?`,
      [...parameters, ...parameters, ...own, ...own, domain],
    ),
  )
  return rows.map(({ host }) => host)
}

/** A condition on `outbound_emails` for a receiver's email, or undefined if no receiver has this name. */
export function toReceiver(
  reader: Reader,
  userKey: number,
  name: string,
): { sql: string; parameters: string[] } | undefined {
  const receiver = providerNamed(name) ?? receiverNamed(reader, userKey, name.toLowerCase())
  if (!receiver) return undefined
  const { domains } = waitingReceivers(reader, userKey).get(receiver.name) ?? { domains: [] }
  const hosts = receiver.hosts.map(() => `v.remote_mta = ? or v.remote_mta like ?`).join(' or ')
  return {
    sql: `exists (select 1 from deliveries v where v.email_key = outbound_emails.key
      and (${hosts} or ${domainInSql('v.lane')} in (select value from json_each(?))))`,
    parameters: [...receiver.hosts.flatMap((host) => [host, `%.${host}`]), JSON.stringify(domains)],
  }
}

/** A registrable domain that is a receiver of the account's mail. */
function receiverNamed(reader: Reader, userKey: number, name: string): { name: string; hosts: string[] } | undefined {
  const there = reader.first(
    raw('select 1 as there from receiver_domains where user_key = ? and receiver = ? limit 1', [userKey, name]),
  )
  return there === undefined ? undefined : { name, hosts: [name] }
}
