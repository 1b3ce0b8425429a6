// Mail that waits, by receiver, and which receiving domains a receiver has. Whose a domain is, is known once an
// exchanger answered for its mail; before, the domain is a receiver by itself, as in receivers.ts.
import { domainInSql, domainOf } from '../message/lane-names.ts'
import { providerNamed } from '../smtp/shaping.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { receiverOf } from './receivers.ts'

/** Waiting mails that are looked at, the newest; this takes 10 to 60 ms. */
const LOOKED_AT = 10_000

export interface WaitingReceiver {
  /** Recipients whose mail waits. */
  waiting: number
  /** Their domains, those with most waiting mail first. */
  domains: string[]
}

interface WaitingCounted {
  lane: string
  host: string | null
  times: number
}

/** What waits of an account's mail, by receiver. */
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
  // Mail that no exchanger has answered for goes where the other mail of its domain goes.
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

/** Mails that are looked at for the receiving domains of late. */
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

/** A condition on `outbound_emails` for the mail to a receiver, by its name; undefined when there is no such one. */
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
