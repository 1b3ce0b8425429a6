// Upgrades the database of an older version before it is opened, and reports the progress each second: the copy for a
// rollback, the migrations, and for a database from before 0.2.0 the rewrite (D181).
//
// Guarantee: the migrations of an upgrade run in one transaction, after the copy is durable.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { SECOND, type Clock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { Pool } from '../base/threads/pool.ts'
import { migrations } from './schema/migrations.ts'
import { schemaIn } from './copy.ts'
import { DATABASE, explained } from './open.ts'
import type { UpgradeJob } from './upgrade-worker.ts'
import { copyAside, removeDrafts } from './way-back.ts'

export interface UpgradeProgress {
  /** `copy`: of the old database. `rewriting`: of a database from before 0.2.0, so that it can free space. */
  doing: 'copy' | 'migration' | 'rewriting'
  /** Pages of a copy, or migrations. A rewrite has no count. */
  done: number
  of: number
  seconds: number
}

export interface Upgrading {
  clock: Clock
  /** Called after an upgrade with the old and the new schema number. */
  migrating?: ((from: number, to: number) => void) | undefined
  /** Hears each second how far the upgrade is. */
  progress?: ((progress: UpgradeProgress) => void) | undefined
}

/** Upgrades the database, if its schema is older. Only the holder of the lock may. Throws an OperatorError. */
export async function upgradeDatabase(dataDir: string, { clock, migrating, progress }: Upgrading): Promise<void> {
  const file = join(dataDir, DATABASE)
  if (existsSync(dataDir)) removeDrafts(dataDir)
  const found = schemaBefore(file)
  if (found === 0 || found >= migrations.length) return
  const began = clock.elapsed()
  let state: Omit<UpgradeProgress, 'seconds'> = { doing: 'copy', done: 0, of: 0 }
  const look = (): void => {
    progress?.({ ...state, seconds: Math.round((clock.elapsed() - began) / SECOND) })
    cancel = clock.wake(clock.now() + SECOND, look)
  }
  let cancel = clock.wake(clock.now() + SECOND, look)
  try {
    await copyAside(file, found, (done, of) => (state = { doing: 'copy', done, of }))
    const of = migrations.length - found
    const done = new Int32Array(new SharedArrayBuffer(4))
    state = {
      get doing() {
        return this.done < of ? 'migration' : 'rewriting'
      },
      get done() {
        return Atomics.load(done, 0)
      },
      of,
    }
    await migrateApart(dataDir, done)
    migrating?.(found, migrations.length)
  } finally {
    cancel()
  }
}

/** The schema of a database, or 0 if there is no database to upgrade. Errors are reported when it is opened. */
function schemaBefore(file: string): number {
  try {
    return existsSync(file) ? schemaIn(file).schema : 0
  } catch {
    return 0
  }
}

async function migrateApart(dataDir: string, done: Int32Array): Promise<void> {
  const pool = new Pool<UpgradeJob, void>(new URL('./upgrade-worker.ts', import.meta.url), { size: 1 })
  try {
    // Alone in its thread, without a limit for its time.
    await pool.run({ dataDir, done }, { slow: true, heapOnce: true })
  } catch (thrown) {
    const why = explained(thrown, dataDir)
    if (why instanceof OperatorError) throw why
    throw new OperatorError(`The database cannot be upgraded and is unchanged: ${(thrown as Error).message}`, {
      cause: thrown,
    })
  } finally {
    await pool.close()
  }
}
