// One round of claiming: it finds the lanes with capacity and due mail, and limits the mail that each may claim, so
// that no lane, provider or campaign fills the memory that others need.
import { groupDue } from '../store/due.ts'
import type { Store } from '../store/database.ts'
import { count } from '../base/maps.ts'
import { LANES } from './queue/claim.ts'
import { heldByProvider, providerShareOf, shareOf, type Lane } from './pacing/lanes.ts'
import type { MailTransaction } from './queue/transaction.ts'
import { claimWithin, relayFor, type LimitDeps } from './within-limits.ts'

export interface Round {
  claimed: MailTransaction[]
  /** Lanes that were served: they are last in the next round. */
  served: Lane[]
  /** The time of the next round, or null if unknown. */
  next: number | null
  /** Lanes with due mail that is not claimed until its receiver is known. */
  unknown: Lane[]
}

/** The functions of the lanes that a round needs. */
export interface RoundLanes {
  /** The lanes by which mail of a lane may be sent now, the first choice first. */
  targetsOf(lane: Lane): [Lane, ...Lane[]]
  named(name: string): Lane
}

/** Claims due mail. At most `window` mail transactions may be in memory. `inMemory` of them are there already. */
export async function claimRound(
  deps: LimitDeps & { store: Store },
  lanes: readonly Lane[],
  { window, inMemory, ...of }: RoundLanes & { window: number; inMemory: number },
  now: number,
): Promise<Round> {
  const held = heldByProvider(lanes)
  const taken = new Map<Lane, number>()
  const targetOf = (lane: Lane): Lane => of.targetsOf(lane)[0]
  const mostOf = (to: Lane): number =>
    Math.min(to.capacity(now) - (taken.get(to) ?? 0), providerShareOf(to) - (held.get(to.limits.name) ?? 0))
  const roomOf = (lane: Lane): number => mostOf(targetOf(lane))
  const wakeOf = (lane: Lane): number | null => (lane.due === null ? null : lane.wakeAt(targetOf(lane)))
  const due = lanes.filter((lane) => (wakeOf(lane) ?? Infinity) <= now && roomOf(lane) > 0)
  const unknown = due.filter((lane) => deps.gate.slotFor(targetOf(lane), now) === undefined)
  const ready = due
    .filter((lane) => !unknown.includes(lane))
    .sort((one, other) => Number(one.bulk) - Number(other.bulk))
  const served: Lane[] = []
  let claimed: MailTransaction[] = []
  let space = window - inMemory
  const spaceOf = (lane: Lane): number => space - (window - shareOf(window, lane.bulk))
  if (ready.some((lane) => spaceOf(lane) > 0)) {
    const share = Math.max(1, Math.floor(space / ready.length))
    claimed = await deps.store.write((tx) =>
      ready.flatMap((lane) => {
        const limit = Math.min(roomOf(lane), share, spaceOf(lane))
        if (limit <= 0) return []
        served.push(lane)
        const relay = relayFor(deps, lane)
        const wanted = {
          lane,
          lanes: of.targetsOf(lane),
          limit,
          mostOf,
          relay: relay === undefined ? undefined : of.named(relay),
        }
        const found = claimWithin(deps, tx, wanted, now)
        const next = groupDue(tx, LANES, lane.name)
        // Set after the commit: when the commit fails, the lane keeps its old due time.
        tx.afterCommit(() => void (lane.due = next))
        for (const { mails, to } of found) {
          to.learned.pace.went(mails.length, now)
          space -= mails.length
          if (to !== lane) count(taken, to, mails.length)
          count(held, to.limits.name, mails.length)
        }
        return found.flatMap(({ mails }) => mails)
      }),
    )
  }
  let next: number | null = null
  for (const lane of lanes) {
    if (unknown.includes(lane)) continue
    const wake = wakeOf(lane)
    // A lane without capacity gets no wake time: the next round starts when it has capacity.
    if (wake !== null && (wake > now || (roomOf(lane) > 0 && spaceOf(lane) > 0))) next = Math.min(next ?? wake, wake)
  }
  return { claimed, served, next, unknown }
}
