// Sends the operator alert emails about problems of this server (D66, D72, D194): one when a problem has lasted, a
// reminder each day, and one when it is resolved. The operator is `[notices] operator`, otherwise the first operator.
import { DAY, HOUR, iso, MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { capital } from '../base/text.ts'
import type { Troubles } from '../base/trouble.ts'
import type { LastingFinding } from '../parts/findings/finding.ts'
import type { Reader, Store } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { addNotice } from './notices.ts'

const AGAIN = DAY
/** A problem is resolved if it was not found for this long, so that an intermittent one causes one alert. */
const CALM = HOUR
/** How far back a start looks for alerts without a resolution. */
const REMEMBERED = 7 * DAY
/** An alert that could not be stored is emailed without a row, and retried at this interval. */
const UNSTORED_AGAIN = 5 * MINUTE

/** The recipient of alerts about the whole server: as configured, or the first operator. Undefined without a user. */
export function operatorOf(
  reader: Reader,
  { notices }: Pick<Config, 'notices'>,
): { user_key: number | null; recipient: string } | undefined {
  const users = db.selectFrom('users').select(['key as user_key', 'email as recipient']).orderBy('key').limit(1)
  if (notices.operator === '') return reader.first(users.where('operator', '=', 1))
  return reader.first(users.where('email', '=', notices.operator)) ?? { user_key: null, recipient: notices.operator }
}

export interface OperatorDeps {
  store: Store
  clock: Clock
  troubles: Troubles
  config: Pick<Config, 'notices' | 'hostname'>
  /** The problems that have lasted long enough for an alert. */
  problems: () => readonly LastingFinding[]
  /** The loop that emails notifications. `ring` wakes it for stored ones. */
  notices: {
    ring(): void
    mailUnstored: (notice: { email: string; subject: string; text: string }) => Promise<boolean>
  }
}

interface AlertState {
  since: number
  /** When a problem was last found. */
  at: number
  problems: readonly LastingFinding[]
  /** The time of the last alert, or undefined. `text` contains all alerts of that day. */
  sent: { at: number; text: string } | undefined
}

export class OperatorNotices {
  readonly #deps: OperatorDeps
  #known: Map<string, AlertState> | undefined
  #sending = false
  #unstoredAt = -Infinity

  constructor(deps: OperatorDeps) {
    this.#deps = deps
  }

  /** Called every second. Sends at most one alert at a time. If it cannot be stored, the next call retries. */
  look(): void {
    if (this.#sending) return
    const { clock, problems } = this.#deps
    const now = clock.now()
    const known = (this.#known ??= this.#remembered(now))
    for (const [alert, present] of Map.groupBy(problems(), (problem) => problem.alert.subject)) {
      const since = Math.min(...present.map((problem) => problem.since))
      const before = known.get(alert)
      known.set(alert, { since, sent: undefined, ...before, at: now, problems: present })
    }
    for (const [alert, state] of known) {
      if (state.at === now && isNew(state, now)) return this.#sendProblem(alert, state, now)
      if (state.at < now && (state.sent === undefined || now - state.at >= CALM))
        return this.#sendResolved(alert, state, now)
    }
  }

  /** Returns the alerts of an earlier process without a resolution. They count as found at the start. */
  #remembered(now: number): Map<string, AlertState> {
    const rows = this.#deps.store.all(
      raw<{ subject: string; text: string; created_at: number }>(
        'select subject, text, created_at from notices where created_at > ? order by key',
        [now - REMEMBERED],
      ),
    )
    const known = new Map<string, AlertState>()
    for (const { created_at: at, subject, text } of rows) {
      // The second name of each is from 0.2.0.
      const alert = this.#alertIn('Problem', subject) ?? this.#alertIn('Trouble', subject)
      const over = this.#alertIn('Resolved', subject) ?? this.#alertIn('Over', subject)
      if (over !== undefined) known.delete(over)
      if (alert === undefined) continue
      const before = known.get(alert)
      const sent = { at, text: (before?.sent && at - before.sent.at < AGAIN ? before.sent.text : '') + text }
      known.set(alert, { since: before?.since ?? at, at: now, problems: [], sent })
    }
    return known
  }

  #subject(kind: 'Problem' | 'Resolved' | 'Trouble' | 'Over', alert: string): string {
    return `${kind} on ${this.#deps.config.hostname}: ${alert}`
  }

  #alertIn(kind: 'Problem' | 'Resolved' | 'Trouble' | 'Over', subject: string): string | undefined {
    const lead = this.#subject(kind, '')
    return subject.startsWith(lead) ? subject.slice(lead.length) : undefined
  }

  #sendProblem(alert: string, state: AlertState, now: number): void {
    const text = `${paragraphsOf(state)}

Run "postrider doctor" for the current state. You receive a reminder every day until the problem is resolved.
`
    this.#send({ subject: this.#subject('Problem', alert), text }, now, () => {
      const today = state.sent && now - state.sent.at < AGAIN ? state.sent : { at: now, text: '' }
      state.sent = { at: today.at, text: today.text + text }
    })
  }

  #sendResolved(alert: string, state: AlertState, now: number): void {
    const { at, problems, since, sent } = state
    const late = sent ? '' : ' This notification could not be sent earlier.'
    const text = `${problems.length === 0 ? '' : `${paragraphsOf(state)}\n\n`}Resolved. The problem lasted from ${iso(since)} to ${iso(at)}.${late}\n`
    this.#send({ subject: this.#subject('Resolved', alert), text }, now, () => this.#known?.delete(alert))
  }

  #send(notice: { subject: string; text: string }, now: number, remember: () => void): void {
    this.#sending = true
    void this.#storeOrMail(notice, now)
      .then((sent) => sent && remember())
      .finally(() => (this.#sending = false))
  }

  /** Stores an alert for the operator. If that fails, emails it without a row. Resolves with whether it was sent. */
  async #storeOrMail(notice: { subject: string; text: string }, now: number): Promise<boolean> {
    const { config, notices, store, troubles } = this.#deps
    try {
      const operator = operatorOf(store, config)
      if (!operator) return false
      try {
        await store.write((tx) => addNotice(tx, { ...operator, domain_key: null, ...notice }, now))
        notices.ring()
        return true
      } catch (thrown) {
        troubles.report('store', 'The database is not writable.', thrown)
        if (now - this.#unstoredAt < UNSTORED_AGAIN) return false
        this.#unstoredAt = now
        return await notices.mailUnstored({ email: operator.recipient, ...notice })
      }
    } catch (thrown) {
      troubles.report('store', 'The database is not readable.', thrown)
      return false
    }
  }
}

/** Whether to send an alert: the first one, a daily reminder, or one about a new failure. */
const isNew = ({ problems, sent }: AlertState, now: number): boolean =>
  sent === undefined || now - sent.at >= AGAIN || problems.some((problem) => !sent.text.includes(leadOf(problem)))

const leadOf = ({ id, subject }: LastingFinding): string => `${capital(id)}${subject === '' ? '' : ` (${subject})`}: `

const paragraphsOf = ({ problems }: Pick<AlertState, 'problems'>): string =>
  problems
    .map((problem) => `${leadOf(problem)}${problem.summary}. Since ${iso(problem.since)}.\nFix: ${problem.fix}`)
    .join('\n\n')
