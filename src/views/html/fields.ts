// Reads the forms of the console within limits, and counts their fields before they are parsed, because each field
// takes some hundred bytes of memory, however short it is.
import type { Context } from 'hono'
import { refuse } from '../../base/errors.ts'
import { ownerOf } from '../../base/memory.ts'
import { strangers, withinMost, type PlainPageDeps } from './plain-page.ts'
import { withBytes } from '../../jsonapi/body.ts'
import { Form } from './place.ts'
import type { Visit } from './visit.ts'

/** The maximum size of a form with its file, in bytes. */
const MAX_FORM = 8 * 1024 * 1024
/** The maximum without a session, such as for a form that was filled in before the session expired (D112). */
const MAX_FORM_WITHOUT_SESSION = 16 * 1024
/** The maximum number of fields in a form, like the members of an object (D74). */
export const MAX_FIELDS = 1000

/**
 * Runs `use` with the form in a request, which is empty if it is malformed. Returns undefined if it is too large or has
 * too many fields. Without a session, the limit is a few KB. The budget contains the bytes until `use` returns (D112).
 */
export function withForm<T>(
  deps: PlainPageDeps,
  context: Context,
  visit: Visit | undefined,
  use: (given: Form) => Promise<T> | T,
): Promise<T | undefined> {
  const limits = visit
    ? { most: MAX_FORM, budget: deps.bodies, owner: ownerOf(visit.person.user.key) }
    : strangers(context, deps, MAX_FORM_WITHOUT_SESSION)
  const type = context.req.header('content-type') ?? ''
  return withinMost(
    withBytes(context.req.raw, limits, async (bytes) => {
      if (hasManyFields(bytes, type)) throw refuse('payload_too_large', 'The form has too many fields.')
      const parsed = new Response(bytes, { headers: { 'Content-Type': type } }).formData()
      return use(new Form(await parsed.catch(() => new FormData())))
    }),
  )
}

/** Whether a form has more than `most` fields. `type` is its Content-Type: urlencoded, or multipart with a boundary. */
export function hasManyFields(bytes: Buffer, type: string, most = MAX_FIELDS): boolean {
  const [, quoted, plain] = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(type) ?? []
  const between = `--${quoted ?? plain ?? ''}`
  const isMultipart = /^multipart\//i.test(type)
  const separator = Buffer.from(isMultipart ? between : '&')
  // One boundary is before each field and one behind the last. Separators are only between fields.
  let count = isMultipart ? -1 : 1
  for (let at = bytes.indexOf(separator); at >= 0; at = bytes.indexOf(separator, at + separator.length))
    if (++count > most) return true
  return false
}
