// The resource that a create request names in a relationship. It is looked up twice: before the attributes are checked,
// because 404 comes before 422 (D3), and in the action.
import { refuse } from '../base/errors.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { Reader } from '../store/database.ts'
import { findOwned, type ListedRow } from '../store/list.ts'
import type { Call } from './resource.ts'

type NamingCall = Pick<Call<{ store: Reader }>, 'caller' | 'parts' | 'related'>
/** The tables of parent resources, with their names in errors. */
const CALLED = { domains: 'sending domain', audiences: 'audience', segments: 'segment', inboxes: 'inbox' } as const
type Parents = keyof typeof CALLED
type FoundParent<T extends Parents> = ListedRow & RowOf<T>

/** Returns the caller's resource in a relationship, or undefined if the request does not name one. Throws 404. */
function named<T extends Parents>(
  { caller, parts, related }: NamingCall,
  name: string,
  table: T,
  scope?: string,
): FoundParent<T> | undefined {
  const id = related[name]
  if (id === undefined || id === null) return undefined
  const isVisible = scope === undefined || caller.scopes.has(scope)
  const row = isVisible && findOwned(parts.store, table, caller.userKey, id, 'deleted_at is null')
  if (row) return row as FoundParent<T>
  throw refuse('not_found', `No such ${CALLED[table]} exists. Check the id in "${name}".`, {
    pointer: `/data/relationships/${name}`,
  })
}

/**
 * Functions that find the resource in a relationship: `before` the attributes are checked, and in the action. `find`
 * returns undefined if the request does not name one. `scope`: callers without it do not see the resource.
 */
export const relatedIn = <T extends Parents>(name: string, table: T, scope?: string) => ({
  before: (call: NamingCall): void => void named(call, name, table, scope),
  /** The resource, if the request names one. Throws 404. */
  find: (call: NamingCall): FoundParent<T> | undefined => named(call, name, table, scope),
  /** Throws 404, and 422 if the request does not name a resource. */
  of(call: NamingCall): FoundParent<T> {
    const row = named(call, name, table, scope)
    if (row) return row
    throw refuse('required', `The ${CALLED[table]} is missing. Add it as relationships.${name}.`, { pointer: '/data' })
  },
})
