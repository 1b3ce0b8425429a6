// Files of the data directory are read by base/plain-file.ts alone (D72): others would wait for a pipe for ever, or
// follow a link. What else reads a file has a reason.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'node:test'

const SRC = fileURLToPath(new URL('../../src/', import.meta.url))

const REASONS: Record<string, readonly string[]> = {
  'the operator or the system names it': [
    'acme/certificates.ts',
    'archive/place-of.ts',
    'archive/program-in.ts',
    'archive/upgrade-check.ts',
    'base/config.ts',
    'base/container.ts',
    'base/ownership.ts',
    'base/tls.ts',
    'checks/doctor-machine.ts',
    'cli/installation.ts',
    'delivery/wire/connect.ts',
    'domains/command-policies.ts',
    'http/places.ts',
    'lists/csv-source.ts',
    'reports/command-read.ts',
    'server/acme.ts',
    'smtp/shaping-file.ts',
    'store/lock.ts',
    'store/log.ts',
  ],
  'it is a part of the program': [
    'base/assets.ts',
    'base/installed.ts',
    'base/version.ts',
    'console/assets.ts',
    'store/addon.ts',
  ],
  'it was opened by base/plain-file.ts': ['base/plain-file.ts', 'base/spooled.ts', 'privacy/scrub.ts'],
}

test('only base/plain-file.ts reads files of the data directory (D72)', () => {
  const reads = /import \{[^}]*\b(?:readFileSync|readFile|createReadStream)\b[^}]*\} from 'node:fs(?:\/promises)?'/
  const found = globSync('**/*.ts', { cwd: SRC }).filter((file) => reads.test(readFileSync(join(SRC, file), 'utf8')))
  assert.deepEqual(found.sort(), Object.values(REASONS).flat().sort())
})
