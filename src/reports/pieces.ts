// A report is counted in pieces, so that nothing else waits for a large one. Few rows are stored with the report, in
// the same transaction. Of many there is a row that says where they stand: a loop has the message read again, and adds
// one piece after the other to the figures. Each piece moves the place in that row in the transaction that adds it, so
// that it counts once, whatever ends the process.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { DAMAGED } from '../base/errors.ts'
import { Loop } from '../base/loop.ts'
import type { Log } from '../base/log.ts'
import { JobFailed } from '../base/threads/pool.ts'
import { domainByKey } from '../domains/find.ts'
import type { Resolver } from '../net/resolver.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { Spool } from '../store/spool.ts'
import { addDmarcRows } from './dmarc-figures.ts'
import { knownSourcesOf, networksOf } from './known.ts'
import { ownAddresses } from './own.ts'
import type { ReportPiece } from './reading/fold.ts'
import type { ReportContent, ReportReader } from './reading/readers.ts'
import type { TlsPolicyReport } from './reading/report.ts'
import { addTlsFigures, ownPolicies } from './tls-figures.ts'
import { tellOfTlsTrouble } from './tls-trouble.ts'

type StoredPiece = RowOf<'report_pieces'>

/** Where rows stand that are not stored: from row number `at` on of the report in a message. */
interface RowsInMessage {
  message: number
  at: number
}

const placeOf = (place: RowsInMessage): string => JSON.stringify(place)

/** Stores the rows of a report that counts, or their place when they are many; the loop is rung after the commit. */
export function storeRows(
  tx: Tx,
  piece: Omit<StoredPiece, 'key' | 'rows'>,
  few: string | null,
  messageKey: number,
): void {
  if (few === '[]') return
  const rows = few ?? placeOf({ message: messageKey, at: 0 })
  tx.run(db.insertInto('report_pieces').values({ ...piece, rows }))
}

/** Rows that can never be read again. Those behind them must not wait for them. */
class RowsLost extends Error {}

/** A system error has another code than damage; an error of the program has none. */
const isLost = (thrown: unknown): boolean =>
  thrown instanceof RowsLost || (thrown instanceof JobFailed && ['', DAMAGED].includes(thrown.code))

export interface ReportFiguresDeps {
  store: Store
  clock: Clock
  log: Log
  config: Pick<Config, 'hostname' | 'delivery'>
  resolver: Resolver
  spool: Pick<Spool, 'path'>
  reports: Pick<ReportReader, 'handOver'>
}

/** The loop that adds the rows of reports to the figures. */
export class ReportFigures {
  readonly #deps: ReportFiguresDeps
  readonly #loop: Loop
  #stopping = false
  /** The addresses of this server and its relays. */
  #own: ReadonlySet<string> = new Set()

  constructor(deps: ReportFiguresDeps) {
    this.#deps = deps
    const { clock, log } = deps
    this.#loop = new Loop({ name: 'report figures', clock, log, run: () => this.#run() })
  }

  /** Starts with what an earlier process left. */
  start(): void {
    this.#loop.start()
  }

  ring(): void {
    this.#loop.ring()
  }

  /** What is not counted then is counted after the next start. */
  stop(): Promise<void> {
    this.#stopping = true
    return this.#loop.stop()
  }

  async #run(): Promise<null> {
    const { store } = this.#deps
    while (!this.#stopping) {
      const piece = store.first(db.selectFrom('report_pieces').selectAll().orderBy('key').limit(1))
      if (!piece) break
      const { own, relays } = await ownAddresses(this.#deps)
      this.#own = new Set([...own, ...relays])
      if (piece.rows.startsWith('[')) await store.writeSoon((tx) => this.#addAll(tx, piece))
      else await this.#addFrom(piece, JSON.parse(piece.rows) as RowsInMessage)
    }
    return null
  }

  /** Adds the rows of a piece, which goes with them. A piece that went before counts no more. */
  #addAll(tx: Tx, piece: StoredPiece): void {
    if (tx.run(db.deleteFrom('report_pieces').where('key', '=', piece.key)).changes > 0) this.#add(tx, piece)
  }

  /** Adds the rows that stand in a message. Throws for reasons of this machine: they are counted later. */
  async #addFrom(piece: StoredPiece, { at, message }: RowsInMessage): Promise<void> {
    const { log, reports, store } = this.#deps
    try {
      const content = this.#contentOf(message)
      if (!content) throw new RowsLost('Its message is gone.')
      const found = await reports.handOver(content, at, (next) => this.#addNext(piece, message, next))
      if (this.#stopping) return
      if (found.outcome === 'refused') throw new RowsLost(`It was read before, and is refused now: ${found.why}.`)
    } catch (thrown) {
      if (!isLost(thrown)) throw thrown
      log.fault('counting a report', thrown)
    }
    await store.writeSoon((tx) => tx.run(db.deleteFrom('report_pieces').where('key', '=', piece.key)))
  }

  #contentOf(messageKey: number): ReportContent | undefined {
    const { spool, store } = this.#deps
    const message = store.first(
      db.selectFrom('inbound_messages').select(['content', 'spool']).where('key', '=', messageKey),
    )
    if (!message) return undefined
    return message.content ?? (message.spool === null ? undefined : { file: spool.path(message.spool) })
  }

  /** Adds one piece, unless it was added before. False: no more are wanted. */
  async #addNext(piece: StoredPiece, message: number, { at, end, rows }: ReportPiece): Promise<boolean> {
    await this.#deps.store.write((tx) => {
      const moved = db
        .updateTable('report_pieces')
        .set({ rows: placeOf({ message, at: end }) })
        .where('key', '=', piece.key)
        .where('rows', '=', placeOf({ message, at }))
      if (tx.run(moved).changes > 0) this.#add(tx, { ...piece, rows })
    })
    return !this.#stopping
  }

  #add(tx: Tx, { day, domain_key, kind, reporter, rows, share }: StoredPiece): void {
    const { clock, config } = this.#deps
    const domain = domainByKey(tx, domain_key)
    if (!domain) return
    if (kind === 'dmarc')
      return addDmarcRows(tx, domain, { day, reporter, rows, share }, () => {
        const networkOf = networksOf(knownSourcesOf(tx, domain_key))
        return (address) => (this.#own.has(address) ? address : networkOf(address))
      })
    const policies = ownPolicies(JSON.parse(rows) as TlsPolicyReport[], domain, config.hostname)
    addTlsFigures(tx, domain, { day, reporter, policies })
    tellOfTlsTrouble(tx, domain, day, clock.now())
  }
}
