// The image as far as it can be judged without building it: the archives, its base, and the files that start it;
// packaging/image-smoke.sh runs it.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { ARCHITECTURES, basePackages } from '../../packaging/image/base.ts'
import { ociArchive, type Packing } from '../../packaging/image/oci.ts'
import { tar, type Entry, type Tree } from '../../packaging/image/tar.ts'

const ROOT = join(import.meta.dirname, '../..')
const folder = mkdtempSync(join(tmpdir(), 'postrider-image-'))
after(() => rmSync(folder, { recursive: true }))
const TIME = 1_795_521_600
const sum = (octets: Buffer): string => createHash('sha256').update(octets).digest('hex')
const file = (text: string, mode?: number) =>
  ({ kind: 'file', content: Buffer.from(text), ...(mode !== undefined && { mode }) }) as const

/** The names, modes, owners and links of an archive, as GNU tar reads it. */
function listed(archive: Buffer): string[] {
  const path = join(folder, 'archive.tar')
  writeFileSync(path, archive)
  const text = execFileSync('tar', ['--numeric-owner', '--utc', '--full-time', '-tvf', path], { encoding: 'utf8' })
  return text
    .trim()
    .split('\n')
    .map((line) => line.replace(/\s+/g, ' '))
}

describe('the layers (I1, I2)', () => {
  const long = `usr/share/${'long/'.repeat(20)}name`
  const tree: Tree = new Map<string, Entry>([
    ['b/run', file('#!', 0o755)],
    ['a', { kind: 'link', target: 'b/run' }],
    ['var/lib/postrider', { kind: 'folder', mode: 0o700, owner: 10025 }],
    [long, file('x'.repeat(1000))],
  ])

  test('are what tar reads: in order, of root, of one time, with the folders above', () => {
    const lines = listed(tar(tree, TIME))
    assert.equal(lines[0], 'lrwxrwxrwx 0/0 0 2026-11-24 12:00:00 a -> b/run')
    assert.ok(lines.includes('drwxr-xr-x 0/0 0 2026-11-24 12:00:00 b/'))
    assert.ok(lines.includes('-rwxr-xr-x 0/0 2 2026-11-24 12:00:00 b/run'))
    assert.ok(lines.includes('drwx------ 10025/10025 0 2026-11-24 12:00:00 var/lib/postrider/'))
    assert.ok(lines.includes(`-rw-r--r-- 0/0 1000 2026-11-24 12:00:00 ${long}`))
    assert.throws(() => tar(new Map([['x'.repeat(101), file('')]]), TIME), /too long/)
  })

  test('do not depend on the order in which a tree was made', () => {
    assert.equal(sum(tar(new Map([...tree].reverse()), TIME)), sum(tar(tree, TIME)))
  })
})

describe('the archive (I1, I3, I4)', () => {
  const platforms = ['amd64', 'arm64'].map((architecture) => ({
    architecture,
    layers: [new Map([['etc/passwd', file('root')]]), new Map([['usr/bin/postrider', file(architecture, 0o755)]])],
  }))
  const made = (packing: Packing): Map<string, Buffer> => {
    const options = { config: { User: '10025:10025' }, time: TIME, names: ['1.2.3', '1.2', 'latest'], packing }
    const archive = ociArchive(platforms, options)
    assert.equal(sum(archive), sum(ociArchive(platforms, options)), 'two runs are equal')
    const path = join(folder, 'oci.tar')
    writeFileSync(path, archive)
    const names = execFileSync('tar', ['-tf', path], { encoding: 'utf8' }).trim().split('\n')
    return new Map(
      names
        .filter((name) => !name.endsWith('/'))
        .map((name) => [name, execFileSync('tar', ['-xOf', path, name], { maxBuffer: 1 << 26 })]),
    )
  }
  // oxlint-disable-next-line typescript/no-explicit-any
  const json = (octets: Buffer | undefined): any => JSON.parse(octets!.toString())

  for (const [packing, unpack, type] of [
    ['gzip', gunzipSync, 'tar+gzip'],
    [{ zstd: 9 }, zstdDecompressSync, 'tar+zstd'],
  ] as const)
    test(`with ${type}: every name leads to one index, both architectures, and layers that are what is said`, () => {
      const files = made(packing)
      const blob = ({ digest, size }: { digest: string; size: number }): Buffer => {
        const octets = files.get(`blobs/${digest.replace(':', '/')}`)!
        assert.equal(`sha256:${sum(octets)}`, digest)
        assert.equal(octets.length, size)
        return octets
      }
      assert.deepEqual(json(files.get('oci-layout')), { imageLayoutVersion: '1.0.0' })
      const named = json(files.get('index.json')).manifests
      const names = named.map((each: { annotations: object }) => Object.values(each.annotations)[0])
      assert.deepEqual(names, ['1.2.3', '1.2', 'latest'])
      assert.equal(new Set(named.map(({ digest }: { digest: string }) => digest)).size, 1)
      for (const manifest of json(blob(named[0])).manifests) {
        const { config, layers } = json(blob(manifest))
        const described = json(blob(config))
        assert.equal(described.architecture, manifest.platform.architecture)
        assert.deepEqual([described.created, described.config.User], ['2026-11-24T12:00:00Z', '10025:10025'])
        assert.equal(layers.length, 2)
        const plain = layers.map((layer: { digest: string; size: number; mediaType: string }) => {
          assert.ok(layer.mediaType.endsWith(type), layer.mediaType)
          return unpack(blob(layer))
        })
        assert.deepEqual(
          described.rootfs.diff_ids,
          plain.map((layer: Buffer) => `sha256:${sum(layer)}`),
        )
        assert.ok(plain[1].includes(manifest.platform.architecture))
      }
    })
})

test('base.json names the same packages for both architectures, each with its version and its SHA-256 (I2)', () => {
  const [one, other] = ARCHITECTURES.map((arch) => basePackages(arch))
  assert.deepEqual(Object.keys(one!), [
    'ca-certificates',
    'gcc-12-base',
    'libatomic1',
    'libc6',
    'libgcc-s1',
    'libstdc++6',
  ])
  assert.deepEqual(Object.keys(other!), Object.keys(one!))
  for (const list of [one!, other!])
    for (const { sha256, version } of Object.values(list)) {
      assert.match(sha256, /^[0-9a-f]{64}$/)
      assert.match(version, /^\d/)
    }
})

describe('what starts the image (I5, I7)', () => {
  const compose = ['compose.yaml', 'compose.proxy.yaml'].map((name) =>
    readFileSync(join(ROOT, 'packaging', name), 'utf8'),
  )
  const quadlet = readFileSync(join(ROOT, 'packaging/postrider.container'), 'utf8')

  test('each has a read-only root, no capability that is not named, no new privileges, the volume and the health check', () => {
    for (const text of compose) {
      for (const line of ['read_only: true', 'cap_drop: [ALL]', 'stop_grace_period: 15s', 'no-new-privileges:true'])
        assert.ok(text.includes(line), line)
      assert.match(text, /- postrider:\/var\/lib\/postrider$/m)
      assert.match(text, /test: \[.CMD., .\/usr\/bin\/postrider., .health.\]/)
    }
    for (const line of ['ReadOnly=true', 'DropCapability=all', 'NoNewPrivileges=true'])
      assert.match(quadlet, new RegExp(`^${line}$`, 'm'))
    assert.match(quadlet, /^HealthCmd=CMD \/usr\/bin\/postrider health$/m)
    assert.match(quadlet, /^Volume=postrider:\/var\/lib\/postrider$/m)
    assert.match(compose[0]!, /^ {4}network_mode: host$/m)
    assert.match(compose[1]!, /- .25:25.[^]*- .465:465.[^]*- .587:587./)
  })

  test('every variable in them is a setting', async () => {
    const { demandKnownVariables } = await import('../../src/base/config.ts')
    for (const text of [...compose, quadlet]) {
      const names = [...text.matchAll(/POSTRIDER_[A-Z_]+/g)].map(([name]) => name)
      assert.ok(names.length >= 3)
      demandKnownVariables(Object.fromEntries(names.map((name) => [name, 'x'])))
    }
  })

  test('each names the image of this version', async () => {
    const { version } = await import('../../src/base/version.ts')
    for (const text of [...compose, quadlet])
      assert.match(text, new RegExp(`[Ii]mage[:=] ?localhost/postrider:${version.replace(/\.\d+$/, '')}$`, 'm'))
  })
})
