// Signatures and secrets of Standard Webhooks 1.0.0 (specification "Signature", D52).
import { createHmac, randomBytes } from 'node:crypto'

const PREFIX = 'whsec_'

/** whsec_ + base64 of 32 random bytes. */
export const newSecret = (): string => PREFIX + randomBytes(32).toString('base64')

/** The last four characters, which may be shown later. */
export const hintOf = (secret: string): string => secret.slice(-4)

/** The webhook-signature header: one signature for each secret, newest first. `seconds` is Unix time. */
export function signatureHeader(secrets: readonly string[], id: string, seconds: number, body: string): string {
  return secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
      return `v1,${createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64')}`
    })
    .join(' ')
}
