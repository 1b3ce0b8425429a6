// npm run image [-- --update] [--zstd [--level N]] [--unstripped]: dist/postrider_VERSION_oci.tar, an image for amd64
// and arm64 that needs no container tool to be made: two layers, the system of packaging/image/base.json and the
// program. The same sources give the same octets.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { messageOf } from '../src/base/errors.ts'
import { version } from '../src/base/version.ts'
import { readChangelog } from './changelog.ts'
import { addonFor, buildExecutable, DIST, executableFor } from './executable.ts'
import { ARCHITECTURES, baseTree, updateBase, type Debian } from './image/base.ts'
import { ociArchive, type Packing } from './image/oci.ts'
import type { Entry, Tree } from './image/tar.ts'
import { ROOT, type Architecture } from './node.ts'
import { thirdParty } from './third-party.ts'

/** The user in the image; it must be the same in each version, because the volume is that user's. */
const USER = 10025
const HOME = '/var/lib/postrider'
const NODE: Record<Debian, Architecture> = { amd64: 'x64', arm64: 'arm64' }
const PORTS = [25, 80, 443, 465, 587, 8025]
const SECOND = 1e9

const text = (content: string): Entry => ({ kind: 'file', content: Buffer.from(content) })

/** The lower layer: the system. */
function systemLayer(arch: Debian): Tree {
  return new Map<string, Entry>([
    ...baseTree(arch),
    ['etc/passwd', text(`root:x:0:0:root:/root:/sbin/nologin\npostrider:x:${USER}:${USER}::${HOME}:/sbin/nologin\n`)],
    ['etc/group', text(`root:x:0:\npostrider:x:${USER}:\n`)],
    ['etc/nsswitch.conf', text('hosts: files dns\n')],
    ['tmp', { kind: 'folder', mode: 0o1777 }],
  ])
}

/** The upper layer: the program. */
async function programLayer(arch: Debian, unstripped: boolean): Promise<Tree> {
  const { packages } = await buildExecutable(NODE[arch], unstripped)
  const doc = 'usr/share/doc/postrider'
  return new Map<string, Entry>([
    ['usr/bin/postrider', { kind: 'file', content: readFileSync(executableFor(NODE[arch])), mode: 0o755 }],
    ['usr/lib/postrider/better_sqlite3.node', { kind: 'file', content: readFileSync(addonFor(NODE[arch])) }],
    ['usr/lib/postrider/built-from', text('image\n')],
    [`${doc}/copyright`, text(readFileSync(join(ROOT, 'packaging/debian/copyright'), 'utf8'))],
    [`${doc}/third-party-licences.gz`, { kind: 'file', content: gzipSync(thirdParty([...packages.keys()].sort())) }],
    [HOME.slice(1), { kind: 'folder', mode: 0o700, owner: USER }],
  ])
}

/** How it is started. Podman reads no health check from here: an OCI configuration has no such field. */
const CONFIG = {
  User: `${USER}:${USER}`,
  ExposedPorts: Object.fromEntries(PORTS.map((port) => [`${port}/tcp`, {}])),
  Env: ['PATH=/usr/bin'],
  Entrypoint: ['/usr/bin/postrider'],
  Cmd: ['serve'],
  Volumes: { [HOME]: {} },
  WorkingDir: HOME,
  StopSignal: 'SIGTERM',
  Healthcheck: {
    Test: ['CMD', '/usr/bin/postrider', 'health'],
    Interval: 30 * SECOND,
    Timeout: 10 * SECOND,
    StartPeriod: 60 * SECOND,
    Retries: 3,
  },
  Labels: {
    'org.opencontainers.image.title': 'postrider',
    'org.opencontainers.image.description': 'A self-hosted email appliance in one process.',
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.revision': revision(),
    'org.opencontainers.image.licenses': 'MIT',
  },
}

/** The commit that is built; '' outside a checkout. */
function revision(): string {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: ROOT, stdio: 'pipe', encoding: 'utf8' }).trim()
  } catch {
    return ''
  }
}

async function makeImage(packing: Packing, unstripped: boolean): Promise<void> {
  const { date } = readChangelog(version)[0]!
  const platforms = []
  for (const architecture of ARCHITECTURES)
    platforms.push({
      architecture,
      layers: [systemLayer(architecture), await programLayer(architecture, unstripped)],
    })
  const names = [version, version.split('.').slice(0, 2).join('.'), 'latest']
  const time = Date.parse(`${date}T12:00:00Z`) / 1000
  const archive = ociArchive(platforms, { config: CONFIG, names, packing, time })
  const file = join(DIST, `postrider_${version}_oci.tar`)
  mkdirSync(DIST, { recursive: true })
  writeFileSync(file, archive)
  console.log(`${relative(ROOT, file)}, ${(archive.length / 1e6).toFixed(1)} MB for ${ARCHITECTURES.join(' and ')}`)
}

const { level, unstripped, update, zstd } = parseArgs({
  options: {
    level: { type: 'string', default: '19' },
    unstripped: { type: 'boolean', default: false },
    update: { type: 'boolean' },
    zstd: { type: 'boolean' },
  },
}).values
try {
  if (update) updateBase()
  else await makeImage(zstd ? { zstd: Number(level) } : 'gzip', unstripped)
} catch (thrown) {
  console.error(`image: ${messageOf(thrown)}`)
  process.exitCode = 1
}
