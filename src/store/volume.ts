// Whether a data directory lies where an installation can live: not on a network file system, on which the locks of
// SQLite do not hold, and in the image neither on the container's own layer nor in memory, which end with it.
import { statfsSync, statSync } from 'node:fs'
import { OperatorError } from '../base/errors.ts'
import { isReadOnly, unusableSentence, type Unusable } from '../base/unusable.ts'

/** Magic numbers of statfs(2). */
const KINDS = new Map<number, FileSystem>([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xfe534d42, 'SMB'],
  [0xff534d42, 'SMB'],
  [0x794c7630, 'overlayfs'],
  [0x01021994, 'tmpfs'],
  [0x858458f6, 'ramfs'],
])

export type FileSystem = 'NFS' | 'SMB' | 'overlayfs' | 'tmpfs' | 'ramfs'

/** What a directory lies on that does not outlive the container or the machine; undefined where it does. */
export const lostWith = (kind: FileSystem | undefined): string | undefined =>
  kind === 'overlayfs'
    ? "the container's own layer"
    : kind === 'tmpfs' || kind === 'ramfs'
      ? `memory (${kind})`
      : undefined

/** The file system of a directory, where it is one of these. */
export function fileSystemOf(
  directory: string,
  statfs: (path: string) => { type: number } = statfsSync,
): FileSystem | undefined {
  try {
    // Some systems give a signed number.
    return KINDS.get(statfs(directory).type >>> 0)
  } catch {
    return undefined
  }
}

export interface DataPlace {
  /** Whether the program runs from the image. */
  image: boolean
  /** Whether the operator accepts that the data end with the container. */
  ephemeral: boolean
  fileSystem?: FileSystem | undefined
  user?: number | undefined
  owner?: { uid: number; mode: number } | undefined
  readOnly?: boolean
}

/** Throws an OperatorError where the data directory cannot be that of a server. */
export function demandPlace(
  dataDir: string,
  {
    ephemeral,
    image,
    fileSystem = fileSystemOf(dataDir),
    owner = statSync(dataDir, { throwIfNoEntry: false }),
    readOnly = isReadOnly(dataDir),
    user = process.getuid?.(),
  }: DataPlace,
): void {
  if (fileSystem === 'NFS' || fileSystem === 'SMB')
    throw new OperatorError(
      `The data directory ${dataDir} lies on ${fileSystem}, where the locks of the database do not hold: put it on a disk of this machine.`,
    )
  const lost = lostWith(fileSystem)
  if (image && lost !== undefined && !ephemeral)
    throw new OperatorError(
      `The data directory ${dataDir} lies in ${lost}, and all mail would end with the container: mount a volume there ("-v postrider:${dataDir}"), or say "serve --ephemeral".`,
    )
  const refused = (why: Unusable): OperatorError =>
    new OperatorError(unusableSentence(why, dataDir, { user, owner: owner?.uid, image }))
  if (readOnly) throw refused('read-only')
  if (image && owner && user !== undefined && user !== 0 && owner.uid !== user) throw refused('not ours')
}
