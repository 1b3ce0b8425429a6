// What an update brings back as it is (D70): so that whoever reads a resource, changes a little and sends the whole of it is
// understood. Another value of what cannot be changed is refused as ever.
import { isDeepStrictEqual } from 'node:util'
import { refuse } from '../base/errors.ts'
import type { ResourceObject } from './document.ts'
import { pointerTo, type RequestDocument } from './request.ts'
import type { Field, Resource } from './resource.ts'

/** The resource as it is shown now; undefined when it is not there. Asked only where something was brought back. */
export type Present = () => ResourceObject | undefined

/** Throws 403 for a relationship that is not the one the resource has. */
export function checkLinkage(document: RequestDocument, present: Present): void {
  const given = Object.entries(document.relationships ?? {})
  if (given.length === 0) return
  const shown: Record<string, unknown> = present()?.relationships ?? {}
  for (const [name, value] of given)
    if (!Object.hasOwn(shown, name) || !isDeepStrictEqual(linkage(value), linkage(shown[name])))
      throw refuse('relationship_update_forbidden', `The relationship "${name}" cannot be set here.`, {
        pointer: pointerTo('data', 'relationships', name),
      })
}

/** What a relationship names; links and meta beside it say nothing. Undefined: it is none. */
function linkage(relationship: unknown): unknown {
  const { data } = Object(relationship) as { data?: unknown }
  if (data === null || data === undefined) return data
  const { id, type } = Object(data) as { id?: unknown; type?: unknown }
  return { id, type }
}

/**
 * The document without attributes that are as they were. A PATCH that names one attribute asks for it, as a status asks for a move; one that
 * brings attributes nobody can set is the record itself, and asks for what differs in it.
 */
export function withoutUnchanged(
  document: RequestDocument,
  resource: Resource<never>,
  present: Present,
): RequestDocument {
  const given = Object.entries(document.attributes)
  const readOnly = ([name]: [string, unknown]): boolean =>
    Object.hasOwn(resource.attributes, name) && !resource.attributes[name]!.update
  if (!given.some(readOnly)) return document
  const shown: Record<string, unknown> = present()?.attributes ?? {}
  const changed = ([name, value]: [string, unknown]): boolean =>
    !Object.hasOwn(shown, name) || !same(resource.attributes[name]!, value, shown[name])
  if (!given.some((each) => readOnly(each) && !changed(each))) return document
  return { ...document, attributes: Object.fromEntries(given.filter(changed)) }
}

/** Whether two values are the same; of a moment in any form that clients write it. */
function same({ kind }: Field, given: unknown, shown: unknown): boolean {
  if (kind === 'time' && typeof given === 'string' && typeof shown === 'string')
    return given === shown || Date.parse(given) === Date.parse(shown)
  return isDeepStrictEqual(given, shown)
}
