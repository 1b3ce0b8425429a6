// Why a place for backups did not do what it was asked, as one sentence with what fixes it.
import { codeOf, OperatorError } from '../../base/errors.ts'
import { fileFaultOf } from '../../base/file-faults.ts'

/** What fixes a failure, by its reason: the end of the sentence. */
export const FIXES = {
  clock: "set this machine's clock (NTP): the service refuses requests whose date is minutes off",
  key: 'correct the user and the key or password, and let them list, read, write and delete there',
  bucket: 'make it, or correct its name in "backup.to"',
  space: 'make room there, or keep fewer backups ("backup.keep")',
  host_key:
    'ask who runs the server whether its key was changed, and pin the new one in "backup.sftp.host_keys" only then',
  unpinned: 'ask who runs the server for its host key, and put the line into "backup.sftp.host_keys"',
  certificate: 'correct the host name, or let the authority of the certificate be trusted',
  unreachable: 'see that the host name and the port are right and the server runs',
  slow: 'see what holds the server or the network up, and try again',
  missing: 'see which backups are there ("postrider restore --list")',
  damaged: 'try again; when it happens again, the place does not keep what it is given',
  large: 'use a target of another kind for a backup of this size',
  command: 'run the command by hand and see what it says',
  refused: 'see what the log of the server says',
} as const

export type PlaceReason = keyof typeof FIXES

export class PlaceFault extends OperatorError {
  readonly reason: PlaceReason
  /** Whether the same may succeed when it is tried again at once. */
  readonly passing: boolean

  /** `title` is the place; `what` happened, as the end of "… : what"; `fix` is what fixes it, where more is known. */
  constructor(reason: PlaceReason, title: string, what: string, passing = false, fix: string = FIXES[reason]) {
    super(`${title}: ${what}; ${fix}.`)
    this.name = 'PlaceFault'
    this.reason = reason
    this.passing = passing
  }
}

/** The reasons of failed calls on files; what is wrong and what fixes it says `fileFaultOf`. */
const BY_CODE: Record<string, PlaceReason> = {
  ENOSPC: 'space',
  EDQUOT: 'space',
  EFBIG: 'large',
  EACCES: 'key',
  EPERM: 'key',
  EROFS: 'key',
  ENOENT: 'bucket',
  ENOTDIR: 'bucket',
  EIO: 'damaged',
}
/** Reasons whose own words say more of a place. */
const OWN_WORDS: readonly PlaceReason[] = ['space', 'large', 'bucket']

/** The fault of a failed call on a file; undefined for an error that is none of a file system. */
export function fileFault(title: string, thrown: unknown): PlaceFault | undefined {
  const fault = fileFaultOf(thrown)
  if (!fault) return undefined
  const reason = BY_CODE[codeOf(thrown)] ?? 'refused'
  return new PlaceFault(reason, title, fault.what, false, OWN_WORDS.includes(reason) ? FIXES[reason] : fault.fix)
}
