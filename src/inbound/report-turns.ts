// Reads what came to an address for reports as a report, one after the other.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { messageOf, must } from '../base/errors.ts'
import type { ReportReader } from '../reports/reading/readers.ts'
import type { ReportReading } from '../reports/reading/report.ts'
import type { Spool } from '../store/spool.ts'
import { Later } from './examine.ts'
import type { InboundMessage } from './queue.ts'

export interface ReportTurnsDeps {
  clock: Clock
  config: Pick<Config, 'retention'>
  reports: Pick<ReportReader, 'read'>
  spool: Spool
}

/** The most reports that wait for their reader, which reads one after the other; others are tried later. */
const MOST = 16

export class ReportTurns {
  readonly #deps: ReportTurnsDeps
  /** Reports that are being read, or wait for it. */
  #count = 0

  constructor(deps: ReportTurnsDeps) {
    this.#deps = deps
  }

  /** What a message says as a report; undefined when nothing of it may be read. Throws Later. */
  async read(message: InboundMessage): Promise<ReportReading | undefined> {
    const { clock, config, reports, spool } = this.#deps
    if (message.cut === 1 || message.virus !== null) return undefined
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
