// Connects the invitations and sign-in links of users with the mail of this server.
import type { Config } from '../base/config.ts'
import { isReadHere, type RecipientDeps } from '../inbound/recipients.ts'
import { hasNoticeSender } from '../mail/notice-mail.ts'
import type { LinkMail } from '../users/parts.ts'

interface LinkMailDeps extends RecipientDeps {
  config: Pick<Config, 'hostname' | 'notices'>
}

export const linkMailOf = (deps: LinkMailDeps, stays = false): LinkMail => ({
  isReadHere: (address) => isReadHere(deps, address),
  isAuthenticated: () => hasNoticeSender(deps.store, deps.config),
  stays,
})
