// Mails the operator about problems of this server that last (D66, D72), each kind once a day. The operator is
// `[notices] operator`, or else the first user.
import { DAY, iso, MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Troubles } from '../base/trouble.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import { addNotice, type NewNotice } from './notices.ts'

/** A problem that ends within this time is not mailed. */
const LASTING = MINUTE
const AGAIN = DAY

/** The recipient of notices about the whole server; undefined when there is no user yet. */
export function operatorOf(
  reader: Reader,
  { notices }: Pick<Config, 'notices'>,
): Pick<NewNotice, 'user_key' | 'recipient'> | undefined {
  const users = db.selectFrom('users').select('key').orderBy('key').limit(1)
  if (notices.operator === '') {
    const first = reader.first(users)
    return first && { user_key: first.key }
  }
  const named = reader.first(users.where('email', '=', notices.operator))
  return named ? { user_key: named.key } : { user_key: null, recipient: notices.operator }
}

export interface OperatorDeps {
  store: Store
  clock: Clock
  troubles: Troubles
  config: Pick<Config, 'notices' | 'hostname'>
  /** Wakes the loop that mails notices. */
  ring: () => void
}

export class OperatorNotices {
  readonly #deps: OperatorDeps
  #telling = false

  constructor(deps: OperatorDeps) {
    this.#deps = deps
  }

  /**
   * Called every second. The problem may also prevent the writing of the notice; then the next call tries again. Only
   * one write runs at a time.
   */
  look(): void {
    const { clock, config, ring, store, troubles } = this.#deps
    const now = clock.now()
    const lasting = troubles.list().filter(({ since }) => now - since >= LASTING)
    if (this.#telling || lasting.length === 0) return
    const news = lasting
      .map((trouble) => ({ ...trouble, subject: `Trouble on ${config.hostname}: ${trouble.name}` }))
      .filter(({ subject }) => !toldSince(store, subject, now - AGAIN))
    const operator = operatorOf(store, config)
    if (news.length === 0 || !operator) return
    this.#telling = true
    store
      .write((tx) => {
        for (const { sentence, since, subject } of news) {
          const text = `${sentence}

It has been so since ${iso(since)}. The server goes on trying by itself; nothing that was accepted is lost. "postrider doctor" and the
log (event "trouble") say more. The same trouble is told once a day at most.
`
          addNotice(tx, { ...operator, domain_key: null, subject, text }, now)
        }
      })
      .then(ring)
      .catch((thrown: unknown) => troubles.report('store', 'The database cannot be written.', thrown))
      .finally(() => (this.#telling = false))
  }
}

/** Whether a notice with this subject was written after a time (ms). */
export function toldSince(reader: Reader, subject: string, since: number): boolean {
  const told = db.selectFrom('notices').select('key').where('subject', '=', subject).where('created_at', '>', since)
  return reader.first(told) !== undefined
}
