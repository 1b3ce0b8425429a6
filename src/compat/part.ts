// The compatibility APIs as parts of the server.
import { part } from '../parts/part.ts'
import { createCompat, type CompatDeps } from './kit.ts'
import type { Keyring } from '../base/keyring.ts'
import { mailgun } from './mailgun.ts'
import { resend } from './resend.ts'

export const mailgunPart = part<CompatDeps & { keyring: Keyring }>('mailgun', {
  routes: (deps, inside) => createCompat(deps, inside, mailgun(deps)),
})

export const resendPart = part<CompatDeps>('resend', { routes: (deps, inside) => createCompat(deps, inside, resend) })
