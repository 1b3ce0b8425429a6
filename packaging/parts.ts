// What is inside a release, as the bill of materials names it: the npm packages that the bundles take, Node with its
// libraries, SQLite, and in the image the packages of Debian.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { ASSETS, makeAsset } from '../src/console/assets.ts'
import { version } from '../src/base/version.ts'
import { DEBIAN_ARCHITECTURES } from './apt.ts'
import { cycloneDx, spdx, type BillPart } from './bill.ts'
import { bundle, ENTRIES, packagesIn } from './bundle.ts'
import { readChangelog } from './changelog.ts'
import { ROOT, type Architecture } from './node.ts'
import { manifestOf } from './third-party.ts'

type LockFile = Record<string, { version?: string; integrity?: string; license?: string }>

const lockFile = (): LockFile =>
  (JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as { packages: LockFile }).packages

/** The licences of Node's parts (its LICENSE), and under which name their vulnerabilities are listed. */
const NODE_PARTS: Record<string, readonly [licence: string | undefined, cpe?: string]> = {
  acorn: ['MIT'],
  ada: ['MIT'],
  amaro: ['MIT'],
  ares: ['MIT', 'c-ares:c-ares'],
  brotli: ['MIT', 'google:brotli'],
  cldr: ['Unicode-3.0'],
  icu: ['Unicode-3.0', 'unicode:international_components_for_unicode'],
  libffi: ['MIT', 'libffi_project:libffi'],
  lief: ['Apache-2.0'],
  llhttp: ['MIT', 'llhttp:llhttp'],
  merve: ['MIT'],
  nbytes: ['MIT'],
  ncrypto: ['MIT'],
  nghttp2: ['MIT', 'nghttp2:nghttp2'],
  nghttp3: ['MIT'],
  ngtcp2: ['MIT'],
  openssl: ['Apache-2.0', 'openssl:openssl'],
  simdjson: ['Apache-2.0'],
  simdutf: ['MIT'],
  sqlite: ['blessing', 'sqlite:sqlite'],
  // In the public domain.
  tz: [undefined],
  undici: ['MIT', 'nodejs:undici'],
  unicode: ['Unicode-3.0'],
  uv: ['MIT', 'libuv:libuv'],
  uvwasi: ['MIT'],
  v8: ['BSD-3-Clause', 'google:v8'],
  zlib: ['Zlib', 'zlib:zlib'],
  zstd: ['BSD-3-Clause', 'facebook:zstandard'],
}
/** Versions of interfaces, which are not parts. */
const NO_PARTS = new Set(['node', 'modules', 'napi'])

const npmUrl = (name: string, version: string): string => `pkg:npm/${name.replace('@', '%40')}@${version}`
const genericUrl = (name: string, version: string): string => `pkg:generic/${name}@${encodeURIComponent(version)}`

function hashOf(integrity: string | undefined, folder: string): { hash: NonNullable<BillPart['hash']> } {
  const [, base64] = /^sha512-(\S+)$/.exec(integrity ?? '') ?? []
  if (base64 === undefined) throw new Error(`package-lock.json has no SHA-512 of ${folder}`)
  return { hash: { algorithm: 'SHA-512', hex: Buffer.from(base64, 'base64').toString('hex') } }
}

const sqlitePart = (version: string): BillPart => ({
  purl: genericUrl('sqlite', version),
  name: 'sqlite',
  version,
  kind: 'library',
  licence: NODE_PARTS['sqlite']![0],
  cpe: NODE_PARTS['sqlite']![1]!,
  takes: [],
})

/** Node and its libraries. They are asked of this Node, whose version is the same for every architecture. */
function nodeParts(arch: Architecture, lock: LockFile): BillPart[] {
  const folder = `node_modules/node-linux-${arch}`
  const { integrity, version } = lock[folder] ?? {}
  if (version !== process.versions.node)
    throw new Error(`${folder} is version ${version}, this is Node ${process.versions.node}`)
  const parts = Object.entries(process.versions).flatMap(([name, found]): BillPart[] => {
    // A part that is not built in has an empty version.
    if (NO_PARTS.has(name) || found === undefined || found === '') return []
    const known = NODE_PARTS[name]
    if (known === undefined) throw new Error(`Nothing is known of the part "${name}" of Node: packaging/parts.ts`)
    const [licence, cpe] = known
    const named = { purl: genericUrl(name, found), name, version: found, kind: 'library' as const, takes: [] }
    return [{ ...named, licence, ...(cpe === undefined ? {} : { cpe }) }]
  })
  const node: BillPart = {
    purl: npmUrl(`node-linux-${arch}`, version),
    name: 'node',
    version,
    kind: 'application',
    licence: 'MIT',
    ...hashOf(integrity, folder),
    cpe: 'nodejs:node.js',
    takes: parts.map(({ purl }) => purl),
  }
  return [node, ...parts]
}

/** The npm packages of these folders below the project. */
function npmParts(folders: readonly string[], lock: LockFile): BillPart[] {
  const manifests = folders.map((folder) => [folder, manifestOf(folder)] as const)
  const inside = new Set(manifests.map(([, { name, version }]) => npmUrl(name, version)))
  /** The package that a name means in a folder, as Node finds it. */
  const meant = (folder: string, name: string): string[] => {
    for (let at = folder; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/node_modules/')))) {
      const found = lock[`${at === '' ? '' : `${at}/`}node_modules/${name}`]
      if (found?.version !== undefined) return [npmUrl(name, found.version)].filter((purl) => inside.has(purl))
      if (at === '') return []
    }
  }
  return manifests.map(([folder, { dependencies, license, name, peerDependencies, version }]) => ({
    purl: npmUrl(name, version),
    name,
    version,
    kind: 'library',
    licence: license,
    ...hashOf(lock[folder]?.integrity, folder),
    takes: Object.keys({ ...dependencies, ...peerDependencies }).flatMap((other) => meant(folder, other)),
  }))
}

/** The folders of the npm packages in bundles and assets of the console. */
async function foldersInside(): Promise<string[]> {
  const place = mkdtempSync(join(tmpdir(), 'postrider-parts-'))
  try {
    const made = await Promise.all(Object.keys(ASSETS).map(makeAsset))
    const bundles = []
    for (const [name, entry] of Object.entries(ENTRIES)) bundles.push(await bundle(entry, join(place, name)))
    return [...packagesIn([...bundles, ...made]).keys()].sort()
  } finally {
    rmSync(place, { recursive: true })
  }
}

/** Everything in the executable of each architecture. */
async function programParts(): Promise<(arch: Architecture) => BillPart[]> {
  const lock = lockFile()
  const npm = npmParts(await foldersInside(), lock)
  const database = new Database(':memory:')
  const sqlite = sqlitePart(database.prepare<[], string>('select sqlite_version()').pluck().get()!)
  database.close()
  const taking = npm.map((part) =>
    part.name === 'better-sqlite3' ? { ...part, takes: [...part.takes, sqlite.purl] } : part,
  )
  return (arch) => {
    const all = [...taking, sqlite, ...nodeParts(arch, lock)]
    // Node may hold the same version of SQLite.
    return [...new Map(all.map((part) => [part.purl, part])).values()]
  }
}

/** The packages of Debian in the image, where there is one. */
function imageParts(debian: string, file = join(ROOT, 'packaging/image/base.json')): BillPart[] {
  if (!existsSync(file)) return []
  const base = JSON.parse(readFileSync(file, 'utf8')) as Record<
    string,
    Record<string, { version: string; sha256: string }>
  >
  return Object.entries(base[debian] ?? {}).map(([name, { sha256: hex, version }]) => ({
    purl: `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${debian}`,
    name,
    version,
    kind: 'library',
    hash: { algorithm: 'SHA-256', hex },
    takes: [],
  }))
}

/** What is delivered. It takes what the project asks for, and what no other part takes. */
function subject(name: string, arch: string, kind: BillPart['kind'], parts: readonly BillPart[]): BillPart {
  const { dependencies } = manifestOf('.')
  const taken = new Set(parts.flatMap(({ takes }) => takes))
  const direct = parts.filter((part) => !taken.has(part.purl) || (kind === 'application' && part.name in dependencies!))
  const purl = `pkg:generic/${name}@${version}?arch=${arch}`
  return { purl, name, version, kind, licence: 'MIT', takes: direct.map((part) => part.purl) }
}

/** The bills of a release by the names of their files: of the program for each architecture, and of the image. */
export async function releaseBills(base?: string): Promise<Map<string, string>> {
  const date = `${readChangelog(version)[0]!.date}T12:00:00Z`
  const bills = new Map<string, string>()
  const add = (name: string, of: BillPart, parts: readonly BillPart[]): void => {
    const bill = { subject: of, parts, date, tool: version }
    bills.set(`${name}.cdx.json`, cycloneDx(bill)).set(`${name}.spdx.json`, spdx(bill))
  }
  const partsFor = await programParts()
  for (const arch of DEBIAN_ARCHITECTURES) {
    const parts = partsFor(arch === 'amd64' ? 'x64' : arch)
    const program = subject('postrider', arch, 'application', parts)
    add(`postrider_${version}_${arch}`, program, parts)
    const debian = imageParts(arch, base)
    if (debian.length === 0) continue
    const inImage = [program, ...parts, ...debian]
    add(`postrider_${version}_image_${arch}`, subject('postrider-image', arch, 'container', inImage), inImage)
  }
  return bills
}
