// What the errors of the file system mean for whom named a file or a folder, and what fixes them: the one table of
// both.
import { codeOf, OperatorError } from './errors.ts'
import { userRefused } from './ownership.ts'

interface FileFault {
  /** What happened, as the end of "… : what". */
  what: string
  /** What fixes it, as an order. */
  fix: string
}

const RIGHTS = new Set(['EACCES', 'EPERM'])
const GONE: FileFault = {
  what: 'what is mounted there does not answer',
  fix: 'mount it again',
}

const FAULTS: Record<string, FileFault> = {
  ENOENT: { what: 'there is no such directory', fix: 'make it or correct its name, and see that its disk is mounted' },
  ENOTDIR: { what: 'it is not a directory', fix: 'correct the path' },
  EISDIR: { what: 'it is a directory', fix: 'name a file' },
  EFTYPE: { what: 'it is not a regular file', fix: 'name a file' },
  ELOOP: { what: 'its links lead in a circle', fix: 'correct the path' },
  ENAMETOOLONG: { what: 'its name is too long', fix: 'choose a shorter one' },
  EROFS: {
    what: 'the disk is mounted read-only for this process',
    fix: 'mount it for writing; under systemd the unit names it in "ReadWritePaths=" (docs/backup.md)',
  },
  ENOSPC: { what: 'the disk is full', fix: 'make room there' },
  EDQUOT: { what: 'the quota is used up', fix: 'make room there' },
  EFBIG: { what: 'the file system takes no file of this size', fix: 'choose a disk with another file system' },
  EIO: { what: 'the disk reports an error', fix: 'see what the log of the system says of it ("dmesg")' },
  ESTALE: GONE,
  ENOTCONN: GONE,
  EHOSTDOWN: GONE,
  ETIMEDOUT: GONE,
  EMFILE: { what: 'too many files are open', fix: 'try again, or raise the limit' },
  ENFILE: { what: 'too many files are open', fix: 'try again, or raise the limit' },
}

/** What a failed call on a file or folder means; undefined for an error that is none of a file system. */
export function fileFaultOf(thrown: unknown): FileFault | undefined {
  const code = codeOf(thrown)
  if (RIGHTS.has(code))
    return {
      what: `${userRefused(thrown)} may not do that there`,
      fix: 'give that user the right to ("chown", "chmod" of the directory and of those above it)',
    }
  const known = Object.hasOwn(FAULTS, code) ? FAULTS[code] : undefined
  if (known) return known
  return /^E[A-Z]+$/.test(code) ? { what: `the system says ${code}`, fix: 'see to the disk' } : undefined
}

/** Codes of what a disk alone does: a pipe or a socket never fails so. */
const OF_DISKS = ['EIO', 'ENOSPC', 'EDQUOT', 'EFBIG', 'EROFS', 'ESTALE']

/** As `fileFaultOf`, for a call on an open file: undefined also for an error that a pipe or a socket may have. */
export const diskFaultOf = (thrown: unknown): FileFault | undefined =>
  OF_DISKS.includes(codeOf(thrown)) ? fileFaultOf(thrown) : undefined

/** An OperatorError for a file, named by the operator, that cannot be written; other errors are returned unchanged. */
export function unwritable(file: string, thrown: unknown): unknown {
  const fault = fileFaultOf(thrown)
  if (!fault) return thrown
  return new OperatorError(
    `${file} cannot be written (${codeOf(thrown)}): ${fault.what}; ${fault.fix}, or choose another place.`,
  )
}

/** Why a file that a person names is not read: the code of the system, with whom it refused, or words. */
export function whyUnread(thrown: unknown): string {
  const code = codeOf(thrown)
  if (RIGHTS.has(code)) return `${code} for ${userRefused(thrown)}`
  if (code === 'EFTYPE') return 'it is not a regular file'
  const most: unknown = typeof thrown === 'object' && thrown !== null && 'shown' in thrown ? thrown.shown : undefined
  return typeof most === 'string' ? `it is larger than ${most}` : code
}
