// Where a backup is unpacked, and whether its disk takes it: asked before, and while it is written, because what a
// backup says of its own size may be wrong.
import { dirname } from 'node:path'
import { OperatorError } from '../base/errors.ts'
import { freeOn, isMemory } from '../base/space.ts'

export interface Room {
  folder: string
  /** Octets of its disk that stay free, for a server that runs there. */
  keep: number
}

const mb = (octets: number): string => `${Math.ceil(Math.max(0, octets) / 1e6)} MB`

/** The sentence for a disk that takes no more; `needs` says what is too much for it. */
export function noRoom({ folder, keep }: Room, needs: string): OperatorError {
  const kept = keep === 0 ? '' : `, of which ${mb(keep)} stay for the server ("storage.reserve")`
  return new OperatorError(
    `${dirname(folder)}${isMemory(folder) ? ', which is memory (tmpfs),' : ''} has ${mb(freeOn(folder))} free${kept}, and ${needs}; free space there ("restore --check" and "backup drill" take another folder, --scratch).`,
  )
}

/** Octets that may still be written. */
export const leftIn = ({ folder, keep }: Room): number => freeOn(folder) - keep

/** Throws an OperatorError where so many octets have no room. */
export function demandRoomFor(room: Room, shown: string, needed: number): void {
  if (leftIn(room) < needed) throw noRoom(room, `${shown} needs ${mb(needed)} for a while`)
}
