// DNS answers with their DNSSEC validation status, for outgoing mail (RFC 7672). The AD bit is worth something only if
// it cannot be changed on its way. So it is trusted from loopback addresses and from servers that the operator trusts,
// and only if all servers of the list are trusted, because any of them may answer.
import type { Answer } from 'dns-packet'
import { HOUR, SECOND, type Clock } from '../base/clock.ts'
import { semaphore } from '../base/semaphore.ts'
import {
  askServer,
  serversOf,
  type NoDnsAnswer,
  type DnsAnswer,
  type DnsQuestion,
  type DnsServerAddress,
} from './dns-question.ts'
import { AnswerMemory } from './remembered.ts'
import { createResolver, type Resolver, type Tlsa, type ValidatedAnswer, type ValidatingResolver } from './resolver.ts'

export interface ValidatingOptions {
  clock: Clock
  /** The servers of the configuration. If empty, those of the system. */
  servers: readonly DnsServerAddress[]
  /** Addresses that are trusted in addition to loopback. */
  trusted: readonly string[]
  /** Milliseconds for the first try, doubled for each further one. */
  timeout?: number
}

type DnsSettings = { delivery: { dane: boolean }; dns: Pick<ValidatingOptions, 'servers' | 'trusted'> }

const TRIES = 3
/** The same number as for other queries (resolver.ts), which do not wait for these. */
const MAX_ASKED = 50
/** Limits of the memory: answers, characters of an answer, and how long one is kept. */
const MOST = 8000
const MAX_LETTERS = 4096
const SHORTEST = 30 * SECOND
const LONGEST = HOUR
/** The system's list of servers is read again after this time. */
const LIST_LIFETIME = 30 * SECOND
/** Records of an answer: one more than DANE accepts, so that it sees that there are too many. */
const MAX_RECORDS = 101
/** Aliases that are followed. */
const MAX_ALIASES = 8

const isLoopback = (host: string): boolean => host === '::1' || /^(?:::ffff:)?127(?:\.\d{1,3}){3}$/i.test(host)

/** Whether AD is believed from all these servers. */
export const areTrusted = (servers: readonly DnsServerAddress[], trusted: readonly string[]): boolean =>
  servers.length > 0 && servers.every(({ host }) => isLoopback(host) || trusted.includes(host))

const clean = (name: string): string => name.toLowerCase().replace(/\.$/, '')

/** The resolver of a server: validated answers where the configuration wants DANE. */
export const resolverOf = ({ delivery, dns }: DnsSettings, clock: Clock): Resolver =>
  createResolver({
    servers: dns.servers,
    validating: delivery.dane ? createValidating({ clock, ...dns }) : undefined,
  })

/** A function that gives the resolver, or undefined while the answers of the servers cannot be trusted. */
export function createValidating(options: ValidatingOptions): () => ValidatingResolver | undefined {
  const { clock, servers: configured, timeout = 3000, trusted } = options
  const turn = semaphore(MAX_ASKED)
  const memory = new AnswerMemory<Promise<ValidatedAnswer<unknown>>>(MOST)
  let failures = new AnswerMemory<Promise<ValidatedAnswer<unknown>>>(MOST)
  let list: { servers: DnsServerAddress[]; believed: boolean; until: number } | undefined
  const servers = (): NonNullable<typeof list> => {
    const now = clock.elapsed()
    // A configured list never changes.
    if (list && (configured.length > 0 || now < list.until)) return list
    const found = serversOf(configured)
    return (list = { servers: found, believed: areTrusted(found, trusted), until: now + LIST_LIFETIME })
  }
  const ask = <T extends AskedType>(type: T, name: string): Promise<ValidatedAnswer<RecordOf<T>>> => {
    const known = memory.get(name, type, clock.elapsed()) ?? failures.get(name, type, clock.elapsed())
    if (known) return known as Promise<ValidatedAnswer<RecordOf<T>>>
    let lifetime = SHORTEST
    const answer = turn(() => askAll(servers().servers, { name, type }, timeout)).then((found) => {
      if ('kind' in found) return found
      lifetime = lifetimeOf(found)
      return understand(found, name, type)
    })
    const forget = memory.keep(name, type, answer, clock.elapsed() + LONGEST)
    answer.then((found) => {
      if (found.kind === 'failed') failures.keep(name, type, answer, clock.elapsed() + SHORTEST)
      if (found.kind === 'failed' || sizeOf(found) > MAX_LETTERS) return forget()
      return memory.shorten(name, type, answer, clock.elapsed() + lifetime)
    }, forget)
    return answer
  }
  const asking: ValidatingResolver = {
    mx: (name) => ask('MX', name),
    a: (name) => ask('A', name),
    aaaa: (name) => ask('AAAA', name),
    cname: (name) => ask('CNAME', name),
    tlsa: (name) => ask('TLSA', name),
    forgetFailures: () => void (failures = new AnswerMemory(MOST)),
  }
  return () => (servers().believed ? asking : undefined)
}

type DataOf<T extends AskedType> = Extract<Answer, { type: T }>['data']

function recordFrom({ certificate, matchingType, selector, usage }: DataOf<'TLSA'>): Tlsa {
  return { usage, selector, matching: matchingType, data: certificate.toString('hex') }
}

const READ = {
  MX: ({ exchange, preference = 0 }: DataOf<'MX'>) => ({ exchange: clean(exchange), priority: preference }),
  A: (address: DataOf<'A'>) => address,
  AAAA: (address: DataOf<'AAAA'>) => address,
  CNAME: (target: DataOf<'CNAME'>) => clean(target),
  TLSA: recordFrom,
}

type AskedType = 'MX' | 'A' | 'AAAA' | 'CNAME' | 'TLSA'
type RecordOf<T extends AskedType> = ReturnType<(typeof READ)[T]>

/** Queries the servers in turn until one answers. If one of them timed out, all are queried again with more time. */
async function askAll(
  servers: readonly DnsServerAddress[],
  question: DnsQuestion,
  timeout: number,
): Promise<DnsAnswer | Extract<ValidatedAnswer<never>, { kind: 'failed' }>> {
  const failed = { kind: 'failed', reason: 'ETIMEOUT' } as const
  let last: typeof failed | { kind: 'failed'; reason: string; local?: true } = failed
  for (let round = 0; round < TRIES; round++) {
    let silent = false
    for (const server of servers) {
      const answer = await askOne(server, question, timeout * 2 ** round)
      if ('failure' in answer) {
        // The name is not valid in DNS, so no server can have it.
        if (answer.failure === 'EBADNAME') return { code: 'NXDOMAIN', secure: false, answers: [], authorities: [] }
        const { failure: reason, local } = answer
        last = { kind: 'failed', reason, ...(local ? { local } : {}) }
        silent ||= reason === 'ETIMEOUT'
      } else if (answer.code === 'NOERROR' || answer.code === 'NXDOMAIN') return answer
      else last = { kind: 'failed', reason: `E${answer.code}` }
    }
    if (!silent) break
  }
  return last
}

/**
 * Queries one server, without EDNS if it is too old for it. Such answers are not validated, so TLSA is not queried this
 * way.
 */
async function askOne(
  server: DnsServerAddress,
  question: DnsQuestion,
  timeout: number,
): Promise<DnsAnswer | NoDnsAnswer> {
  const answer = await askServer(server, question, timeout)
  const old = 'code' in answer && (answer.code === 'FORMERR' || answer.code === 'NOTIMP')
  if (!old || question.type === 'TLSA') return answer
  const plain = await askServer(server, question, timeout, true)
  return 'code' in plain ? { ...plain, secure: false } : plain
}

/** Evaluates a response to a question, and follows aliases. */
export function understand<T extends AskedType>(
  { answers, code, secure: authentic }: Pick<DnsAnswer, 'answers' | 'code' | 'secure'>,
  name: string,
  type: T,
): ValidatedAnswer<RecordOf<T>> {
  const at = (owner: string, wanted: AskedType): unknown[] =>
    answers.flatMap((each) =>
      each.type === wanted && clean(each.name) === owner ? [(each as { data: unknown }).data] : [],
    )
  let end = clean(name)
  let aliases = 0
  if (type !== 'CNAME')
    for (let [alias] = at(end, 'CNAME'); alias !== undefined && aliases <= MAX_ALIASES; [alias] = at(end, 'CNAME')) {
      end = clean(alias as string)
      aliases++
    }
  const known = { secure: authentic && aliases <= MAX_ALIASES, end }
  const read = READ[type] as (data: unknown) => RecordOf<T>
  const records = at(end, type).slice(0, MAX_RECORDS).map(read)
  if (records.length > 0) return { kind: 'found', records, ...known }
  return { kind: code === 'NXDOMAIN' ? 'nxdomain' : 'none', ...known }
}

/** How long an answer is cached: the TTL of its records, or of the zone's SOA for a negative answer (RFC 2308 §5). */
function lifetimeOf({ answers, authorities }: DnsAnswer): number {
  const negative = authorities.flatMap((each) => {
    if (each.type !== 'SOA') return []
    const { data, ttl = 0 } = each as { ttl?: number; data: { minimum?: number } }
    return [Math.min(ttl, data.minimum ?? 0)]
  })
  const ttls = answers.length > 0 ? answers.map((each) => ('ttl' in each ? (each.ttl ?? 0) : 0)) : negative
  return Math.min(LONGEST, Math.max(SHORTEST, (ttls.length > 0 ? Math.min(...ttls) : 0) * SECOND))
}

const sizeOf = (answer: ValidatedAnswer<unknown>): number =>
  answer.kind === 'found' ? JSON.stringify(answer.records).length : 0
