// The applications that a user has given access over OAuth (D58).
import { refuse } from '../../base/errors.ts'
import { listGrants, revokeGrantById } from './grants.ts'
import { programName } from './clients.ts'
import type { Call } from '../../jsonapi/resource.ts'
import { define, type ApiDeps } from '../../jsonapi/define.ts'
import { time, words } from '../../jsonapi/fields.ts'

const list = ({ caller, parts }: Pick<Call<ApiDeps>, 'caller' | 'parts'>) =>
  listGrants(parts.store)
    .filter(({ account_key, user_key }) => (account_key ?? user_key) === caller.userKey)
    .map((grant) => ({ key: grant.key, id: grant.id, program: programName(grant), created_at: grant.created_at }))

export const grants = define('grants', {
  table: 'oauth_grants',
  about: 'Applications that can act for you through MCP.',
  extension: true,
  attributes: {
    program: words(
      'Name that the application gave itself, which is not verified. The host of its metadata document is added in brackets.',
    ),
    created_at: time('Time when access was granted.'),
  },
  actions: [
    {
      kind: 'view',
      path: '/grants',
      params: ['page'],
      id: 'listGrants',
      scope: 'tokens:write',
      about: 'List applications with access through MCP.',
      run: list,
    },
    {
      kind: 'act',
      free: true,
      path: '/grants/:grant/revoke',
      id: 'revokeGrant',
      scope: 'tokens:write',
      about: 'Revoke the access of an application immediately.',
      async run(call: Call<ApiDeps>) {
        const grant = list(call).find(({ id }) => id === call.params['grant'])
        if (!grant) throw refuse('not_found', 'No such grant exists. Check the id in the URL.')
        await revokeGrantById(call.parts, grant.id)
        return { row: grant }
      },
    },
  ],
})
