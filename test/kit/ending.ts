// Loaded before each test file (--import). When a file's tests have ended, so must its process: a test that failed half
// way leaves its servers open, and they would keep the whole run from ending. --test-timeout does not cover this.
import { isMainThread } from 'node:worker_threads'

/** Real ms that the file's own hooks have, which stop what it started. */
const PATIENCE = 60_000

// Not in the run itself, nor in the worker threads of what is tested.
if (isMainThread && process.env['NODE_TEST_CONTEXT'] === 'child-v8') {
  const { after } = await import('node:test')
  after(() => {
    setTimeout(() => {
      const open = [...new Set(process.getActiveResourcesInfo())].join(', ')
      console.error(`${process.argv[1]}: the tests ended ${PATIENCE / 1000} s ago, but this is open: ${open}`)
      process.exit(1)
    }, PATIENCE).unref()
  })
}
