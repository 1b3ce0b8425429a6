// The sources of each day in few rows, so that an answer costs the same whatever strangers report (DV54). A day is
// summed once, when somebody asks; a change of its figures removes the sums (triggers of migration 0036), and another
// set of named networks makes them again. Whoever sums the days of a domain waits between two of them.
import { createHash, randomUUID } from 'node:crypto'
import { semaphore } from '../base/semaphore.ts'
import type { Reader, Store } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { knownSourcesOf, networksOf, type KnownSource } from './known.ts'
import type { OwnAddresses } from './own.ts'

/** The most rows of a day: addresses of named networks, and strangers by messages and by evidence. */
const MOST_NAMED = 200
const MOST_STRANGERS = 100
/** The most addresses of this server that sums are made for. */
const MOST_OWN = 64

export interface DaySource {
  /** '' for the sum of other strangers; a named network for the sum of its other addresses. */
  address: string
  addresses: number
  messages: number
  pass: number
  dkim_pass: number
  spf_pass: number
  none: number
  quarantine: number
  reject: number
  passed: number
  /** Messages that are evidence, those of them that pass, and those with a pass for some domain. */
  counted: number
  counted_pass: number
  counted_proven: number
  forwarded: number
  /** Both passed for our domain in one message at least. */
  both: number
}

const SUMS = [
  'addresses',
  'messages',
  'pass',
  'dkim_pass',
  'spf_pass',
  'none',
  'quarantine',
  'reject',
  'passed',
  'counted',
  'counted_pass',
  'counted_proven',
] as const

/** Adds the figures of one source to those of another. */
export function addTo(to: DaySource, from: DaySource): void {
  for (const name of SUMS) to[name] += from[name]
  to.forwarded = Math.max(to.forwarded, from.forwarded)
  to.both = Math.max(to.both, from.both)
}

/** What the days of a domain are summed for. */
export interface DaysOf {
  domainKey: number
  userKey: number
  known: readonly KnownSource[]
  own: ReadonlySet<string>
  /** A hash of the named networks. */
  names: string
  networkOf: (address: string) => string | undefined
}

export function daysOf(
  reader: Reader,
  { key: domainKey, user_key: userKey }: { key: number; user_key: number },
  { own, relays }: OwnAddresses,
): DaysOf {
  const known = knownSourcesOf(reader, domainKey)
  const names = createHash('sha256')
    .update(known.map(({ network }) => network).join(' '))
    .digest('base64url')
  return { domainKey, userKey, known, own: new Set([...own, ...relays]), names, networkOf: networksOf(known) }
}

const figuresOf = (of: string, where: string): string =>
  `select ${of} as address, sum(addresses) as addresses, sum(messages) as messages,
    sum(iif(dkim = 1 or spf = 1, messages, 0)) as pass,
    sum(iif(dkim = 1, messages, 0)) as dkim_pass, sum(iif(spf = 1, messages, 0)) as spf_pass,
    sum(iif(disposition = 'none', messages, 0)) as none, sum(iif(disposition = 'quarantine', messages, 0)) as quarantine,
    sum(iif(disposition = 'reject', messages, 0)) as reject, sum(iif(disposition = 'pass', messages, 0)) as passed,
    sum(evidence) as counted, sum(iif(dkim = 1 or spf = 1, evidence, 0)) as counted_pass,
    sum(iif(dkim_domains <> '' or spf_domains <> '', evidence, 0)) as counted_proven,
    max(forwarded) as forwarded, max(dkim = 1 and spf = 1) as both
  from dmarc_figures where domain_key = ? and day = ? and ${where} group by 1`
const OF_SOME = figuresOf('address', 'address in (select value from json_each(?))')
const OF_OTHERS = figuresOf("''", 'address not in (select value from json_each(?))')

type Ranked = Pick<DaySource, 'address' | 'messages' | 'counted'>
const byMessages = (one: Ranked, other: Ranked): number => other.messages - one.messages
const byEvidence = (one: Ranked, other: Ranked): number => other.counted - one.counted

/** Which addresses of a day have rows of their own, and of which named networks others are summed. */
interface DayPlan {
  kept: string[]
  /** The network of each address that is summed with others of it. */
  networks: Map<string, string>
  /** How many strangers are summed. */
  others: number
}

/** Looks at all addresses of a day: few octets of each. */
function planned(reader: Reader, { domainKey, networkOf, own }: DaysOf, day: number): DayPlan {
  const kept: string[] = []
  const networks = new Map<string, string>()
  const [strangers, named]: [Ranked[], (Ranked & { network: string })[]] = [[], []]
  const rows = reader.all(
    raw<Ranked>(
      `select address, sum(messages) as messages, sum(evidence) as counted from dmarc_figures
       where domain_key = ? and day = ? and address <> '' group by address`,
      [domainKey, day],
    ),
  )
  for (const row of rows) {
    const { address } = row
    const network = networkOf(address)
    if (own.has(address)) kept.push(address)
    else if (network === undefined) strangers.push(row)
    else if (address.includes('/')) networks.set(address, network)
    else named.push({ ...row, network })
  }
  named.sort(byMessages)
  for (const { address, network } of named.splice(MOST_NAMED)) networks.set(address, network)
  const most = new Set([
    ...strangers.sort(byMessages).slice(0, MOST_STRANGERS),
    ...strangers.toSorted(byEvidence).slice(0, MOST_STRANGERS),
  ])
  kept.push(...[...named, ...most].map(({ address }) => address))
  return { kept, networks, others: strangers.length - most.size }
}

/** The sums that a plan asks for. */
function summed(reader: Reader, { domainKey }: DaysOf, day: number, { kept, networks, others }: DayPlan): DaySource[] {
  const all = (sql: string, addresses: readonly string[]): DaySource[] =>
    reader
      .all(raw<DaySource>(sql, [domainKey, day, JSON.stringify(addresses)]))
      .map((each) => ({ ...each, addresses: Math.max(1, each.addresses) }))
  const sums = new Map<string, DaySource>()
  for (const source of all(OF_SOME, [...networks.keys()])) {
    const address = networks.get(source.address) ?? ''
    const sum = sums.get(address)
    if (sum) addTo(sum, source)
    else sums.set(address, { ...source, address })
  }
  const rest = all(OF_OTHERS, [...kept, ...networks.keys()]).map((each) => {
    // Rows without an address say how many they stand for; of others each has one.
    const beyond = each.addresses === 1 && others > 0 ? 0 : each.addresses
    return { ...each, addresses: beyond + others }
  })
  return [...all(OF_SOME, kept), ...sums.values(), ...rest]
}

const hasAll = (has: ReadonlySet<string>, wanted: ReadonlySet<string>): boolean =>
  [...wanted].every((each) => has.has(each))

/** The stored sums of a day, if they were made for these networks and addresses. */
function stored(reader: Reader, { domainKey, names, own }: DaysOf, day: number): DaySource[] | undefined {
  const row = reader.first(
    db.selectFrom('dmarc_days').selectAll().where('domain_key', '=', domainKey).where('day', '=', day),
  )
  if (!row || row.names !== names || !hasAll(new Set(JSON.parse(row.own) as string[]), own)) return undefined
  return JSON.parse(row.sources) as DaySource[]
}

/** The sources of a day at once. */
export const sourcesOfDay = (reader: Reader, of: DaysOf, day: number): DaySource[] =>
  stored(reader, of, day) ?? summed(reader, of, day, planned(reader, of, day))

/** One day is summed at a time, whoever asks. */
const inTurn = semaphore(1)

/** How often a day is summed that changes meanwhile. */
const MOST_TRIES = 3

/** Sums a day in two steps, and stores the sums when its figures did not change between them. */
async function storeDay(store: Store, of: DaysOf, day: number): Promise<void> {
  const { domainKey: domain_key, names, userKey: user_key } = of
  const before = store.first(
    db.selectFrom('dmarc_days').select('own').where('domain_key', '=', domain_key).where('day', '=', day),
  )
  // Who asks DNS, and who does not, ask for other addresses of this server: sums serve both.
  const all = new Set([...of.own, ...((before ? JSON.parse(before.own) : []) as string[])])
  const whole = { ...of, own: all.size <= MOST_OWN ? all : of.own }
  const row = { user_key, domain_key, day, names, own: JSON.stringify([...whole.own]) }
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const token = randomUUID()
    await store.write((tx) => tx.run(db.replaceInto('dmarc_days').values({ ...row, names: token, sources: '[]' })))
    const plan = planned(store, whole, day)
    await breath()
    const sources = JSON.stringify(summed(store, whole, day, plan))
    await breath()
    const made = db
      .updateTable('dmarc_days')
      .set({ names, sources })
      .where('domain_key', '=', domain_key)
      .where('day', '=', day)
      .where('names', '=', token)
    if ((await store.write((tx) => tx.run(made))).changes > 0) return
  }
}

/** Lets other work run. */
export const breath = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

/** The days from one on, at most two beyond today, that have figures. */
export const daysWithFigures = (reader: Reader, domainKey: number, since: number, today: number): number[] =>
  reader
    .all(
      raw<{ day: number }>(
        `select value as day from json_each(?) where exists
           (select 1 from dmarc_figures f where f.domain_key = ? and f.day = value) order by 1`,
        [JSON.stringify(Array.from({ length: today + 3 - since }, (_, at) => since + at)), domainKey],
      ),
    )
    .map(({ day }) => day)

/**
 * Who waited for the turn may find that another one did it. Where nothing can be written, the sums of a day are made
 * for each answer, which is slower and the same.
 */
async function storeOnce(store: Store, of: DaysOf, day: number): Promise<void> {
  if (stored(store, of, day) || store.failing !== undefined) return
  await storeDay(store, of, day).catch(() => undefined)
}

/** Has each of these days summed; other work can run between two of them. */
export async function sumDays(store: Store, of: DaysOf, days: readonly number[]): Promise<void> {
  for (const day of days) {
    if (stored(store, of, day) === undefined) await inTurn(() => storeOnce(store, of, day))
    await breath()
  }
}

/** Hands over the sources of each of these days; other work can run between two of them. */
export async function eachDay(
  store: Store,
  of: DaysOf,
  days: readonly number[],
  take: (day: number, sources: DaySource[]) => void,
): Promise<void> {
  for (const day of days) {
    let sources = stored(store, of, day)
    if (!sources) {
      await inTurn(() => storeOnce(store, of, day))
      sources = sourcesOfDay(store, of, day)
    }
    take(day, sources)
    await breath()
  }
}
