// Answers for the console about the whole process: the findings, the use of the disk, and the advised records.
import { statfsSync } from 'node:fs'
import { join } from 'node:path'
import { SECOND, type Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import type { Loop } from '../base/loop.ts'
import type { AppDeps } from '../http/app-deps.ts'
import { certificateEnd, lastBackup, sizeOf, spoolBytes } from '../checks/figures.ts'
import { checkDomain } from '../domains/check.ts'
import type { LinksHostDeps } from '../domains/links-host.ts'
import type { Store } from '../store/database.ts'
import { DATABASE } from '../store/open.ts'
import type { BackupRun } from '../checks/backups.ts'
import { shownTargets } from '../checks/backup-findings.ts'
import { shownFinding } from '../parts/findings/finding.ts'
import type { FindingsRegister } from '../parts/findings/register.ts'
import { advisedFor } from '../domains/command-policies.ts'

export interface OperationsDeps extends LinksHostDeps {
  store: Store
  clock: Clock
  log: Log
  register: FindingsRegister
  subjects: AppDeps['subjects']
  loops: () => { backups: { running: BackupRun['kind'] | undefined }; polling: Loop }
}

/** `sandbox`: no findings about this machine. */
export function createOperations(deps: OperationsDeps, sandbox: boolean): AppDeps['operations'] {
  const { clock, config, register } = deps
  return {
    advised: (domain) => advisedFor(deps, domain),
    // The domains loop reads the new result of the check.
    check: (domainKey) => checkDomain(deps, domainKey).finally(() => deps.loops().polling.ring()),
    findings: () => (sandbox ? [] : register.recent()),
    ofAccount: (userKey) =>
      deps.subjects.flatMap(
        ({ accountFindings: find }) => find?.({ store: deps.store, userKey, now: clock.now() }) ?? [],
      ),
    async state() {
      const file = join(config.data_dir, DATABASE)
      const { bavail, bsize } = statfsSync(config.data_dir)
      const [end] = certificateEnd({ config })
      const backups = shownTargets(deps.store, config, clock.now(), deps.loops().backups.running)
      return {
        sandbox,
        findings: sandbox ? [] : register.now().map(shownFinding),
        storage: [
          { kind: 'database', octets: sizeOf(file) },
          { kind: 'log', octets: sizeOf(`${file}-wal`) },
          { kind: 'spool', octets: await spoolBytes({ clock, config }) },
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
