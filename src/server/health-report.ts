// Answers for the console about the whole process: the findings of doctor, the use of the disk, and the advised
// records. Checks that need the network run in the background, at most every ten minutes, so that no page waits for
// them.
import { statfsSync } from 'node:fs'
import { join } from 'node:path'
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import type { Resolver } from '../net/resolver.ts'
import type { AppDeps } from '../http/app-deps.ts'
import { certificateEnd, lastBackup, sizeOf, spoolOctets } from '../checks/figures.ts'
import { checkDomain } from '../domains/check.ts'
import type { Store } from '../store/database.ts'
import { DATABASE } from '../store/open.ts'
import {
  judgeCertificates,
  judgeConfig,
  judgeDataDir,
  judgeDate,
  judgeDisk,
  judgeKey,
  judgeLog,
  type Finding,
} from '../checks/doctor-machine.ts'
import type { BackupRun } from '../checks/backups.ts'
import { judgeBackups, shownTargets } from '../checks/doctor-backups.ts'
import { judgeBlocklists, judgeReverse, judgeWatched } from '../checks/doctor-lists.ts'
import { judgeDane } from '../checks/doctor-dane.ts'
import { judgeHeloSpf } from '../checks/doctor-network.ts'
import { rawOf } from '../inbound/stored.ts'
import type { Spool } from '../store/spool.ts'
import { advisedFor } from '../domains/command-policies.ts'

const LOOKED_EVERY = 10 * MINUTE

export interface OperationsDeps {
  store: Store
  spool: Spool
  clock: Clock
  config: Config
  keyring: Keyring
  log: Log
  resolver: Resolver
  /** What the schedule of backups does now. */
  running: () => BackupRun['kind'] | undefined
}

/** `sandbox`: this is the sandbox, of whose machine nothing is found. */
export function createOperations(deps: OperationsDeps, sandbox: boolean): AppDeps['operations'] {
  const { clock, config, log } = deps
  let network: { at: number; findings: Finding[] } | undefined
  let looking = false
  const look = (): void => {
    if (looking || (network && clock.now() - network.at < LOOKED_EVERY)) return
    looking = true
    // Lists and reverse DNS are the watch's; where it is off they are asked here.
    const unwatched = config.watch.every === 0 ? [judgeReverse(deps), judgeBlocklists(deps)] : []
    Promise.all([judgeHeloSpf(deps), judgeDane(deps), ...unwatched])
      .then((findings) => (network = { at: clock.now(), findings: findings.flat() }))
      .catch((thrown: unknown) => log.fault('looking at the network', thrown))
      .finally(() => (looking = false))
  }
  return {
    advised: (domain) => advisedFor(deps, domain),
    check: (domainKey) => checkDomain(deps, domainKey),
    reportMessage: (messageKey) => rawOf(deps, messageKey),
    async state() {
      if (!sandbox) look()
      const file = join(config.data_dir, DATABASE)
      const { bavail, bsize } = statfsSync(config.data_dir)
      const [end] = certificateEnd({ config })
      const backups = shownTargets(deps.store, config, clock.now(), deps.running())
      return {
        sandbox,
        findings: sandbox
          ? []
          : [
              judgeConfig(config),
              judgeDataDir(config),
              judgeDisk(config),
              judgeKey(config, deps.keyring),
              judgeLog(config, deps.store.logHeldFor(clock.now())),
              judgeDate(config, clock.now()),
              ...judgeBackups(deps.store, config, clock.now()),
              ...judgeCertificates(config, clock.now()),
              ...(network?.findings ?? []),
              ...(config.watch.every === 0 ? [] : judgeWatched(deps.store)),
            ],
        storage: [
          { kind: 'database', octets: sizeOf(file) },
          { kind: 'log', octets: sizeOf(`${file}-wal`) },
          { kind: 'spool', octets: await spoolOctets({ clock, config }) },
          { kind: 'free', octets: bavail * bsize },
        ],
        backups,
        last_backup_at:
          Math.max(
            lastBackup({ config }) * SECOND,
            ...backups.map(({ last_success_at }) => Date.parse(last_success_at ?? '') || 0),
          ) || null,
        certificate_ends_at: end ? end[1] * SECOND : null,
      }
    },
  }
}
