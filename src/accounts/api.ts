// Personal access tokens: create and revoke them. The plaintext is shown only once.
import { z } from 'zod'
import { refuse, Refusal } from '../base/errors.ts'
import { field } from '../jsonapi/resource.ts'
import { SCOPES } from '../identity/scopes.ts'
import { comesFrom, createToken, DURATIONS, revokeToken, type Duration } from '../identity/tokens.ts'
import { define } from '../jsonapi/define.ts'
import { EXTENSION } from '../jsonapi/fields.ts'
import { name } from '../jsonapi/schemas.ts'

export const tokens = define('tokens', {
  table: 'tokens',
  about: 'Personal access tokens. The plaintext is shown once, in the answer to the request that creates the token.',
  attributes: {
    name: field(name(), { create: 'required', about: 'A name to recognise the token by.', example: 'shop' }),
    scopes: field(
      z
        .array(z.enum(SCOPES, { error: `must be one of ${SCOPES.join(', ')}` }), { error: 'must be a list of scopes' })
        .min(1, 'must name at least one scope'),
      { create: 'required', kind: 'json', about: 'What the token may do.', example: ['emails:send', 'emails:read'] },
    ),
    duration: field(
      z.enum(Object.keys(DURATIONS) as [Duration, ...Duration[]], {
        error: 'must be one of 1_month, 6_months, 12_months',
      }),
      {
        create: 'required',
        about: 'How long the token lives.',
      },
    ),
    token: field(z.string(), { read: 'once', about: 'The plaintext bearer token.', example: 'pr_…' }),
    last_four: field(z.string(), { about: 'The last four characters of the plaintext.', example: 'x7Qa' }),
    expires_at: field(z.iso.datetime(), { kind: 'time', about: 'When the token stops authenticating.' }),
    last_used_at: field(z.iso.datetime().nullable(), { kind: 'time', about: 'When it was last used, to the minute.' }),
    created_at: field(z.iso.datetime(), { kind: 'time', about: 'When it was created.' }),
  },
  actions: [
    {
      kind: 'create',
      path: '/tokens',
      scope: 'tokens:write',
      about:
        'Create a token; its scopes must be among those of the token that asks. It has the agent and the daily limit of that token, ends no later, and is revoked with it.',
      run: async ({ parts, caller, attributes }) => {
        const beyond = attributes.scopes
          .map((scope, index) => ({ scope, index }))
          .filter(({ scope }) => !caller.scopes.has(scope))
        if (beyond.length > 0)
          throw new Refusal(
            beyond.map(({ scope, index }) => ({
              code: 'invalid' as const,
              detail: `Your own token lacks ${scope}; it cannot grant what it does not have.`,
              source: { pointer: `/data/attributes/scopes/${index}` },
            })),
          )
        const { token, plaintext } = await createToken(parts, caller.userKey, {
          ...attributes,
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
      about: `List your tokens, without their plaintext. ${EXTENSION}`,
    },
    {
      kind: 'delete',
      path: '/tokens/:token',
      scope: 'tokens:write',
      id: 'revokeToken',
      about: 'Revoke a token and the tokens that it made; they fail from the next request on.',
      run: async ({ caller, parts, row }) => {
        const { maker } = caller
        const bound = maker !== undefined && (maker.agentId !== null || maker.daily !== null)
        if (bound && !comesFrom(parts.store, row.key, maker.key))
          throw refuse(
            'insufficient_scope',
            'This token has an agent or a daily limit: it revokes itself and the tokens that it made, and no other.',
          )
        await revokeToken(parts.store, row.id)
      },
    },
  ],
})
