// Fetches and keeps the metadata documents of OAuth clients (draft-ietf-oauth-client-id-metadata-document-02).
// Untrusted clients can make this server fetch a URL. Therefore the rules of net/fetch.ts apply, fetches are limited
// for each client address and in total, and a fetched document is kept for a while.
import type { IncomingHttpHeaders } from 'node:http'
import { DAY, HOUR, MINUTE, SECOND, type Clock } from '../../base/clock.ts'
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import { allowedNow } from './allowed.ts'
import { clientById, keepClient, type OauthClient, readDocument, urlFault } from './clients.ts'
import { RateLimit } from '../../base/rates.ts'
import { fetchFile, type FetchDeps } from '../../net/fetch.ts'
import type { Store } from '../../store/database.ts'

export interface ClientDocumentsDeps {
  store: Store
  clock: Clock
  log: Log
  config: Pick<Config, 'oauth'>
  fetching: FetchDeps
}

/** The draft recommends 5 KB at most (§8.7). Names in many languages and many redirect URIs may need more. */
const RULES = { timeout: 5 * SECOND, maxBytes: 16 * 1024, redirects: 0 }
/** The maximum number of fetches for one client address, as a burst and per hour. */
const FETCHES = 20
/** The maximum number of fetches at the same time, for all addresses together. */
const AT_ONCE = 10
/** The limits of the time for which a document is fresh. */
const SHORTEST = 5 * MINUTE
const LONGEST = DAY

/** The reason why there is no client, for the user, and the seconds until a retry can succeed. */
export interface NoClient {
  status: 400 | 429 | 503
  refused: string
  retryAfter?: number
}

export class ClientDocuments {
  readonly #deps: ClientDocumentsDeps
  readonly #rates: RateLimit
  readonly #underWay = new Map<string, Promise<OauthClient | NoClient>>()

  constructor(deps: ClientDocumentsDeps) {
    this.#deps = deps
    this.#rates = new RateLimit(deps.clock, FETCHES / (HOUR / SECOND), FETCHES)
  }

  /** Returns the client that the document at a URL describes. `asker` is the key of the rate limit. */
  async find(url: string, asker: string): Promise<OauthClient | NoClient> {
    const { clock, store } = this.#deps
    const fault = urlFault(url)
    if (fault !== undefined)
      return { status: 400, refused: `The client_id of the application that sent you here is not valid: it ${fault}.` }
    const kept = clientById(store, url)
    if (kept && clock.now() < (kept.fresh_until ?? 0)) return kept
    const same = this.#underWay.get(url)
    if (same) return same
    const { allowed, reset } = this.#rates.take(asker)
    if (!allowed)
      return { status: 429, refused: `Too many new applications. Try again in ${reset} s.`, retryAfter: reset }
    if (this.#underWay.size >= AT_ONCE)
      return {
        status: 503,
        refused: 'Too many client metadata documents are being fetched. Try again in a moment.',
        retryAfter: 5,
      }
    const fetched = this.#fetch(url).finally(() => this.#underWay.delete(url))
    this.#underWay.set(url, fetched)
    return fetched
  }

  async #fetch(url: string): Promise<OauthClient | NoClient> {
    const { clock, config, fetching, store } = this.#deps
    const fetched = await fetchFile(fetching, url, RULES)
    // Untrusted users must not learn which addresses and ports of other hosts this server can reach.
    if ('refused' in fetched) return this.#refuse(url, 'It could not be fetched.', `It ${fetched.refused}.`)
    if (!/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(fetched.contentType ?? ''))
      return this.#refuse(url, 'Its Content-Type must be application/json.')
    let body: unknown
    try {
      body = JSON.parse(fetched.bytes.toString())
    } catch {
      return this.#refuse(url, 'It is not JSON.')
    }
    const registration = readDocument(url, body, allowedNow(store, config))
    if ('error' in registration) return this.#refuse(url, registration.description)
    const until = clock.now() + freshFor(fetched.headers, clock.now())
    return (
      (await keepClient(this.#deps, { ...registration, id: url, until })) ?? {
        status: 503,
        refused: 'This server has reached its limit of registered applications. Contact the operator.',
      }
    )
  }

  /** A document with an error is not kept (§5.2). The log has the reason for the operator. */
  #refuse(url: string, sentence: string, reason = sentence): NoClient {
    this.#deps.log.warn('oauth_client_unusable', { url, reason })
    return { status: 400, refused: `The metadata of the application that sent you here is at ${url}. ${sentence}` }
  }
}

/** Milliseconds for which a document is fresh (RFC 9111 §4.2.1), within our own limits. */
function freshFor(headers: IncomingHttpHeaders, now: number): number {
  const control = headers['cache-control'] ?? ''
  const seconds = (name: string): number | undefined => {
    const [, digits] = new RegExp(`(?:^|[\\s,])${name}="?(\\d{1,12})`, 'i').exec(control) ?? []
    return digits === undefined ? undefined : Number(digits)
  }
  const expires = Date.parse(headers.expires ?? '') - (Date.parse(headers.date ?? '') || now)
  const said = (seconds('s-maxage') ?? seconds('max-age') ?? (expires || 0) / SECOND) - (Number(headers.age) || 0)
  const life = /\bno-(?:cache|store)\b/i.test(control) ? 0 : said * SECOND
  return Math.min(LONGEST, Math.max(SHORTEST, life))
}
