// Fetches a file from the URL of an untrusted user: an attachment (D28), a policy, a description of a program. Only
// https is allowed. A few redirects are followed, under the same rules. Time and size are limited.
import type { IncomingHttpHeaders } from 'node:http'
import { SECOND } from '../base/clock.ts'
import { authoritiesOf, type Config } from '../base/config.ts'
import { ForbiddenAddress, type Guard } from './guard.ts'
import { ask, follow, httpsUrlFault, wordsFor, type HttpsFault, type HttpsAnswer } from './https.ts'
import { allowPublicAnd } from '../base/network.ts'
import { readAuthorities } from '../base/tls.ts'
import type { Resolver } from './resolver.ts'

export interface FetchDeps extends Guard {
  /** Extra certificate authorities (PEM file), or ''. */
  caFile: string
}

/** The dependencies of a fetch, from the server's configuration. */
export const fetchingOf = ({ config, resolver }: { config: Config; resolver: Resolver }): FetchDeps => ({
  resolver,
  allowed: allowPublicAnd(config.network.allow_private),
  caFile: authoritiesOf(config),
})

export interface Fetched {
  bytes: Buffer
  contentType: string | undefined
  headers: IncomingHttpHeaders
}

export interface FetchRules {
  /** Milliseconds for the whole fetch, redirects included. */
  timeout: number
  maxBytes: number
  redirects: number
  /** Called with a number of bytes before they are kept. Throws to stop the download. */
  arrived?: (bytes: number) => void
}

const MB = 1024 * 1024
/** The rules for attachments. */
export const RULES: FetchRules = { timeout: 10 * SECOND, maxBytes: 30 * MB, redirects: 3 }

/**
 * Returns the bytes behind a URL, or the reason for a failure as the end of a sentence ("is not a URL"). Only errors of
 * `arrived` are thrown.
 */
export async function fetchFile(
  deps: FetchDeps,
  text: string,
  { arrived, maxBytes, redirects, timeout }: FetchRules = RULES,
): Promise<Fetched | { refused: string }> {
  const { fault, headers, octets, status } = await follow(text, {
    redirects,
    timeout,
    wrong: httpsUrlFault,
    ask: (url, signal) =>
      ask(url, {
        ...guardedBy(deps),
        signal,
        headers: { 'user-agent': 'Postrider', accept: '*/*', 'accept-encoding': 'identity' },
        most: maxBytes,
        wanted: (head) => head.status === 200,
        arrived,
      }),
  })
  if (fault) return { refused: refusedWords(fault, maxBytes, timeout) }
  if (status !== 200) return { refused: `returned status ${status}` }
  return { bytes: octets, contentType: headers['content-type'], headers }
}

function refusedWords(fault: HttpsFault, maxBytes: number, timeout: number): string {
  const { error, kind } = fault
  if (kind === 'refused' || error instanceof ForbiddenAddress) return error.message
  if (kind === 'late') return `did not arrive within ${timeout / SECOND} s`
  if (kind === 'large') return `is larger than ${maxBytes < MB ? `${maxBytes / 1024} KB` : `${maxBytes / MB} MB`}`
  return `could not be fetched: ${wordsFor(fault)}`
}

/** The options of every request to the URL of an untrusted user. */
export const guardedBy = (deps: FetchDeps) => ({
  guard: deps,
  authorities: () => readAuthorities(deps.caFile),
})

// Checks whether the server behind a link of a message answers, under the rules of fetch.ts, but for http too. Only the
// status is read.

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
  return { ok: false, words: kind === 'late' ? late : `cannot be reached: ${wordsFor(fault)}` }
}

function wrongIn(link: string): string | undefined {
  const url = URL.parse(link)
  if (!url) return 'is not a URL'
  return /^https?:$/.test(url.protocol) ? undefined : 'is not an http or https URL'
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
