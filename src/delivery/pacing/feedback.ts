// The lessons about an exchanger from its answers to one mail (D34, D64): it accepts fewer connections, or fewer mails
// per second, or nothing for a while. Here the limits of a lane and its group are changed; the engine does the rest.
import type { Troubles } from '../../base/trouble.ts'
import type { Verdict } from '../../smtp/verdict.ts'
import type { Connection } from '../attempt.ts'
import type { MailTransaction } from '../queue/transaction.ts'
import { asksForLess, isAboutSource } from '../../smtp/about-server.ts'
import { aboutTheDomain, aboutTheHost, maybeTheMail, refusesConnection } from '../wire/finish-attempt.ts'
import type { Lane } from './lanes.ts'
import type { ExchangerGroup } from './exchanger-group.ts'
import type { Width } from './concurrency.ts'
import { pairs } from '../../base/lists.ts'

/** The lane of a mail, and the group of exchangers that it was sent to. */
export interface MailRoute {
  lane: Lane
  group: ExchangerGroup
}

/** How often a mail whose MAIL command got 4xx is tried on another connection. */
const MAX_REFUSALS = 2

/**
 * Whether an answer about connections is about one domain, or about all domains at its exchangers: `width` is the limit
 * to change, and `open` is the present number of connections.
 */
function concerned({ lane, group }: MailRoute, about: readonly Verdict[]): { width: Width; open: number } {
  return about.some(aboutTheDomain)
    ? { width: lane.width, open: lane.inHand }
    : { width: group.width, open: group.open }
}

/** Whether a mail is sent over another connection instead. If the mail may be the cause, only a few are tried. */
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
 * Reads the rate answers to a mail whose attempt began at `begunAt`: the lane sends more slowly, and these verdicts are
 * marked with `soon`, so that no attempt is counted.
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
 * local: this server could not try, and waiting mail is tried later. narrower: one connection was too many, others may
 * work. closed: no connection works for these lanes, nor for
 * those of `others` by other sources; they pause. open: the pause of the group is over. slower: more
 * mail was claimed than the new pace allows.
 */
export type Lesson =
  | { lesson: 'closed'; verdict: Verdict; lanes: readonly Lane[]; others: readonly Lane[] }
  | { lesson: 'local' | 'narrower' | 'slower' | 'open' }
  | undefined

/** The verdict about a local trouble of this server, which other mail would meet as well. */
const localOf = (verdicts: readonly Verdict[]): Verdict | undefined =>
  verdicts.find(({ damaged, kind, record }) => kind === 'waiting' && record === undefined && !damaged)

/** Reports the local trouble for which mail waits. True when other mail would meet the trouble too. */
export function tellTrouble(troubles: Troubles, verdicts: readonly Verdict[]): boolean {
  const damaged = verdicts.find((verdict) => verdict.damaged)
  if (damaged) troubles.report('damage', 'A mail is damaged on the disk; it waits.', damaged.cause)
  const local = localOf(verdicts)
  if (local) troubles.report('delivery', 'Mail waits because of trouble on this server.', local.cause)
  return local !== undefined
}

/** The lesson from the answers to a mail on a connection of a group (undefined: no connection could be opened). */
export function lessonOf(
  place: MailRoute,
  verdicts: readonly Verdict[],
  connection: Connection | undefined,
  now: number,
): Lesson {
  const { lane, group } = place
  if (localOf(verdicts)) return { lesson: 'local' }
  const host = verdicts.find(aboutTheHost)
  // A session that has carried mail before has only ended: this is not a lesson about the exchanger.
  if (host && !connection?.worked) {
    const { open, width } = concerned(place, [host])
    if (open > 1 && host.stage !== 'dns' && host.stage !== 'auth') {
      width.refused(open, now)
      return { lesson: 'narrower' }
    }
    const verdict = { ...host, handed: false, dialogue: null }
    if (aboutTheDomain(host)) {
      lane.backOff(now)
      return { lesson: 'closed', verdict, lanes: [lane], others: [] }
    }
    // Mail for other domains at the same exchangers would get the same answer.
    const others = group.backOff(lane, now, isAboutSource(host))
    return { lesson: 'closed', verdict, lanes: [...group.lanes], others }
  }
  if (verdicts.some(({ soon }) => soon)) return { lesson: 'slower' }
  // Only a real answer of the exchanger shows that it accepts mail.
  if (verdicts.some(({ code }) => code !== null) && verdicts.every(({ kind }) => kind !== 'deferred')) {
    lane.relax()
    lane.width.succeeded(now)
    lane.learned.pace.succeeded(now)
    if (group.succeeded(now)) return { lesson: 'open' }
  }
  return undefined
}

/**
 * Divides the waiting mails of a lane that pauses. `same`: they get the verdict too. Without an answer of the exchanger
 * (`code` null) these are all mails, because none of them would have got an answer. An answer was only about the mail
 * that was sent: then `same` holds only the mails whose lifetime is over, and no attempt is counted for the others.
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
