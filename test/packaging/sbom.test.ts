// Tests the bills of materials: they list every part of the executable and the image. packaging/reproduce.sh tests that
// they are reproducible.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { version } from '../../src/base/version.ts'
import { basePackages } from '../../packaging/image/base.ts'
import { releaseBills } from '../../packaging/parts.ts'
import { ofFile } from '../kit/of-file.ts'

interface Component {
  'bom-ref': string
  name: string
  version: string
  purl: string
  licenses?: { license?: { id: string } }[]
  hashes?: { alg: string; content: string }[]
  cpe?: string
}
interface Bill {
  bomFormat: string
  specVersion: string
  serialNumber: string
  metadata: { timestamp: string; component: Component }
  components: Component[]
  dependencies: { ref: string; dependsOn: string[] }[]
}

const bills = ofFile(async () => ({ texts: await releaseBills() }))
const bill = (name: string): Bill => JSON.parse(bills.texts.get(`postrider_${version}_${name}.cdx.json`)!)
const NAMES = ['amd64', 'arm64', 'image_amd64', 'image_arm64']

describe('the bills of materials', () => {
  test('exist in CycloneDX 1.5 for the executable and the image of each architecture', () => {
    assert.deepEqual(
      [...bills.texts.keys()].toSorted(),
      NAMES.map((name) => `postrider_${version}_${name}.cdx.json`),
    )
    for (const name of NAMES) {
      const { bomFormat, serialNumber, specVersion } = bill(name)
      assert.deepEqual([bomFormat, specVersion], ['CycloneDX', '1.5'])
      assert.match(serialNumber, /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/)
    }
  })

  test('list Node, its libraries, SQLite and the npm packages in the executable', () => {
    const { components, metadata } = bill('amd64')
    const lock = JSON.parse(readFileSync(join(import.meta.dirname, '../../package-lock.json'), 'utf8'))
    for (const name of ['hono', '@tiptap/core', 'better-sqlite3']) {
      const { integrity, version: wanted } = lock.packages[`node_modules/${name}`]
      const part = components.find(({ purl }) => purl === `pkg:npm/${name.replace('@', '%40')}@${wanted}`)
      assert.ok(part, name)
      assert.equal(`sha512-${Buffer.from(part.hashes![0]!.content, 'hex').toString('base64')}`, integrity)
      assert.deepEqual(part.licenses, [{ license: { id: 'MIT' } }])
    }
    for (const name of ['node', 'openssl', 'v8', 'uv', 'zlib', 'icu'])
      assert.ok(
        components.some((each) => each.name === name && each.version === process.versions[name] && each.cpe),
        name,
      )
    assert.ok(components.some(({ name }) => name === 'sqlite'))
    const names = components.map(({ name }) => name)
    // Packages that only build and test, or that are replaced, are not listed.
    for (const name of ['typescript', 'oxlint', 'esbuild', 'axe-core', 'joi']) assert.ok(!names.includes(name), name)
    assert.equal(metadata.component.purl, `pkg:generic/postrider@${version}?arch=amd64`)
  })

  test('of the image also list the Debian packages', () => {
    const found = bill('image_arm64').components.map(({ name, version: of }) => `${name} ${of}`)
    for (const [name, { version: of }] of Object.entries(basePackages('arm64')))
      assert.ok(found.includes(`${name} ${of}`), name)
    assert.ok(bill('arm64').components.every(({ purl }) => !purl.startsWith('pkg:deb/')))
  })

  test('list each part once, and only listed parts as dependencies', () => {
    for (const name of NAMES) {
      const { components, dependencies, metadata } = bill(name)
      const all = new Set([metadata.component, ...components].map((each) => each['bom-ref']))
      assert.equal(all.size, components.length + 1)
      for (const { dependsOn, ref } of dependencies)
        for (const each of [ref, ...dependsOn]) assert.ok(all.has(each), each)
    }
  })
})
