// The files of the apt repository, and the errors of its script. test/interop/repository.interop.ts runs apt.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  fieldOf,
  installScript,
  packagesIndex,
  releaseIndex,
  sourcesFile,
  type PooledPackage,
} from '../../packaging/apt.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const ROOT = join(import.meta.dirname, '../..')
const folder = temporaryDirectory('apt')

const pooled = (version: string, architecture: string): PooledPackage => ({
  control: `Package: postrider\nVersion: ${version}\nArchitecture: ${architecture}\nDescription: short\n long\n .\n end\n`,
  path: `pool/main/p/postrider/postrider_${version}_${architecture}.deb`,
  size: 7,
  sha256: 'a'.repeat(64),
})

test('Packages lists the packages of its architecture by version, each with its file', () => {
  const packages = [pooled('0.10.0', 'amd64'), pooled('0.9.0', 'amd64'), pooled('0.9.0', 'arm64')]
  const paragraph = (version: string): string =>
    `Package: postrider\nVersion: ${version}\nArchitecture: amd64\nDescription: short\n long\n .\n end\nFilename: pool/main/p/postrider/postrider_${version}_amd64.deb\nSize: 7\nSHA256: ${'a'.repeat(64)}\n`
  assert.equal(packagesIndex(packages, 'amd64'), `${paragraph('0.9.0')}\n${paragraph('0.10.0')}`)
  assert.equal(packagesIndex([], 'amd64'), '')
})

test('Release lists each index with its SHA-256 and size, and has an expiry date', () => {
  const bytes = Buffer.from('text')
  const text = releaseIndex(
    new Map([['main/binary-amd64/Packages', bytes]]),
    new Date('2026-11-26T12:00:00Z'),
    new Date('2027-02-24T12:00:00Z'),
  )
  assert.equal(
    text,
    `Origin: Postrider
Label: Postrider
Suite: stable
Codename: stable
Date: Thu, 26 Nov 2026 12:00:00 UTC
Valid-Until: Wed, 24 Feb 2027 12:00:00 UTC
Acquire-By-Hash: yes
Architectures: amd64 arm64
Components: main
SHA256:
 ${createHash('sha256').update(bytes).digest('hex')} 4 main/binary-amd64/Packages
`,
  )
})

test('postrider.sources contains the key, and install.sh contains that file and one command', () => {
  const sources = sourcesFile('https://apt.example.org', '-----BEGIN-----\n\nabc=\n-----END-----\n')
  assert.match(sources, /^URIs: https:\/\/apt\.example\.org$/m)
  assert.ok(sources.endsWith('Signed-By:\n -----BEGIN-----\n .\n abc=\n -----END-----\n'))
  assert.equal(fieldOf(sources, 'Suites'), 'stable')
  const script = installScript(sources)
  assert.ok(script.includes(`\n${sources}END\n`))
  const commands = script
    .replace(sources, '')
    .split('\n')
    .filter((line) => !/^(#.*|[{}]|END|)$/.test(line))
  assert.deepEqual(
    commands.map((line) => line.trim().split(' ')[0]),
    ['set', '[', 'cat', 'chmod', 'apt-get'],
  )
})

const refusals: [name: string, args: string[], status: number, why: RegExp][] = [
  ['a missing directory', [], 2, /^usage: /],
  ['an invalid number of days', ['--valid', 'x', folder], 2, /^usage: /],
  ['a missing package', [folder, join(folder, 'none.deb')], 1, /none\.deb does not exist; run "npm run package"/],
  ['to sign a missing repository', ['--sign-only', join(folder, 'none')], 1, /none contains no repository/],
  ['a URL of another scheme', ['--url', 'ftp://a', folder], 1, /"ftp:\/\/a" is not an http, https or file URL/],
]
for (const [name, args, status, why] of refusals)
  test(`the repository script rejects ${name} in a sentence`, () => {
    const found = spawnSync(process.execPath, [join(ROOT, 'packaging/repository.ts'), ...args], { encoding: 'utf8' })
    assert.match(found.stderr, why)
    assert.equal(found.status, status)
  })
