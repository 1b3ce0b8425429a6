// A large report is counted in pieces, so that nothing else waits for it: its rows are stored with the report, in the
// same transaction, and a loop adds one piece at a time to the figures. A piece goes in the transaction that adds it,
// so that it counts once, whatever ends the process.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { Loop } from '../base/loop.ts'
import type { Log } from '../base/log.ts'
import { domainByKey } from '../domains/find.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import { addDmarcRows, DmarcRows, rowOf, type FiguresRow } from './dmarc-figures.ts'
import type { AggregateReport, DmarcRecord, ReportReading, TlsPolicyReport } from './reading/report.ts'
import { addTlsFigures, ownPolicies } from './tls-figures.ts'
import { tellOfTlsTrouble } from './tls-trouble.ts'

/** Lets other work run. */
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Rows of a piece, and records that are looked at in one turn of the event loop. */
const ROWS = 500
const RECORDS = 1000

/** A report with its rows in pieces, as JSON. */
export type FoldedReading =
  | Extract<ReportReading, { outcome: 'refused' }>
  | { outcome: 'read'; report: AggregateReport; pieces: string[] }

export async function folded(reading: ReportReading): Promise<FoldedReading> {
  if (reading.outcome === 'refused') return reading
  const { report } = reading
  const pieces =
    report.kind === 'tls' ? await piecesOf(report.policies, (each) => each) : await dmarcPieces(report.records)
  return { outcome: 'read', report, pieces }
}

async function dmarcPieces(records: readonly DmarcRecord[]): Promise<string[]> {
  const rows = new DmarcRows(records)
  for (let at = 0; at < records.length; at += RECORDS) {
    rows.add(at, at + RECORDS)
    await nextTurn()
  }
  return piecesOf(rows.largestFirst(), rowOf)
}

async function piecesOf<T>(all: readonly T[], row: (each: T) => unknown): Promise<string[]> {
  const pieces: string[] = []
  for (let at = 0; at < all.length; at += ROWS) {
    pieces.push(JSON.stringify(all.slice(at, at + ROWS).map(row)))
    await nextTurn()
  }
  return pieces
}

type StoredPiece = RowOf<'report_pieces'>

/** Stores the pieces of a report that counts; the loop is rung after the commit. */
export function storePieces(tx: Tx, piece: Omit<StoredPiece, 'key' | 'rows'>, pieces: readonly string[]): void {
  for (const rows of pieces) tx.run(db.insertInto('report_pieces').values({ ...piece, rows }))
}

export interface ReportFiguresDeps {
  store: Store
  clock: Clock
  log: Log
  config: Pick<Config, 'hostname'>
}

/** The loop that adds pieces to the figures. */
export class ReportFigures {
  readonly #deps: ReportFiguresDeps
  readonly #loop: Loop

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

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #run(): Promise<null> {
    const { clock, config, store } = this.#deps
    while (await store.writeSoon((tx) => addNext(tx, config.hostname, clock.now())));
    return null
  }
}

/** Adds the oldest piece. False: there is none. */
function addNext(tx: Tx, hostname: string, now: number): boolean {
  const piece = tx.first(db.selectFrom('report_pieces').selectAll().orderBy('key').limit(1))
  if (!piece) return false
  tx.run(db.deleteFrom('report_pieces').where('key', '=', piece.key))
  const { day, kind, reporter } = piece
  const domain = domainByKey(tx, piece.domain_key)
  const rows: unknown = JSON.parse(piece.rows)
  if (!domain) return true
  if (kind === 'dmarc') addDmarcRows(tx, domain, { day, reporter, rows: rows as FiguresRow[] })
  else {
    addTlsFigures(tx, domain, { day, reporter, policies: ownPolicies(rows as TlsPolicyReport[], domain, hostname) })
    tellOfTlsTrouble(tx, domain, day, now)
  }
  return true
}
