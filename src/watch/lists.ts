// Queries blocklists and reads their answers (RFC 5782). A list is trusted only while its test entries are correct
// (§5), and only a documented code is a listing (config/blocklists.toml): another answer is about the query, or was
// changed on the way.
import { parse } from 'smol-toml'
import { z } from 'zod'
import { configAsset } from '../base/assets.ts'
import { MINUTE, type Clock } from '../base/clock.ts'
import { must } from '../base/errors.ts'
import { reversed } from '../base/network.ts'
import type { Resolver, ResolverAnswer } from '../net/resolver.ts'
import type { WatchStatus } from '../store/states/watch.ts'

const code = z.strictObject({
  from: z.ipv4(),
  to: z.ipv4().optional(),
  name: z.string(),
  words: z.string().min(1),
  fix: z.string().min(1),
})
const schema = z.strictObject({
  list: z.array(
    z.strictObject({
      zone: z.string().min(1),
      name: z.string(),
      page: z.string(),
      public: z.array(z.ipv4()).default([]),
      errors: z.record(z.ipv4(), z.string().min(1)).default({}),
      codes: z.array(code).min(1),
    }),
  ),
  resolver: z.array(z.strictObject({ name: z.string().min(1), addresses: z.array(z.string()).min(1) })),
})

type ListData = z.output<typeof schema>['list'][number]
type ListCode = z.output<typeof code>

/** Reads the data of a file. Throws if it is malformed. */
export const parseLists = (text: string): z.output<typeof schema> => schema.parse(parse(text))

let shipped: z.output<typeof schema> | undefined
const data = (): z.output<typeof schema> => (shipped ??= parseLists(configAsset('blocklists.toml')))

/** Returns the data of a list. A list without an entry uses the one for all others. */
export function listNamed(zone: string): ListData {
  const { list } = data()
  const own = list.find((each) => each.zone === zone)
  return (
    own ?? {
      ...must(
        list.find((each) => each.zone === '*'),
        'The entry for other lists',
      ),
      zone,
      name: zone,
    }
  )
}

/** The result of a lookup: a state, and the DNS answer. */
export interface WatchAnswer {
  state: WatchStatus
  answer: string
}

/** An IPv4 address as a number. */
const numberOf = (address: string): number => address.split('.').reduce((sum, byte) => sum * 256 + Number(byte), 0)

/** Returns the code of a list for an answer, or undefined if the list does not document it. */
function codeOf({ codes }: ListData, answer: string): ListCode | undefined {
  const value = numberOf(answer)
  return codes.find(({ from, to = from }) => numberOf(from) <= value && value <= numberOf(to))
}

/** Whether an answer is about the query: outside of 127.0.0.0/8, 127.0.0.1, and 127.255.255.0/24. */
const saysNothing = (answer: string): boolean =>
  !answer.startsWith('127.') || answer === '127.0.0.1' || answer.startsWith('127.255.255.')

/** The most codes of an answer that are kept: a list returns a few, and a DNS answer can have thousands. */
const MOST_CODES = 16

/** Returns why an answer is ignored. `resolver`: the DNS server, as text. */
function strangeness(list: ListData, answer: string, resolver: string): string {
  if (list.public.includes(answer))
    return `rejects the query (${answer}): it blocks ${resolver}, a large public resolver`
  const error = list.errors[answer]
  if (error !== undefined) return `rejects the query (${answer}): ${error}`
  if (answer.startsWith('127.255.255.')) return `rejects the query (${answer})`
  return `returned ${answer}, which is not a known code`
}

/** Reads an answer of a list. An answer with several addresses counts only if the list documents each of them. */
export function readAnswer(zone: string, answer: ResolverAnswer<string>, resolver: string): WatchAnswer {
  if (answer.kind === 'failed') return { state: 'unknown', answer: `no answer from ${zone} (${answer.reason})` }
  if (answer.kind !== 'found') return { state: 'clear', answer: '' }
  const list = listNamed(zone)
  const records = [...new Set(answer.records)].toSorted((one, other) => numberOf(one) - numberOf(other))
  const strange = records.find((each) => saysNothing(each) || codeOf(list, each) === undefined)
  if (strange !== undefined) return { state: 'unknown', answer: `${zone} ${strangeness(list, strange, resolver)}` }
  return { state: 'listed', answer: records.slice(0, MOST_CODES).join(', ') }
}

/** Returns the meaning of a listing and the fix, by the codes of the answer. */
export function meaningOf(zone: string, answer: string): { words: string; fix: string } {
  const list = listNamed(zone)
  const codes = new Set(answer.split(', ').flatMap((each) => codeOf(list, each) ?? []))
  return {
    words: [...codes].map(({ name, words }) => (name === '' ? words : `${name}: ${words}`)).join(' '),
    fix: [...new Set([...codes].map(({ fix }) => fix))].join(' '),
  }
}

/** Returns the page of a list about an address or a domain, or null if unknown. */
export const pageOfList = (zone: string, subject: string): string | null =>
  listNamed(zone).page.replace('{subject}', encodeURIComponent(subject)) || null

/** The test entries (RFC 5782 §5): every list must contain the first, and must not contain the second. */
const TESTS = {
  blocklist: { has: '2.0.0.127', hasNot: '1.0.0.127', shown: ['127.0.0.2', '127.0.0.1'] },
  domain_list: { has: 'test', hasNot: 'invalid', shown: ['TEST', 'INVALID'] },
} as const

export type ListKind = keyof typeof TESTS

/** The number of queries for the test of one list. */
export const TEST_QUESTIONS = 2
/** How long a list is trusted after its test. Shorter than the time between two answers that count. */
export const BELIEVED = 5 * MINUTE

export interface ListReaderDeps {
  clock: Pick<Clock, 'now'>
  resolver: Pick<Resolver, 'a'>
  /** The addresses of the DNS servers in use. */
  servers: readonly string[]
}

/** Returns the name of the resolver if it is a large public one, or its addresses. */
export function resolverNamed(servers: readonly string[]): string {
  const known = data().resolver.find(({ addresses }) => addresses.some((each) => servers.includes(each)))
  const shown = servers.join(', ') || 'the system resolver'
  return known ? `${known.name} (${shown})` : servers.length === 0 ? shown : `the resolver (${shown})`
}

/** Queries lists, and tests each of them before it is trusted. */
export class ListReader {
  readonly #deps: ListReaderDeps
  readonly #resolver: string
  readonly #tests = new Map<string, { until: number; doubt: Promise<WatchAnswer | undefined> }>()

  constructor(deps: ListReaderDeps) {
    this.#deps = deps
    this.#resolver = resolverNamed(deps.servers)
  }

  /** Returns the result of a list for an address or a domain. */
  async ask(kind: ListKind, zone: string, subject: string): Promise<WatchAnswer> {
    const name = kind === 'blocklist' ? reversed(subject) : subject
    const [doubt, said] = await Promise.all([this.#doubtOf(kind, zone), this.#question(zone, name)])
    return doubt ?? said
  }

  async #question(zone: string, name: string): Promise<WatchAnswer> {
    return readAnswer(zone, await this.#deps.resolver.a(`${name}.${zone}`), this.#resolver)
  }

  #doubtOf(kind: ListKind, zone: string): Promise<WatchAnswer | undefined> {
    const now = this.#deps.clock.now()
    const key = `${kind} ${zone}`
    const known = this.#tests.get(key)
    if (known && now < known.until) return known.doubt
    const doubt = this.#test(kind, zone)
    this.#tests.set(key, { until: now + BELIEVED, doubt })
    return doubt
  }

  /** Returns why a list cannot be trusted, or undefined if its test entries are correct. */
  async #test(kind: ListKind, zone: string): Promise<WatchAnswer | undefined> {
    const { has, hasNot, shown } = TESTS[kind]
    const [one, other] = await Promise.all([this.#question(zone, has), this.#question(zone, hasNot)])
    if (one.state === 'unknown') return one
    // A list can return 127.0.0.1 for its own test address: any answer but "no entry" is wrong.
    if (other.state === 'unknown') return other
    const wrong = [
      ...(one.state === 'listed' ? [] : [`does not list its test entry ${shown[0]}`]),
      ...(other.state === 'clear' ? [] : [`lists ${shown[1]}, which must never be listed`]),
    ]
    if (wrong.length === 0) return undefined
    return { state: 'unknown', answer: `${zone} ${wrong.join(' and ')}, so its answers are ignored (RFC 5782)` }
  }
}
