// Cursors: opaque, encrypted, bound to the user, the collection, its filters and its sort (D9). A cursor returns the
// first page if it was changed, is more than a week old, or is for another collection. A cursor for another sort is
// rejected with 400.
import { DAY } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import type { ListPosition } from '../store/list.ts'

const LIFETIME = 7 * DAY

export interface CursorScope {
  userKey: number
  /** Path and filters of the collection. */
  collection: string
  sort: string
}

export type Direction = 'after' | 'before'

export type ReadCursor = { place: ListPosition; direction: Direction } | 'first page' | 'other sort'

const labelOf = ({ userKey, collection }: CursorScope): string => `cursor ${userKey} ${collection}`

export function writeCursor(
  keyring: Keyring,
  scope: CursorScope,
  place: ListPosition,
  direction: Direction,
  now: number,
): string {
  return keyring
    .seal(labelOf(scope), JSON.stringify([scope.sort, direction, place.values, place.key, now]))
    .toString('base64url')
}

/**
 * Reads a cursor. Never throws. 'first page': it is for another collection, changed or old. 'other sort': it is for
 * another sort.
 */
export function readCursor(keyring: Keyring, scope: CursorScope, text: string, now: number): ReadCursor {
  let plain: string
  try {
    plain = keyring.open(labelOf(scope), Buffer.from(text, 'base64url'))
  } catch {
    return 'first page'
  }
  const [sort, direction, values, key, at] = JSON.parse(plain) as [
    string,
    Direction,
    ListPosition['values'],
    number,
    number,
  ]
  if (now - at > LIFETIME) return 'first page'
  return sort === scope.sort ? { place: { values, key }, direction } : 'other sort'
}
