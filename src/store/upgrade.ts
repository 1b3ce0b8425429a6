// Brings the database of an older version up to this one before it is opened, and says each second how far it is: the
// copy as a way back, the migrations, and for a database from before 0.2.0 that it is written again (D181).
//
// Guarantees: the migrations of an upgrade happen all or none, and not before the copy is durable.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { SECOND, type Clock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { Pool } from '../base/threads/pool.ts'
import { migrations } from '../schema/migrations.ts'
import { schemaIn } from './copy.ts'
import { DATABASE, explained } from './open.ts'
import type { UpgradeJob } from './upgrade-worker.ts'
import { copyAside, removeDrafts } from './way-back.ts'

export interface UpgradeProgress {
  /** `copy`: of the database as it was; `rewriting`: of a database from before 0.2.0, which then gives space back. */
  doing: 'copy' | 'migration' | 'rewriting'
  /** Pages of a copy, migrations; of a database that is written again nothing is counted. */
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

/** Upgrades the database, if its schema is older; only the holder of the lock may. Throws an OperatorError. */
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

/** The schema of a database, 0 where there is none to upgrade: what is wrong with it is said where it is opened. */
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
    // By itself in its thread: as slow as it may be.
    await pool.run({ dataDir, done }, { slow: true, heapOnce: true })
  } catch (thrown) {
    const why = explained(thrown, dataDir)
    if (why instanceof OperatorError) throw why
    throw new OperatorError(`The database cannot be upgraded, and is as it was: ${(thrown as Error).message}`, {
      cause: thrown,
    })
  } finally {
    await pool.close()
  }
}
