// The rounds of checks: every `watch.interval` everything is looked up, spread over ten minutes. A possible change is
// looked up again ten minutes later. `watch now` does the same at once, two seconds apart.
import { HOUR, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { must } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { serversOf, type Resolver } from '../net/resolver.ts'
import type { Store, Tx } from '../store/database.ts'
import { ListReader, type WatchAnswer } from './lists.ts'
import { askReverse } from './reverse.ts'
import { subjectsOf, type WatchedThing } from './subjects.ts'
import { tellChanges } from './tell.ts'
import {
  beginRound,
  dueWatches,
  follow,
  lastRound,
  listWatches,
  nextDue,
  settle,
  SPREAD,
  spreadRound,
  type WatchRow,
} from './watches.ts'

export interface WatchDeps {
  store: Store
  clock: Clock
  log: Log
  config: Config
  resolver: Resolver
  /** Wakes the loop that emails notices. */
  noticed: () => void
}

/** The time between the two answers of `watch now`. */
const AT_ONCE = 2 * SECOND

export const readerOf = ({ clock, config, resolver }: Pick<WatchDeps, 'clock' | 'config' | 'resolver'>): ListReader =>
  new ListReader({ clock, resolver, servers: serversOf(config.dns.servers) })

/** Updates the list of checks, and chooses those of the round. */
function begin(tx: Tx, subjects: Awaited<ReturnType<typeof subjectsOf>>, now: number): WatchRow[][] {
  follow(tx, subjects, now)
  return beginRound(tx, now)
}

/** Looks up everything that is due about one subject. */
export async function lookUp<T extends WatchedThing>(
  { resolver }: Pick<WatchDeps, 'resolver'>,
  lists: ListReader,
  due: readonly T[],
): Promise<(readonly [T, WatchAnswer])[]> {
  const [one] = due.filter(({ kind }) => kind === 'reverse' || kind === 'forward')
  const names = one && (await askReverse(resolver, { address: one.subject, hostname: one.hostname }))
  return Promise.all(
    due.map(async (thing) => {
      const { kind, list, subject } = thing
      if (kind === 'blocklist' || kind === 'domain_list') return [thing, await lists.ask(kind, list, subject)] as const
      return [thing, must(names, 'The PTR record')[kind]] as const
    }),
  )
}

/** Stores the answers about one subject, with the notices about changes. */
async function write(deps: WatchDeps, answers: readonly (readonly [WatchRow, WatchAnswer])[], apart: number) {
  const { clock, noticed, store } = deps
  const notified = await store.write((tx) => {
    const now = clock.now()
    const changed = answers.flatMap(([{ key }, reading]) => settle(tx, key, reading, { apart, now }) ?? [])
    return tellChanges(tx, deps, changed, now)
  })
  if (notified) noticed()
}

/** Looks up everything, at most one round, and changes again two seconds later. */
export async function watchNow(deps: WatchDeps): Promise<WatchRow[]> {
  const { clock, config, resolver, store } = deps
  const subjects = await subjectsOf(store, config, resolver)
  const all = await store.write((tx) => begin(tx, subjects, clock.now()))
  await answerAll(deps, all)
  await new Promise<void>((resolve) => clock.wake(clock.now() + AT_ONCE, resolve))
  const keys = new Set(all.flat().map(({ key }) => key))
  const seen = listWatches(store).filter((row) => row.seen !== null && keys.has(row.key))
  await answerAll(deps, [...Map.groupBy(seen, ({ subject }) => subject).values()])
  return listWatches(store)
}

/** One pass of `watch now`. Each pass tests the lists again. */
async function answerAll(deps: WatchDeps, groups: readonly WatchRow[][]): Promise<void> {
  const lists = readerOf(deps)
  const answers = await Promise.all(groups.map((due) => lookUp(deps, lists, due)))
  for (const each of answers) await write(deps, each, AT_ONCE)
}

export class Watcher {
  readonly #deps: WatchDeps
  readonly #loop: Loop
  readonly #lists: ListReader
  readonly #stopped = Promise.withResolvers<undefined>()
  /** No round starts before this time, because a starting server has other work. */
  #notBefore: number

  constructor(deps: WatchDeps) {
    const { clock, log } = deps
    this.#deps = deps
    this.#lists = readerOf(deps)
    this.#notBefore = clock.now() + SPREAD
    this.#loop = new Loop({ name: 'watch', clock, log, run: (now) => this.#run(now) })
  }

  start(): void {
    this.#loop.start()
  }

  ring(): void {
    this.#loop.ring()
  }

  /** Lookups in progress are abandoned, and repeated after the next start. */
  stop(): Promise<void> {
    this.#stopped.resolve(undefined)
    return this.#loop.stop()
  }

  async #run(now: number): Promise<number | null> {
    const { clock, config, resolver, store } = this.#deps
    const { interval } = config.watch
    if (interval === 0) return null
    if (now >= this.#nextRound(interval)) {
      this.#notBefore = now + Math.min(interval, HOUR)
      const subjects = await Promise.race([subjectsOf(store, config, resolver), this.#stopped.promise])
      if (!subjects) return null
      await store.write((tx) => spreadRound(tx, begin(tx, subjects, clock.now()), clock.now()))
    }
    for (const due of dueWatches(store, clock.now())) {
      const answers = await Promise.race([lookUp(this.#deps, this.#lists, due), this.#stopped.promise])
      if (!answers) return null
      await write(this.#deps, answers, SPREAD)
    }
    return Math.min(nextDue(store) ?? Infinity, this.#nextRound(interval), clock.now() + HOUR)
  }

  #nextRound(interval: number): number {
    return Math.max(this.#notBefore, (lastRound(this.#deps.store) ?? -Infinity) + interval)
  }
}
