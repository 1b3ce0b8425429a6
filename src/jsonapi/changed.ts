// Two users may edit one resource at the same time (RFC 9110 §13.1.1). The ETag names the state that a client read, and
// with If-Match the change applies only to that state.
import { createHash } from 'node:crypto'
import { refuse } from '../base/errors.ts'
import type { ListedRow } from '../store/list.ts'
import type { Resource } from './resource.ts'

/** Whether a resource has an ETag, which only editable resources have. */
export const hasTag = ({ actions }: Pick<Resource<never>, 'actions'>): boolean =>
  actions.some(({ kind }) => kind === 'update')

/** The strong entity tag of a row's state: a hash of what an update can change, and of the status. */
export function tagOf(
  { attributes, relationships = {} }: Pick<Resource<never>, 'attributes' | 'relationships'>,
  row: ListedRow,
): string {
  const names = Object.entries(attributes).flatMap(([name, { update }]) => (update || name === 'status' ? [name] : []))
  const links = Object.values(relationships).flatMap(({ column, update }) => (update ? [column] : []))
  const state = [...names, ...links].map((name) => [name, row[name] ?? null])
  return `"${createHash('sha256').update(JSON.stringify(state)).digest('base64url').slice(0, 22)}"`
}

/** Throws 412 if If-Match does not name the current state. Weak tags never match (RFC 9110 §13.1.1). */
export function checkMatch(header: string | null, present: string): void {
  if (header === null || header.trim() === '*') return
  const tags = header.split(',').map((tag) => tag.trim())
  if (!tags.includes(present))
    throw refuse(
      'changed_meanwhile',
      'The resource has been changed since you read it. Read it again and send your change with the new ETag.',
      { header: 'If-Match' },
    )
}

/** Runs the changes of one row one after the other, if they depend on the row's state. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>()

  /** Runs `work` after all earlier work of this name. Resolves and rejects as `work` does. */
  async take<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name) ?? Promise.resolve()
    const mine = before.then(work, work)
    const settled = mine.catch(() => {})
    this.#last.set(name, settled)
    try {
      return await mine
    } finally {
      if (this.#last.get(name) === settled) this.#last.delete(name)
    }
  }
}
