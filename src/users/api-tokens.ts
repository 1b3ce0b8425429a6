// Personal access tokens: create and revoke them. The plaintext is shown only once.
import { z } from 'zod'
import { refuse, Refusal } from '../base/errors.ts'
import { field } from '../jsonapi/resource.ts'
import { SCOPES } from '../jsonapi/scopes.ts'
import { comesFrom, createToken, DURATIONS, revokeToken, type Duration } from './tokens.ts'
import { define } from '../jsonapi/define.ts'
import { count, time, words, wordsOrNull } from '../jsonapi/fields.ts'
import { name } from '../jsonapi/schemas.ts'

export const tokens = define('tokens', {
  table: 'tokens',
  about:
    'Personal access tokens. The plaintext is returned only once, in the response to the request that creates the token.',
  attributes: {
    name: field(name(), { create: 'required', about: 'A name to recognise the token by.', example: 'shop' }),
    scopes: field(
      z
        .array(z.enum(SCOPES, { error: `must be one of ${SCOPES.join(', ')}` }), { error: 'must be a list of scopes' })
        .min(1, 'must contain at least one scope'),
      { create: 'required', kind: 'json', about: 'Scopes of the token.', example: ['emails:send', 'emails:read'] },
    ),
    duration: field(
      z.enum(Object.keys(DURATIONS) as [Duration, ...Duration[]], {
        error: 'must be one of 1_month, 6_months, 12_months',
      }),
      {
        create: 'required',
        about: 'Lifetime of the token.',
      },
    ),
    token: field(z.string(), { read: 'once', about: 'Plaintext bearer token.', example: 'pr_…' }),
    last_four: field(z.string(), { about: 'Last four characters of the plaintext.', example: 'x7Qa' }),
    expires_at: field(z.iso.datetime(), { kind: 'time', about: 'Time when the token expires.' }),
    last_used_at: field(z.iso.datetime().nullable(), {
      kind: 'time',
      about: 'Time of the last use, to the minute. Null if the token was never used.',
    }),
    created_at: field(z.iso.datetime(), { kind: 'time', about: 'Time when the token was created.' }),
  },
  actions: [
    {
      kind: 'create',
      path: '/tokens',
      scope: 'tokens:write',
      about:
        'Create a token. Its scopes must be among those of the token used for the request. It has the agent and the daily limit of that token, and is revoked with it.',
      run: async ({ parts, caller, attributes }) => {
        const beyond = attributes.scopes
          .map((scope, index) => ({ scope, index }))
          .filter(({ scope }) => !caller.scopes.has(scope))
        if (beyond.length > 0)
          throw new Refusal(
            beyond.map(({ scope, index }) => ({
              code: 'invalid' as const,
              detail: `Your token lacks the scope ${scope} and cannot grant it. Remove the scope, or use another token.`,
              source: { pointer: `/data/attributes/scopes/${index}` },
            })),
          )
        const { token, plaintext } = await createToken(parts, caller.userKey, {
          ...attributes,
          operator: caller.operator,
          maker: caller.maker,
        })
        return { row: { ...token }, once: { token: plaintext } }
      },
    },
    {
      // Its own path: the interface has no list at /tokens (405).
      kind: 'list',
      path: '/personal-access-tokens',
      scope: 'tokens:write',
      params: ['fields', 'page'],
      about: 'List tokens. The plaintext is not included.',
      extension: true,
    },
    {
      kind: 'delete',
      path: '/tokens/:token',
      scope: 'tokens:write',
      id: 'revokeToken',
      about: 'Revoke a token. The tokens that it created are revoked too. They are rejected from the next request on.',
      run: async ({ caller, parts, row }) => {
        const { maker } = caller
        const bound = maker !== undefined && (maker.agentId !== null || maker.daily !== null)
        if (bound && !comesFrom(parts.store, row.key, maker.key))
          throw refuse(
            'insufficient_scope',
            'This token has an agent or a daily limit. It can only revoke itself and the tokens that it created. Use another token, or the console.',
          )
        await revokeToken(parts.store, row.id)
      },
    },
    {
      // Last, because the path of a token is that of its deletion.
      kind: 'show',
      path: '/personal-access-tokens/:token',
      scope: 'tokens:write',
      about: 'Get a token. The plaintext is not included.',
      extension: true,
    },
  ],
})

export const tokenRequests = define('token-requests', {
  table: 'token_requests',
  about:
    'API requests of a token: the last 1,000 of 30 days. A request is listed about a second after it. Requests that are rejected with 401 have no token and are not listed.',
  extension: true,
  attributes: {
    method: words('HTTP method.'),
    path: words(
      'Path below the base of the API, with the query. Parts that can name a person or contain a secret are `***`.',
    ),
    status: count('HTTP status of the response.'),
    error: wordsOrNull('Code of the first error. Null without an error.'),
    created_at: time('Time of the response.'),
  },
  filters: {
    failed: {
      column: 'status',
      flag: true,
      sql: (value) => ({ sql: value === 'true' ? 'status >= 400' : 'status < 400', parameters: [] }),
      about: 'Filter by requests that failed: true or false.',
    },
  },
  actions: [
    {
      kind: 'list',
      path: '/personal-access-tokens/:token/requests',
      scope: 'tokens:write',
      params: ['filter', 'page'],
      within: { type: 'tokens', column: 'token_key' },
      about: 'List the API requests of a token, newest first.',
    },
  ],
})
