import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import {
  identitiesIn,
  newIdentity,
  recipientFault,
  recipientOf,
  encrypted,
  DecryptionFault,
  decrypted,
} from '../../src/archive/encryption.ts'
import { until } from '../kit/until.ts'

// test/interop/encryption.interop.ts compares with Debian's age.

const CHUNK = 64 * 1024
const SIZES = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 5]

async function* inPieces(bytes: Uint8Array, size = 10_007): AsyncIterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const encryptedFor = (bytes: Uint8Array, ...recipients: string[]): Promise<Buffer> =>
  buffer(encrypted(inPieces(bytes), recipients))
const opened = (bytes: Uint8Array, ...identities: string[]): Promise<Buffer> =>
  buffer(decrypted(inPieces(bytes), identities))

const refusal =
  (reason: DecryptionFault['reason']) =>
  (thrown: unknown): boolean =>
    thrown instanceof DecryptionFault && thrown.reason === reason

const identity = await newIdentity()
const recipient = await recipientOf(identity)

describe('encryption in the age format', () => {
  test('each of several recipients can decrypt a stream', async () => {
    const theirs = await newIdentity()
    for (const size of SIZES) {
      const bytes = randomBytes(size)
      const stream = await encryptedFor(bytes, recipient, await recipientOf(theirs))
      assert.deepEqual(await opened(stream, identity), bytes)
      assert.deepEqual(await opened(stream, await newIdentity(), theirs), bytes)
    }
  })

  test('rejects a header to which a recipient was added', async () => {
    const stream = await encryptedFor(Buffer.from('mail'), recipient)
    const header = stream.indexOf('->')
    assert.ok(header > 0)
    // The header is authenticated as a whole, so an added recipient is a change.
    const more = Buffer.concat([
      stream.subarray(0, header),
      Buffer.from('-> other some words\n\n'),
      stream.subarray(header),
    ])
    await assert.rejects(opened(more, identity), refusal('damaged'))
  })

  test('derives the public key that age publishes for a test key', async () => {
    const published = 'AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX'
    assert.equal(await recipientOf(published), 'age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj')
  })

  test('rejects a stream that is truncated anywhere', async () => {
    for (const size of [0, 5, 2 * CHUNK, 2 * CHUNK + 5]) {
      const stream = await encryptedFor(randomBytes(size), recipient)
      const body = stream.length - size
      // Each position around the header and the ends of chunks, and some between.
      const ends = [1, 2, 3].map((chunks) => stream.length - size + chunks * CHUNK)
      const places = new Set([
        ...Array.from({ length: Math.min(body + 2, 260) }, (_, at) => at),
        ...ends.flatMap((end) => [-17, -16, -1, 0, 1, 15, 16, 17].map((by) => end + by)),
        ...Array.from({ length: 40 }, (_, at) => stream.length - 1 - at),
      ])
      for (const at of places)
        if (at >= 0 && at < stream.length)
          await assert.rejects(opened(stream.subarray(0, at), identity), DecryptionFault, `${size} cut at ${at}`)
    }
  })

  test('rejects a stream without its last chunk', async () => {
    const bytes = randomBytes(3 * CHUNK)
    const stream = await encryptedFor(bytes, recipient)
    const pieces: Uint8Array[] = []
    await assert.rejects(async () => {
      for await (const piece of decrypted(inPieces(stream.subarray(0, -(CHUNK + 16))), [identity])) pieces.push(piece)
    }, refusal('damaged'))
    // The chunk before it was not marked as the last, so it is not given either.
    assert.equal(Buffer.concat(pieces).length, CHUNK)
  })

  test('rejects a changed bit in the header, the nonce and each chunk before it returns the bytes', async () => {
    const bytes = randomBytes(3 * CHUNK + 100)
    const stream = await encryptedFor(bytes, recipient)
    const start = stream.length - bytes.length - 4 * 16
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
          for await (const piece of decrypted(inPieces(changed), [identity])) given.push(piece)
        },
        DecryptionFault,
        `at ${at}`,
      )
      const plain = Buffer.concat(given)
      assert.deepEqual(plain, bytes.subarray(0, plain.length))
      assert.ok(plain.length <= Math.max(0, at - start))
    }
  })

  test('rejects bytes after the end, reordered chunks and an empty last chunk', async () => {
    const stream = await encryptedFor(randomBytes(2 * CHUNK), recipient)
    const start = stream.length - 2 * (CHUNK + 16)
    const [first, second] = [stream.subarray(start, start + CHUNK + 16), stream.subarray(start + CHUNK + 16)]
    for (const changed of [
      Buffer.concat([stream, Buffer.from([0])]),
      Buffer.concat([stream.subarray(0, start), second, first]),
      Buffer.concat([stream.subarray(0, start), second]),
    ])
      await assert.rejects(opened(changed, identity), refusal('damaged'))
  })

  test('distinguishes a stream for another key from other files', async () => {
    const stream = await encryptedFor(Buffer.from('mail'), recipient)
    await assert.rejects(opened(stream, await newIdentity()), refusal('key'))
    for (const other of [
      Buffer.alloc(0),
      Buffer.from('PK\u0003\u0004'),
      Buffer.from('age-encryption.org/v2\n'),
      Buffer.from('age-encryption.org/v1\n--- short\n'),
      randomBytes(1000),
    ])
      await assert.rejects(opened(other, identity), refusal('foreign'))
  })

  test('limits the size of the header', async () => {
    let read = 0
    const endless = async function* (): AsyncIterable<Uint8Array> {
      yield Buffer.from('age-encryption.org/v1\n')
      for (;;) {
        read += 1000
        yield Buffer.from(`-> some ${'x'.repeat(990)}\n\n`)
      }
    }
    await assert.rejects(buffer(decrypted(endless(), [identity])), refusal('foreign'))
    assert.ok(read < 100_000)
    const oneLine = async function* (): AsyncIterable<Uint8Array> {
      yield Buffer.from('age-encryption.org/v1\n-> ')
      for (;;) yield Buffer.from('x'.repeat(1000))
    }
    await assert.rejects(buffer(decrypted(oneLine(), [identity])), refusal('foreign'))
  })

  test('cancels the source if the reader stops', async () => {
    let ended = 0
    const source = async function* (bytes: Buffer): AsyncIterable<Uint8Array> {
      try {
        yield* inPieces(bytes)
      } finally {
        ended++
      }
    }
    const bytes = randomBytes(5 * CHUNK)
    for await (const piece of encrypted(source(bytes), [recipient])) if (piece.length > 1000) break
    for await (const piece of decrypted(source(await encryptedFor(bytes, recipient)), [identity]))
      if (piece.length > 0) break
    // The cancellation passes through streams of the library.
    await until(() => ended === 2)
  })

  test('rejects an invalid recipient with the reason, and an invalid identity without repeating it', async () => {
    for (const [text, words] of [
      [identity, /secret key/],
      [recipient.replace(/.$/, (last) => (last === 'q' ? 'p' : 'q')), /not a valid age public key/],
      [recipient.slice(0, 30), /62 characters/],
      ['ssh-ed25519 AAAA', /"postrider backup key"/],
      ['', /starts with "age1"/],
    ] as const) {
      assert.match(recipientFault(text) ?? '', words)
      await assert.rejects(encryptedFor(Buffer.alloc(1), text), words)
    }
    assert.equal(recipientFault(recipient), undefined)
    assert.equal(recipientFault(recipient.toUpperCase()), undefined)
    assert.notEqual(recipientFault(`A${recipient.slice(1)}`), undefined)
    await assert.rejects(encryptedFor(Buffer.alloc(1)), /1 to 20 public keys, not 0/)
    const wrong = identity.replace(/.$/, (last) => (last === 'Q' ? 'P' : 'Q'))
    assert.throws(
      () => identitiesIn(wrong, '/k'),
      (thrown: Error) => !thrown.message.includes(wrong.slice(20)),
    )
  })

  test('reads the identity files of age-keygen, and rejects other files', () => {
    assert.deepEqual(identitiesIn(`# created: 2026-01-15\n# public key: ${recipient}\n${identity}\n`, '/k'), [identity])
    assert.throws(() => identitiesIn('# nothing\n', '/k'), /^OperatorError: \/k contains no secret key; use a file/)
    assert.throws(
      () => identitiesIn('password\n', '/k'),
      /^OperatorError: \/k has a line that is not a valid age secret key.*; use a file/,
    )
  })
})
