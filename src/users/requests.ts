// The last API requests of each token, so that a developer sees what an application sends: time, method, path, status
// and error code, without addresses and secrets. A request is noted in memory, after its own writes. Once per second
// the notes are written together, so that no request waits for them. A crash loses the notes of the last second.
import { z } from 'zod'
import { DAY, SECOND, type Cancel, type Clock } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Resource } from '../jsonapi/resource.ts'
import type { RequestNote } from '../jsonapi/routes.ts'
import type { Store, Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'

/** The maximum number of requests of a token that are kept, and how long. */
const KEPT = 1000
const LASTS = 30 * DAY
/** The requests of a token are deleted in groups, so that a note seldom has to look for those that are too many. */
const GROUP = 100
/** The maximum number of notes in memory. More requests within a second are not kept. */
const MOST_WAITING = 5000
/** The maximum length of a path in characters. */
const MOST_CHARACTERS = 200
/** The rows that one step of the hourly deletion reads. */
const AT_ONCE = 1000

/** Words of routes, and ids. Any other part of a path may be an address or a secret. */
const KNOWN = /^(?:[a-z][a-z-]{0,30}|v[34]|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/
/** Parameters whose values are shown, if they are words of the API or short numbers. */
const OPEN = /^(?:sort|include|page\[size\]|fields\[[a-z-]{1,30}\]|filter\[status\])$/
const SHORT_NUMBER = /^\d{1,3}$/
const PARAMETER = /^[a-z_]{1,30}(?:\[[a-z_-]{1,30}\])?$/
const MASK = '***'

/** The words that the API defines for values of parameters: attributes, relationships and statuses. */
export const wordsOf = (resources: readonly Pick<Resource<never>, 'attributes' | 'relationships'>[]): Set<string> =>
  new Set(
    resources.flatMap(({ attributes, relationships = {} }) => {
      const status = attributes['status']?.schema
      const statuses = status instanceof z.ZodEnum ? status.options.map(String) : []
      return [...Object.keys(attributes), ...Object.keys(relationships), ...statuses]
    }),
  )

/**
 * Returns a path and its query with a mask for every part that may name a person or contain a secret. `words`: the
 * words that a value may have.
 */
export function masked(path: string, query: Iterable<readonly [string, string]>, words: ReadonlySet<string>): string {
  const isOpen = (name: string, value: string): boolean =>
    OPEN.test(name) && value.split(/[,.]/).every((word) => words.has(word.replace(/^-/, '')) || SHORT_NUMBER.test(word))
  const parts = path.replace(/^\/api\/v1(?=\/)/, '').split('/')
  const shown = parts.map((part) => (part === '' || KNOWN.test(part) ? part : MASK)).join('/')
  const asked = [...query].map(
    ([name, value]) => `${PARAMETER.test(name) ? name : MASK}=${isOpen(name, value) ? value : MASK}`,
  )
  return `${shown}${asked.length === 0 ? '' : `?${asked.join('&')}`}`.slice(0, MOST_CHARACTERS)
}

type Note = [id: string, token: number, at: number, method: string, path: string, status: number, error: string | null]

export class TokenRequests {
  readonly #clock: Clock
  readonly #store: Store
  #waiting: Note[] = []
  #cancel: Cancel | undefined
  /** How many requests of a token were written since the last deletion. A token without a number may have too many. */
  readonly #written = new Map<number, number>()

  constructor({ clock, store }: { clock: Clock; store: Store }) {
    this.#clock = clock
    this.#store = store
  }

  /** Keeps a request in memory. It is written within a second. `words`: the words of the API (`wordsOf`). */
  note(token: number, { error, method, path, query, status }: RequestNote, words: ReadonlySet<string>): void {
    if (this.#waiting.length >= MOST_WAITING) return
    const at = this.#clock.now()
    this.#waiting.push([newId(at), token, at, method, masked(path, query, words), status, error ?? null])
    this.#cancel ??= this.#clock.wake(at + SECOND, () => this.flush())
  }

  /** Writes all notes soon, and before the store closes. Notes that cannot be written are lost. */
  flush(): void {
    this.#cancel?.()
    this.#cancel = undefined
    const rows = this.#waiting.splice(0)
    const tokens = Map.groupBy(rows, ([, token]) => token)
    for (const [token, own] of tokens)
      this.#store.writeSoon((tx) => this.#write(tx, token, own.slice(-KEPT))).catch(() => {})
  }

  #write(tx: Tx, token: number, rows: readonly Note[]): void {
    // The token may have been revoked since.
    tx.run(
      raw(
        `insert into token_requests (id, token_key, user_key, created_at, method, path, status, error)
           select value ->> 0, key_of.key, key_of.user_key, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
           from (select key, user_key from tokens where key = ?) as key_of, json_each(?)`,
        [token, JSON.stringify(rows)],
      ),
    )
    const written = (this.#written.get(token) ?? GROUP) + rows.length
    this.#written.set(token, written >= GROUP ? 0 : written)
    if (written < GROUP) return
    tx.run(
      raw(
        `delete from token_requests where key in (
           select key from token_requests where token_key = ? order by created_at desc, key desc limit -1 offset ${KEPT - GROUP})`,
        [token],
      ),
    )
  }
}

/** Deletes requests at the end of their retention time. Keys are in the order of time. */
export async function forgetRequests(store: Store, now: number): Promise<void> {
  for (let more = true; more;)
    more = await store.writeSoon((tx) => {
      const oldest = `select key, created_at from token_requests order by key limit ${AT_ONCE}`
      const { changes } = tx.run(
        raw(`delete from token_requests where key in (select key from (${oldest}) where created_at < ?)`, [
          now - LASTS,
        ]),
      )
      return changes === AT_ONCE
    })
}
