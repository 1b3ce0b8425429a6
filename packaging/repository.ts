// npm run repository -- [--key ID] [--url URL] [--valid DAYS] DIRECTORY [DEB...]: makes or extends a static apt
// repository there, of the packages in dist/ where none is named; with --sign-only it is signed again as it is. It
// needs gpg, and dpkg-deb, which made the packages.
//
// Any web server that has the files will do. What was in the pool stays, and a version in it never changes. Each file
// is whole when it has its name, and InRelease comes last: apt takes the indexes that it names by their hashes, of
// which those of the last time stay too. SOURCE_DATE_EPOCH is another time than now.
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
/** How long the indexes are believed without being signed again, in days. */
const VALID = 90

function put(file: string, content: string | Buffer): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(`${file}.new`, content, { mode: 0o644 })
  renameSync(`${file}.new`, file)
}

const controlOf = (deb: string): string => execFileSync('dpkg-deb', ['--field', deb], { encoding: 'utf8' })

/** Puts a package into the pool under its own name. Throws when it is not Postrider's, or another has that name. */
function pool(directory: string, deb: string): void {
  if (!existsSync(deb)) throw new Error(`${deb} is not there; npm run package makes the packages.`)
  const control = controlOf(deb)
  const [name, release, architecture] = ['Package', 'Version', 'Architecture'].map((field) => fieldOf(control, field))
  if (name !== 'postrider' || !DEBIAN_ARCHITECTURES.some((each) => each === architecture))
    throw new Error(`${deb} is "${name}" for "${architecture}": no package of Postrider for a server.`)
  const file = join(directory, POOL, `postrider_${release}_${architecture}.deb`)
  if (existsSync(file)) {
    if (readFileSync(file).equals(readFileSync(deb))) return
    throw new Error(
      `${file} is there with other octets: machines that have it would refuse this one. A changed package needs another version; if nobody has it, remove it there.`,
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
    const octets = readFileSync(file)
    return { control: controlOf(file), path: `${POOL}/${name}`, size: octets.length, sha256: sha256(octets) }
  })
}

/** The hashes that a Release file names. */
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
  for (const [path, octets] of indexes) put(join(dists, dirname(path), 'by-hash/SHA256', sha256(octets)), octets)
  for (const [path, octets] of indexes) put(join(dists, path), octets)
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

/** Where the repository is, for those who use it: as it is said, else as it was said before, else this folder. */
function urlOf(directory: string, given: string | undefined): string {
  const file = join(directory, 'postrider.sources')
  const former = existsSync(file) ? fieldOf(readFileSync(file, 'utf8'), 'URIs') : ''
  const url = (given ?? (former || `file:${resolve(directory)}`)).replace(/\/+$/, '')
  if (!/^(?:https?:\/\/|file:\/)\S+$/.test(url)) throw new Error(`"${url}" is not a URL of http, https or file.`)
  if (url.startsWith('file:')) console.log(`${url} is in postrider.sources; --url names the place that others reach.`)
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
  const built = DEBIAN_ARCHITECTURES.map((name) => join(DIST, `postrider_${version}_${name}.deb`))
  const url = urlOf(directory, values.url)
  if (!values['sign-only']) for (const deb of debs.length > 0 ? debs : built) pool(directory, deb)
  else if (!existsSync(join(directory, POOL))) throw new Error(`There is no repository in ${directory} to sign again.`)
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
  console.log(`${directory} has ${names.join(', ')}; apt believes it for ${days} days, then it has to be signed again.`)
} catch (thrown) {
  console.error(`repository: ${messageOf(thrown)}`)
  process.exitCode = 1
}
