// The seam between inbound and a part that reads messages at the addresses for aggregate reports. Without such a part,
// these messages are accepted and deleted.
import type { Tx } from '../store/database.ts'

/** A message at an address for reports. */
export interface ReceivedReport {
  messageKey: number
  /** The domain of the address, and the kind of reports that it receives. */
  domain: number
  about: 'dmarc' | 'tls'
  reading: unknown
  /** The organisational domain of its author, whether DMARC passed for it, and whether its signature covers all. */
  author: string | null
  dmarcPassed: boolean
  signed: boolean
  /** The scanner found a virus in it. */
  infected: boolean
}

export interface ReportReceiver {
  /**
   * Reads the content of a message. `oldest`: a report that ended before this time (ms) is too old, or null for any
   * age. Rejects only if this machine cannot read it now.
   */
  read(content: Uint8Array | { file: string }, times: { now: number; oldest: number | null }): Promise<unknown>
  /** Records a report, in the transaction that records its message. False: the message is not needed. */
  received(tx: Tx, report: ReceivedReport, now: number): boolean
  close(): Promise<unknown>
}

/** The receiver of a server without reports. */
export const NO_REPORTS: ReportReceiver = {
  read: () => Promise.resolve(),
  received: () => false,
  close: () => Promise.resolve(),
}
