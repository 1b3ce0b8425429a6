// The compatibility APIs as parts of the server.
import { part } from '../parts/part.ts'
import { createCompat, type CompatDeps } from './kit.ts'
import type { Keyring } from '../base/keyring.ts'
import { trackingFindings, usedFinder } from './findings.ts'
import { mailgun } from './mailgun.ts'
import { resend } from './resend.ts'

const MAILGUN = ['/v3', '/v4']

export const mailgunPart = part<CompatDeps & { keyring: Keyring }>('mailgun', {
  routes: (deps, inside) => createCompat(deps, inside, mailgun(deps)),
  findings: [usedFinder('Mailgun', MAILGUN)],
  accountFindings: trackingFindings(MAILGUN),
})

export const resendPart = part<CompatDeps>('resend', {
  routes: (deps, inside) => createCompat(deps, inside, resend),
  findings: [usedFinder('Resend', ['/resend'])],
})
