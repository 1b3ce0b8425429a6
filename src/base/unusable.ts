// Why a place on a disk cannot be used, and what its operator does about it: the only sentences of that kind. In the
// image a path is not the one of the host, and there is neither sudo nor a shell: there it is the mount that is named
// (C5).
import { accessSync, constants, existsSync, statSync, type Stats } from 'node:fs'
import { dirname } from 'node:path'
import { inImage } from './config-file.ts'
import { codeOf, OperatorError } from './errors.ts'
import { worksAsOwner } from './ownership.ts'

/** `not ours`: its owner is another user; `open`: other users may read it. */
export type Unusable = 'read-only' | 'not ours' | 'open' | 'full'

/** The codes of the system and of SQLite. SQLite says of each obstacle of rights that it cannot open or write. */
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

/** What the system says to one who wants to read and write there; undefined: nothing stands in the way. */
function obstacle(path: string): 'read-only' | 'not ours' | undefined {
  try {
    accessSync(existing(path), constants.R_OK | constants.W_OK)
    return undefined
  } catch (thrown) {
    return codeOf(thrown) === 'EROFS' ? 'read-only' : 'not ours'
  }
}

/** Whether a path lies on a file system that is mounted read-only, whoever asks. */
export const isReadOnly = (path: string): boolean => obstacle(path) === 'read-only'

/** What an error about a path says of its place; undefined for errors of another kind. */
export function whyUnusable(thrown: unknown, path: string): Unusable | undefined {
  const code = codeOf(thrown)
  const why = CODES[code.split('_').slice(0, 2).join('_')]
  if (why !== 'rights') return why
  // SQLite cannot open a file without a free descriptor either.
  return obstacle(path) ?? (code.startsWith('SQLITE') ? undefined : 'not ours')
}

/** What the system says of a path; undefined where there is nothing, or where this user may not look. */
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

/** What is wrong with a place, and what to do about it. */
export function unusable(
  why: Unusable,
  path: string,
  { image = inImage(), user = process.geteuid?.() ?? 0, owner = found(existing(path))?.uid ?? 0 }: PlaceOwner = {},
): { what: string; mend: string } {
  const mounted = `the directory mounted at ${isDirectory(path) ? path : dirname(path)}`
  const own = `"chown -R ${user}:${user}"`
  const [what, mend, inside] = {
    'read-only': [
      `${path} lies on a file system that is mounted read-only`,
      'see why ("dmesg": a failing disk becomes so), then "mount -o remount,rw" on it; under systemd its unit needs the path in "ReadWritePaths="',
      'start the container without ":ro", "readonly" or "read_only" on this mount; if it has none, see on the host whether the disk became read-only ("dmesg")',
    ],
    'not ours': [
      `${path} may not be used by this user`,
      worksAsOwner()
        ? 'root works as the owner of the data directory, so give it to that user with chown'
        : 'run this with sudo, or as the user who owns it',
      `on the host, give it with ${own} and close it with "chmod 700"`,
    ],
    open: [
      `Other users may read ${path}`,
      `close it with "chmod 700 ${path}"`,
      'on the host, close it with "chmod 700"',
    ],
    full: [
      `The disk that holds ${path} is full`,
      'free some space ("df -h" shows the disks) and run it again',
      'free some space on the host ("df -h" shows its disks) and start again',
    ],
  }[why] as [string, string, string]
  if (!image) return { what, mend }
  const named = {
    'read-only': `The ${mounted.slice(4)} is mounted read-only`,
    'not ours': `${isDirectory(path) ? `The ${mounted.slice(4)}` : path} belongs to user ${owner}, and Postrider runs as user ${user}`,
    open: `Other users may read ${mounted}`,
    full: `The disk of ${mounted} is full`,
  }[why]
  return { what: named, mend: inside }
}

/** The two as one sentence. */
export function unusableSentence(why: Unusable, path: string, whose?: PlaceOwner): string {
  const { mend, what } = unusable(why, path, whose)
  return `${what}: ${mend}.`
}

/** The OperatorError for an error about a path; undefined for errors of another kind. */
export function unusableError(thrown: unknown, path: string): OperatorError | undefined {
  const why = whyUnusable(thrown, path)
  return why && new OperatorError(unusableSentence(why, path), { cause: thrown })
}
