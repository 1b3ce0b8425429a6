// What the answers to one mail teach of the exchanger (D34, D64): that it takes fewer connections, or fewer mails a
// second, or nothing for a while. The engine acts on it; here a lane and its way only learn.
import type { Troubles } from '../../base/trouble.ts'
import type { Verdict } from '../../smtp/verdict.ts'
import type { Connection } from './attempt.ts'
import type { MailTransaction } from './transaction.ts'
import { aboutTheDomain, aboutTheHost, asksForLess, maybeTheMail, refusesConnection } from './conclude.ts'
import type { Lane } from './lanes.ts'
import type { Way } from './ways.ts'
import type { Width } from './width.ts'

/** Where a mail was sent. */
export interface Place {
  lane: Lane
  way: Way
}

/** So often a mail whose MAIL got 4xx is tried on another connection. */
const MAX_REFUSALS = 2

/** What an answer about connections concerns: one domain, or all at its exchangers; and how many connections it has. */
function concerned({ lane, way }: Place, about: readonly Verdict[]): { width: Width; open: number } {
  return about.some(aboutTheDomain) ? { width: lane.width, open: lane.inHand } : { width: way.width, open: way.senders }
}

/** Whether a mail goes over another connection instead. What may be its own fault is not tried on all of them. */
export function isRefused(place: Place, work: MailTransaction, verdicts: readonly Verdict[], now: number): boolean {
  const { open, width } = concerned(place, verdicts)
  if (open <= 1 || verdicts.length === 0 || !verdicts.every(refusesConnection)) return false
  if (verdicts.every(maybeTheMail)) {
    work.refusals = (work.refusals ?? 0) + 1
    if (work.refusals > MAX_REFUSALS) return false
  }
  width.refused(open, now)
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
 * work. closed: no connection works for these lanes; they pause. open: the pause of the way is over. slower: what was
 * claimed is too much.
 */
export type Lesson =
  | { lesson: 'closed'; verdict: Verdict; lanes: readonly Lane[] }
  | { lesson: 'local' | 'narrower' | 'slower' | 'open' }
  | undefined

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
  place: Place,
  verdicts: readonly Verdict[],
  connection: Connection | undefined,
  now: number,
): Lesson {
  const { lane, way } = place
  if (localOf(verdicts)) return { lesson: 'local' }
  const host = verdicts.find(aboutTheHost)
  // A session that carried mail is merely at its end.
  if (host && !connection?.worked) {
    const { open, width } = concerned(place, [host])
    if (open > 1 && host.stage !== 'dns' && host.stage !== 'auth') {
      width.refused(open, now)
      return { lesson: 'narrower' }
    }
    const verdict = { ...host, handed: false, dialogue: null }
    if (aboutTheDomain(host)) {
      lane.backOff(now)
      return { lesson: 'closed', verdict, lanes: [lane] }
    }
    // Other domains at the same exchangers would find the same.
    way.backOff(lane, now)
    return { lesson: 'closed', verdict, lanes: [...way.lanes] }
  }
  if (verdicts.some(({ soon }) => soon)) return { lesson: 'slower' }
  // Only what it said itself says something of it.
  if (verdicts.some(({ code }) => code !== null) && verdicts.every(({ kind }) => kind !== 'deferred')) {
    lane.relax()
    lane.width.succeeded(now)
    lane.learned.pace.succeeded(now)
    if (way.succeeded(now)) return { lesson: 'open' }
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
