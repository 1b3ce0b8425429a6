import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { ascii, bundle, ENTRIES, packagesIn } from '../../packaging/bundle.ts'
import { packSources, unpackSource } from '../../src/base/threads/packed-sources.ts'
import * as standIn from '../../packaging/stand-ins/joi.ts'

// What is put into the executable; packaging/smoke.sh looks at the built one.

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'postrider-bundle-'))
after(() => rmSync(folder, { recursive: true }))

const DOMAINS =
  'example.com|example|a.b|a.b.|.a.b|a..b|-a.b|a-.b|a_b.c|_spf.a.b|é.com|a.1|127.0.0.1|[127.0.0.1]|xn--a.b|a.b1|a.1b|xn--nxasmq6b.com|a b.c| a.b|a.b |A.B|a.b\n|a/b.c'.split(
    '|',
  )

describe('a bundle in ASCII (E4)', () => {
  test('means what it meant', () => {
    const code = `[/[é😀]+/u.exec("xé😀é")[0], \`ü\`, 'ß', /* ö */ {é: "🦉"}.é]`
    // oxlint-disable-next-line no-eval
    const run = (text: string): unknown => (0, eval)(text)
    assert.match(ascii(code), /^[\0-\x7f]+$/)
    assert.deepEqual(run(ascii(code)), run(code))
  })

  test('a raw template that holds more stops the build: there an escape would be six characters', () => {
    assert.throws(() => ascii('String.raw`aé`'), /raw template/)
    assert.doesNotThrow(() => ascii('String.raw`a`;"é"'))
  })
})

test('the program is below 6 MB, a reader below 2 MB; neither holds what is never run (E6)', async () => {
  const main = await bundle(ENTRIES['main.mjs']!, join(folder, 'main.mjs'))
  const reader = await bundle(ENTRIES['reader.mjs']!, join(folder, 'reader.mjs'))
  assert.ok(main.octets < 6_000_000, `${main.octets}`)
  assert.ok(reader.octets < 2_000_000, `${reader.octets}`)
  const packages = [...packagesIn([main, reader]).keys()]
  for (const never of ['undici', 'joi', 'fast-xml-parser', '@postalsys/vmc'])
    assert.deepEqual(
      packages.filter((name) => name.endsWith(`node_modules/${never}`)),
      [],
    )
  assert.equal(packages.filter((name) => name.endsWith('/iconv-lite')).length, 1)
})

test('the sources of the workers are packed as one stream, a tenth of their octets, and each is found again (I3)', async () => {
  const names = Object.keys(ENTRIES).filter((name) => name !== 'main.mjs')
  const sources: Record<string, string> = {}
  for (const name of names) {
    await bundle(ENTRIES[name]!, join(folder, name))
    sources[name] = readFileSync(join(folder, name), 'utf8')
  }
  const packed = packSources(sources)
  assert.deepEqual(packed, packSources(sources), 'two runs are equal')
  assert.ok(packed.length < 0.13 * Object.values(sources).join('').length, `${packed.length}`)
  for (const name of names) assert.equal(unpackSource(packed, name), sources[name])
  assert.throws(() => unpackSource(packed, 'worker'), /holds no worker worker/)
  assert.throws(() => packSources({ 'a.mjs': 'é' }), /not ASCII/)
})

test('places for backups are bundled without the addons that ssh2 looks for (B8)', async () => {
  const file = join(folder, 'places.mjs')
  const places = await bundle('src/archive/places/place.ts', file)
  const packages = [...packagesIn([places]).keys()]
  assert.ok(packages.includes('node_modules/ssh2') && packages.includes('node_modules/aws4fetch'))
  for (const never of ['cpu-features', 'nan', 'ssh2-sftp-client'])
    assert.ok(!packages.includes(`node_modules/${never}`), never)
  // Whoever could put a file beside the executable would be loaded.
  assert.doesNotMatch(readFileSync(file, 'utf8'), /sshcrypto\.node|cpufeatures\.node/)
  assert.ok(places.octets < 600_000, `${places.octets}`)
})

describe('the stand-in for joi decides as joi does', () => {
  const joi = createRequire(createRequire(import.meta.url).resolve('mailauth'))('joi') as typeof standIn
  const same = (rule: (from: typeof standIn) => { validate(value: unknown): { error?: Error } }, values: unknown[]) => {
    for (const value of values)
      assert.equal(
        rule(standIn).validate(value).error === undefined,
        rule(joi).validate(value).error === undefined,
        JSON.stringify(value),
      )
  }

  test('about domains', () => {
    const long = 'a'.repeat(63)
    same(
      (from) => from.string().domain({ allowUnicode: false, tlds: false }),
      [...DOMAINS, `${long}.com`, `${long}a.com`, `${`${long}.`.repeat(4)}com`, '', undefined, null, 5, {}],
    )
  })

  test('about base64', () => {
    same(
      (from) => from.string().base64({ paddingRequired: false }),
      [
        '',
        'a',
        'aa',
        'aaa',
        'aaaa',
        'aa==',
        'aaa=',
        'aa=',
        'a===',
        'aa-_',
        'a+/a',
        'a a',
        'aaaa\n',
        undefined,
        null,
        7,
      ],
    )
  })
})

test('without a strip the build refuses, and says what to install (E5)', () => {
  const env = { ...process.env, PATH: folder }
  const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'packaging/build.ts')], { encoding: 'utf8', env })
  assert.equal(status, 1)
  assert.match(stderr, /strip is not installed \(binutils\).*--unstripped/)
})
