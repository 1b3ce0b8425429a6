// Reads the forms of the console within limits, and counts their fields before they are parsed: each field takes some
// hundred octets of memory, however short it is.
import type { Context } from 'hono'
import { refuse } from '../base/errors.ts'
import { ownerOf } from '../base/memory.ts'
import { strangers, withinMost, type PlainPageDeps } from './plain-page.ts'
import { withOctets } from '../jsonapi/body.ts'
import { Form } from './place.ts'
import type { Visit } from './visit.ts'

/** The most octets of a form, with its file. */
const MAX_FORM = 8 * 1024 * 1024
/** The same of somebody who is not signed in: what a person types in a session that has ended (D112). */
const MAX_STRANGERS_FORM = 16 * 1024
/** The most fields of a form: as the members of an object (D74). */
export const MAX_FIELDS = 1000

/**
 * Runs `use` with the form in a request, which is empty when it is malformed; undefined when it is too large, or has
 * too many fields. Who is not signed in sends a few KB. The octets stand in the budget until `use` ends (D112).
 */
export function withForm<T>(
  deps: PlainPageDeps,
  context: Context,
  visit: Visit | undefined,
  use: (given: Form) => Promise<T> | T,
): Promise<T | undefined> {
  const limits = visit
    ? { most: MAX_FORM, budget: deps.bodies, owner: ownerOf(visit.person.user.key) }
    : strangers(context, deps, MAX_STRANGERS_FORM)
  const type = context.req.header('content-type') ?? ''
  return withinMost(
    withOctets(context.req.raw, limits, async (octets) => {
      if (hasManyFields(octets, type)) throw refuse('payload_too_large', 'The form has too many fields.')
      const parsed = new Response(octets, { headers: { 'Content-Type': type } }).formData()
      return use(new Form(await parsed.catch(() => new FormData())))
    }),
  )
}

/** Whether a form has too many fields. `type` is its Content-Type: urlencoded, or multipart with a boundary. */
export function hasManyFields(octets: Buffer, type: string): boolean {
  const [, quoted, plain] = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(type) ?? []
  const between = `--${quoted ?? plain ?? ''}`
  const separator = /^multipart\//i.test(type) ? Buffer.from(between) : Buffer.from('&')
  let count = 1
  for (let at = octets.indexOf(separator); at >= 0; at = octets.indexOf(separator, at + separator.length))
    if (++count > MAX_FIELDS) return true
  return false
}
