// Programs that a person has given access over OAuth (D58).
import { refuse } from '../base/errors.ts'
import { listGrants, revokeGrantById } from '../identity/oauth-grants.ts'
import { programName } from '../identity/oauth-documents.ts'
import type { Call } from '../jsonapi/resource.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { EXTENSION, time, words } from '../jsonapi/fields.ts'

const list = ({ caller, parts }: Pick<Call<ApiDeps>, 'caller' | 'parts'>) =>
  listGrants(parts.store)
    .filter(({ user_key }) => user_key === caller.userKey)
    .map((grant) => ({ key: grant.key, id: grant.id, program: programName(grant), created_at: grant.created_at }))

export const grants = define('grants', {
  table: 'oauth_grants',
  about: `Programs that may act for you through MCP. ${EXTENSION}`,
  attributes: {
    program: words(
      'The name that the program gave itself, which nobody has checked, and the host of its metadata document in brackets.',
    ),
    created_at: time('When it was let in.'),
  },
  actions: [
    {
      kind: 'view',
      path: '/grants',
      params: ['page'],
      id: 'listGrants',
      scope: 'tokens:write',
      about: `List the programs that you let in. ${EXTENSION}`,
      run: list,
    },
    {
      kind: 'act',
      free: true,
      path: '/grants/:grant/revoke',
      id: 'revokeGrant',
      scope: 'tokens:write',
      about: `End what a program was allowed, at once. ${EXTENSION}`,
      async run(call: Call<ApiDeps>) {
        const grant = list(call).find(({ id }) => id === call.params['grant'])
        if (!grant) throw refuse('not_found', 'No such resource exists.')
        await revokeGrantById(call.parts, grant.id)
        return { row: grant }
      },
    },
  ],
})
