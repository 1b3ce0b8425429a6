// The checks before every route: the caller's token, and the rate limit of that token (specification "Authentication",
// RFC 6750, D8).
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { counters } from '../base/counters.ts'
import { refuse, type Refusal } from '../base/errors.ts'
import type { RateLimit } from '../base/rates.ts'
import { clientAddress, type ClientFacts } from '../net/client-address.ts'
import { findAccess } from './oauth/grants.ts'
import { wordsOf, type TokenRequests } from './requests.ts'
import { findToken, limitedKey, noteUse, scopesOf } from './tokens.ts'
import type { Gate } from '../jsonapi/routes.ts'
import type { Caller, Resource } from '../jsonapi/resource.ts'
import type { Store } from '../store/database.ts'

interface GateDeps {
  store: Store
  clock: Clock
  /** Requests of each token, by HTTP and SMTP together. */
  rates: RateLimit
  config: Pick<Config, 'http'>
  requests: Pick<TokenRequests, 'note'>
}

export function createGate(
  { clock, config, rates, requests, store }: GateDeps,
  resources: readonly Resource<never>[],
): Gate {
  const words = wordsOf(resources)
  return {
    authenticate: ({ env, header }) => ({
      ...callerOf(store, header('authorization'), clock.now()),
      via: 'api',
      address: () => clientAddress({ env: env as ClientFacts['env'], req: { header } }, config.http),
    }),
    admit({ tokenId }) {
      if (rates.isOff) return { headers: {} }
      const { allowed, limit, remaining, reset } = rates.take(tokenId)
      const headers = {
        'RateLimit-Limit': String(limit),
        'RateLimit-Remaining': String(remaining),
        'RateLimit-Reset': String(reset),
      }
      if (allowed) return { headers }
      const refusal = refuse('rate_limited', `Too many requests. Try again in ${reset} s.`, undefined, {
        'Retry-After': String(reset),
      })
      return { headers, refusal }
    },
    note({ maker }, request) {
      if (maker) requests.note(maker.key, request, words)
    },
  }
}

/** The caller that the bearer token of a request names. Throws a refusal (401) that names the scheme. */
function callerOf(store: Store, header: string | undefined, now: number): Omit<Caller, 'via'> {
  // Another scheme counts as no token (RFC 6750 §3.1).
  if (header === undefined || !/^bearer\b/i.test(header)) {
    counters.refused.add({ where: 'api' })
    throw refuse(
      'unauthenticated',
      'The request has no token. Send the header "Authorization: Bearer <token>".',
      { header: 'Authorization' },
      { 'WWW-Authenticate': 'Bearer' },
    )
  }
  const [, plaintext] = /^bearer +([\w.~+/-]+=*)$/i.exec(header) ?? []
  const token = plaintext === undefined ? undefined : findToken(store, plaintext)
  // An OAuth client is authenticated, but has no scope here, so it gets 403.
  const access = token || plaintext === undefined ? undefined : findAccess(store, plaintext, now)
  if (access)
    return {
      userKey: access.user_key,
      userId: access.user_id,
      tokenId: access.grant_id,
      scopes: new Set(['mcp:use']),
      operator: false,
    }
  if (!token) throw invalid('unauthenticated', 'The token is not valid. Check it, or create a new one.')
  if (now >= token.expires_at) throw invalid('token_expired', 'The token has expired. Create a new one.')
  noteUse(store, token, now)
  return {
    userKey: token.user_key,
    userId: token.user_id,
    tokenId: token.id,
    scopes: new Set(scopesOf(token)),
    operator: token.operator === 1,
    agentId: token.agent_id ?? undefined,
    cappedToken: limitedKey(token),
    maker: { key: token.key, agentId: token.agent_id, daily: token.daily },
  }
}

function invalid(code: 'unauthenticated' | 'token_expired', detail: string): Refusal {
  counters.refused.add({ where: 'api' })
  return refuse(code, detail, { header: 'Authorization' }, { 'WWW-Authenticate': 'Bearer error="invalid_token"' })
}
