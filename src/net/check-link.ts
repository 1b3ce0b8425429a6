// Checks whether the server behind a link of a mail answers, under the rules of fetch.ts, but for http too. Only the
// status is read.
import { request as plainRequest } from 'node:http'
import { request } from 'node:https'
import { SECOND } from '../base/clock.ts'
import { codeOf, messageOf } from '../base/errors.ts'
import { addressRefused, guardedRequest, type FetchDeps } from './fetch.ts'

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
  const signal = AbortSignal.timeout(TIMEOUT)
  let url = link
  for (let hop = 0; hop <= REDIRECTS; hop++) {
    const target = URL.canParse(url) ? new URL(url) : undefined
    const wrong = target ? wrongIn(deps, target) : 'is not a URL'
    if (wrong !== undefined) return { ok: false, words: wrong }
    try {
      let answer = await ask(deps, target!, 'HEAD', signal)
      if (ASK_AGAIN.has(answer.status)) answer = await ask(deps, target!, 'GET', signal)
      const { location, status } = answer
      if (status < 300 || status >= 400 || location === undefined)
        return { ok: status < 400, words: `answers with status ${status}` }
      url = URL.canParse(location, target) ? new URL(location, target).href : location
    } catch (thrown) {
      const why = signal.aborted ? `does not answer within ${TIMEOUT / SECOND} s` : wordsOf(thrown)
      return { ok: false, words: why }
    }
  }
  return { ok: false, words: `is redirected more than ${REDIRECTS} times` }
}

const wordsOf = (thrown: unknown): string => `cannot be reached: ${codeOf(thrown) || messageOf(thrown)}`

function wrongIn(deps: FetchDeps, url: URL): string | undefined {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'is no link of the web'
  return addressRefused(deps, url)
}

function ask(
  deps: FetchDeps,
  url: URL,
  method: 'HEAD' | 'GET',
  signal: AbortSignal,
): Promise<{ status: number; location: string | undefined }> {
  return new Promise((resolve, reject) => {
    const options = {
      ...guardedRequest(deps, signal),
      method,
      headers: { 'user-agent': 'Mozilla/5.0 (compatible; Postrider)', accept: '*/*' },
    }
    const outgoing = (url.protocol === 'https:' ? request : plainRequest)(url, options, (response) => {
      resolve({ status: response.statusCode ?? 0, location: response.headers.location })
      response.destroy()
    })
    outgoing.on('error', reject).end()
  })
}
