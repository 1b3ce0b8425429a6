// The MTA-STS policy of a domain for mail that it receives here (RFC 8461): its text, its record, and when it changes.
import { createHash } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { Domain } from './find.ts'

/** The host that serves the policy (RFC 8461 §3.3). */
export const stsHost = (domain: string): string => `mta-sts.${domain}`

/**
 * How long (seconds) senders keep a policy:
 * a day while it is tested, half a year when enforced (RFC 8461 §3.2 advises weeks or more).
 */
const MAX_AGE = { testing: 86_400, enforce: 15_552_000, none: 86_400 }

export type StsMode = Domain['sts_mode']

/** The content of https://mta-sts.<domain>/.well-known/mta-sts.txt. */
export const stsPolicy = (mode: StsMode, hostname: string): string =>
  ['version: STSv1', `mode: ${mode}`, `mx: ${hostname}`, `max_age: ${MAX_AGE[mode]}`, ''].join('\r\n')

/** Characters of an id (RFC 8461 §3.1: 1 to 32). */
const ID_LENGTH = 32

/**
 * The value of _mta-sts.<domain>: its id is made of the policy's text, so that senders see each change of it, whatever
 * caused the change.
 */
export const stsRecord = (mode: StsMode, hostname: string): string =>
  `v=STSv1; id=${createHash('sha256').update(stsPolicy(mode, hostname)).digest('hex').slice(0, ID_LENGTH)};`

/**
 * The domain of a policy host; undefined when there is none. Of several registrations, the one with a policy counts.
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

/** Sets the mode; one that is set already stays, with the moment since which it stands. */
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
