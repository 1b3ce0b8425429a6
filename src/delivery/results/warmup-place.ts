// The places that claimed mail has in the allowances of warm-up (DV7). They are taken in the transaction that claims
// the mail, and given back in the one that settles it when its RCPT was not sent. The row of a recipient says on which
// day it has a place (`tried_day`), from its claim on: however often it is tried that day, and whatever ends the
// process, it takes one.
import type { RowOf } from '../../schema/tables.ts'
import { asksForLess, isBlock } from '../../smtp/about-server.ts'
import { classify } from '../../smtp/bounce-class.ts'
import { domainOf, relayIn } from '../../message/lane-names.ts'
import { classOf, isAboutUs, reasonOf } from '../../smtp/reply-reason.ts'
import type { Verdict } from '../../smtp/verdict.ts'
import type { Tx } from '../../store/database.ts'
import { raw } from '../../store/query.ts'
import { receiverOf } from '../../reputation/receivers.ts'
import { dayOf, findPair } from '../../warmup/pairs.ts'
import type { Warmup } from '../../warmup/places.ts'

/** A recipient as it was before its claim: whether it had a place today decides whether it needs one. */
type Placed = Pick<RowOf<'deliveries'>, 'key' | 'tried_day'>

/** Where mail of a lane counts: the receiver, and the sources of which one is used; none: it goes by a relay. */
export interface Counted {
  receiver: string
  sources: readonly string[]
}

/** Stages before RCPT; at `mail` it may have been sent together with MAIL (RFC 2920). */
const UNSENT: readonly Verdict['stage'][] = ['compose', 'dns', 'connect', 'greeting', 'ehlo', 'starttls', 'auth']

export class WarmupPlace {
  readonly receiver: string
  readonly #warmup: Warmup
  readonly #sources: readonly string[]
  readonly #bulk: boolean
  readonly #takenAt: number
  /** Keys of recipients for which RCPT may have been sent, in this session or an earlier one of the same attempt. */
  readonly #asked = new Set<number>()

  constructor(warmup: Warmup, { receiver, sources }: Counted, { bulk, now }: { bulk: boolean; now: number }) {
    this.receiver = receiver
    this.#warmup = warmup
    this.#sources = sources
    this.#bulk = bulk
    this.#takenAt = now
  }

  /** The day for which it counts. */
  get day(): number {
    return dayOf(this.#takenAt)
  }

  /** The day that the rows of its recipients say; null: a relay needs no place. */
  get placedOn(): number | null {
    return this.#sources.length > 0 ? this.day : null
  }

  /** Takes places for claimed recipients that have none today. */
  take(tx: Tx, deliveries: readonly Placed[]): void {
    const without = this.#without(deliveries)
    this.takeNew(tx, without.length)
    this.#mark(tx, without, this.placedOn)
  }

  /** Takes places for recipients that are stored with `placedOn`. */
  takeNew(tx: Tx, wanted: number): void {
    if (wanted === 0) return
    for (const source of this.#sources)
      this.#warmup.take(tx, { source, receiver: this.receiver }, { bulk: this.#bulk, now: this.#takenAt, wanted })
  }

  /** Call it with each verdict of an SMTP transaction: an attempt may go on in another session, and end before RCPT. */
  answered({ key }: Placed, verdict: Verdict): void {
    if (!UNSENT.includes(verdict.stage)) this.#asked.add(key)
  }

  /** Gives back the places that a claim took, of those recipients for which RCPT was not sent. */
  giveBack(tx: Tx, deliveries: readonly Placed[]): void {
    const without = this.#without(deliveries).filter(({ key }) => !this.#asked.has(key))
    this.#free(tx, without.length)
    this.#mark(tx, without, null)
  }

  /** Recipients that had no place before the claim. */
  #without(deliveries: readonly Placed[]): readonly Placed[] {
    return this.#sources.length === 0 ? [] : deliveries.filter(({ tried_day }) => tried_day !== this.day)
  }

  #mark(tx: Tx, deliveries: readonly Placed[], day: number | null): void {
    if (deliveries.length === 0) return
    const keys = JSON.stringify(deliveries.map(({ key }) => key))
    tx.run(raw('update deliveries set tried_day = ? where key in (select value from json_each(?))', [day, keys]))
  }

  /** Frees places at all sources, or at all but one. */
  #free(tx: Tx, count: number, except?: string): void {
    if (count === 0) return
    const given = { bulk: this.#bulk, count, takenAt: this.#takenAt }
    for (const source of this.#sources)
      if (source !== except) this.#warmup.giveBack(tx, { source, receiver: this.receiver }, given)
  }

  /** Settles the place of a recipient: given back when RCPT was not sent; else what was said about us is counted. */
  settled(tx: Tx, delivery: Placed, verdict: Verdict, now: number): void {
    if (this.#sources.length === 0) {
      if (verdict.kind === 'delivered') this.#warmup.noteRelayed(tx, this.receiver, now)
      return
    }
    this.answered(delivery, verdict)
    if (!this.#asked.has(delivery.key)) return this.giveBack(tx, [delivery])
    const source =
      verdict.source !== undefined && this.#sources.includes(verdict.source) ? verdict.source : this.#sources[0]
    if (source === undefined) return
    if (this.#sources.length > 1) this.#free(tx, this.#without([delivery]).length, source)
    for (const kind of saidBy(verdict, this.receiver))
      // A recipient that is deferred several times a day is one that was deferred.
      if (kind !== 'deferred' || delivery.tried_day !== this.day)
        this.#warmup.note(
          tx,
          { source, receiver: this.receiver },
          { kind, mailDay: this.day, words: verdict.text, now },
        )
  }
}

/**
 * Counts a report that came later, for the day on which the mail was taken (DV3). `delivery`: its row as it was until
 * then. The pair is that of the source that it left by, else the one that its receiver has.
 */
export function noteReturned(
  tx: Tx,
  warmup: Warmup,
  delivery: Pick<RowOf<'deliveries'>, 'lane' | 'remote_mta' | 'source' | 'updated_at'>,
  { kind, words }: { kind: 'bounced' | 'complained' | 'refused'; words: string },
  now: number,
): void {
  const { lane, remote_mta, source, updated_at } = delivery
  if (relayIn(lane) !== undefined) return
  const receiver = receiverOf(remote_mta, domainOf(lane))
  const pair = source === null ? warmup.pairWith(tx, receiver) : { source, receiver }
  if (pair && findPair(tx, pair)) warmup.note(tx, pair, { kind, mailDay: dayOf(updated_at), words, now })
}

/** What a report of a failure says. */
export function saidByReport(
  said: { code: number | null; enhanced: string | null; text: string },
  hard: boolean,
): 'bounced' | 'refused' | undefined {
  return hard ? 'bounced' : isAboutUs(classOf(said)) ? 'refused' : undefined
}

type SaidOfUs = 'deferred' | 'refused' | 'bounced' | 'block'

/** What a verdict says about us, or of an address that does not exist. */
function saidBy(verdict: Verdict, receiver: string): SaidOfUs[] {
  const { code, enhanced, kind, text } = verdict
  if (code === null || (kind !== 'deferred' && kind !== 'bounced')) return []
  const reason = reasonOf({ code, enhanced, text }, receiver)
  const meant = reason ? reason.class : isBlock(verdict) ? 'block' : asksForLess(verdict) ? 'rate' : undefined
  if (isAboutUs(meant))
    return [kind === 'deferred' ? 'deferred' : 'refused', ...(meant === 'block' ? (['block'] as const) : [])]
  return kind === 'bounced' && classify(verdict) === 'hard' ? ['bounced'] : []
}
