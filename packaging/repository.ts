// npm run repository -- [--key ID] [--url URL] [--valid DAYS] DIRECTORY [DEB...]: creates or extends a static apt
// repository in the directory, with the packages of dist/ by default. With --sign-only, it only signs it again. Needs
// gpg and dpkg-deb.
//
// Any web server can serve the files. Packages stay in the pool, and a version in it never changes. Every file is
// written completely before it gets its name, and InRelease is written last. apt fetches the indexes by the hashes in
// InRelease, so those of the previous one are kept. SOURCE_DATE_EPOCH sets the time.
import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { messageOf } from '../src/base/errors.ts'
import { version } from '../src/base/version.ts'
import {
  COMPONENT,
  DEBIAN_ARCHITECTURES,
  fieldOf,
  installScript,
  packagesIndex,
  releaseIndex,
  sha256,
  sourcesFile,
  SUITE,
  type PooledPackage,
} from './apt.ts'
import { DIST } from './executable.ts'
import { gnupgKey, type GnupgKey } from './signing.ts'

const POOL = `pool/${COMPONENT}/p/postrider`
const DISTS = `dists/${SUITE}`
/** The validity of the indexes in days. They must be signed again before. */
const VALID = 90

function put(file: string, content: string | Buffer): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(`${file}.new`, content, { mode: 0o644 })
  renameSync(`${file}.new`, file)
}

const controlOf = (deb: string): string => execFileSync('dpkg-deb', ['--field', deb], { encoding: 'utf8' })

/** Adds a package to the pool. Throws if it is not a package of Postrider, or if its name exists with other content. */
function pool(directory: string, deb: string): void {
  if (!existsSync(deb)) throw new Error(`${deb} does not exist; run "npm run package" first.`)
  const control = controlOf(deb)
  const [name, release, architecture] = ['Package', 'Version', 'Architecture'].map((field) => fieldOf(control, field))
  if (name !== 'postrider' || !DEBIAN_ARCHITECTURES.some((each) => each === architecture))
    throw new Error(`${deb} is "${name}" for "${architecture}": no package of Postrider for a server.`)
  const file = join(directory, POOL, `postrider_${release}_${architecture}.deb`)
  if (existsSync(file)) {
    if (readFileSync(file).equals(readFileSync(deb))) return
    throw new Error(
      `${file} exists with other contents, and machines that installed it would reject this one; give the changed package another version, or delete the file if it was never installed.`,
    )
  }
  mkdirSync(dirname(file), { recursive: true })
  copyFileSync(deb, `${file}.new`)
  renameSync(`${file}.new`, file)
}

function pooled(directory: string): PooledPackage[] {
  const debs = readdirSync(join(directory, POOL)).filter((name) => name.endsWith('.deb'))
  return debs.map((name) => {
    const file = join(directory, POOL, name)
    const bytes = readFileSync(file)
    return { control: controlOf(file), path: `${POOL}/${name}`, size: bytes.length, sha256: sha256(bytes) }
  })
}

/** The hashes in a Release file. */
const hashesIn = (file: string): string[] =>
  existsSync(file) ? [...readFileSync(file, 'utf8').matchAll(/^ ([0-9a-f]{64}) /gm)].map(([, hash]) => hash!) : []

/** Writes the indexes and signs them. */
function index(directory: string, { fingerprint, gpg }: GnupgKey, date: Date, days: number): void {
  const dists = join(directory, DISTS)
  const former = hashesIn(join(dists, 'Release'))
  const packages = pooled(directory)
  const indexes = new Map<string, Buffer>()
  for (const architecture of DEBIAN_ARCHITECTURES) {
    const plain = Buffer.from(packagesIndex(packages, architecture))
    const folder = `${COMPONENT}/binary-${architecture}`
    indexes.set(`${folder}/Packages`, plain).set(`${folder}/Packages.gz`, gzipSync(plain, { level: 9 }))
  }
  for (const [path, bytes] of indexes) put(join(dists, dirname(path), 'by-hash/SHA256', sha256(bytes)), bytes)
  for (const [path, bytes] of indexes) put(join(dists, path), bytes)
  const validUntil = new Date(date.getTime() + days * 86_400_000)
  put(join(dists, 'Release'), releaseIndex(indexes, date, validUntil))
  const sign = (how: readonly string[], name: string): void => {
    const file = join(dists, name)
    gpg([
      '--local-user',
      fingerprint,
      '--digest-algo',
      'SHA512',
      ...how,
      '--output',
      `${file}.new`,
      join(dists, 'Release'),
    ])
    renameSync(`${file}.new`, file)
  }
  sign(['--armor', '--detach-sign'], 'Release.gpg')
  sign(['--clearsign'], 'InRelease')
  const kept = new Set([...former, ...hashesIn(join(dists, 'Release'))])
  for (const architecture of DEBIAN_ARCHITECTURES) {
    const folder = join(dists, COMPONENT, `binary-${architecture}/by-hash/SHA256`)
    for (const name of readdirSync(folder)) if (!kept.has(name)) rmSync(join(folder, name))
  }
}

/** Returns the public URL of the repository: the given one, the previous one, or this directory. */
function urlOf(directory: string, given: string | undefined): string {
  const file = join(directory, 'postrider.sources')
  const former = existsSync(file) ? fieldOf(readFileSync(file, 'utf8'), 'URIs') : ''
  const url = (given ?? (former || `file:${resolve(directory)}`)).replace(/\/+$/, '')
  if (!/^(?:https?:\/\/|file:\/)\S+$/.test(url)) throw new Error(`"${url}" is not an http, https or file URL.`)
  if (url.startsWith('file:')) console.log(`${url} is in postrider.sources; set the public address with --url.`)
  return url
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    key: { type: 'string' },
    url: { type: 'string' },
    valid: { type: 'string', default: `${VALID}` },
    'sign-only': { type: 'boolean' },
  },
})
const [directory, ...debs] = positionals
const days = Number(values.valid)
if (directory === undefined || !Number.isInteger(days) || days < 1) {
  console.error('usage: npm run repository -- [--key ID] [--url URL] [--valid DAYS] [--sign-only] DIRECTORY [DEB...]')
  process.exit(2)
}
try {
  const epoch = process.env['SOURCE_DATE_EPOCH']
  const date = epoch === undefined ? new Date() : new Date(Number(epoch) * 1000)
  const all = DEBIAN_ARCHITECTURES.map((name) => join(DIST, `postrider_${version}_${name}.deb`))
  const there = all.filter((file) => existsSync(file))
  const built = there.length > 0 ? there : all
  const url = urlOf(directory, values.url)
  if (!values['sign-only']) for (const deb of debs.length > 0 ? debs : built) pool(directory, deb)
  else if (!existsSync(join(directory, POOL))) throw new Error(`${directory} contains no repository; create one first.`)
  const key = gnupgKey(values.key)
  try {
    index(directory, key, date, days)
    const sources = sourcesFile(url, key.gpg(['--armor', '--export', key.fingerprint]))
    put(join(directory, 'postrider.sources'), sources)
    put(join(directory, 'install.sh'), installScript(sources))
  } finally {
    key.close()
  }
  const names = pooled(directory).map(({ path }) => basename(path))
  console.log(`${directory} has ${names.join(', ')}; apt accepts its signature for ${days} days; then sign it again.`)
} catch (thrown) {
  console.error(`repository: ${messageOf(thrown)}`)
  process.exitCode = 1
}
