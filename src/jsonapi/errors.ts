// The only code that answers errors. Every thrown value becomes an ErrorDocument (D6): a refusal with all its problems,
// an error of this program with only an id, which the log has too.
import type { Clock } from '../base/clock.ts'
import { CODES, Refusal, type Problem, type Status } from '../base/errors.ts'
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

/**
 * The HTTP answer to a thrown value: a Refusal has its own status, trouble of this machine gives 507 or 503 (D72), all
 * others give 500 and a line in the log.
 */
export function answerError(thrown: unknown, { clock, log, troubles }: ErrorDeps): ErrorAnswer {
  const refusal = thrown instanceof Refusal ? thrown : refusalOfTrouble(thrown)
  if (refusal !== undefined && refusal !== thrown)
    troubles.report('requests', 'Requests are refused because of trouble on this server.', thrown)
  if (refusal) return respond(refusal.problems, refusal.status, refusal.headers, clock.now())
  const id = log.fault('http', thrown)
  const detail =
    'Something went wrong on our side; nothing was accepted. The operator finds it in the log under this id.'
  return respond([{ code: 'internal', detail }], 500, {}, clock.now(), id)
}

/** The most errors in a document. Code that finds problems one by one stops there. */
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
