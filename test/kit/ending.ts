// Loaded before each test file (--import). When the tests of a file have finished, its process must end too: a test
// that failed leaves its servers open, and the whole run would never end. --test-timeout does not cover this.
import { isMainThread } from 'node:worker_threads'

/** Real ms for the hooks of the file, which stop its servers. */
const PATIENCE = 60_000

// Only in the process of a test file: not in the process of the run, and not in worker threads of the tested code.
if (isMainThread && process.env['NODE_TEST_CONTEXT'] === 'child-v8') {
  // Real peers have the ports of their configurations.
  if (!/\/test\/interop\//.test(process.argv[1] ?? '')) {
    await import('./ports.ts')
    // Processes that the test starts have it by this.
    process.env['NODE_OPTIONS'] = `--import ${new URL('ports.ts', import.meta.url).href}`
  }
  const { after } = await import('node:test')
  after(() => {
    setTimeout(() => {
      const open = [...new Set(process.getActiveResourcesInfo())].join(', ')
      console.error(`${process.argv[1]}: the tests ended ${PATIENCE / 1000} s ago, but this is open: ${open}`)
      process.exit(1)
    }, PATIENCE).unref()
  })
}
