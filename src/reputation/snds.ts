// Fetches the table of Microsoft's SNDS once a day (DV81), from the address with a key that the operator's file holds.
// The address is a secret: no line of the log names it.
import { DAY, HOUR, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { messageOf } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { readNamed } from '../base/plain-file.ts'
import { fetchFile, type FetchDeps } from '../net/fetch.ts'
import type { Store } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { MOST_OCTETS } from './evidence-csv.ts'
import { importSnds } from './evidence.ts'

/** After trouble it is tried again. */
const AGAIN = HOUR
const RULES = { timeout: 60 * SECOND, maxBytes: MOST_OCTETS, redirects: 0 }
const NAME = 'the answer of SNDS'

export interface SndsDeps {
  store: Store
  clock: Clock
  log: Log
  fetching: FetchDeps
  config: Pick<Config, 'evidence'>
}

export class SndsFetcher {
  readonly #deps: SndsDeps
  readonly #loop: Loop
  #fetchedAt: number | undefined

  constructor(deps: SndsDeps) {
    this.#deps = deps
    this.#loop = new Loop({ name: 'snds', clock: deps.clock, log: deps.log, run: (now) => this.#run(now) })
  }

  start(): void {
    this.#loop.start()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #run(now: number): Promise<number | null> {
    const { config, log, store } = this.#deps
    if (config.evidence.snds_url_file === '') return null
    // A server that starts often asks no more often.
    const last = this.#fetchedAt ?? lastImport(store)
    if (last !== null && now - last < DAY) return last + DAY
    const fetched = await this.#fetch(now)
    if (typeof fetched === 'string') {
      log.warn('snds not fetched', { reason: fetched })
      return now + AGAIN
    }
    this.#fetchedAt = now
    log.info('snds fetched', { rows: fetched.rows, skipped: fetched.skipped })
    return now + DAY
  }

  /** Fetches and imports the table; a text: why that was not possible. */
  async #fetch(now: number): Promise<{ rows: number; skipped: number } | string> {
    const { config, fetching, store } = this.#deps
    try {
      const url = readNamed(config.evidence.snds_url_file).toString().trim()
      const fetched = await fetchFile(fetching, url, RULES)
      if ('refused' in fetched) return `it ${fetched.refused}`
      // Without mail in the last days the answer is empty.
      if (fetched.bytes.toString('latin1').trim() === '') return { rows: 0, skipped: 0 }
      return await importSnds(store, { octets: fetched.bytes, name: NAME }, now)
    } catch (thrown) {
      return messageOf(thrown)
    }
  }
}

const lastImport = (store: Store): number | null =>
  store.one(raw<{ at: number | null }>('select max(imported_at) as at from snds_rows')).at
