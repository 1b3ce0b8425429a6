// The OAuth state that a client keeps between its steps, in the form for the MCP SDK.
import { createHash } from 'node:crypto'
import type { OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js'
import { addClient, type OauthClient } from '../../src/users/oauth/clients.ts'
import { exchangeCode, grantCode, type TokenPair } from '../../src/users/oauth/grants.ts'
import type { User } from '../../src/users/users.ts'
import type { TestAppliance } from './appliance.ts'

/** The state of an OAuth client. `opened` is the URL that it would open in a browser. */
export function oauthProvider(redirectUrl: string): OAuthClientProvider & { opened: URL | undefined } {
  const kept: Record<string, any> = {} // oxlint-disable-line typescript/no-explicit-any
  return {
    opened: undefined,
    redirectUrl,
    clientMetadata: { redirect_uris: [redirectUrl], client_name: 'Test agent', token_endpoint_auth_method: 'none' },
    clientInformation: () => kept['client'],
    saveClientInformation: (client) => void (kept['client'] = client),
    tokens: () => kept['tokens'],
    saveTokens: (tokens) => void (kept['tokens'] = tokens),
    redirectToAuthorization(to) {
      this.opened = to
    },
    saveCodeVerifier: (verifier) => void (kept['verifier'] = verifier),
    codeVerifier: () => kept['verifier'],
    // Credentials that the server no longer accepts are requested again.
    invalidateCredentials: (what) => void (what === 'tokens' && delete kept['tokens']),
  }
}

const VERIFIER = 'v'.repeat(43)

/** Grants a client access like a user who agrees, but without the pages. */
export async function letIn(
  { appliance: { deps }, config }: TestAppliance,
  user: User,
  account: Pick<User, 'key'> = user,
): Promise<TokenPair & { client: OauthClient }> {
  const redirect_uri = 'http://127.0.0.1:1/callback'
  const client = (await addClient(deps, { name: 'Agent', redirectUris: [redirect_uri] }))!
  const challenge = createHash('sha256').update(VERIFIER).digest('base64url')
  const resource = `${config.http.public_url}/mcp`
  const code = await grantCode(deps, {
    client,
    user_key: user.key,
    account_key: account.key,
    redirect_uri,
    challenge,
    resource,
  })
  const tokens = await exchangeCode(deps, { client, code, verifier: VERIFIER, redirectUri: undefined, resource })
  if ('error' in tokens) throw new Error(tokens.description)
  return { ...tokens, client }
}
