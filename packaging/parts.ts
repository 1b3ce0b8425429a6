// The bills of materials of a release, in CycloneDX 1.5: `npm sbom` lists the npm packages. Node with its libraries,
// SQLite, and in the image the Debian packages are added here. The same sources result in the same bytes.
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { version } from '../src/base/version.ts'
import { ASSETS, makeAsset } from '../src/console/assets.ts'
import { bundle, ENTRIES, packagesIn } from './bundle.ts'
import { readChangelog } from './changelog.ts'
import { ARCHITECTURES, basePackages, type Debian } from './image/base.ts'
import { npm } from './node.ts'
import { manifestOf } from './third-party.ts'

interface Component {
  'bom-ref': string
  type: 'application' | 'container' | 'library'
  name: string
  version: string
  purl: string
  cpe?: string
}
interface Bill {
  serialNumber: string
  metadata: { timestamp: string; lifecycles: object[]; tools: object[]; component: Component }
  components: Component[]
  dependencies: { ref: string; dependsOn: string[] }[]
}

/** Vendor and product under which vulnerabilities are listed (CPE). */
const CPE: Record<string, string> = {
  node: 'nodejs:node.js',
  ares: 'c-ares:c-ares',
  brotli: 'google:brotli',
  icu: 'unicode:international_components_for_unicode',
  llhttp: 'llhttp:llhttp',
  nghttp2: 'nghttp2:nghttp2',
  openssl: 'openssl:openssl',
  sqlite: 'sqlite:sqlite',
  undici: 'nodejs:undici',
  uv: 'libuv:libuv',
  v8: 'google:v8',
  zlib: 'zlib:zlib',
  zstd: 'facebook:zstandard',
}

function componentOf(type: Component['type'], purl: string): Component {
  const [, name = '', found = ''] = /^pkg:(?:generic|deb\/debian)\/([^@]+)@([^?]+)/.exec(purl) ?? []
  const named = { name: decodeURIComponent(name), version: decodeURIComponent(found) }
  const cpe = CPE[name] === undefined ? {} : { cpe: `cpe:2.3:a:${CPE[name]}:${named.version}:*:*:*:*:*:*:*` }
  return { 'bom-ref': purl, type, ...named, ...cpe, purl }
}

const urlOf = (name: string, found: string): string => `pkg:generic/${name}@${encodeURIComponent(found)}`

/** Node, its libraries and SQLite. Node has the same version on all architectures. */
function nativeParts(): Component[] {
  const database = new Database(':memory:')
  const sqlite = database.prepare<[], string>('select sqlite_version()').pluck().get()!
  database.close()
  const { modules: _, napi: _2, ...parts } = process.versions
  const urls = [...Object.entries(parts), ['sqlite', sqlite] as const].map(([name, found]) => urlOf(name, found ?? ''))
  // Node can contain the same version of SQLite. A library that is not built in has an empty version.
  return [...new Set(urls)].filter((url) => !url.endsWith('@')).map((url) => componentOf('library', url))
}

/** The npm packages in bundles and assets of the console, as `npm sbom` refers to them: "hono@4.0.0". */
async function packagesInside(): Promise<Set<string>> {
  const place = mkdtempSync(join(tmpdir(), 'postrider-parts-'))
  try {
    const made = await Promise.all(Object.keys(ASSETS).map(makeAsset))
    const bundles = []
    for (const [name, entry] of Object.entries(ENTRIES)) bundles.push(await bundle(entry, join(place, name)))
    const manifests = [...packagesIn([...bundles, ...made]).keys()].map(manifestOf)
    return new Set(manifests.map(({ name, version: found }) => `${name}@${found}`))
  } finally {
    rmSync(place, { recursive: true })
  }
}

const debianParts = (arch: Debian): Component[] =>
  Object.entries(basePackages(arch)).map(([name, found]) =>
    componentOf(
      'library',
      `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(found.version)}?arch=${arch}`,
    ),
  )

/** The bills of a release by file name: of the program for each architecture, and of the image. */
export async function releaseBills(): Promise<Map<string, string>> {
  const inside = await packagesInside()
  const listed = JSON.parse(npm('sbom', '--omit', 'dev', '--package-lock-only', '--sbom-format', 'cyclonedx')) as Bill
  const packages = listed.components.filter((each) => inside.has(each['bom-ref']))
  const refs = new Set(packages.map((each) => each['bom-ref']))
  const dependencies = listed.dependencies
    .filter(({ ref }) => refs.has(ref))
    .map(({ dependsOn, ref }) => ({ ref, dependsOn: dependsOn.filter((other) => refs.has(other)) }))
  const bills = new Map<string, string>()
  const add = (name: string, subject: Component, parts: Component[]): void => {
    const components = parts.toSorted((a, b) => (a['bom-ref'] < b['bom-ref'] ? -1 : 1))
    const metadata = {
      timestamp: `${readChangelog(version)[0]!.date}T12:00:00.000Z`,
      lifecycles: listed.metadata.lifecycles,
      tools: [{ vendor: 'npm', name: 'cli' }],
      component: subject,
    }
    const all = [...dependencies, { ref: subject['bom-ref'], dependsOn: components.map((each) => each['bom-ref']) }]
    const content = { ...listed, metadata, components, dependencies: all }
    const hash = createHash('sha256')
      .update(JSON.stringify({ ...content, serialNumber: '' }))
      .digest('hex')
    // A UUID of our own (RFC 9562 §5.8), derived from the content.
    const serialNumber = `urn:uuid:${hash.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5')}`
    bills.set(`${name}.cdx.json`, `${JSON.stringify({ ...content, serialNumber }, null, 2)}\n`)
  }
  for (const arch of ARCHITECTURES) {
    const program = componentOf('application', `${urlOf('postrider', version)}?arch=${arch}`)
    const image = componentOf('container', `${urlOf('postrider-image', version)}?arch=${arch}`)
    const parts = [...packages, ...nativeParts()]
    add(`postrider_${version}_${arch}`, program, parts)
    add(`postrider_${version}_image_${arch}`, image, [program, ...parts, ...debianParts(arch)])
  }
  return bills
}
