// Fetches a file from a URL that a stranger gave: an attachment (D28), a policy, a description of a program. Only https
// is allowed. A few redirects are followed, under the same rules. Time and size are limited.
import type { IncomingHttpHeaders } from 'node:http'
import { SECOND } from '../base/clock.ts'
import { authoritiesOf, type Config } from '../base/config.ts'
import { codeOrMessage } from '../base/errors.ts'
import { ForbiddenAddress, type Guard } from './guard.ts'
import { ask, follow, httpsUrlFault, type HttpsFault } from './https.ts'
import { allowPublicAnd } from '../base/network.ts'
import { readAuthorities } from '../base/tls.ts'
import type { Resolver } from './resolver.ts'

export interface FetchDeps extends Guard {
  /** Extra certificate authorities (PEM file), '' for none. */
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
  /** Is told of octets before they are kept; throws when no more may be kept. */
  arrived?: (octets: number) => void
}

const MB = 1024 * 1024
/** The rules for attachments. */
export const RULES: FetchRules = { timeout: 10 * SECOND, maxBytes: 30 * MB, redirects: 3 }

/**
 * The bytes behind a URL, or the reason for a failure as the end of a sentence ("is not a URL"). Throws only what
 * `arrived` throws.
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
  if (status !== 200) return { refused: `was answered with status ${status}` }
  return { bytes: octets, contentType: headers['content-type'], headers }
}

function refusedWords({ error, kind }: HttpsFault, maxBytes: number, timeout: number): string {
  if (kind === 'refused' || error instanceof ForbiddenAddress) return error.message
  if (kind === 'late') return `did not arrive within ${timeout / SECOND} s`
  if (kind === 'large') return `is larger than ${maxBytes < MB ? `${maxBytes / 1024} KB` : `${maxBytes / MB} MB`}`
  return `cannot be fetched: ${codeOrMessage(error)}`
}

/** The options of every request to a URL that a stranger gave. */
export const guardedBy = (deps: FetchDeps) => ({
  guard: deps,
  authorities: () => readAuthorities(deps.caFile),
})
