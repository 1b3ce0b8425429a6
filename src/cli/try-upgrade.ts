// What `postrider upgrade --check` of another version runs of this one: it upgrades a copy of an installation, verifies
// it and reads from its API, inside the process. No port is opened, no loop is started and nothing is sent.
import { basename, dirname } from 'node:path'
import { SECOND, systemClock } from '../base/clock.ts'
import { messageOf, OperatorError } from '../base/errors.ts'
import { silentLog } from '../base/log.ts'
import { exitAtOnce } from '../base/native.ts'
import { changelog, version } from '../base/version.ts'
import { faultsOf } from '../archive/integrity.ts'
import { LEAVING } from '../store/leavings.ts'
import { progressLine } from '../archive/command-upgrade.ts'
import { releasesIn, type Trial } from '../archive/upgrade-trial.ts'
import type { Inside } from '../jsonapi/in-process-api.ts'
import { SCOPES } from '../identity/scopes.ts'
import { migrations } from '../schema/migrations.ts'
import { openUpgraded } from '../store/instance.ts'
import { raw } from '../store/query.ts'
import type { Store } from '../store/database.ts'
import { configOf, type Invocation } from '../commands/open.ts'

const READS = ['/domains', '/outbound-emails', '/campaigns']

export async function tryUpgrade(now: Invocation): Promise<Trial> {
  const config = configOf(now)
  const { data_dir } = config
  if (!basename(dirname(data_dir)).startsWith(LEAVING))
    throw new OperatorError(`${data_dir} is not a copy; "postrider upgrade --check FILE" makes one.`)
  endWithCaller()
  const began = systemClock.elapsed()
  let from = migrations.length
  const { keyring, store } = await openUpgraded(data_dir, {
    clock: systemClock,
    migrating: (found) => (from = found),
    progress: (progress) => now.terminal.err(`postrider: ${progressLine(progress)}\n`),
  })
  const seconds = Math.round((systemClock.elapsed() - began) / SECOND)
  const undo: (() => unknown)[] = [() => store.close()]
  try {
    const { buildParts } = await import('../server/wiring.ts')
    const { apiInside } = await import('../http/server.ts')
    const { deps } = await buildParts({ config, clock: systemClock, log: silentLog }, { keyring, store }, undo)
    const faults = await faultsOf(deps)
    const failed = await readsOf(store, apiInside(deps))
    return { version, from, schema: migrations.length, seconds, faults, failed, releases: releasesIn(changelog()) }
  } finally {
    for (const step of undo.reverse()) await step()
  }
}

/** Who runs this holds its stdin open. When that was killed, nobody waits for an answer, and the copy is in the way. */
function endWithCaller(): void {
  const end = (): never => exitAtOnce(1)
  process.stdin.on('end', end).on('error', end).resume()
  // It keeps nobody from ending.
  if ('unref' in process.stdin) process.stdin.unref()
}

/** Reads as the first user; returns those that failed. */
async function readsOf(store: Store, inside: Inside): Promise<string[]> {
  const user = store.first(raw<{ key: number; id: string }>('select key, id from users order by key limit 1'))
  if (!user) return []
  const caller = { userKey: user.key, userId: user.id, tokenId: '', scopes: new Set<string>(SCOPES), operator: false }
  const failed: string[] = []
  for (const path of READS)
    try {
      const { status } = await inside(caller, new Request(`http://inside${path}`))
      if (status !== 200) failed.push(`GET ${path}: ${status}`)
    } catch (thrown) {
      failed.push(`GET ${path}: ${messageOf(thrown)}`)
    }
  return failed
}
