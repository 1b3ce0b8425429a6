// Puts a backup back into a temporary folder, with the erasures since, to see that it can be (B11). Nothing is started
// or sent, and the folder goes: with its process, by the signal that ends it, or by the next one that looks there.
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { freeOn, reserveOf } from '../base/space.ts'
import { countsIn } from '../store/copy.ts'
import { DATABASE } from '../store/open.ts'
import { bring } from './bring.ts'
import { holdCopies, withFolder } from '../store/leavings.ts'
import { mergeLedgers, type LedgerWishes } from './restore-ledgers.ts'
import type { BackupSourceDeps, Source } from './source.ts'

export interface TriedOut {
  files: number
  /** Rows of all tables. */
  rows: number
  /** Known erasures that a restore would repeat. */
  erasures: number
  /** The damage in it, in sentences. */
  faults: string[]
  /** Where it was. */
  folder: string
}

interface ScratchWishes extends LedgerWishes {
  /** A folder that the operator names. */
  scratch?: string
  force?: true
  /** The configured copies of the ledger. */
  copies: readonly string[]
}

/** Throws an OperatorError when the backup cannot be put back whole. */
export async function tryOut(deps: BackupSourceDeps, source: Source, wishes: ScratchWishes): Promise<TriedOut> {
  const { config } = deps
  const { data_dir: dataDir } = config
  const served = existsSync(join(dataDir, DATABASE))
  const release = served ? holdCopies(dataDir) : (): void => {}
  try {
    const place = placeFor(dataDir, served, wishes.scratch)
    return await withFolder(place, async (folder) => {
      const keep = place === dataDir ? reserveOf(config) : 0
      const { faults, files } = await bring(deps, source, { folder, keep, force: wishes.force })
      const { rows } = countsIn(join(folder, DATABASE))
      const { ledger, withoutLedger } = wishes
      // Whether a ledger is there is asked of a restore; here only when one is named.
      const ledgers: LedgerWishes = ledger
        ? { ledger, ...(withoutLedger && { withoutLedger }) }
        : { withoutLedger: true }
      const erasures = mergeLedgers(dataDir, folder, ledgers, wishes.copies)
      return { files, rows: Object.values(rows).reduce((all, one) => all + one, 0), erasures, faults, folder: place }
    })
  } finally {
    release()
  }
}

/** Where there is a data directory, on its disk; else where most room is: a folder for such files may be memory. */
function placeFor(dataDir: string, served: boolean, wished: string | undefined): string {
  if (wished !== undefined) return resolve(wished)
  if (served) return dataDir
  const places = [tmpdir(), '/var/tmp'].filter((each) => existsSync(each))
  return places.reduce((one, other) => (freeOn(other) > freeOn(one) ? other : one), tmpdir())
}
