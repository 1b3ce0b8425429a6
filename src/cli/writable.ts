// Whether the database can be written, as an operator is told it. A server that has nothing to write would never learn that it can be
// written again, so it is tried while the last commit failed.
import type { Troubles } from '../base/trouble.ts'
import type { Store } from '../store/database.ts'

/** The function to call at each look. */
export function watchWrites(store: Store, troubles: Troubles): () => void {
  let failed = false
  return () => {
    const { failing } = store
    if (failing) {
      troubles.report('store', 'The database cannot be written.', failing)
      // What it fails with is told at the next look.
      store.prove().catch(() => {})
    } else if (failed) troubles.clear('store')
    failed = failing !== undefined
  }
}
