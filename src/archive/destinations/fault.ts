// Errors of backup destinations: one sentence each, with the cause and the fix.
import { codeOf, OperatorError } from '../../base/errors.ts'
import { fileFaultOf } from '../../base/file-faults.ts'

/** The fix for each reason: the end of the sentence. */
const FIXES = {
  clock: "set this machine's clock (NTP), because the service rejects requests with a wrong time",
  key: 'check the key, and that it has permission to list, read, write and delete there',
  bucket: 'create it, or correct its name in "backup.to"',
  space: 'free some space there, or keep fewer backups ("backup.keep")',
  certificate: 'correct the host name, or add the CA of the certificate to "tls.ca_file"',
  unreachable: 'check the host name and the port, and that the server runs',
  slow: 'check the server and the network, and try again',
  missing: 'run "postrider restore --list" to see the available backups',
  damaged: 'try again, and use another destination if it happens again',
  large: 'use another kind of destination for a backup of this size',
  command: 'run the command manually to see its error',
  refused: 'check the server log',
} as const

export type FaultReason = keyof typeof FIXES

export class DestinationFault extends OperatorError {
  readonly reason: FaultReason
  /** Whether an immediate retry may succeed. */
  readonly passing: boolean

  /** `title` is the destination, `what` the cause. `fix` replaces the fix of the reason if more is known. */
  constructor(reason: FaultReason, title: string, what: string, passing = false, fix: string = FIXES[reason]) {
    super(`${title}: ${what}; ${fix}.`)
    this.name = 'DestinationFault'
    this.reason = reason
    this.passing = passing
  }
}

/** The reasons of file system errors. `fileFaultOf` has the cause and the fix. */
const BY_CODE: Record<string, FaultReason> = {
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
/** Reasons whose own fix is more specific for a destination. */
const OWN_FIX: readonly FaultReason[] = ['space', 'large', 'bucket']

/** The fault for a file system error, or undefined for any other error. */
export function fileFault(title: string, thrown: unknown): DestinationFault | undefined {
  const fault = fileFaultOf(thrown)
  if (!fault) return undefined
  const reason = BY_CODE[codeOf(thrown)] ?? 'refused'
  return new DestinationFault(reason, title, fault.what, false, OWN_FIX.includes(reason) ? FIXES[reason] : fault.fix)
}
