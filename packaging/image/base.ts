// The base of the image: files of Debian packages, which base.json lists with their versions and SHA-256.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { sha256 } from '../apt.ts'
import { ROOT } from '../node.ts'

/** The architectures, as Debian and OCI name them. */
export const ARCHITECTURES = ['amd64', 'arm64'] as const
export type Debian = (typeof ARCHITECTURES)[number]

interface Package {
  version: string
  sha256: string
}

const LIST = join(ROOT, 'packaging/image/base.json')
/** The cache of packages, by SHA-256. */
const KEPT = join(ROOT, 'node_modules/.cache/image')
const SUITES = ['debian bookworm', 'debian-security bookworm-security']
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
/** gcc-12-base contains the copyright of the GCC libraries. */
const PACKAGES = ['ca-certificates', 'gcc-12-base', 'libatomic1', 'libc6', 'libgcc-s1', 'libstdc++6']

/** The files in the image: the libraries that the executable and its addon are linked with, and the licences. */
const TAKEN =
  /^(?:(?:usr\/)?lib\/[^/]+\/(?:lib(?:c|m|dl|pthread|atomic|stdc\+\+|gcc_s)\.so\.[\d.]+|ld-linux[^/]*)|lib(?:64)?\/ld-linux[^/]*|usr\/share\/doc\/[^/]+(?:\/copyright)?)$/
const AUTHORITIES = /^usr\/share\/ca-certificates\/.*\.crt$/

/** The packages of the image for an architecture, by name. */
export const basePackages = (arch: Debian): Record<string, Package> =>
  (JSON.parse(readFileSync(LIST, 'utf8')) as Record<Debian, Record<string, Package>>)[arch]

/** Writes a file with this mode, independent of the umask. */
export function writeFile(file: string, content: string | Buffer, mode = 0o644): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o755 })
  writeFileSync(file, content)
  chmodSync(file, mode)
}

/** Writes the files of the base for an architecture. Throws if a package is not available. */
export function writeBase(arch: Debian, to: string): void {
  const folder = mkdtempSync(join(tmpdir(), 'postrider-base-'))
  try {
    unpackBase(arch, folder)
    const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()
    for (const path of paths.filter((each) => TAKEN.test(each))) {
      const file = join(folder, path)
      const found = lstatSync(file)
      mkdirSync(dirname(join(to, path)), { recursive: true })
      if (found.isSymbolicLink()) symlinkSync(readlinkSync(file), join(to, path))
      else if (found.isFile()) writeFile(join(to, path), readFileSync(file), found.mode & 0o111 ? 0o755 : 0o644)
    }
    // As update-ca-certificates writes them.
    const authorities = paths.filter((path) => AUTHORITIES.test(path)).map((path) => readFileSync(join(folder, path)))
    writeFile(join(to, 'etc/ssl/certs/ca-certificates.crt'), Buffer.concat(authorities.map(ending)))
    writeFile(join(to, 'etc/nsswitch.conf'), 'hosts: files dns\n')
    mkdirSync(join(to, 'tmp'))
    chmodSync(join(to, 'tmp'), 0o1777)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Adds a line end if it is missing. */
const ending = (text: Buffer): Buffer => (text.at(-1) === 10 ? text : Buffer.concat([text, Buffer.from('\n')]))

/** Unpacks all packages of an architecture into a directory. Throws if a package is not available. */
export function unpackBase(arch: Debian, folder: string): void {
  for (const deb of fetched(arch)) execFileSync('dpkg-deb', ['-x', deb, folder])
}

/** Returns the files of the packages of an architecture, with verified checksums. */
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
  // Atomic: the file is complete when it has its name.
  const draft = join(KEPT, `${sum}.part`)
  writeFileSync(draft, readFileSync(file))
  renameSync(draft, join(KEPT, `${sum}.deb`))
}

type Apt = (program: string, ...args: string[]) => string

/**
 * Runs `work` with a separate apt, for one architecture and Debian's mirrors, without installed packages. It downloads
 * into the directory that `work` gets.
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

/** Writes the current versions in Debian to base.json. */
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
