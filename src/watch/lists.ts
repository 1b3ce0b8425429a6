// Blocklists (RFC 5782): how they are asked, and what their answers mean. A list is believed only while its test
// entries are right (§5), and something is listed only by a code that the list documents (config/blocklists.toml):
// another answer says something about the question, or about who changes answers on the way (DV90).
import { parse } from 'smol-toml'
import { z } from 'zod'
import { configAsset } from '../base/assets.ts'
import { MINUTE, type Clock } from '../base/clock.ts'
import { must } from '../base/errors.ts'
import { reversed } from '../base/network.ts'
import type { Resolver, ResolverAnswer } from '../net/resolver.ts'
import type { WatchStatus } from '../states/watch.ts'

const code = z.strictObject({
  from: z.ipv4(),
  to: z.ipv4().optional(),
  name: z.string(),
  words: z.string().min(1),
  mend: z.string().min(1),
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

/** Reads the data of a file. Throws when it is malformed. */
export const parseLists = (text: string): z.output<typeof schema> => schema.parse(parse(text))

let shipped: z.output<typeof schema> | undefined
const data = (): z.output<typeof schema> => (shipped ??= parseLists(configAsset('blocklists.toml')))

/** What is known of a list; a list without an entry has the entry of all others. */
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

/** What a question found: a state, and the answer for which it stands. */
export interface WatchAnswer {
  state: WatchStatus
  answer: string
}

/** An IPv4 address as a number. */
const numberOf = (address: string): number => address.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0)

/** The code of a list that an answer is; undefined for an answer that is none of its codes. */
function codeOf({ codes }: ListData, answer: string): ListCode | undefined {
  const value = numberOf(answer)
  return codes.find(({ from, to = from }) => numberOf(from) <= value && value <= numberOf(to))
}

/** Whether an answer is about the question: outside of 127.0.0.0/8, 127.0.0.1, and 127.255.255.0/24 (DV90). */
const saysNothing = (answer: string): boolean =>
  !answer.startsWith('127.') || answer === '127.0.0.1' || answer.startsWith('127.255.255.')

/** The most codes of an answer that are kept: a list gives a few, and an answer of DNS may have thousands. */
const MOST_CODES = 16

/** Why an answer does not count. `resolver`: who asks for us, in words. */
function strangeness(list: ListData, answer: string, resolver: string): string {
  if (list.public.includes(answer)) return `refuses to answer (${answer}): ${resolver} is a big public resolver to it`
  const error = list.errors[answer]
  if (error !== undefined) return `refuses to answer (${answer}): ${error}`
  if (answer.startsWith('127.255.255.')) return `refuses to answer (${answer})`
  return `answers ${answer}, which is not one of its codes`
}

/** What an answer of a list means. A list that gives several addresses is believed only when it could give each. */
export function readAnswer(zone: string, answer: ResolverAnswer<string>, resolver: string): WatchAnswer {
  if (answer.kind === 'failed') return { state: 'unknown', answer: `no answer from ${zone} (${answer.reason})` }
  if (answer.kind !== 'found') return { state: 'clear', answer: '' }
  const list = listNamed(zone)
  const records = [...new Set(answer.records)].toSorted((one, other) => numberOf(one) - numberOf(other))
  const strange = records.find((each) => saysNothing(each) || codeOf(list, each) === undefined)
  if (strange !== undefined) return { state: 'unknown', answer: `${zone} ${strangeness(list, strange, resolver)}` }
  return { state: 'listed', answer: records.slice(0, MOST_CODES).join(', ') }
}

/** What an entry means and what to do about it, by the codes of the answer. */
export function meaningOf(zone: string, answer: string): { words: string; mend: string } {
  const list = listNamed(zone)
  const codes = new Set(answer.split(', ').flatMap((each) => codeOf(list, each) ?? []))
  return {
    words: [...codes].map(({ name, words }) => (name === '' ? words : `${name}: ${words}`)).join(' '),
    mend: [...new Set([...codes].map(({ mend }) => mend))].join(' '),
  }
}

/** The page of a list about an address or a domain; null when none is known. */
export const pageOfList = (zone: string, subject: string): string | null =>
  listNamed(zone).page.replace('{subject}', encodeURIComponent(subject)) || null

/** The test entries (RFC 5782 §5): every list has the first, and none the second. */
const TESTS = {
  blocklist: { has: '2.0.0.127', hasNot: '1.0.0.127', shown: ['127.0.0.2', '127.0.0.1'] },
  domain_list: { has: 'test', hasNot: 'invalid', shown: ['TEST', 'INVALID'] },
} as const

export type ListKind = keyof typeof TESTS

/** Questions that the test of one list costs. */
export const TEST_QUESTIONS = 2
/** How long a list is believed after its test; shorter than the time between two answers that count (DV91). */
export const BELIEVED = 5 * MINUTE

export interface ListReaderDeps {
  clock: Pick<Clock, 'now'>
  resolver: Pick<Resolver, 'a'>
  /** The addresses of the resolver that is asked. */
  servers: readonly string[]
}

/** The resolver in words: its name where it is a big public one, else its addresses. */
export function resolverNamed(servers: readonly string[]): string {
  const known = data().resolver.find(({ addresses }) => addresses.some((each) => servers.includes(each)))
  const shown = servers.join(', ') || 'the resolver of this machine'
  return known ? `${known.name} (${shown})` : servers.length === 0 ? shown : `the resolver (${shown})`
}

/** Asks lists, and tests each of them before it is believed. */
export class ListReader {
  readonly #deps: ListReaderDeps
  readonly #resolver: string
  readonly #tests = new Map<string, { until: number; doubt: Promise<WatchAnswer | undefined> }>()

  constructor(deps: ListReaderDeps) {
    this.#deps = deps
    this.#resolver = resolverNamed(deps.servers)
  }

  /** What a list says of an address or a domain. */
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

  /** Why a list cannot be believed; undefined when its test entries are right. */
  async #test(kind: ListKind, zone: string): Promise<WatchAnswer | undefined> {
    const { has, hasNot, shown } = TESTS[kind]
    const [one, other] = await Promise.all([this.#question(zone, has), this.#question(zone, hasNot)])
    if (one.state === 'unknown') return one
    // A list may answer 127.0.0.1 about its own test address: what is not "no entry" is wrong all the same.
    if (other.state === 'unknown') return other
    const wrong = [
      ...(one.state === 'listed' ? [] : [`lacks its test entry ${shown[0]}`]),
      ...(other.state === 'clear' ? [] : [`lists ${shown[1]}, which no list should`]),
    ]
    if (wrong.length === 0) return undefined
    return { state: 'unknown', answer: `${zone} ${wrong.join(' and ')}, so nothing it says is believed (RFC 5782)` }
  }
}
