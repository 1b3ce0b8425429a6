// The modules that a command loads: each package that is evaluated costs every command its time and memory.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { SERVER_ENVIRONMENT } from '../kit/environment.ts'

const PROGRAM = join(import.meta.dirname, '../../bin/postrider.ts')
/** Writes the URL of each module that is evaluated. */
const TOLD = `import { registerHooks } from 'node:module'
registerHooks({ load(url, context, next) { process.stderr.write(url + '\\n'); return next(url, context) } })`

test('a command does not load the packages that compose, parse and serve email and pages', () => {
  const hook = `data:text/javascript,${encodeURIComponent(TOLD)}`
  const { status, stderr } = spawnSync(process.execPath, ['--import', hook, PROGRAM, 'help'], {
    env: SERVER_ENVIRONMENT,
    encoding: 'utf8',
  })
  assert.equal(status, 0, stderr)
  const packages = new Set(
    [...stderr.matchAll(/\/node_modules\/((?:@[^/]+\/)?[^/]+)\//g)].map(([, name]) => name ?? ''),
  )
  assert.ok(packages.has('commander'), 'the modules are heard of')
  const heavy = ['dkim-signer', 'hono', 'html-to-text', 'iconv-lite', 'libmime', 'mailauth', 'mailparser']
  const server = ['@modelcontextprotocol/server', '@simplewebauthn/server', 'sanitize-html', 'smtp-server']
  assert.deepEqual(
    [...heavy, ...server].filter((name) => packages.has(name)),
    [],
  )
})
