// The signature, verified by mailauth: 150 emails of every kind pass, and fail with an added field (RFC 6376 §8.15).
// test/interop/signature.interop.ts checks the same with python3-dkim, Mail::DKIM and OpenDKIM.
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { createRequire } from 'node:module'
import { describe, test } from 'node:test'
import { DKIMCanonicalizer } from 'dkim-signer'
import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import { sign, signLarge, SIGNED_FIELDS } from '../../src/message/dkim.ts'
import { costingAtOnce } from '../kit/cost.ts'
import { letter } from '../kit/letters.ts'
import { seeded } from '../kit/seeded.ts'

const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 1024 })
const RECORD = `v=DKIM1; k=rsa; p=${publicKey.export({ type: 'spki', format: 'der' }).toString('base64')}`
const SIGNATURE = { domain: 'here.example', selector: 'one', privateKey, time: Date.UTC(2026, 10, 20, 16, 53, 57, 999) }

async function verdict(raw: string): Promise<string | undefined> {
  const { results } = await dkimVerify(Buffer.from(raw), { resolver: async () => [[RECORD]], minBitLength: 1024 })
  assert.equal(results.length, 1)
  return results[0]?.status.result
}

/** The large way's field in front of the message. */
const signedLarge = (message: string): string => signLarge(Buffer.from(message), SIGNATURE) + message

test('150 emails verify, and fail with another signed field before or after the others', async () => {
  for (let seed = 1; seed <= 150; seed++) {
    const raw = sign(letter(seed), SIGNATURE)
    assert.equal(await verdict(raw), 'pass', `seed ${seed}`)
    const name = SIGNED_FIELDS[seed % SIGNED_FIELDS.length]!
    const field = `${name}: x@evil.example\r\n`
    const added = seed % 2 === 0 ? field + raw : raw.replace('\r\n\r\n', `\r\n${field}\r\n`)
    assert.notEqual(await verdict(added), 'pass', `seed ${seed}: another ${name}`)
  }
})

test('a signature detects every added field if all signed fields but one are missing', async () => {
  const raw = sign('From: ann@here.example\r\n\r\nHello\r\n', SIGNATURE)
  assert.equal(await verdict(raw), 'pass')
  assert.equal(await verdict(`X-Other: x\r\n${raw}`), 'pass')
  for (const name of SIGNED_FIELDS) assert.notEqual(await verdict(`${name}: x\r\n${raw}`), 'pass', name)
})

test('signs empty, repeated and oddly folded fields as they are', async () => {
  for (const header of [
    'Subject:',
    'Subject: ',
    'Subject: \t ',
    'Subject:\r\n \r\n\tx',
    'SUBJECT \t: \t x  y\t\tz \t',
    'To: a@there.example\r\nTo: b@there.example\r\nSubject: one\r\nsubject: two\r\nSubject:',
    'Subject: \u00a0no-break\u3000spaces\u2028of UTF-8\u00a0',
  ]) {
    const message = `From: ann@here.example\r\n${header}\r\nX: y\r\n\r\nHello\r\n`
    assert.equal(await verdict(sign(message, SIGNATURE)), 'pass', header)
    assert.equal(await verdict(signedLarge(message)), 'pass', header)
    assert.notEqual(await verdict(`Subject: x\r\n${sign(message, SIGNATURE)}`), 'pass', header)
    const changed = sign(message, SIGNATURE).replace(/\r\n(subject)[ \t]*:/gi, '\r\n$1: changed')
    assert.notEqual(await verdict(changed), 'pass', header)
  }
})

test('t= has the signing time in seconds, and the field has lines of at most 78', () => {
  const [field] = sign(letter(1), SIGNATURE).split(/\r\n(?! )/)
  assert.match(field!, /; t=1795193637;/)
  for (const line of field!.split('\r\n')) assert.ok(line.length <= 78, line)
})

test('hashes a run of empty lines in linear time', () => {
  const message = `From: ann@here.example\r\n\r\ntwo  spaces${'\r\n'.repeat(200_000)}end\r\n`
  costingAtOnce(2000, () => sign(message, SIGNATURE))
})

describe('a large email', () => {
  test('gets the same field as a small one, byte for byte (150 emails)', () => {
    for (let seed = 1; seed <= 150; seed++) {
      const message = letter(seed)
      assert.ok(signedLarge(message) === sign(message, SIGNATURE), `seed ${seed}`)
    }
  })

  test('verifies with any white space at chunk borders, and fails if changed or with a field in front', async () => {
    const head = 'From: ann@here.example\r\nSubject: large\r\n\r\n'
    const pieces = ['x'.repeat(70), '\r\n', ' \r\n', '\t', '  ', 'word ', '\r\n\r\n\r\n', ' \t\r\n \r\n']
    for (let seed = 1; seed <= 4; seed++) {
      const random = seeded(seed)
      const count = (1024 * 1024) / 9
      const body = Array.from({ length: count }, () => pieces[Math.floor(random() * pieces.length)]).join('')
      const end = ['', '\r\n', ' \r\n\r\n \t', '\r\n'.repeat(40_000)][seed % 4]!
      const message = `${head}${'\r\n'.repeat(seed % 3 === 0 ? 40_000 : 0)}${body}${end}`
      assert.ok(message.length > 1024 * 1024)
      const raw = signedLarge(message)
      assert.ok(raw === sign(message, SIGNATURE), `seed ${seed}`)
      assert.equal(await verdict(raw), 'pass', `seed ${seed}`)
      assert.notEqual(await verdict(`Subject: x\r\n${raw}`), 'pass')
      assert.notEqual(await verdict(`${raw}x`), 'pass')
    }
  })

  test('is rejected if no signer could sign it correctly', () => {
    const head = 'From: ann@here.example\r\n\r\n'
    const body = `${'x'.repeat(76)}\r\n`.repeat(2000)
    for (const [message, what] of [
      [`${head}${body}H\u00e9llo`, '8-bit'],
      [`${head}${body}\f`, 'a form feed'],
      [`${head}${body}\nx`, 'bare LF'],
      [`${head}${body}\r`, 'bare CR'],
      [`From: ann@here.example\nTo: x\r\n\r\n${body}`, 'bare LF in the header'],
      [`${head}${' \r\n'.repeat(100_000)}`, 'a blank body'],
      [head.trim(), 'no body'],
    ] as const)
      assert.throws(() => signLarge(Buffer.from(message), SIGNATURE), /DKIM/, what)
    assert.throws(
      () => signLarge(Buffer.from(head + body), { ...SIGNATURE, selector: 'a; d=evil.example' }),
      /A-labels/,
    )
  })
})

describe('the replaced canonicalisation', () => {
  const require = createRequire(import.meta.url)
  const path = require.resolve('dkim-signer/lib/dkim.js')
  const used = require.cache[path]
  delete require.cache[path]
  const library = (require(path) as { DKIMCanonicalizer: typeof DKIMCanonicalizer }).DKIMCanonicalizer
  require.cache[path] = used

  test('is not compared with itself', () => {
    assert.notEqual(library, DKIMCanonicalizer)
    assert.notEqual(library.relaxedBody, DKIMCanonicalizer.relaxedBody)
    assert.notEqual(library.relaxedHeaders, DKIMCanonicalizer.relaxedHeaders)
  })

  test('of bodies equals the library’s (seeded)', () => {
    const random = seeded(2)
    const PLAIN = ['a', 'bc', ' d', '\r\n', '\r\n\r\n', '=', '.']
    const ALL = [...PLAIN, ' ', '  ', '\t', ' \r\n', '\t\r\n', ' \t ']
    for (let n = 0; n < 20_000; n++) {
      const tokens = n % 2 === 0 ? PLAIN : ALL
      const length = Math.floor(random() * 12)
      const body = Array.from({ length }, () => tokens[Math.floor(random() * tokens.length)]).join('')
      assert.equal(DKIMCanonicalizer.relaxedBody(body), library.relaxedBody(body), JSON.stringify(body))
    }
  })

  test('of headers equals the library’s for single, non-empty fields', () => {
    for (let seed = 1; seed <= 150; seed++) {
      const message = letter(seed)
      const header = message.slice(0, message.indexOf('\r\n\r\n'))
      const names = header.split(/\r\n(?![ \t])/).map((line) => line.slice(0, line.indexOf(':')).toLowerCase())
      const once = names
        .filter((name) => names.indexOf(name) === names.lastIndexOf(name) && name !== 'subject')
        .join(':')
      const ours = DKIMCanonicalizer.relaxedHeaders(header, once)
      assert.equal(ours.headers, library.relaxedHeaders(header, once).headers, `seed ${seed}`)
      // The signer appends to its input.
      ours.headers += 'dkim-signature: x'
      assert.notEqual(DKIMCanonicalizer.relaxedHeaders(header, once).headers, ours.headers)
    }
  })
})
