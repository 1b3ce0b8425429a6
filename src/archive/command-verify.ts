// `postrider verify`: reads the whole database and spool, and reports corrupt or missing data.
import { join } from 'node:path'
import type { Command } from 'commander'
import { counted } from '../base/text.ts'
import { TABLES } from '../store/schema/tables.ts'
import type { Store } from '../store/database.ts'
import { takeLock } from '../store/lock.ts'
import { scanLog } from '../store/log.ts'
import { DATABASE } from '../store/open.ts'
import { foreignSchema, quickFaults } from '../store/integrity.ts'
import { raw } from '../store/query.ts'
import { LEDGER, readContent } from '../privacy/ledger.ts'
import { configOf, withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { faultsOf } from './integrity.ts'
import { answer } from '../views/command/terminal.ts'

/** The exit code for a corrupt database. */
export const DAMAGED_EXIT = 3

export function verifyCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('verify')
    .description('verify the database and the spool')
    .option('--quick', 'check the database pages only (exit code 3 if corrupt)')
    .action(async ({ quick }: { quick?: true }) => {
      if (quick) return verifyQuickly(invocation())
      // Before the database is opened: SQLite would treat damage in the write-ahead log as the log's end.
      const log = logFaults(configOf(invocation()).data_dir)
      await withDeps(invocation(), async (deps) => {
        const faults = [...log, ...ledgerFaults(deps.config.data_dir), ...schemaFaults(deps), ...(await faultsOf(deps))]
        const named = faults.join()
        const quarantine = (await deps.spool.quarantined()).filter((name) => !named.includes(name))
        const foreign = foreignTables(deps.store)
        answer(invocation().terminal, { sound: faults.length === 0, faults, quarantine, foreign_tables: foreign }, () =>
          [
            ...(faults.length === 0 ? ['Database and spool are consistent.'] : faults),
            ...(quarantine.length === 0
              ? []
              : [
                  `${counted(quarantine.length, 'unreferenced file')} in the spool's quarantine: ${quarantine.join(', ')}`,
                ]),
            ...(foreign.length === 0
              ? []
              : [
                  `${counted(foreign.length, 'table')} of another application, included in backups unchanged: ${foreign.join(', ')}`,
                ]),
          ].join('\n'),
        )
        if (faults.length > 0) process.exitCode = 1
      })
    })
}

function verifyQuickly(asked: Invocation): void {
  const faults = quickFaults(configOf(asked).data_dir)
  if (faults.length === 0)
    return answer(asked.terminal, { consistent: true }, () => 'The database pages are consistent.')
  asked.terminal.err(`${faults.join('; ')}\n`)
  process.exitCode = DAMAGED_EXIT
}

/** Parts of the database with which `restore` would reject a backup. */
const schemaFaults = ({ config }: Deps): string[] => foreignSchema(join(config.data_dir, DATABASE))

/** Tables of other applications, such as Litestream, which are harmless. */
const foreignTables = (store: Store): string[] =>
  store
    .all(raw<{ name: string }>(`select name from sqlite_schema where type = 'table' order by name`))
    .map(({ name }) => name)
    .filter((name) => !(name in TABLES) && !name.startsWith('sqlite_'))

/** After a restore, erasures are repeated from the ledger: if a line is lost, that address is not erased again. */
function ledgerFaults(dataDir: string): string[] {
  const { foreign } = readContent(join(dataDir, LEDGER))
  return foreign === undefined ? [] : [`The erasure log (${LEDGER}) is corrupt at line ${foreign}.`]
}

/** The log of a running server is not checked, because it changes during the check. */
function logFaults(dataDir: string): string[] {
  const release = takeLock(dataDir)
  try {
    const damage = release && scanLog(join(dataDir, DATABASE))
    return damage ? [`The end of the write-ahead log is corrupt: ${counted(damage.lost, 'committed page')} lost.`] : []
  } finally {
    release?.()
  }
}
