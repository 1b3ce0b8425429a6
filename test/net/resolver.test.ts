// A DNS query that fails on this machine for lack of a descriptor is not a failure of the DNS server (D72).
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

const moduleUrl = pathToFileURL(resolve(import.meta.dirname, '../../src/net/resolver.ts')).href

/**
 * Queries in a separate process, with all descriptors in use and then with free ones. No server listens at the address.
 */
const PROGRAM = `
import { closeSync, openSync } from 'node:fs'
const { createResolver } = await import(${JSON.stringify(moduleUrl)})
const resolver = createResolver({ servers: [{ host: '127.0.0.1', port: 9 }], tries: 1 })
const taken = []
try { for (;;) taken.push(openSync('/dev/null', 'r')) } catch {}
const without = await resolver.mx('there.test')
for (const descriptor of taken) closeSync(descriptor)
const { kind, local } = await resolver.mx('there.test')
process.stdout.write(JSON.stringify([without, { kind, local }]))
`

test('reports a local failure without a file descriptor, and a remote one if the DNS server refuses the query', async () => {
  const { stdout } = await promisify(execFile)('sh', [
    '-c',
    'ulimit -n 100; exec "$0" --input-type=module -e "$1"',
    process.execPath,
    PROGRAM,
  ])
  assert.deepEqual(JSON.parse(stdout), [{ kind: 'failed', reason: 'EMFILE', local: true }, { kind: 'failed' }])
})
