// Why a path on a disk cannot be used, and how the operator fixes it: the only sentences of that kind. In the image, a
// path differs from that on the host, and there is neither sudo nor a shell. So the sentence names the mount.
import { accessSync, constants, existsSync, statSync, type Stats } from 'node:fs'
import { dirname } from 'node:path'
import { inImage } from './config-file.ts'
import { codeOf, OperatorError } from './errors.ts'

/** `not ours`: another user owns it. `open`: other users can read it. */
export type Unusable = 'read-only' | 'not ours' | 'open' | 'full'

/** Codes of the system and of SQLite. SQLite reports every permission problem as "cannot open" or "cannot write". */
const CODES: Record<string, Unusable | 'rights'> = {
  EROFS: 'read-only',
  EACCES: 'rights',
  EPERM: 'rights',
  SQLITE_CANTOPEN: 'rights',
  SQLITE_READONLY: 'rights',
  SQLITE_PERM: 'rights',
  ENOSPC: 'full',
  EDQUOT: 'full',
  SQLITE_FULL: 'full',
}

/** The directory of a path that exists: the path itself, or the nearest above it. */
function existing(path: string): string {
  let at = path
  while (!existsSync(at) && dirname(at) !== at) at = dirname(at)
  return at
}

/** The system's obstacle to reading and writing at a path, or undefined. */
function obstacle(path: string): 'read-only' | 'not ours' | undefined {
  try {
    accessSync(existing(path), constants.R_OK | constants.W_OK)
    return undefined
  } catch (thrown) {
    return codeOf(thrown) === 'EROFS' ? 'read-only' : 'not ours'
  }
}

/** Whether a path is on a file system that is mounted read-only. */
export const isReadOnly = (path: string): boolean => obstacle(path) === 'read-only'

/** The problem with the path of an error, or undefined for errors of another kind. */
export function whyUnusable(thrown: unknown, path: string): Unusable | undefined {
  const code = codeOf(thrown)
  const why = CODES[code.split('_').slice(0, 2).join('_')]
  if (why !== 'rights') return why
  // SQLite cannot open a file without a free descriptor either.
  return obstacle(path) ?? (code.startsWith('SQLITE') ? undefined : 'not ours')
}

/** The attributes of a path, or undefined if it does not exist or this user has no access. */
function found(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

const isDirectory = (path: string): boolean => found(path)?.isDirectory() !== false

export interface PlaceOwner {
  image?: boolean
  user?: number | undefined
  owner?: number | undefined
}

/** The problem with a path and its fix. */
export function unusable(
  why: Unusable,
  path: string,
  { image = inImage(), user = process.geteuid?.() ?? 0, owner = found(existing(path))?.uid ?? 0 }: PlaceOwner = {},
): { what: string; fix: string } {
  const mounted = `the directory mounted at ${isDirectory(path) ? path : dirname(path)}`
  const own = `"chown -R ${user}:${user}"`
  const [what, fix, inside] = {
    'read-only': [
      `${path} is on a file system that is mounted read-only`,
      'check "dmesg" for disk errors, then run "mount -o remount,rw"; under systemd, add the path to "ReadWritePaths=" of the unit',
      'start the container without ":ro", "readonly" or "read_only" on this mount; if it has none, check the disk of the host ("dmesg")',
    ],
    'not ours': [
      `${path} is not accessible to this user`,
      'run the command with sudo or as the owner; if it has, give the path to the owner of the data directory with chown',
      `on the host, run ${own} and "chmod 700" on it`,
    ],
    open: [`Other users can read ${path}`, `run "chmod 700 ${path}"`, 'on the host, close it with "chmod 700"'],
    full: [
      `The disk that holds ${path} is full`,
      'free some space ("df -h" shows the disks) and run it again',
      'free some space on the host ("df -h" shows its disks) and start again',
    ],
  }[why] as [string, string, string]
  if (!image) return { what, fix }
  const named = {
    'read-only': `The ${mounted.slice(4)} is mounted read-only`,
    'not ours': `${isDirectory(path) ? `The ${mounted.slice(4)}` : path} belongs to user ${owner}, and Postrider runs as user ${user}`,
    open: `Other users can read ${mounted}`,
    full: `The disk of ${mounted} is full`,
  }[why]
  return { what: named, fix: inside }
}

/** The two as one sentence. */
export function unusableSentence(why: Unusable, path: string, whose?: PlaceOwner): string {
  const { fix, what } = unusable(why, path, whose)
  return `${what}: ${fix}.`
}

/** The OperatorError for an error about a path, or undefined for errors of another kind. */
export function unusableError(thrown: unknown, path: string): OperatorError | undefined {
  const why = whyUnusable(thrown, path)
  return why && new OperatorError(unusableSentence(why, path), { cause: thrown })
}
