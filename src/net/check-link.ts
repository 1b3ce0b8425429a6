// Checks whether the server behind a link of a mail answers, under the rules of fetch.ts, but for http too. Only the
// status is read.
import { SECOND } from '../base/clock.ts'
import { codeOrMessage } from '../base/errors.ts'
import { guardedBy, type FetchDeps } from './fetch.ts'
import { ask, follow, type HttpsAnswer } from './https.ts'

/** Milliseconds for one link, redirects included. */
const TIMEOUT = 10 * SECOND
const REDIRECTS = 5
/** Answers of servers that do not support HEAD, or that accept only browsers. */
const ASK_AGAIN = new Set([400, 403, 404, 405, 501])

export interface Reached {
  ok: boolean
  /** The result as the end of a sentence. */
  words: string
}

/** Requests a link and reports the result. Never throws. */
export async function reach(deps: FetchDeps, link: string): Promise<Reached> {
  const { fault, status } = await follow(link, {
    redirects: REDIRECTS,
    timeout: TIMEOUT,
    wrong: wrongIn,
    ask: (url, signal) => statusOf(deps, url, signal),
  })
  if (!fault) return { ok: status < 400, words: `answers with status ${status}` }
  const { error, kind } = fault
  if (kind === 'refused') return { ok: false, words: error.message }
  const late = `does not answer within ${TIMEOUT / SECOND} s`
  return { ok: false, words: kind === 'late' ? late : `cannot be reached: ${codeOrMessage(error)}` }
}

function wrongIn(link: string): string | undefined {
  const url = URL.parse(link)
  if (!url) return 'is not a URL'
  return /^https?:$/.test(url.protocol) ? undefined : 'is not a link of the web'
}

async function statusOf(deps: FetchDeps, url: URL, signal: AbortSignal): Promise<HttpsAnswer> {
  const asking = {
    ...guardedBy(deps),
    signal,
    plain: true as const,
    headers: { 'user-agent': 'Mozilla/5.0 (compatible; Postrider)', accept: '*/*' },
    most: 0,
    wanted: () => false,
  }
  const answer = await ask(url, { ...asking, method: 'HEAD' })
  return ASK_AGAIN.has(answer.status) ? ask(url, asking) : answer
}
