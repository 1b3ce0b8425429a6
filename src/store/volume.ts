// Checks whether an installation can live in a data directory: not on a network file system, on which the locks of
// SQLite do not work. In the image, not on the container's own layer or in memory, which are lost with it. Names the
// device of a data directory, because a failover pair needs one that moves between machines.
import { readdirSync, readFileSync, realpathSync, statfsSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { OperatorError } from '../base/errors.ts'
import { isReadOnly, unusableSentence, type Unusable } from '../base/unusable.ts'

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

/** The kind of storage that is lost with the container or the machine, or undefined if it is persistent. */
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

export interface Device {
  /** Such as "/dev/sda1". */
  name: string
  /** Such as "ext4". */
  fileSystem: string
  /** Undefined for a disk, which can be local or a volume of the hosting provider. */
  kind: 'DRBD' | 'Ceph RBD' | 'iSCSI' | 'NBD' | undefined
  /** The state of the two copies of a DRBD device, such as "UpToDate/UpToDate", where the system shows it. */
  copies: string | undefined
}

/** The block device of a directory, or undefined if the system does not show one. Only Linux does. */
export function deviceOf(directory: string, root = '/'): Device | undefined {
  try {
    const { dev } = statSync(directory)
    const number = `${(dev >>> 8) & 0xfff}:${(dev & 0xff) | ((dev >>> 12) & 0xfff00)}`
    const mounts = readFileSync(join(root, 'proc/self/mountinfo'), 'utf8').split('\n')
    // The fields of proc_pid_mountinfo(5): the third is the device number, and those after " - " describe it.
    const mount = mounts.findLast((line) => line.split(' ')[2] === number)
    const [fileSystem = '', name = ''] = mount?.split(' - ')[1]?.split(' ') ?? []
    if (!name.startsWith('/dev/')) return undefined
    const below = devicesBelow(join(root, 'sys/dev/block', number))
    const drbd = below.find((path) => basename(path).startsWith('drbd'))
    const kind = drbd ? 'DRBD' : KINDS_OF_DEVICE.find(([pattern]) => below.some((path) => pattern.test(path)))?.[1]
    return { name, fileSystem, kind, copies: drbd && copiesOf(basename(drbd), root) }
  } catch {
    return undefined
  }
}

const KINDS_OF_DEVICE: readonly (readonly [RegExp, Device['kind']])[] = [
  [/\/rbd\d+/, 'Ceph RBD'],
  [/\/nbd\d+/, 'NBD'],
  [/\/session\d+\//, 'iSCSI'],
]

/** The path in /sys of a block device, and of those that it consists of, as with LVM or encryption. */
function devicesBelow(link: string): string[] {
  const path = realpathSync(link)
  let parts: string[] = []
  try {
    parts = readdirSync(join(path, 'slaves'))
  } catch {
    // A partition has none.
  }
  return [path, ...parts.flatMap((part) => devicesBelow(join(path, 'slaves', part)))]
}

/** The state of both copies in /proc/drbd (DRBD 8.4). DRBD 9 does not show it there. */
function copiesOf(name: string, root: string): string | undefined {
  const line = new RegExp(`^ *${name.slice('drbd'.length)}: .*\\bds:(\\S+)`, 'm')
  try {
    return line.exec(readFileSync(join(root, 'proc/drbd'), 'utf8'))?.[1]
  } catch {
    return undefined
  }
}

export interface DataPlace {
  /** Whether Postrider runs from the container image. */
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
      `The data directory ${dataDir} is on ${fileSystem}, which does not support database locks; move it to a local disk.`,
    )
  const lost = lostWith(fileSystem)
  if (image && lost !== undefined && !ephemeral)
    throw new OperatorError(
      `The data directory ${dataDir} is in ${lost}, so all email would be lost with the container; mount a volume there ("-v postrider:${dataDir}"), or use "serve --ephemeral".`,
    )
  const refused = (why: Unusable): OperatorError =>
    new OperatorError(unusableSentence(why, dataDir, { user, owner: owner?.uid, image }))
  if (readOnly) throw refused('read-only')
  if (image && owner && user !== undefined && user !== 0 && owner.uid !== user) throw refused('not ours')
}
