import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { ascii, bundle, ENTRIES, packagesIn } from '../../packaging/bundle.ts'
import { packSources, unpackSource } from '../../src/base/threads/packed-sources.ts'
import * as standIn from '../../packaging/stand-ins/joi.ts'
import { temporaryDirectory } from '../kit/directory.ts'

// The bundle for the executable. packaging/smoke.sh tests the built one.

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const folder = temporaryDirectory('bundle')

const DOMAINS =
  'example.com|example|a.b|a.b.|.a.b|a..b|-a.b|a-.b|a_b.c|_spf.a.b|é.com|a.1|127.0.0.1|[127.0.0.1]|xn--a.b|a.b1|a.1b|xn--nxasmq6b.com|a b.c| a.b|a.b |A.B|a.b\n|a/b.c'.split(
    '|',
  )

describe('a bundle in ASCII', () => {
  test('a bundle in ASCII keeps its meaning', () => {
    const code = `[/[é😀]+/u.exec("xé😀é")[0], \`ü\`, 'ß', /* ö */ {é: "🦉"}.é]`
    // oxlint-disable-next-line no-eval
    const run = (text: string): unknown => (0, eval)(text)
    assert.match(ascii(code), /^[\0-\x7f]+$/)
    assert.deepEqual(run(ascii(code)), run(code))
  })

  test('the build fails for a raw template with other characters, because an escape would be six characters there', () => {
    assert.throws(() => ascii('String.raw`aé`'), /raw template/)
    assert.doesNotThrow(() => ascii('String.raw`a`;"é"'))
  })
})

test('the executable is below 6 MB and a reader below 2 MB, without unused code', async () => {
  const main = await bundle(ENTRIES['main.mjs']!, join(folder, 'main.mjs'))
  const reader = await bundle(ENTRIES['reader.mjs']!, join(folder, 'reader.mjs'))
  assert.ok(main.bytes < 6_000_000, `${main.bytes}`)
  assert.ok(reader.bytes < 2_000_000, `${reader.bytes}`)
  const packages = [...packagesIn([main, reader]).keys()]
  for (const never of ['undici', 'joi', 'fast-xml-parser', '@postalsys/vmc'])
    assert.deepEqual(
      packages.filter((name) => name.endsWith(`node_modules/${never}`)),
      [],
    )
  assert.equal(packages.filter((name) => name.endsWith('/iconv-lite')).length, 1)
})

test('the worker sources are compressed to a tenth as one stream, and each is found again', async () => {
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
  assert.throws(() => unpackSource(packed, 'worker'), /does not contain the worker thread worker/)
  assert.throws(() => packSources({ 'a.mjs': 'é' }), /must be ASCII/)
})

describe('the replacement for joi validates as joi does', () => {
  const joi = createRequire(createRequire(import.meta.url).resolve('mailauth'))('joi') as typeof standIn
  const same = (rule: (from: typeof standIn) => { validate(value: unknown): { error?: Error } }, values: unknown[]) => {
    for (const value of values)
      assert.equal(
        rule(standIn).validate(value).error === undefined,
        rule(joi).validate(value).error === undefined,
        JSON.stringify(value),
      )
  }

  test('the replacement for joi accepts the same domains', () => {
    const long = 'a'.repeat(63)
    same(
      (from) => from.string().domain({ allowUnicode: false, tlds: false }),
      [...DOMAINS, `${long}.com`, `${long}a.com`, `${`${long}.`.repeat(4)}com`, '', undefined, null, 5, {}],
    )
  })

  test('the replacement for joi accepts the same base64', () => {
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

test('the build fails without strip and names the package to install', () => {
  const env = { ...process.env, PATH: folder }
  const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'packaging/build.ts')], { encoding: 'utf8', env })
  assert.equal(status, 1)
  assert.match(stderr, /strip \(binutils\) is not installed; .*apt-get install binutils.*--unstripped/)
})
