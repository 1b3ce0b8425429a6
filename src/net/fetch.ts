// Fetches a file from a URL that a stranger gave: an attachment (D28), a policy, a description of a program. Only https
// is allowed. The checked address is the address that the socket connects to, so that a DNS answer cannot change in
// between. A few redirects are followed, under the same rules. Time and size are limited.
import type { IncomingHttpHeaders } from 'node:http'
import { request } from 'node:https'
import { isIP } from 'node:net'
import { readFileSync } from 'node:fs'
import { rootCertificates } from 'node:tls'
import { SECOND } from '../base/clock.ts'
import { authoritiesOf, type Config } from '../base/config.ts'
import { codeOf, messageOf, Refusal } from '../base/errors.ts'
import { ForbiddenAddress, guardedLookup, type Guard } from './guard.ts'
import { allowPublicAnd } from '../base/network.ts'
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
  rules: FetchRules = RULES,
): Promise<Fetched | { refused: string }> {
  const { redirects, timeout } = rules
  const abort = AbortSignal.timeout(timeout)
  let url = text
  for (let hop = 0; hop <= redirects; hop++) {
    const target = checkUrl(deps, url)
    if (typeof target === 'string') return { refused: target }
    const answer = await get(deps, target, abort, rules).catch((thrown: unknown) => {
      if (thrown instanceof Refusal) throw thrown
      const late = `did not arrive within ${timeout / SECOND} s`
      return { refused: abort.aborted ? late : `cannot be fetched: ${codeOf(thrown) || messageOf(thrown)}` }
    })
    if (!('location' in answer)) return answer
    url = URL.canParse(answer.location, target) ? new URL(answer.location, target).href : answer.location
  }
  return { refused: redirects === 0 ? 'is redirected' : `is redirected more than ${redirects} times` }
}

/** The URL, or why it is refused before any connection. */
function checkUrl(deps: FetchDeps, text: string): URL | string {
  if (!URL.canParse(text)) return 'is not a URL'
  const url = new URL(text)
  if (url.protocol !== 'https:') return 'must be an https URL'
  if (url.username || url.password) return 'must not hold credentials'
  return addressRefused(deps, url) ?? url
}

/** Why a URL with an IP address in place of a name is refused, as the end of a sentence. */
export function addressRefused({ allowed }: FetchDeps, { hostname }: URL): string | undefined {
  // The URL parser writes every spelling of an IP address in one form.
  const literal = hostname.replace(/^\[|\]$/g, '')
  return isIP(literal) && !allowed(literal) ? `leads to an address that is not connected to (${literal})` : undefined
}

/** The options of every request to a foreign server: our look-up, no reused connection, our authorities. */
export const guardedRequest = (deps: FetchDeps, signal: AbortSignal) => ({
  signal,
  lookup: guardedLookup(deps),
  agent: false as const,
  ...(deps.caFile === '' ? {} : { ca: [...rootCertificates, readFileSync(deps.caFile, 'utf8')] }),
})

function get(
  deps: FetchDeps,
  url: URL,
  signal: AbortSignal,
  { arrived, maxBytes }: FetchRules,
): Promise<Fetched | { refused: string } | { location: string }> {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      url,
      {
        ...guardedRequest(deps, signal),
        headers: { 'user-agent': 'Postrider', accept: '*/*', 'accept-encoding': 'identity' },
      },
      (response) => {
        const { statusCode = 0, headers } = response
        const give = (value: Fetched | { refused: string } | { location: string }): void => {
          resolve(value)
          response.destroy()
        }
        if (statusCode >= 300 && statusCode < 400 && headers.location) return give({ location: headers.location })
        if (statusCode !== 200) return give({ refused: `was answered with status ${statusCode}` })
        const tooLarge = {
          refused: `is larger than ${maxBytes < MB ? `${maxBytes / 1024} KB` : `${maxBytes / MB} MB`}`,
        }
        if (Number(headers['content-length'] ?? 0) > maxBytes) return give(tooLarge)
        const chunks: Buffer[] = []
        let size = 0
        response.on('data', (chunk: Buffer) => {
          size += chunk.length
          try {
            arrived?.(chunk.length)
          } catch (thrown) {
            chunks.length = 0
            return void response.destroy(thrown as Error)
          }
          chunks.push(chunk)
          if (size > maxBytes) give(tooLarge)
        })
        response.on('error', reject)
        response.on('end', () =>
          response.complete
            ? give({ bytes: Buffer.concat(chunks), contentType: headers['content-type'], headers })
            : give({ refused: 'ended before it was whole' }),
        )
        return undefined
      },
    )
    outgoing.on('error', (error) =>
      error instanceof ForbiddenAddress ? resolve({ refused: error.message }) : reject(error),
    )
    outgoing.end()
  })
}
