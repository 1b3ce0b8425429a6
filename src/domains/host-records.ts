// The records of the server itself, which all domains need: the addresses of its names (A, AAAA) and the reverse DNS of
// each address (PTR). SPF and MX contain the host, so they are useless until it has an address (D219).
import { networkInterfaces } from 'node:os'
import type { Config } from '../base/config.ts'
import { canonical, familyOf, isAddress, isPublic, reversed } from '../base/network.ts'
import { sourcesOf } from '../base/sources.ts'
import type { Resolver, ResolverAnswer } from '../net/resolver.ts'
import { TTL } from './records.ts'
import { zoneLine } from './zone-lines.ts'
import { answerOf, type AdvisedRecord } from './advised-record.ts'

/** The placeholder for a public address that this machine cannot determine, such as behind NAT. */
const UNKNOWN = '<the public address of this server>'
/** The maximum number of displayed published addresses. */
const MOST = 16

type HostResolver = Pick<Resolver, 'a' | 'aaaa'>

const ask = async (resolver: HostResolver, name: string): Promise<ResolverAnswer<string>[]> =>
  Promise.all([resolver.a(name), resolver.aaaa(name)])

const published = (answers: readonly ResolverAnswer<string>[]): string[] =>
  answers.flatMap((answer) => (answer.kind === 'found' ? answer.records.slice(0, MOST).map(canonical) : []))

/** Whether a host has an address, or null if DNS did not respond. */
export async function hasAddress(resolver: HostResolver, hostname: string): Promise<boolean | null> {
  const answers = await ask(resolver, hostname)
  if (published(answers).length > 0) return true
  return answers.some(({ kind }) => kind === 'failed') ? null : false
}

/**
 * The records of this server: for each name the addresses in DNS and the configured source addresses, or else the
 * public ones of this machine, and the PTR record of each address.
 */
export async function hostRecords(
  {
    config,
    resolver,
  }: { config: Pick<Config, 'hostname' | 'delivery'>; resolver: HostResolver & Pick<Resolver, 'ptr'> },
  interfaces = networkInterfaces,
): Promise<AdvisedRecord[]> {
  const sources = sourcesOf(config).filter(({ address }) => isPublic(address))
  const names = new Set([config.hostname.toLowerCase(), ...sources.map(({ hostname }) => hostname)])
  const hosts = await Promise.all(
    [...names]
      .filter((name) => !isAddress(name))
      .map(async (name) => {
        const answers = await ask(resolver, name)
        const own = sources.filter(({ hostname }) => hostname === name).map(({ address }) => address)
        return { name, answers, addresses: [...new Set([...published(answers), ...own])] }
      }),
  )
  const [first] = hosts
  if (first && hosts.every(({ addresses }) => addresses.length === 0)) first.addresses.push(...publicHere(interfaces))
  const rows = hosts.map(async ({ addresses, answers, name }) => [
    ...(addresses.length > 0 ? addresses : [UNKNOWN]).map((value) => addressRecord(name, value, answers)),
    ...(await Promise.all(addresses.map((address) => reverseRecord(resolver, name, address)))),
  ])
  return (await Promise.all(rows)).flat().toSorted((a, b) => Number(isReverse(a)) - Number(isReverse(b)))
}

function publicHere(interfaces: typeof networkInterfaces): string[] {
  try {
    const all = Object.values(interfaces()).flatMap((addresses = []) => addresses.map(({ address }) => address))
    return [...new Set(all.filter(isPublic).map(canonical))]
  } catch {
    // The process can lack the permission, such as in a unit without AF_NETLINK.
    return []
  }
}

function addressRecord(name: string, value: string, answers: readonly ResolverAnswer<string>[]): AdvisedRecord {
  const there = published(answers).includes(value)
  const silent = !there && answers.some(({ kind }) => kind === 'failed')
  const answer = answerOf(silent ? 'failed' : 'none', there ? value : null, value)
  const type = familyOf(value) === 6 ? 'AAAA' : 'A'
  // Others can be published next to it, so the record does not depend on the answer.
  return { record_type: 'HOST_ADDRESS', name, type, value, ttl: TTL, ...answer, answered: true }
}

async function reverseRecord(resolver: Pick<Resolver, 'ptr'>, value: string, address: string): Promise<AdvisedRecord> {
  const name = `${reversed(address)}.${familyOf(address) === 6 ? 'ip6' : 'in-addr'}.arpa`
  const answer = await resolver.ptr(name)
  const found = answer.kind === 'found' ? answer.records.slice(0, MOST).join('\n') : null
  const state = answerOf(answer.kind, found, value)
  return { record_type: 'REVERSE', name, type: 'PTR', value, ttl: TTL, ...state, answered: true }
}

/** Whether a record is of the server itself. */
export const isOwn = ({ record_type }: Pick<AdvisedRecord, 'record_type'>): boolean =>
  record_type === 'HOST_ADDRESS' || record_type === 'REVERSE'

/** Whether a record is published by the provider of an address, and not in the zone of a domain. */
export const isReverse = ({ record_type }: Pick<AdvisedRecord, 'record_type'>): boolean => record_type === 'REVERSE'

/** Whether the value of a record is known, so that it can be a zone line. */
export const isKnown = ({ value }: Pick<AdvisedRecord, 'value'>): boolean => value !== UNKNOWN

/** The PTR records as lines of reverse zones, which the provider of the addresses has. */
export const reverseZone = (records: readonly AdvisedRecord[]): string[] => records.filter(isReverse).map(zoneLine)

/** A sentence about the PTR records. */
export function reverseText(records: readonly AdvisedRecord[]): string {
  const own = records.filter(isOwn)
  const addresses = own.filter((record) => !isReverse(record) && isKnown(record)).map(({ value }) => value)
  return `The PTR record (reverse DNS) of ${addresses.join(' and ') || 'the public address of this server'} must point to ${own[0]?.name ?? 'this server'}. Set it at your hosting provider.`
}
