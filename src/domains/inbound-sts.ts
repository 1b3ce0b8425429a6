// The MTA-STS policy for mail that a domain receives on this server (RFC 8461): its text, its DNS record, its changes.
import { createHash } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { Domain } from './find.ts'

/** The host that serves the policy (RFC 8461 §3.3). */
export const stsHost = (domain: string): string => `mta-sts.${domain}`

/**
 * How long senders cache a policy (seconds): a day in testing mode, half a year in enforce mode (RFC 8461 §3.2 advises
 * weeks or more).
 */
const MAX_AGE = { testing: 86_400, enforce: 15_552_000, none: 86_400 }

export type StsMode = Domain['sts_mode']

/** The content of https://mta-sts.<domain>/.well-known/mta-sts.txt. */
export const stsPolicy = (mode: StsMode, hostname: string): string =>
  ['version: STSv1', `mode: ${mode}`, `mx: ${hostname}`, `max_age: ${MAX_AGE[mode]}`, ''].join('\r\n')

/** The length of an id (RFC 8461 §3.1: 1 to 32 characters). */
const ID_LENGTH = 32

/**
 * The value of _mta-sts.<domain>. Its id is a hash of the policy's text, so that senders detect every change of the
 * policy.
 */
export const stsRecord = (mode: StsMode, hostname: string): string =>
  `v=STSv1; id=${createHash('sha256').update(stsPolicy(mode, hostname)).digest('hex').slice(0, ID_LENGTH)};`

/**
 * The domain of a policy host, or undefined. If several accounts have registered the domain, the one with a policy is
 * used.
 */
export function domainOfStsHost(reader: Reader, host: string): Domain | undefined {
  if (!host.startsWith('mta-sts.')) return undefined
  return reader.first(
    db
      .selectFrom('domains')
      .selectAll()
      .where('name', '=', host.slice('mta-sts.'.length))
      .where('deleted_at', 'is', null)
      .where('sts_changed_at', 'is not', null)
      .orderBy('sts_changed_at', 'desc')
      .limit(1),
  )
}

/** Sets the mode. When the mode is the same as before, the time of its last change stays. */
export async function setStsMode(deps: { store: Store; clock: Clock }, key: number, mode: StsMode): Promise<void> {
  const now = deps.clock.now()
  await deps.store.write((tx) =>
    tx.run(
      db
        .updateTable('domains')
        .set({ sts_mode: mode, sts_changed_at: now, updated_at: now })
        .where('key', '=', key)
        .where((eb) => eb.or([eb('sts_changed_at', 'is', null), eb('sts_mode', '!=', mode)])),
    ),
  )
}
