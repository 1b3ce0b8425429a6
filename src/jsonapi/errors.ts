// The only code that answers errors. Every thrown value becomes an ErrorDocument (D6): a refusal with all its problems,
// or an internal error with only the id of its log entry.
import type { Clock } from '../base/clock.ts'
import { CODES, Refusal, type Code, type Problem, type Status } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { refusalOfTrouble } from '../base/local-trouble.ts'
import type { Log } from '../base/log.ts'
import type { Troubles } from '../base/trouble.ts'
import { JSON_API } from './media.ts'

export interface ErrorAnswer {
  status: Status
  headers: Record<string, string>
  body: string
}

export interface ErrorDeps {
  clock: Clock
  log: Log
  troubles: Pick<Troubles, 'report'>
}

/** The status and the first code of the answer to a thrown value. */
export function errorOf(thrown: unknown): { status: Status; error: Code } {
  const { code, status } = (thrown instanceof Refusal ? thrown : refusalOfTrouble(thrown)) ?? INTERNAL
  return { status, error: code }
}

const INTERNAL = { status: 500, code: 'internal' } as const

/**
 * The HTTP answer to a thrown value. A Refusal has its own status, a problem of this machine is 507 or 503 (D72), and
 * all other errors are 500 with a log entry.
 */
export function answerError(thrown: unknown, { clock, log, troubles }: ErrorDeps): ErrorAnswer {
  const refusal = thrown instanceof Refusal ? thrown : refusalOfTrouble(thrown)
  if (refusal !== undefined && refusal !== thrown)
    troubles.report('requests', 'Requests are rejected because of a problem on this server.', thrown)
  if (refusal) return respond(refusal.problems, refusal.status, refusal.headers, clock.now())
  const id = log.fault('http', thrown)
  const detail =
    'Internal error. Nothing was stored. Report the id of this error to the operator, who finds it in the log.'
  return respond([{ code: 'internal', detail }], 500, {}, clock.now(), id)
}

/** The maximum number of errors in a document. Code that finds problems one by one stops there. */
export const MAX_ERRORS = 100

function respond(
  problems: readonly Problem[],
  status: Status,
  headers: Record<string, string>,
  now: number,
  id?: string,
): ErrorAnswer {
  const errors = problems.slice(0, MAX_ERRORS).map(({ code, detail, source, meta }) => ({
    id: id ?? newId(now),
    status: String(CODES[code][0]),
    code,
    title: CODES[code][1],
    detail,
    ...(source ? { source } : {}),
    ...(meta ? { meta } : {}),
  }))
  return { status, headers: { 'Content-Type': JSON_API, ...headers }, body: JSON.stringify({ errors }) }
}
