// Learns from the answers of a receiving server to one email (D34, D64): it accepts fewer connections, fewer emails per
// second, or no mail for a while. This file changes the limits of a lane and its group. The engine does the rest.
import type { Troubles } from '../../base/trouble.ts'
import type { Verdict } from '../../smtp/verdict.ts'
import type { Connection } from '../attempt.ts'
import type { MailTransaction } from '../queue/transaction.ts'
import { asksForLess, isAboutSource } from '../../smtp/about-server.ts'
import { aboutTheDomain, aboutTheHost, maybeTheMail, refusesConnection } from '../wire/finish-attempt.ts'
import type { Lane } from './lanes.ts'
import type { ServerGroup } from './server-group.ts'
import type { Width } from './concurrency.ts'
import { pairs } from '../../base/lists.ts'

export interface MailRoute {
  lane: Lane
  group: ServerGroup
}

/** How often an email whose MAIL command got 4xx is retried on another connection. */
const MAX_REFUSALS = 2

/**
 * Whether an answer about connections is about one domain, or about all domains at its receiving servers: `width` is
 * the limit to change, and `open` is the present number of connections.
 */
function concerned({ lane, group }: MailRoute, about: readonly Verdict[]): { width: Width; open: number } {
  return about.some(aboutTheDomain)
    ? { width: lane.width, open: lane.inHand }
    : { width: group.width, open: group.open }
}

/** Whether an email is sent over another connection instead. If the email may be the cause, only a few are tried. */
export function isRefused(place: MailRoute, work: MailTransaction, verdicts: readonly Verdict[], now: number): boolean {
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
 * Reads the rate answers to an email whose attempt began at `begunAt`: the lane sends more slowly, and these verdicts
 * are marked with `soon`, so that no attempt is counted.
 */
export function slowedBy(
  lane: Lane,
  { deliveries }: MailTransaction,
  verdicts: readonly Verdict[],
  { begunAt, now }: { begunAt: number; now: number },
): readonly Verdict[] {
  const { pace } = lane.learned
  const marked = pairs(verdicts, deliveries).map(([verdict, { key }]) =>
    asksForLess(verdict) && pace.spares(key) ? { ...verdict, soon: true as const } : verdict,
  )
  if (marked.some(({ soon }) => soon)) pace.refused(begunAt, now)
  for (const [{ kind }, { key }] of pairs(marked, deliveries)) if (kind !== 'deferred') pace.ended(key)
  return marked
}

/**
 * local: this server could not try, and queued mail is retried later. narrower: one connection was too many, others may
 * work. closed: no connection works for these lanes, nor for those of `others` by other sources, and all of them pause.
 * open: the pause of the group is over. slower: more mail was claimed than the new pace allows.
 */
export type Adjustment =
  | { change: 'closed'; verdict: Verdict; lanes: readonly Lane[]; others: readonly Lane[] }
  | { change: 'local' | 'narrower' | 'slower' | 'open' }
  | undefined

/** The verdict about a local problem of this server, which affects other mail too. */
const localOf = (verdicts: readonly Verdict[]): Verdict | undefined =>
  verdicts.find(({ damaged, kind, record }) => kind === 'waiting' && record === undefined && !damaged)

/** Reports the local problem that mail waits for. Returns true if it affects other mail too. */
export function reportTrouble(troubles: Troubles, verdicts: readonly Verdict[]): boolean {
  const damaged = verdicts.find((verdict) => verdict.damaged)
  if (damaged) troubles.report('damage', 'An email is corrupt on disk. It stays in the queue.', damaged.cause)
  const local = localOf(verdicts)
  if (local) troubles.report('delivery', 'Email is queued because of a problem on this server.', local.cause)
  return local !== undefined
}

/**
 * The adjustment after the answers to an email on a connection of a group (undefined: no connection could be opened).
 */
export function adjustmentOf(
  place: MailRoute,
  verdicts: readonly Verdict[],
  connection: Connection | undefined,
  now: number,
): Adjustment {
  const { lane, group } = place
  if (localOf(verdicts)) return { change: 'local' }
  const host = verdicts.find(aboutTheHost)
  // The end of a session that has carried mail before is not a limit of the receiving server.
  if (host && !connection?.worked) {
    const { open, width } = concerned(place, [host])
    if (open > 1 && host.stage !== 'dns' && host.stage !== 'auth') {
      width.refused(open, now)
      return { change: 'narrower' }
    }
    const verdict = { ...host, handed: false, dialogue: null }
    if (aboutTheDomain(host)) {
      lane.backOff(now)
      return { change: 'closed', verdict, lanes: [lane], others: [] }
    }
    // Mail for other domains at the same receiving servers would get the same answer.
    const others = group.backOff(lane, now, isAboutSource(host))
    return { change: 'closed', verdict, lanes: [...group.lanes], others }
  }
  if (verdicts.some(({ soon }) => soon)) return { change: 'slower' }
  // Only a real answer shows that the receiving server accepts mail.
  if (verdicts.some(({ code }) => code !== null) && verdicts.every(({ kind }) => kind !== 'deferred')) {
    lane.relax()
    lane.width.succeeded(now)
    lane.learned.pace.succeeded(now)
    if (group.succeeded(now)) return { change: 'open' }
  }
  return undefined
}

/**
 * Divides the waiting emails of a lane that pauses. Emails in `same` get the verdict too. Without an answer of the
 * receiving server (`code` null), these are all emails, because they would not have got an answer either. An answer was
 * only about the email that was sent: then `same` holds only the emails whose lifetime is over, and no attempt is
 * counted for the others.
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
