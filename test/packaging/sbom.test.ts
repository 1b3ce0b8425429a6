// The bills of materials (S3): they name what is inside, and are documents of their formats.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { Ajv, type ValidateFunction } from 'ajv'
import ajvFormats from 'ajv-formats'
import Database from 'better-sqlite3'
import { cycloneDx, spdx, type Bill } from '../../packaging/bill.ts'
import { releaseBills } from '../../packaging/parts.ts'
import { version } from '../../src/base/version.ts'
import { ofFile } from '../kit/of-file.ts'
import { SPDX } from './schemas/spdx-2.3.ts'

interface Component {
  'bom-ref': string
  group?: string
  name: string
  version: string
  licenses?: [{ license?: { id: string }; expression?: string }]
  hashes?: [{ alg: string; content: string }]
  cpe?: string
}
interface CycloneDxBill {
  serialNumber: string
  metadata: { timestamp: string; component: Component }
  components: Component[]
  dependencies: { ref: string; dependsOn: string[] }[]
}
interface SpdxBill {
  documentNamespace: string
  packages: { SPDXID: string; licenseDeclared: string; externalRefs: { referenceLocator: string }[] }[]
  relationships: { spdxElementId: string; relationshipType: string; relatedSpdxElement: string }[]
}

const folder = mkdtempSync(join(tmpdir(), 'postrider-sbom-'))
after(() => rmSync(folder, { recursive: true }))
const base = join(folder, 'base.json')
const libc = { version: '2.36-9+deb12u14', sha256: 'b'.repeat(64) }
writeFileSync(base, JSON.stringify({ amd64: { libc6: libc, 'libstdc++6': libc }, arm64: { libc6: libc } }))

const bills = ofFile(async () => ({ texts: await releaseBills(base) }))
const cdx = (name: string): CycloneDxBill => JSON.parse(bills.texts.get(`postrider_${version}_${name}.cdx.json`)!)
const spdxBill = (name: string): SpdxBill => JSON.parse(bills.texts.get(`postrider_${version}_${name}.spdx.json`)!)
function sqliteVersion(): string | undefined {
  const database = new Database(':memory:')
  try {
    return database.prepare<[], string>('select sqlite_version()').pluck().get()
  } finally {
    database.close()
  }
}
const NAMES = ['amd64', 'arm64', 'image_amd64', 'image_arm64']

const schema = (name: string): object =>
  JSON.parse(readFileSync(join(import.meta.dirname, 'schemas', `${name}.schema.json`), 'utf8'))
function validators(): Record<'cdx' | 'spdx', ValidateFunction> {
  const ajv = new Ajv({ strict: false })
  ajvFormats.default(ajv)
  // Not in ajv-formats; nothing of ours has these forms.
  for (const format of ['idn-email', 'iri-reference']) ajv.addFormat(format, true)
  ajv.addSchema(schema('spdx')).addSchema(schema('jsf-0.82'))
  return { cdx: ajv.compile(schema('bom-1.5')), spdx: ajv.compile(SPDX) }
}

describe('the bills of materials (S3)', () => {
  test('are valid by the schemas of CycloneDX 1.5 and SPDX 2.3, and what is not is refused', () => {
    const valid = validators()
    assert.deepEqual(
      [...bills.texts.keys()].toSorted(),
      NAMES.flatMap((name) => ['cdx', 'spdx'].map((end) => `postrider_${version}_${name}.${end}.json`)).toSorted(),
    )
    for (const [name, text] of bills.texts) {
      const validate = name.endsWith('.cdx.json') ? valid.cdx : valid.spdx
      assert.ok(validate(JSON.parse(text)), `${name}: ${JSON.stringify(validate.errors)}`)
    }
    const broken = cdx('amd64')
    broken.components[0]!.licenses = [{ license: { id: 'No-Such-Licence' } }]
    assert.equal(valid.cdx(broken), false)
    assert.equal(valid.spdx({ ...spdxBill('amd64'), relationships: [] }), false)
  })

  test("name licences of SPDX's own list", () => {
    const known = new Set((schema('spdx') as { enum: string[] }).enum)
    for (const name of NAMES)
      for (const { licenseDeclared } of spdxBill(name).packages)
        for (const id of licenseDeclared.split(/[ ()]+|\b(?:AND|OR|WITH)\b/).filter((each) => each !== ''))
          assert.ok(known.has(id.replace(/\+$/, '')) || id === 'NOASSERTION', licenseDeclared)
  })

  for (const arch of ['amd64', 'arm64'])
    test(`name Node, its libraries, SQLite and the npm packages inside, for ${arch}`, () => {
      const { components, dependencies, metadata } = cdx(arch)
      const found = new Map(components.map((each) => [each['bom-ref'], each]))
      const lock = JSON.parse(readFileSync(join(import.meta.dirname, '../../package-lock.json'), 'utf8'))
      for (const name of ['hono', '@tiptap/core', 'better-sqlite3', `node-linux-${arch === 'amd64' ? 'x64' : arch}`]) {
        const { integrity, version: wanted } = lock.packages[`node_modules/${name}`]
        const part = found.get(`pkg:npm/${name.replace('@', '%40')}@${wanted}`)
        assert.ok(part, name)
        const hash = Buffer.from(part.hashes![0].content, 'hex').toString('base64')
        assert.equal(`sha512-${hash}`, integrity)
        assert.deepEqual(part.licenses, [{ license: { id: 'MIT' } }])
      }
      for (const name of ['openssl', 'v8', 'uv', 'zlib', 'icu', 'sqlite'])
        assert.ok(found.has(`pkg:generic/${name}@${process.versions[name]}`), name)
      const addon = dependencies.find(({ ref }) => ref.startsWith('pkg:npm/better-sqlite3@'))
      assert.ok(addon?.dependsOn.includes(`pkg:generic/sqlite@${sqliteVersion()}`))
      const inside = components.map(({ name }) => name)
      // What builds and tests is not inside, nor what a stand-in replaces.
      for (const name of ['typescript', 'oxlint', 'esbuild', 'axe-core', 'joi']) assert.ok(!inside.includes(name), name)
      assert.equal(metadata.component['bom-ref'], `pkg:generic/postrider@${version}?arch=${arch}`)
      assert.ok(components.every(({ licenses, name }) => licenses !== undefined || name === 'tz'))
    })

  test('every part is named once, and every part that another takes is there', () => {
    for (const name of NAMES) {
      const { components, dependencies, metadata } = cdx(name)
      const all = [metadata.component, ...components].map((each) => each['bom-ref'])
      assert.equal(new Set(all).size, all.length)
      assert.deepEqual(dependencies.map(({ ref }) => ref).toSorted(), all.toSorted())
      const reached = new Set<string>()
      const reach = (ref: string): void => {
        if (reached.has(ref)) return
        reached.add(ref)
        for (const other of dependencies.find((each) => each.ref === ref)!.dependsOn) reach(other)
      }
      reach(metadata.component['bom-ref'])
      assert.deepEqual([...reached].toSorted(), all.toSorted())

      const { packages, relationships } = spdxBill(name)
      assert.deepEqual(packages.map(({ externalRefs }) => externalRefs[0]!.referenceLocator).toSorted(), all.toSorted())
      const ids = new Set(['SPDXRef-DOCUMENT', ...packages.map(({ SPDXID }) => SPDXID)])
      assert.equal(ids.size, packages.length + 1)
      for (const { relatedSpdxElement, spdxElementId } of relationships)
        assert.ok(ids.has(relatedSpdxElement) && ids.has(spdxElementId), relatedSpdxElement)
    }
  })

  test('those of the image name the packages of Debian too; without an image there is none', async () => {
    const refs = cdx('image_amd64').components.map((each) => each['bom-ref'])
    for (const ref of [
      'pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64',
      'pkg:deb/debian/libstdc%2B%2B6@2.36-9%2Bdeb12u14?arch=amd64',
      `pkg:generic/postrider@${version}?arch=amd64`,
    ])
      assert.ok(refs.includes(ref), ref)
    assert.ok(cdx('amd64').components.every((each) => !each['bom-ref'].startsWith('pkg:deb/')))
    const without = await releaseBills(join(folder, 'none.json'))
    assert.equal(without.size, 4)
    // Two runs give the same octets.
    for (const [name, text] of without) assert.equal(text, bills.texts.get(name))
  })

  test('the order of what is found changes nothing, and another content has another number', () => {
    const part = (name: string, takes: string[] = []) =>
      ({ purl: `pkg:npm/${name}@1.0.0`, name, version: '1.0.0', kind: 'library', licence: 'MIT', takes }) as const
    const [a, b, c] = [part('a', ['pkg:npm/c@1.0.0', 'pkg:npm/b@1.0.0']), part('b'), part('c')]
    const bill: Bill = { subject: part('app', [a.purl]), parts: [a, b, c], date: '2026-11-24T12:00:00Z', tool: '1.0.0' }
    const turned: Bill = { ...bill, parts: [c, b, { ...a, takes: a.takes.toReversed() }] }
    const other: Bill = { ...bill, parts: [{ ...a, version: '1.0.1' }, b, c] }
    for (const form of [cycloneDx, spdx]) {
      assert.equal(form(turned), form(bill))
      assert.notEqual(
        /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(form(other))![0],
        /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(form(bill))![0],
      )
    }
  })
})
