// Reports whether the database can be written. A server with nothing to write would not notice that writing works
// again, so a test write is made as long as the last commit has failed.
import type { Troubles } from '../base/trouble.ts'
import type { Store } from '../store/database.ts'

/** Returns the function to call at each check. */
export function watchWrites(store: Store, troubles: Troubles): () => void {
  let failed = false
  return () => {
    const { failing } = store
    if (failing) {
      troubles.report('store', 'The database cannot be written.', failing)
      // Its error is reported at the next check.
      store.prove().catch(() => {})
    } else if (failed) troubles.clear('store')
    failed = failing !== undefined
  }
}
