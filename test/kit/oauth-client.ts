// What a program keeps of OAuth between its steps, as the MCP SDK asks for it.
import type { OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js'

/** What a client program keeps; `opened` is where it would open a browser. */
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
  }
}
