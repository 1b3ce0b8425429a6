// The system of the image: single files of Debian packages, each of which base.json names with its version and the
// SHA-256 of its octets.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '../node.ts'
import type { Tree } from './tar.ts'

/** The architectures by the names that Debian and OCI have for them. */
export const ARCHITECTURES = ['amd64', 'arm64'] as const
export type Debian = (typeof ARCHITECTURES)[number]

interface Package {
  version: string
  sha256: string
}

const LIST = join(ROOT, 'packaging/image/base.json')
/** Packages that were fetched, by their SHA-256. */
const KEPT = join(ROOT, 'node_modules/.cache/image')
const SUITES = ['debian bookworm', 'debian-security bookworm-security']
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
/** gcc-12-base holds the copyright of the libraries of GCC. */
const PACKAGES = ['ca-certificates', 'gcc-12-base', 'libatomic1', 'libc6', 'libgcc-s1', 'libstdc++6']

/** What the image takes: the libraries that the executable and its addon are linked with, and the licences. */
const TAKEN =
  /^(?:(?:usr\/)?lib\/[^/]+\/(?:lib(?:c|m|dl|pthread|atomic|stdc\+\+|gcc_s)\.so\.[\d.]+|ld-linux[^/]*)|lib(?:64)?\/ld-linux[^/]*|usr\/share\/doc\/[^/]+(?:\/copyright)?)$/
const AUTHORITIES = /^usr\/share\/ca-certificates\/.*\.crt$/

const sha256 = (octets: Buffer): string => createHash('sha256').update(octets).digest('hex')

/** The packages of the image for an architecture, by name. */
export const basePackages = (arch: Debian): Record<string, Package> =>
  (JSON.parse(readFileSync(LIST, 'utf8')) as Record<Debian, Record<string, Package>>)[arch]

/** The files of the system for an architecture. Throws when a package is not to be had. */
export function baseTree(arch: Debian): Tree {
  const folder = mkdtempSync(join(tmpdir(), 'postrider-base-'))
  try {
    unpackBase(arch, folder)
    const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()
    const tree: Tree = new Map()
    for (const path of paths.filter((each) => TAKEN.test(each))) {
      const file = join(folder, path)
      const found = lstatSync(file)
      if (found.isSymbolicLink()) tree.set(path, { kind: 'link', target: readlinkSync(file) })
      else if (found.isFile())
        tree.set(path, { kind: 'file', content: readFileSync(file), mode: found.mode & 0o111 ? 0o755 : 0o644 })
    }
    // As update-ca-certificates writes them.
    const authorities = paths.filter((path) => AUTHORITIES.test(path)).map((path) => readFileSync(join(folder, path)))
    tree.set('etc/ssl/certs/ca-certificates.crt', { kind: 'file', content: Buffer.concat(authorities.map(ending)) })
    return tree
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** A text that ends with the end of a line. */
const ending = (text: Buffer): Buffer => (text.at(-1) === 10 ? text : Buffer.concat([text, Buffer.from('\n')]))

/** Unpacks all packages of an architecture into a folder. Throws when a package is not to be had. */
export function unpackBase(arch: Debian, folder: string): void {
  for (const deb of fetched(arch)) execFileSync('dpkg-deb', ['-x', deb, folder])
}

/** The packages of an architecture as files, held to their checksums. */
function fetched(arch: Debian): string[] {
  const wanted = Object.entries(basePackages(arch))
  const missing = wanted.filter(([, { sha256: sum }]) => !existsSync(join(KEPT, `${sum}.deb`)))
  if (missing.length > 0) withApt(arch, (apt, folder) => missing.forEach((each) => fetchPackage(each, apt, folder)))
  return wanted.map(([, { sha256: sum }]) => join(KEPT, `${sum}.deb`))
}

function fetchPackage([name, { sha256: sum, version }]: [string, Package], apt: Apt, folder: string): void {
  try {
    apt('apt-get', 'download', `${name}=${version}`)
  } catch {
    throw new Error(
      `Debian no longer offers ${name} ${version}: "npm run image -- --update" writes what it offers now into packaging/image/base.json.`,
    )
  }
  const file = join(
    folder,
    readdirSync(folder).find((each) => each.startsWith(`${name}_`))!,
  )
  const found = sha256(readFileSync(file))
  if (found !== sum) throw new Error(`${name} ${version} has the checksum ${found}, packaging/image/base.json ${sum}`)
  mkdirSync(KEPT, { recursive: true })
  // Complete or not at all.
  const draft = join(KEPT, `${sum}.part`)
  writeFileSync(draft, readFileSync(file))
  renameSync(draft, join(KEPT, `${sum}.deb`))
}

type Apt = (program: string, ...args: string[]) => string

/**
 * Runs `work` with an apt of its own, which knows one architecture, Debian's mirrors, and no package as installed; it
 * downloads into the folder that `work` is given.
 */
function withApt(arch: Debian, work: (apt: Apt, folder: string) => void): void {
  if (!existsSync(KEYRING)) throw new Error(`${KEYRING} is missing: install debian-archive-keyring.`)
  const place = mkdtempSync(join(tmpdir(), 'postrider-apt-'))
  const folder = join(place, 'fetched')
  try {
    for (const name of ['state/lists/partial', 'cache/archives/partial', 'fetched'])
      mkdirSync(join(place, name), { recursive: true })
    writeFileSync(join(place, 'status'), '')
    const sources = SUITES.map((each) => `deb [signed-by=${KEYRING}] http://deb.debian.org/${each} main\n`)
    writeFileSync(join(place, 'sources.list'), sources.join(''))
    const settings = {
      'APT::Architecture': arch,
      'APT::Architectures': arch,
      'APT::Sandbox::User': 'root',
      'Acquire::Languages': 'none',
      'Dir::State': join(place, 'state'),
      'Dir::State::status': join(place, 'status'),
      'Dir::Cache': join(place, 'cache'),
      'Dir::Etc::sourcelist': join(place, 'sources.list'),
      'Dir::Etc::sourceparts': '-',
    }
    const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`])
    const apt: Apt = (program, ...args) =>
      execFileSync(program, [...options, '-q', ...args], { cwd: folder, encoding: 'utf8', stdio: 'pipe' })
    console.log(`fetching Debian's packages for ${arch}`)
    apt('apt-get', 'update')
    work(apt, folder)
  } finally {
    rmSync(place, { recursive: true })
  }
}

/** Writes what Debian offers now into base.json. */
export function updateBase(): void {
  const list: Record<string, Record<string, Package>> = {}
  for (const arch of ARCHITECTURES)
    withApt(arch, (apt) => {
      const found = PACKAGES.map((name): [string, Package] => {
        const [shown] = apt('apt-cache', 'show', '--no-all-versions', name).split('\n\n')
        const field = (key: string): string => new RegExp(`^${key}: (.*)$`, 'm').exec(shown!)![1]!
        return [name, { version: field('Version'), sha256: field('SHA256') }]
      })
      list[arch] = Object.fromEntries(found)
    })
  writeFileSync(LIST, `${JSON.stringify(list, null, 2)}\n`)
}
