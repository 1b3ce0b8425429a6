// Whether a data directory lies where an installation can live: not on a network file system, on which the locks of
// SQLite do not hold, and in the image not on the container's own layer, which ends with the container.
import { statfsSync, statSync } from 'node:fs'
import { OperatorError } from '../base/errors.ts'

/** Magic numbers of statfs(2). */
const KINDS = new Map<number, FileSystem>([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xfe534d42, 'SMB'],
  [0xff534d42, 'SMB'],
  [0x794c7630, 'overlayfs'],
])

export type FileSystem = 'NFS' | 'SMB' | 'overlayfs'

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
}

/** Throws an OperatorError where the data directory cannot be that of a server. */
export function demandPlace(
  dataDir: string,
  {
    ephemeral,
    image,
    fileSystem = fileSystemOf(dataDir),
    owner = statSync(dataDir, { throwIfNoEntry: false }),
    user = process.getuid?.(),
  }: DataPlace,
): void {
  if (fileSystem === 'NFS' || fileSystem === 'SMB')
    throw new OperatorError(
      `The data directory ${dataDir} lies on ${fileSystem}, where the locks of the database do not hold: put it on a disk of this machine.`,
    )
  if (!image) return
  if (fileSystem === 'overlayfs' && !ephemeral)
    throw new OperatorError(
      `The data directory ${dataDir} lies on the container's own layer, and all mail would end with the container: mount a volume there ("-v postrider:${dataDir}"), or say "serve --ephemeral".`,
    )
  if (owner && user !== undefined && user !== 0 && owner.uid !== user)
    throw new OperatorError(
      `The directory mounted at ${dataDir} belongs to user ${owner.uid}, and Postrider runs as user ${user}: on the host, give it with "chown -R ${user}:${user}" and close it with "chmod 700".`,
    )
}
