// Reads messages to a report address as reports, one after the other.
import { HOUR, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { messageOf, must } from '../base/errors.ts'
import type { ReportReceiver } from '../parts/received.ts'
import type { Spool } from '../store/spool.ts'
import { Later, Unproven } from './examine.ts'
import type { InboundMessage } from './queue.ts'
import type { Judgement } from './reader.ts'
import { isForReports } from './recipients.ts'

export interface ReportTurnsDeps {
  clock: Clock
  config: Pick<Config, 'retention'>
  reports: Pick<ReportReceiver, 'read'>
  spool: Spool
}

/** How long DNS is queried again about the author of a report. Each wait doubles the age of its message: ten times. */
const PATIENCE = 8 * HOUR
const FIRST_WAIT = 30 * SECOND

/** Whether an author that is not authenticated might be, if DNS answered. */
const isUnproven = (judgement: Judgement | null): boolean => {
  if (judgement === null || judgement.beyond !== null) return false
  const { dkim, dmarc, spf } = judgement.verdicts
  return dmarc !== 'pass' && [dkim, dmarc, spf].includes('temperror')
}

/** The most reports that wait for their reader, which reads one after the other. Others are retried later. */
const MOST = 16

export class ReportTurns {
  readonly #deps: ReportTurnsDeps
  /** Reports that are being read, or wait for it. */
  #count = 0

  constructor(deps: ReportTurnsDeps) {
    this.#deps = deps
  }

  /**
   * The contents of a message as a report, or undefined if the message must not be read. Throws Later, for a limited
   * time even if DNS did not answer about the author: otherwise a genuine report would be lost.
   */
  async read(message: InboundMessage, judgement: Judgement | null): Promise<unknown> {
    const { clock, config, reports, spool } = this.#deps
    if (message.cut === 1 || message.virus !== null) return undefined
    const age = clock.now() - message.received_at
    if (age < PATIENCE && isUnproven(judgement) && isForReports(message, 'all'))
      throw new Unproven(Math.max(age, FIRST_WAIT))
    if (this.#count >= MOST) throw new Later('too many reports at once')
    const now = clock.now()
    const kept = config.retention.reports
    this.#count++
    try {
      const content = message.content ?? { file: spool.path(must(message.spool, 'The file of a message')) }
      return await reports.read(content, { now, oldest: kept > 0 ? now - kept : null })
    } catch (thrown) {
      throw new Later(messageOf(thrown), { cause: thrown })
    } finally {
      this.#count--
    }
  }
}
