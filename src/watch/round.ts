// The rounds of the watch: every `watch.every` all that is watched is asked about, spread over ten minutes, and what
// seems to have changed is asked again ten minutes later. `watch now` does the same at once, two seconds apart.
import { HOUR, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { serversOf, type Resolver } from '../net/resolver.ts'
import type { Store, Tx } from '../store/database.ts'
import { ListReader, type WatchAnswer } from './lists.ts'
import { askReverse } from './reverse.ts'
import { subjectsOf } from './subjects.ts'
import { silentLists, tellChanges, tellSilence } from './tell.ts'
import {
  beginRound,
  dueWatches,
  follow,
  forgetOld,
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
  /** Wakes the loop that mails notices. */
  noticed: () => void
}

/** The time between the two answers of `watch now`. */
const AT_ONCE = 2 * SECOND

const readerOf = ({ clock, config, resolver }: WatchDeps): ListReader =>
  new ListReader({ clock, resolver, servers: serversOf(config.dns.servers) })

/** Follows what is to be watched now, and chooses what the round asks about. */
function begin(tx: Tx, subjects: Awaited<ReturnType<typeof subjectsOf>>, now: number): WatchRow[][] {
  follow(tx, subjects, now)
  forgetOld(tx, now)
  return beginRound(tx, now)
}

/** Asks about all that is due of one subject. */
async function ask(
  { resolver }: WatchDeps,
  lists: ListReader,
  due: readonly WatchRow[],
): Promise<Map<number, WatchAnswer>> {
  const [one] = due.filter(({ kind }) => kind === 'reverse' || kind === 'forward')
  const names = one && askReverse(resolver, { address: one.subject, hostname: one.hostname })
  const found = due.map(async ({ key, kind, list, subject }): Promise<[number, WatchAnswer] | undefined> => {
    if (kind === 'blocklist' || kind === 'domain_list') return [key, await lists.ask(kind, list, subject)]
    const both = await names
    return both && [key, both[kind]]
  })
  return new Map((await Promise.all(found)).filter((each) => each !== undefined))
}

/** Writes the answers about one subject with what follows from them. */
async function write(deps: WatchDeps, answers: Map<number, WatchAnswer>, apart: number): Promise<void> {
  const { clock, noticed, store } = deps
  const told = await store.write((tx) => {
    const now = clock.now()
    const changed = [...answers].flatMap(([key, reading]) => settle(tx, key, reading, { apart, now }) ?? [])
    return tellChanges(tx, deps, changed, now)
  })
  if (told) noticed()
}

/** Asks about all that is watched, at most a round of it, and again two seconds later about what changed. */
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

/** One pass of `watch now`; each tests the lists for itself. */
async function answerAll(deps: WatchDeps, groups: readonly WatchRow[][]): Promise<void> {
  const lists = readerOf(deps)
  const answers = await Promise.all(groups.map((due) => ask(deps, lists, due)))
  for (const each of answers) await write(deps, each, AT_ONCE)
}

export class Watcher {
  readonly #deps: WatchDeps
  readonly #loop: Loop
  readonly #lists: ListReader
  readonly #stopped = Promise.withResolvers<undefined>()
  /** No round begins before this time: the start of the server has other work. */
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

  /** Questions under way are not waited for: they are asked again after the next start. */
  stop(): Promise<void> {
    this.#stopped.resolve(undefined)
    return this.#loop.stop()
  }

  async #run(now: number): Promise<number | null> {
    const { clock, config, noticed, resolver, store } = this.#deps
    const { every } = config.watch
    if (every === 0) return null
    if (now >= this.#nextRound(every)) {
      this.#notBefore = now + Math.min(every, HOUR)
      const subjects = await Promise.race([subjectsOf(store, config, resolver), this.#stopped.promise])
      if (!subjects) return null
      await store.write((tx) => spreadRound(tx, begin(tx, subjects, clock.now()), clock.now()))
    }
    for (const due of dueWatches(store, clock.now())) {
      const answers = await Promise.race([ask(this.#deps, this.#lists, due), this.#stopped.promise])
      if (!answers) return null
      await write(this.#deps, answers, SPREAD)
    }
    const silent = silentLists(store, clock.now())
    if (silent.length > 0 && (await store.write((tx) => tellSilence(tx, this.#deps, silent, clock.now())))) noticed()
    return Math.min(nextDue(store) ?? Infinity, this.#nextRound(every), clock.now() + HOUR)
  }

  #nextRound(every: number): number {
    return Math.max(this.#notBefore, (lastRound(this.#deps.store) ?? -Infinity) + every)
  }
}
