// One round of claiming: it finds the lanes with room and due mail, and limits the mail that each may claim, so that no
// lane, provider or campaign fills the memory that others need.
import { groupDue } from '../store/due.ts'
import type { Store } from '../store/database.ts'
import { LANES } from './queue/claim.ts'
import { heldByProvider, providerShareOf, shareOf, type Lane } from './pacing/lanes.ts'
import type { MailTransaction, Sources } from './queue/transaction.ts'

export interface Round {
  claimed: MailTransaction[]
  /** Lanes that were served: they are last in the next round. */
  served: Lane[]
  /** The time of the next round; null when none is known. */
  next: number | null
}

/** Claims due mail. At most `window` mail transactions may be in memory; `inMemory` of them are there already. */
export async function claimRound(
  { sources, store }: { sources: Sources; store: Store },
  lanes: readonly Lane[],
  { window, inMemory }: { window: number; inMemory: number },
  now: number,
): Promise<Round> {
  const held = heldByProvider(lanes)
  const roomOf = (lane: Lane): number =>
    Math.min(lane.room(now), providerShareOf(lane) - (held.get(lane.limits.name) ?? 0))
  const ready = lanes
    .filter((lane) => (lane.wakeAt() ?? Infinity) <= now && roomOf(lane) > 0)
    .sort((one, other) => Number(one.bulk) - Number(other.bulk))
  const served: Lane[] = []
  let claimed: MailTransaction[] = []
  let space = window - inMemory
  const spaceOf = (lane: Lane): number => space - (window - shareOf(window, lane.bulk))
  if (ready.some((lane) => spaceOf(lane) > 0)) {
    const share = Math.max(1, Math.floor(space / ready.length))
    claimed = await store.write((tx) =>
      ready.flatMap((lane) => {
        const limit = Math.min(roomOf(lane), share, spaceOf(lane))
        if (limit <= 0) return []
        served.push(lane)
        const taken = (lane.bulk ? sources.campaign : sources.submitted).claim(tx, lane.name, now, limit)
        const due = groupDue(tx, LANES, lane.name)
        // Set after the commit: when the commit fails, the lane keeps its old due time.
        tx.afterCommit(() => void (lane.due = due))
        lane.learned.pace.went(taken.length, now)
        space -= taken.length
        held.set(lane.limits.name, (held.get(lane.limits.name) ?? 0) + taken.length)
        return taken
      }),
    )
  }
  let next: number | null = null
  for (const lane of lanes) {
    const wake = lane.wakeAt()
    // A lane without room gets no wake time: the next round comes when it has room.
    if (wake !== null && (wake > now || (roomOf(lane) > 0 && spaceOf(lane) > 0))) next = Math.min(next ?? wake, wake)
  }
  return { claimed, served, next }
}
