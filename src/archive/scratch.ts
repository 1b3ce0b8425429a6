// Puts a backup back into a temporary folder, with the erasures since, to see that it can be (B11). Nothing is started
// or sent, and the folder goes.
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { OperatorError } from '../base/errors.ts'
import { countsIn } from '../store/copy.ts'
import { DATABASE } from '../store/open.ts'
import { unpack, type Archive } from './backup-archive.ts'
import type { Manifest } from './catalog.ts'
import { holdCopies, withFolder } from '../store/leavings.ts'
import { prove } from './prove.ts'
import { mergeLedgers } from './restore-ledgers.ts'

export interface TriedOut {
  files: number
  /** Rows of all tables. */
  rows: number
  /** Known erasures that a restore would repeat. */
  erasures: number
}

export interface ScratchWishes {
  dataDir: string
  /** The configured copies of the ledger. */
  copies: readonly string[]
  shown: string
  /** What the backup should hold; undefined for one without a manifest. */
  manifest?: Manifest | undefined
  /** Brings the archive into the folder. */
  open: (folder: string) => Promise<Archive>
}

/** Throws an OperatorError when the backup cannot be put back whole. */
export async function tryOut({ copies, dataDir, manifest, open, shown }: ScratchWishes): Promise<TriedOut> {
  const here = existsSync(join(dataDir, DATABASE))
  const release = here ? holdCopies(dataDir) : (): void => {}
  try {
    // On the disk of the data directory, where there is one: a folder for temporary files may be memory.
    return await withFolder(here ? dataDir : tmpdir(), async (folder) => {
      const files = await unpack(await open(folder), shown, folder)
      await prove(folder, shown, {})
      const { rows } = countsIn(join(folder, DATABASE))
      const lacking = Object.entries(manifest?.rows ?? {}).find(([table, count]) => rows[table] !== count)
      if (lacking)
        throw new OperatorError(
          `${shown} has ${rows[lacking[0]] ?? 'no'} rows in ${lacking[0]} and had ${lacking[1]} when it was made; use another backup.`,
        )
      const erasures = mergeLedgers(dataDir, folder, { withoutLedger: true }, copies)
      return { files, rows: Object.values(rows).reduce((all, one) => all + one, 0), erasures }
    })
  } finally {
    release()
  }
}
