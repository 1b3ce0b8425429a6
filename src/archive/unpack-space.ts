// The disk where a backup is unpacked, and its free space. This is checked before and during the unpacking,
// because a backup may state a wrong size.
import { dirname } from 'node:path'
import { OperatorError } from '../base/errors.ts'
import { freeOn, isMemory } from '../base/space.ts'

export interface UnpackSpace {
  folder: string
  /** Bytes that stay free for a server on this disk. */
  reserve: number
  /** Whether a backup may be unpacked to many times its size. */
  force?: boolean | undefined
}

/** The largest ratio of the unpacked size: email and rows are compressed to a fifth, zeros to a thousandth. */
const MOST_TIMES = 200
/** Unpacked sizes that are accepted at any ratio. */
const SMALL = 64 * 1024 ** 2

/** Throws an OperatorError if a backup is suspiciously compressed, except with `force`. */
export function demandRatio({ force }: UnpackSpace, shown: string, packed: number, unpacked: number): void {
  if (force || unpacked <= Math.max(SMALL, MOST_TIMES * packed)) return
  throw new OperatorError(
    `${shown} unpacks from ${mb(packed)} to more than ${mb(unpacked - 1)}, which is unusual for a backup; use another one, or add --force.`,
  )
}

const mb = (bytes: number): string => `${Math.ceil(Math.max(0, bytes) / 1e6)} MB`

/** The error for a full disk. `needs` is the part of the sentence about the required space. */
export function noSpace({ folder, reserve }: UnpackSpace, needs: string): OperatorError {
  const kept = reserve === 0 ? '' : `, of which ${mb(reserve)} are reserved for the server ("storage.reserve")`
  return new OperatorError(
    `${dirname(folder)}${isMemory(folder) ? ' (in memory, tmpfs)' : ''} has ${mb(freeOn(folder))} free${kept}, and ${needs}; free some space there, or use another directory with --work-dir ("restore --check", "backup drill").`,
  )
}

/** Bytes that can still be written. */
export const spaceLeft = ({ folder, reserve }: UnpackSpace): number => freeOn(folder) - reserve

/** Throws an OperatorError if the disk has less space. */
export function demandSpace(space: UnpackSpace, shown: string, needed: number): void {
  if (spaceLeft(space) < needed) throw noSpace(space, `${shown} temporarily needs ${mb(needed)}`)
}
