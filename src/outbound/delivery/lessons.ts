// What the answers to one mail teach of the exchanger (D34, D64): that it takes fewer connections, or fewer mails a
// second, or nothing for a while. The engine acts on it; here a lane and its way only learn.
import type { Troubles } from '../../base/trouble.ts'
import type { Verdict } from '../../smtp/verdict.ts'
import type { Connection } from './attempt.ts'
import type { MailTransaction } from './transaction.ts'
import { aboutTheHost, asksForLess, maybeTheMail, refusesConnection } from './conclude.ts'
import type { Lane } from './lanes.ts'
import type { Way } from './ways.ts'

/** So often a mail whose MAIL got 4xx is tried on another connection. */
const MAX_REFUSALS = 2

/** Whether a mail goes over another connection instead. What may be its own fault is not tried on all of them. */
export function isRefused(way: Way, work: MailTransaction, verdicts: readonly Verdict[], now: number): boolean {
  if (way.senders <= 1 || verdicts.length === 0 || !verdicts.every(refusesConnection)) return false
  if (verdicts.every(maybeTheMail)) {
    work.refusals = (work.refusals ?? 0) + 1
    if (work.refusals > MAX_REFUSALS) return false
  }
  way.width.refused(way.senders, now)
  return true
}

/**
 * Rate answers to a mail whose attempt began at a time: the lane goes more slowly, and they are marked to go back with
 * their attempt.
 */
export function slowedBy(
  lane: Lane,
  { deliveries }: MailTransaction,
  verdicts: readonly Verdict[],
  { begunAt, now }: { begunAt: number; now: number },
): readonly Verdict[] {
  const { pace } = lane.learned
  const marked = verdicts.map((verdict, index) =>
    asksForLess(verdict) && pace.spares(deliveries[index]!.key) ? { ...verdict, soon: true as const } : verdict,
  )
  if (marked.some(({ soon }) => soon)) pace.refused(begunAt, now)
  for (const [index, { kind }] of marked.entries()) if (kind !== 'deferred') pace.ended(deliveries[index]!.key)
  return marked
}

/**
 * local: this server could not try, and what waits is tried later. narrower: one connection was too many, others may
 * work. closed: no connection works; the lanes of the way pause. slower: what was claimed is too much.
 */
export type Lesson = { lesson: 'closed'; verdict: Verdict } | { lesson: 'local' | 'narrower' | 'slower' } | undefined

/** The verdict that says that this server has trouble of its own, which other mail would meet as well. */
const localOf = (verdicts: readonly Verdict[]): Verdict | undefined =>
  verdicts.find(({ damaged, kind, record }) => kind === 'waiting' && record === undefined && !damaged)

/** Reports what keeps mail waiting on this server's side. True when other mail would meet it too. */
export function tellTrouble(troubles: Troubles, verdicts: readonly Verdict[]): boolean {
  const damaged = verdicts.find((verdict) => verdict.damaged)
  if (damaged) troubles.report('damage', 'A mail is damaged in the database; it waits.', damaged.cause)
  const local = localOf(verdicts)
  if (local) troubles.report('delivery', 'Mail waits for trouble of this server.', local.cause)
  return local !== undefined
}

/** What to make of the settled answers to a mail on a connection of a way (undefined: none could be opened). */
export function lessonOf(
  { lane, way }: { lane: Lane; way: Way },
  verdicts: readonly Verdict[],
  connection: Connection | undefined,
  now: number,
): Lesson {
  if (localOf(verdicts)) return { lesson: 'local' }
  const host = verdicts.find(aboutTheHost)
  // A session that carried mail is merely at its end.
  if (host && !connection?.worked) {
    if (way.senders > 1 && host.stage !== 'dns' && host.stage !== 'auth') {
      way.width.refused(way.senders, now)
      return { lesson: 'narrower' }
    }
    // Other domains at the same exchangers would find the same.
    way.backOff(lane, now)
    return { lesson: 'closed', verdict: { ...host, handed: false, dialogue: null } }
  }
  if (verdicts.some(({ soon }) => soon)) return { lesson: 'slower' }
  // Only what it said itself says something of it.
  if (verdicts.some(({ code }) => code !== null) && verdicts.every(({ kind }) => kind !== 'deferred')) {
    lane.relax()
    way.succeeded(now)
    lane.learned.pace.succeeded(now)
  }
  return undefined
}

/**
 * Of mails that wait for a lane that pauses, those that share its verdict: an exchanger that said nothing would have
 * said nothing to any of them; what one said was said to the mail in hand, and the others keep their attempts, but for
 * those whose time is over.
 */
export function sharing(
  waiting: readonly MailTransaction[],
  { code }: Verdict,
  now: number,
): { same: MailTransaction[]; others: MailTransaction[] } {
  const shares = ({ deliveries }: MailTransaction): boolean =>
    code === null || deliveries.some(({ expires_at }) => expires_at <= now)
  return { same: waiting.filter(shares), others: waiting.filter((work) => !shares(work)) }
}
