// Finds the audience and the segment that a command names.
import { OperatorError } from '../base/errors.ts'
import { counted } from '../base/text.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { Audience } from './audiences.ts'
import type { StoredSegment } from './segments.ts'

/** The maximum number of names in the error for an unknown one. */
const NAMED = 5

/** An audience by its id, or by its name when the name is unique. Throws an OperatorError. */
export function theAudience(reader: Reader, text: string, publicUrl: string): Audience {
  const found = reader.all(
    db
      .selectFrom('audiences')
      .selectAll()
      .where('deleted_at', 'is', null)
      .where((eb) => eb.or([eb('id', '=', text), eb('name', '=', text)])),
  )
  if (found.length === 1) return found[0]!
  throw new OperatorError(
    found.length === 0
      ? `There is no audience "${text}"; create it at ${publicUrl}/audiences/new, or use the id or name of an existing one${named(reader)}.`
      : `${counted(found.length, 'audience')} have the name "${text}"; use the id of one.`,
  )
}

/** Some audiences that are there, for a sentence. */
function named(reader: Reader): string {
  const some = reader.all(
    db.selectFrom('audiences').select('name').where('deleted_at', 'is', null).orderBy('key', 'desc').limit(NAMED),
  )
  return such(some)
}

const such = (some: readonly { name: string }[]): string =>
  some.length === 0 ? '' : `, such as ${some.map(({ name }) => `"${name}"`).join(', ')}`

/** The segments of an audience, by name. */
export const segmentsOf = (reader: Reader, audienceKey: number): StoredSegment[] =>
  reader.all(
    db
      .selectFrom('segments')
      .selectAll()
      .where('audience_key', '=', audienceKey)
      .where('deleted_at', 'is', null)
      .orderBy('name')
      .orderBy('key'),
  )

/** A segment of an audience by its id, or by its name when the name is unique. Throws an OperatorError. */
export function theSegment(reader: Reader, audience: Audience, text: string): StoredSegment {
  const all = segmentsOf(reader, audience.key)
  const [found, ...others] = all.filter(({ id, name }) => id === text || name === text)
  if (found && others.length === 0) return found
  throw new OperatorError(
    found
      ? `${counted(others.length + 1, 'segment')} have the name "${text}"; use the id of one.`
      : `The audience "${audience.name}" has no segment "${text}"; create it in the console, or use the id or name of an existing one${such(all.slice(0, NAMED))}.`,
  )
}
