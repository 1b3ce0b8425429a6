// Mails the operator about what fails on this server (D66, D72, D194): once when it has lasted, once more after each
// day that it lasts, and once when it is over. The operator is `[notices] operator`, or else the first user.
import { DAY, HOUR, iso, MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { capital } from '../base/text.ts'
import type { Troubles } from '../base/trouble.ts'
import type { Reader, Store } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { addNotice, type NewNotice } from './notices.ts'

const AGAIN = DAY
/** What was told is over when it was not seen for so long: what comes and goes is told once. */
const CALM = HOUR
/** How far back the start looks for what was told and is not over. */
const REMEMBERED = 7 * DAY
/** A notice that could not be stored is mailed without a row, and tried so often. */
const UNSTORED_AGAIN = 5 * MINUTE

/** Something that fails, and has lasted long enough to be told. */
export interface LastingProblem {
  /** What of the server fails: "disk", "backup". What fails of the same thing is told in one notice. */
  thing: string
  /** Which of them, always in the same words: it is told by itself when it is new. */
  about: string
  /** A sentence. */
  says: string
  /** What to do, in sentences. */
  mend: string
  since: number
}

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
  /** What fails now. */
  problems: (now: number) => readonly LastingProblem[]
  /** What mails notices: `ring` wakes it for those that are stored. */
  notices: {
    ring(): void
    mailUnstored: (notice: { email: string; subject: string; text: string }) => Promise<boolean>
  }
}

/** What is known of a thing that fails, or that was told and is not over. */
interface KnownThing {
  since: number
  /** When it was last seen. */
  at: number
  /** What it was when it was last seen. */
  problems: readonly LastingProblem[]
  /** When it was last told; undefined: never. `text`: what was told that day. */
  told: { at: number; text: string } | undefined
}

export class OperatorNotices {
  readonly #deps: OperatorDeps
  #known: Map<string, KnownThing> | undefined
  #telling = false
  #unstoredAt = -Infinity

  constructor(deps: OperatorDeps) {
    this.#deps = deps
  }

  /** Called every second. When a notice cannot be stored, the next call tries again. One is told at a time. */
  look(): void {
    if (this.#telling) return
    const { clock, problems } = this.#deps
    const now = clock.now()
    const known = (this.#known ??= this.#remembered(now))
    for (const [thing, present] of Map.groupBy(problems(now), (problem) => problem.thing)) {
      const since = Math.min(...present.map((problem) => problem.since))
      const before = known.get(thing)
      known.set(thing, { since, told: undefined, ...before, at: now, problems: present })
    }
    for (const [thing, state] of known) {
      if (state.at === now && isNew(state, now)) return this.#tell(thing, state, now)
      if (state.at < now && (state.told === undefined || now - state.at >= CALM)) return this.#end(thing, state, now)
    }
  }

  /** What a former process told and did not call over. It is taken as seen at the start. */
  #remembered(now: number): Map<string, KnownThing> {
    const rows = this.#deps.store.all(
      raw<{ subject: string; text: string; created_at: number }>(
        'select subject, text, created_at from notices where created_at > ? order by key',
        [now - REMEMBERED],
      ),
    )
    const known = new Map<string, KnownThing>()
    for (const { created_at: at, subject, text } of rows) {
      const thing = this.#thingOf('Trouble', subject)
      const over = this.#thingOf('Over', subject)
      if (over !== undefined) known.delete(over)
      if (thing === undefined) continue
      const before = known.get(thing)
      const told = { at, text: (before?.told && at - before.told.at < AGAIN ? before.told.text : '') + text }
      known.set(thing, { since: before?.since ?? at, at: now, problems: [], told })
    }
    return known
  }

  #subject(kind: 'Trouble' | 'Over', thing: string): string {
    return `${kind} on ${this.#deps.config.hostname}: ${thing}`
  }

  #thingOf(kind: 'Trouble' | 'Over', subject: string): string | undefined {
    const lead = this.#subject(kind, '')
    return subject.startsWith(lead) ? subject.slice(lead.length) : undefined
  }

  #tell(thing: string, state: KnownThing, now: number): void {
    const text = `${paragraphsOf(state)}

"postrider doctor" shows how it stands. You are told again after each day that it lasts, and once when it is over.
`
    this.#send({ subject: this.#subject('Trouble', thing), text }, now, () => {
      const today = state.told && now - state.told.at < AGAIN ? state.told : { at: now, text: '' }
      state.told = { at: today.at, text: today.text + text }
    })
  }

  #end(thing: string, state: KnownThing, now: number): void {
    const { at, problems, since, told } = state
    const late = told ? '' : ' It could not be told before.'
    const text = `${problems.length === 0 ? '' : `${paragraphsOf(state)}\n\n`}It is over: it lasted from ${iso(since)} to ${iso(at)}.${late}\n`
    this.#send({ subject: this.#subject('Over', thing), text }, now, () => this.#known?.delete(thing))
  }

  #send(notice: { subject: string; text: string }, now: number, remember: () => void): void {
    this.#telling = true
    void this.#sent(notice, now)
      .then((told) => told && remember())
      .finally(() => (this.#telling = false))
  }

  /** Stores a notice for the operator; where that fails, mails it without a row. Resolves with whether it was told. */
  async #sent(notice: { subject: string; text: string }, now: number): Promise<boolean> {
    const { config, notices, store, troubles } = this.#deps
    try {
      const operator = operatorOf(store, config)
      if (!operator) return false
      const user = db.selectFrom('users').select('email').where('key', '=', operator.user_key)
      const email = operator.recipient ?? store.one(user).email
      try {
        await store.write((tx) => addNotice(tx, { ...operator, domain_key: null, ...notice }, now))
        notices.ring()
        return true
      } catch (thrown) {
        troubles.report('store', 'The database cannot be written.', thrown)
        if (now - this.#unstoredAt < UNSTORED_AGAIN) return false
        this.#unstoredAt = now
        return await notices.mailUnstored({ email, ...notice })
      }
    } catch (thrown) {
      troubles.report('store', 'The database cannot be read.', thrown)
      return false
    }
  }
}

/** Whether there is something to tell: never told, not within a day, or another failure than was told. */
const isNew = ({ problems, told }: KnownThing, now: number): boolean =>
  told === undefined || now - told.at >= AGAIN || problems.some(({ about }) => !told.text.includes(leadOf(about)))

const leadOf = (about: string): string => `${capital(about)}: `

const paragraphsOf = ({ problems }: Pick<KnownThing, 'problems'>): string =>
  problems
    .map(({ about, mend, says, since }) => `${leadOf(about)}${says} Seen since ${iso(since)}.\nWhat to do: ${mend}`)
    .join('\n\n')
