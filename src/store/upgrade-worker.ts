// The worker thread that migrates a database, so that the server can report the progress.
import { serveJobs } from '../base/threads/jobs.ts'
import { migrateAll, withDatabase } from './open.ts'

export interface UpgradeJob {
  dataDir: string
  /** One number: how many migrations have run. */
  done: Int32Array
}

serveJobs(
  async ({ dataDir, done }: UpgradeJob): Promise<void> =>
    withDatabase(dataDir, {}, (database) => {
      migrateAll(database, (count) => Atomics.store(done, 0, count))
      database.close()
    }),
  { lot: 1 },
)
