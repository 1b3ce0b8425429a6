// `postrider verify`: reads every octet of the database and the spool, and reports damaged or missing data in
// sentences.
import { join } from 'node:path'
import type { Command } from 'commander'
import { TABLES } from '../schema/tables.ts'
import type { Store } from '../store/database.ts'
import { takeLock } from '../store/lock.ts'
import { scanLog } from '../store/log-scan.ts'
import { DATABASE } from '../store/open.ts'
import { raw } from '../store/query.ts'
import { LEDGER, readContent } from '../privacy/ledger.ts'
import { configOf, withDeps, type Invocation } from '../commands/open.ts'
import { faultsOf } from './integrity.ts'
import { answer } from '../commands/terminal.ts'

export function verifyCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('verify')
    .description('read the database and every file of the spool, and say what is damaged or missing')
    .action(async () => {
      // Before the database is opened: SQLite would treat damage in the write-ahead log as the log's end.
      const log = logFaults(configOf(invocation()).data_dir)
      await withDeps(invocation(), async (deps) => {
        const faults = [...log, ...ledgerFaults(deps.config.data_dir), ...(await faultsOf(deps))]
        const told = faults.join()
        const quarantine = (await deps.spool.quarantined()).filter((name) => !told.includes(name))
        const foreign = foreignTables(deps.store)
        answer(invocation().terminal, { sound: faults.length === 0, faults, quarantine, foreign_tables: foreign }, () =>
          [
            ...(faults.length === 0 ? ['Database and spool are sound.'] : faults),
            ...(quarantine.length === 0
              ? []
              : [
                  `${quarantine.length} files that no mail names are in the spool's quarantine: ${quarantine.join(', ')}`,
                ]),
            ...(foreign.length === 0
              ? []
              : [
                  `${foreign.length} tables are of another program, and go into backups as they are: ${foreign.join(', ')}`,
                ]),
          ].join('\n'),
        )
        if (faults.length > 0) process.exitCode = 1
      })
    })
}

/** Tables of other programs, such as Litestream's: harmless (B15). */
const foreignTables = (store: Store): string[] =>
  store
    .all(raw<{ name: string }>(`select name from sqlite_schema where type = 'table' order by name`))
    .map(({ name }) => name)
    .filter((name) => !(name in TABLES) && !name.startsWith('sqlite_'))

/** After a restore, erasures are repeated from the ledger: if a line is lost, that address is not erased again. */
function ledgerFaults(dataDir: string): string[] {
  const { foreign } = readContent(join(dataDir, LEDGER))
  return foreign === undefined ? [] : [`The ledger of erasures (${LEDGER}) is damaged: line ${foreign}.`]
}

/** The log of a running server is not checked, because it changes during the check. */
function logFaults(dataDir: string): string[] {
  const release = takeLock(dataDir)
  try {
    const damage = release && scanLog(join(dataDir, DATABASE))
    return damage
      ? [`The end of the write-ahead log is damaged: ${damage.lost} pages that were committed are lost.`]
      : []
  } finally {
    release?.()
  }
}
