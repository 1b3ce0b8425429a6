// Unchanged members of an update (D70): a client may read a resource, change a part of it and send the whole back. A
// value of a read-only member that cannot have been shown is refused as usual.
import { isDeepStrictEqual } from 'node:util'
import { must, refuse } from '../base/errors.ts'
import type { ResourceObject } from './document.ts'
import { isUpdatable, pointerTo, type RequestDocument } from './request.ts'
import type { Field, Resource } from './resource.ts'

/** Returns the current resource, or undefined if it does not exist. Called only if it is needed. */
export type Present = () => ResourceObject | undefined

/** Throws 403 for a relationship that differs from the current one and cannot be changed. */
export function checkLinkage(document: RequestDocument, resource: Resource<never>, present: Present): void {
  const given = Object.entries(document.relationships ?? {}).filter(([name]) => !isUpdatable(resource, name))
  if (given.length === 0) return
  const shown: Record<string, unknown> = present()?.relationships ?? {}
  for (const [name, value] of given)
    if (!Object.hasOwn(shown, name) || !isDeepStrictEqual(linkage(value), linkage(shown[name])))
      throw refuse(
        'relationship_update_forbidden',
        `The relationship "${name}" cannot be changed here. Send its present value, or remove it.`,
        {
          pointer: pointerTo('data', 'relationships', name),
        },
      )
}

/** The target of a relationship, without links and meta, or undefined. */
function linkage(relationship: unknown): unknown {
  const { data } = Object(relationship) as { data?: unknown }
  if (data === null || data === undefined) return data
  const { id, type } = Object(data) as { id?: unknown; type?: unknown }
  return { id, type }
}

/**
 * The document without unchanged attributes. A PATCH of editable attributes alone keeps all of them: a repeated status,
 * for example, requests a change of state. A PATCH with an unchanged read-only attribute is a whole record sent back,
 * and keeps only the attributes that differ.
 */
export function withoutUnchanged(
  document: RequestDocument,
  resource: Resource<never>,
  present: Present,
): RequestDocument {
  const given = Object.entries(document.attributes)
  const field = (name: string): Field => must(resource.attributes[name], 'An attribute')
  const readOnly = ([name]: [string, unknown]): boolean =>
    Object.hasOwn(resource.attributes, name) && !field(name).update
  if (!given.some(readOnly)) return document
  const shown: Record<string, unknown> = present()?.attributes ?? {}
  const changed = ([name, value]: [string, unknown]): boolean =>
    !Object.hasOwn(shown, name) || !same(field(name), value, shown[name])
  if (!given.some((each) => readOnly(each) && !changed(each))) return document
  const older = ([name, value]: [string, unknown]): boolean =>
    readOnly([name, value]) && Object.hasOwn(shown, name) && stale(name, field(name), value, shown[name])
  return { ...document, attributes: Object.fromEntries(given.filter((each) => changed(each) && !older(each))) }
}

/**
 * Whether a read-only value can have been shown before. Times, counts and a status change while the client edits. A
 * time of creation does not, and the time of the last change only increases.
 */
function stale(name: string, field: Field, given: unknown, shown: unknown): boolean {
  if (name === 'created_at' || !(field.answer ?? field.schema).safeParse(given).success) return false
  if (name === 'updated_at') return Date.parse(String(given)) < Date.parse(String(shown))
  return field.kind === 'time' || name === 'status' || typeof given === 'number'
}

/** Whether two values are equal. Times are compared in any form that clients write. */
function same({ kind }: Field, given: unknown, shown: unknown): boolean {
  if (kind === 'time' && typeof given === 'string' && typeof shown === 'string')
    return given === shown || Date.parse(given) === Date.parse(shown)
  return isDeepStrictEqual(given, shown)
}
