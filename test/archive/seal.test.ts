import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { Decrypter, Encrypter, generateIdentity, identityToRecipient } from 'age-encryption'
import {
  identitiesIn,
  newIdentity,
  recipientFault,
  recipientOf,
  seal,
  SealFault,
  unseal,
} from '../../src/archive/seal.ts'

// The judge is age's own library; Debian's program judges in test/interop/places.interop.ts.

const CHUNK = 64 * 1024
const SIZES = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 5]

async function* inPieces(octets: Uint8Array, size = 10_007): AsyncIterable<Uint8Array> {
  for (let at = 0; at < octets.length; at += size) yield octets.subarray(at, at + size)
}

const sealed = (octets: Uint8Array, ...recipients: string[]): Promise<Buffer> =>
  buffer(seal(inPieces(octets), recipients))
const opened = (octets: Uint8Array, ...identities: string[]): Promise<Buffer> =>
  buffer(unseal(inPieces(octets), identities))

const refusal =
  (reason: SealFault['reason']) =>
  (thrown: unknown): boolean =>
    thrown instanceof SealFault && thrown.reason === reason

const identity = newIdentity()
const recipient = recipientOf(identity)

describe('sealing in the format of age (B7)', () => {
  test('what is sealed is opened by each of several recipients and by the library of age', async () => {
    const theirs = await generateIdentity()
    for (const size of SIZES) {
      const octets = randomBytes(size)
      const stream = await sealed(octets, recipient, await identityToRecipient(theirs))
      assert.deepEqual(await opened(stream, identity), octets)
      assert.deepEqual(await opened(stream, newIdentity(), theirs), octets)
      for (const each of [identity, theirs]) {
        const decrypter = new Decrypter()
        decrypter.addIdentity(each)
        assert.deepEqual(Buffer.from(await decrypter.decrypt(stream)), octets)
      }
    }
  })

  test('what the library of age seals is opened, beside recipients of other kinds', async () => {
    for (const size of SIZES) {
      const octets = randomBytes(size)
      const encrypter = new Encrypter()
      encrypter.addRecipient(await identityToRecipient(await generateIdentity()))
      encrypter.addRecipient(recipient)
      assert.deepEqual(await opened(await encrypter.encrypt(octets), identity), octets)
    }
    const stream = await sealed(Buffer.from('mail'), recipient)
    const header = stream.indexOf('->')
    assert.ok(header > 0)
    // The header is authentic as a whole: a recipient that somebody adds is a change.
    const more = Buffer.concat([
      stream.subarray(0, header),
      Buffer.from('-> other some words\n\n'),
      stream.subarray(header),
    ])
    await assert.rejects(opened(more, identity), refusal('damaged'))
  })

  test('keys are those of the library of age, and those that age publishes for tests', async () => {
    const published = 'AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX'
    assert.equal(recipientOf(published), 'age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj')
    assert.equal(await identityToRecipient(identity), recipient)
    const theirs = await generateIdentity()
    assert.equal(recipientOf(theirs), await identityToRecipient(theirs))
  })

  test('a stream that is cut anywhere is refused', async () => {
    for (const size of [0, 5, 2 * CHUNK, 2 * CHUNK + 5]) {
      const stream = await sealed(randomBytes(size), recipient)
      const body = stream.length - size
      // Each place around the header and around the ends of chunks, and some between.
      const ends = [1, 2, 3].map((chunks) => stream.length - size + chunks * CHUNK)
      const places = new Set([
        ...Array.from({ length: Math.min(body + 2, 260) }, (_, at) => at),
        ...ends.flatMap((end) => [-17, -16, -1, 0, 1, 15, 16, 17].map((by) => end + by)),
        ...Array.from({ length: 40 }, (_, at) => stream.length - 1 - at),
      ])
      for (const at of places)
        if (at >= 0 && at < stream.length)
          await assert.rejects(opened(stream.subarray(0, at), identity), SealFault, `${size} cut at ${at}`)
    }
  })

  test('a stream whose whole last chunk is cut off gives no end', async () => {
    const octets = randomBytes(3 * CHUNK)
    const stream = await sealed(octets, recipient)
    const pieces: Uint8Array[] = []
    await assert.rejects(async () => {
      for await (const piece of unseal(inPieces(stream.subarray(0, -(CHUNK + 16))), [identity])) pieces.push(piece)
    }, refusal('damaged'))
    // The chunk before it was not marked as the last, so it is not given either.
    assert.equal(Buffer.concat(pieces).length, CHUNK)
  })

  test('a changed bit in the header, in the nonce and in each chunk is refused before its octets are given', async () => {
    const octets = randomBytes(3 * CHUNK + 100)
    const stream = await sealed(octets, recipient)
    const start = stream.length - octets.length - 4 * 16
    const places = [
      ...Array.from({ length: start }, (_, at) => at),
      ...[0, 1, 2, 3].flatMap((chunk) => [0, 50, 99].map((at) => start + chunk * (CHUNK + 16) + at)),
      ...Array.from({ length: 16 }, (_, at) => stream.length - 1 - at),
    ]
    for (const at of places) {
      const changed = Buffer.from(stream)
      changed[at] = (changed[at] ?? 0) ^ 0x01
      const given: Uint8Array[] = []
      await assert.rejects(
        async () => {
          for await (const piece of unseal(inPieces(changed), [identity])) given.push(piece)
        },
        SealFault,
        `at ${at}`,
      )
      const plain = Buffer.concat(given)
      assert.deepEqual(plain, octets.subarray(0, plain.length))
      assert.ok(plain.length <= Math.max(0, at - start))
    }
  })

  test('octets after the end, chunks in another order and an empty last chunk are refused', async () => {
    const stream = await sealed(randomBytes(2 * CHUNK), recipient)
    const start = stream.length - 2 * (CHUNK + 16)
    const [first, second] = [stream.subarray(start, start + CHUNK + 16), stream.subarray(start + CHUNK + 16)]
    for (const changed of [
      Buffer.concat([stream, Buffer.from([0])]),
      Buffer.concat([stream.subarray(0, start), second, first]),
      Buffer.concat([stream.subarray(0, start), second]),
    ])
      await assert.rejects(opened(changed, identity), refusal('damaged'))
  })

  test('a stream for others, and what is not a sealed stream, is told apart', async () => {
    const stream = await sealed(Buffer.from('mail'), recipient)
    await assert.rejects(opened(stream, newIdentity()), refusal('key'))
    for (const other of [
      Buffer.alloc(0),
      Buffer.from('PK\u0003\u0004'),
      Buffer.from('age-encryption.org/v2\n'),
      Buffer.from('age-encryption.org/v1\n--- short\n'),
      randomBytes(1000),
    ])
      await assert.rejects(opened(other, identity), refusal('foreign'))
  })

  test('a header has a bound', async () => {
    let read = 0
    const endless = async function* (): AsyncIterable<Uint8Array> {
      yield Buffer.from('age-encryption.org/v1\n')
      for (;;) {
        read += 1000
        yield Buffer.from(`-> some ${'x'.repeat(990)}\n\n`)
      }
    }
    await assert.rejects(buffer(unseal(endless(), [identity])), refusal('foreign'))
    assert.ok(read < 100_000)
    const oneLine = async function* (): AsyncIterable<Uint8Array> {
      yield Buffer.from('age-encryption.org/v1\n-> ')
      for (;;) yield Buffer.from('x'.repeat(1000))
    }
    await assert.rejects(buffer(unseal(oneLine(), [identity])), refusal('foreign'))
  })

  test('the source is ended when nobody wants the rest', async () => {
    let ended = 0
    const source = async function* (octets: Buffer): AsyncIterable<Uint8Array> {
      try {
        yield* inPieces(octets)
      } finally {
        ended++
      }
    }
    const octets = randomBytes(5 * CHUNK)
    for await (const piece of seal(source(octets), [recipient])) if (piece.length > 1000) break
    for await (const piece of unseal(source(await sealed(octets, recipient)), [identity])) if (piece.length > 0) break
    assert.equal(ended, 2)
  })

  test('a wrong recipient is refused with what is wrong with it, a wrong identity without being repeated', async () => {
    for (const [text, words] of [
      [identity, /secret key/],
      [recipient.replace(/.$/, (last) => (last === 'q' ? 'p' : 'q')), /mistake/],
      [recipient.slice(0, 30), /62 characters/],
      ['ssh-ed25519 AAAA', /"postrider backup key"/],
      ['', /begins with "age1"/],
    ] as const) {
      assert.match(recipientFault(text) ?? '', words)
      await assert.rejects(sealed(Buffer.alloc(1), text), words)
    }
    assert.equal(recipientFault(recipient), undefined)
    assert.equal(recipientFault(recipient.toUpperCase()), undefined)
    assert.notEqual(recipientFault(`A${recipient.slice(1)}`), undefined)
    await assert.rejects(sealed(Buffer.alloc(1)), /1 to 20 recipients/)
    const wrong = identity.replace(/.$/, (last) => (last === 'Q' ? 'P' : 'Q'))
    assert.throws(
      () => recipientOf(wrong),
      (thrown: Error) => !thrown.message.includes(wrong.slice(20)),
    )
  })

  test('an identity file is that of age-keygen', () => {
    assert.deepEqual(identitiesIn(`# created: 2026-01-15\n# public key: ${recipient}\n${identity}\n`, '/k'), [identity])
    assert.throws(() => identitiesIn('# nothing\n', '/k'), /^OperatorError: \/k holds no secret key; name/)
    assert.throws(
      () => identitiesIn('password\n', '/k'),
      /^OperatorError: \/k has a line that is not a secret key of age.*; name/,
    )
  })
})
