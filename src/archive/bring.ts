// Brings a backup into a folder and judges it, for a restore and for a trial of one: that it holds what it should is
// asked before it is unpacked, that it is whole after it.
import { OperatorError } from '../base/errors.ts'
import { contentsOf, unpack } from './backup-archive.ts'
import { demandPromised } from './promised.ts'
import { prove } from './prove.ts'
import { demandRoomFor, type Room } from './room.ts'
import type { BackupSourceDeps, Source } from './source.ts'
import { transferOn } from './transfer.ts'

export interface Brought {
  files: number
  /** The damage in it, in sentences; there is none but with `force`. */
  faults: string[]
}

/** Throws an OperatorError for what is not a whole backup, and where the disk has no room for it. */
export async function bring(
  { clock, terminal }: BackupSourceDeps,
  { manifest, open, shown }: Source,
  wishes: Room & { force?: true | undefined },
): Promise<Brought> {
  const { folder, force, keep } = wishes
  const room = { folder, keep }
  const archive = await open(room)
  try {
    const contents = await contentsOf(archive, shown)
    const { entries, octets } = contents
    if (manifest && entries.length !== manifest.files)
      throw new OperatorError(
        `${shown} holds ${entries.length} files, and its manifest says ${manifest.files}; use another backup.`,
      )
    demandRoomFor(room, shown, octets)
    await unpack(contents, { archive, shown, room, transfer: transferOn(terminal, clock, octets, 'unpacked') })
    const faults = await prove(folder, shown, { force })
    if (manifest) demandPromised(folder, shown, manifest)
    return { files: entries.length, faults }
  } finally {
    archive.close()
  }
}
