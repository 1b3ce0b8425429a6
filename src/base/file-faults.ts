// The one table of file system errors: the cause and the fix, for the operator who named a file or a directory.
import { codeOf, OperatorError } from './errors.ts'
import { thisUser } from './ownership.ts'

interface FileFault {
  /** The problem, as the end of "… : what". */
  what: string
  /** The fix, in the imperative. */
  fix: string
}

const RIGHTS = new Set(['EACCES', 'EPERM'])
const GONE: FileFault = {
  what: 'the file system mounted there does not respond',
  fix: 'mount it again',
}

const FAULTS: Record<string, FileFault> = {
  ENOENT: { what: 'the directory does not exist', fix: 'create it, correct its name, or mount its disk' },
  ENOTDIR: { what: 'it is not a directory', fix: 'correct the path' },
  EISDIR: { what: 'it is a directory', fix: 'use a file' },
  EFTYPE: { what: 'it is not a regular file', fix: 'use a regular file' },
  ELOOP: { what: 'its symbolic links form a loop', fix: 'correct the path' },
  ENAMETOOLONG: { what: 'its name is too long', fix: 'choose a shorter one' },
  EROFS: {
    what: 'the disk is mounted read-only for this process',
    fix: 'mount it read-write; under systemd, add the path to "ReadWritePaths=" (docs/backup.md)',
  },
  ENOSPC: { what: 'the disk is full', fix: 'free some space' },
  EDQUOT: { what: 'the disk quota is exceeded', fix: 'free some space' },
  EEXIST: { what: 'a file or link of that name exists', fix: 'remove it' },
  EFBIG: { what: 'the file is too large for the file system', fix: 'use a disk with another file system' },
  EIO: { what: 'the disk reports an error', fix: 'check the system log ("dmesg")' },
  ESTALE: GONE,
  ENOTCONN: GONE,
  EHOSTDOWN: GONE,
  ETIMEDOUT: GONE,
  EMFILE: { what: 'too many files are open', fix: 'try again, or raise the limit' },
  ENFILE: { what: 'too many files are open', fix: 'try again, or raise the limit' },
}

/** Returns the cause and the fix of a file system error, or undefined for any other error. */
export function fileFaultOf(thrown: unknown): FileFault | undefined {
  const code = codeOf(thrown)
  if (RIGHTS.has(code))
    return {
      what: `${thisUser()} has no permission there`,
      fix: 'grant it with "chown" or "chmod" on the directory and its parents',
    }
  const known = Object.hasOwn(FAULTS, code) ? FAULTS[code] : undefined
  if (known) return known
  return /^E[A-Z]+$/.test(code) ? { what: `the system returned ${code}`, fix: 'check the disk' } : undefined
}

/** Codes that only disks return, never a pipe or a socket. */
const OF_DISKS = ['EIO', 'ENOSPC', 'EDQUOT', 'EFBIG', 'EROFS', 'ESTALE']

/** As `fileFaultOf`, for a call on an open file: undefined also for an error that a pipe or a socket may have. */
export const diskFaultOf = (thrown: unknown): FileFault | undefined =>
  OF_DISKS.includes(codeOf(thrown)) ? fileFaultOf(thrown) : undefined

/** An OperatorError for a file, named by the operator, that cannot be written. Other errors are returned unchanged. */
export function unwritable(file: string, thrown: unknown, instead = 'choose another path'): unknown {
  const fault = fileFaultOf(thrown)
  if (!fault) return thrown
  return new OperatorError(`${file} cannot be written (${codeOf(thrown)}): ${fault.what}; ${fault.fix}, or ${instead}.`)
}

/** Why a file that a user named cannot be read: the system's code, with the user, or a text. */
export function whyUnread(thrown: unknown): string {
  const code = codeOf(thrown)
  if (RIGHTS.has(code)) return `${code} for ${thisUser()}`
  if (code === 'EFTYPE') return 'it is not a regular file'
  const most: unknown = typeof thrown === 'object' && thrown !== null && 'shown' in thrown ? thrown.shown : undefined
  return typeof most === 'string' ? `it is larger than ${most}` : code
}
