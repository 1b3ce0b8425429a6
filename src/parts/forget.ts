// How a part erases an address from its tables, beyond the marks that follow from the description of their columns.
import type { Erasing, ErasingStep } from '../store/erasing.ts'
import type { Reader, Tx } from '../store/database.ts'

/** Returns the content of a file of the spool. */
export type ReadFile = (file: string) => Uint8Array

export interface Forgotten {
  /** The key after which to continue, or null at the end. */
  next: number | null
  /** Whether an email to the address was skipped because it is being sent. The next run processes it. */
  left?: boolean
  /** Spool files that no row names now. */
  files: string[]
}

export interface Forget {
  /** Called first, so that no more email to the address is queued. */
  first?: (tx: Tx, erasing: Erasing) => void
  /** Erase in some rows at a time. They run before all steps. */
  walks?: readonly ((tx: Tx, erasing: Erasing, after: number, read: ReadFile) => Forgotten)[]
  /** Run before the marks are written, because a sender that is still needed must not become a mark. */
  steps?: readonly ErasingStep[]
  /** Whether an email or message that names the address is being processed: the erasure must run again. */
  busy?: (reader: Reader, erasing: Erasing, read: ReadFile) => boolean
}
