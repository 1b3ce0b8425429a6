// Encrypted backups and Debian's age: each decrypts what the other encrypted.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { execFileSync } from 'node:child_process'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { after, test } from 'node:test'
import { identitiesIn, newIdentity, recipientOf, encrypted, decrypted } from '../../src/archive/encryption.ts'
import { pieces } from '../archive/destination-suite.ts'
import { absentOf } from './rig/keepers.ts'
import { withPrograms } from './rig/need.ts'
import { Sandbox } from './rig/sandbox.ts'

const AGE = '/usr/bin/age'
const KEYGEN = '/usr/bin/age-keygen'
const CHUNK = 64 * 1024
const MB = 1024 * 1024

/** What a program gives for a stream; the stream fails when the program ends badly. */
async function* through(args: readonly string[], bytes: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  const child = spawn(AGE, args, { stdio: ['pipe', 'pipe', 'pipe'] })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text))
  const ended = new Promise<number | null>((done) => child.once('close', done))
  const given = pipeline(Readable.from(bytes), child.stdin).catch((thrown: unknown) => thrown)
  yield* child.stdout as AsyncIterable<Buffer>
  const code = await ended
  if (code !== 0) throw new Error(`age ended with ${code}: ${said}`)
  await given
}

/** The size and the hash of a stream that is not kept. */
async function sumOf(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256')
  let size = 0
  for await (const piece of bytes) {
    hash.update(piece)
    size += piece.length
  }
  return `${size} ${hash.digest('hex')}`
}

/** So many MB that are not the same. */
async function* many(megabytes: number): AsyncIterable<Uint8Array> {
  const piece = randomBytes(MB)
  for (let at = 0; at < megabytes; at++) {
    piece.writeUInt32BE(at)
    // A copy: what was given may still be on its way.
    yield Buffer.from(piece)
  }
}

const identity = await newIdentity()
const recipient = await recipientOf(identity)

withPrograms("Debian's age", absentOf([AGE, KEYGEN]), () => {
  const box = new Sandbox('age')
  const file = box.write('identity', `# ours\n${identity}\n`, 0o600)
  after(() => box.close())

  test('both derive the same public keys', async () => {
    assert.equal(execFileSync(KEYGEN, ['-y', file], { encoding: 'utf8' }).trim(), recipient)
    const theirs = execFileSync(KEYGEN, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    const [own = ''] = identitiesIn(theirs, 'theirs')
    assert.equal(await recipientOf(own), /public key: (\S+)/.exec(theirs)?.[1])
  })

  test('each decrypts files that the other encrypted to several recipients', async () => {
    const other = await recipientOf(await newIdentity())
    for (const size of [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 5 * MB + 3]) {
      const bytes = randomBytes(size)
      const ours = await buffer(encrypted(pieces(bytes), [other, recipient]))
      assert.deepEqual(await buffer(through(['-d', '-i', file], pieces(ours))), bytes, `ours, ${size}`)
      const theirs = await buffer(through(['-r', other, '-r', recipient], pieces(bytes)))
      assert.deepEqual(await buffer(decrypted(pieces(theirs), [identity])), bytes, `theirs, ${size}`)
    }
  })

  test('both reject a truncated or modified file', async () => {
    const bytes = randomBytes(2 * CHUNK + 10)
    const stream = await buffer(encrypted(pieces(bytes), [recipient]))
    const start = stream.length - bytes.length - 3 * 16
    for (const at of [start + 5, start + CHUNK + 16 + 5, stream.length - 20]) {
      const changed = Buffer.from(stream)
      changed[at] = (changed[at] ?? 0) ^ 0x10
      for (const wrong of [changed, stream.subarray(0, at)]) {
        await assert.rejects(buffer(through(['-d', '-i', file], pieces(wrong))), /age ended with 1/)
        await assert.rejects(buffer(decrypted(pieces(wrong), [identity])), /incomplete or was modified/)
      }
    }
  })

  test('a gigabyte is encrypted and decrypted as a stream', async () => {
    const before = process.memoryUsage.rss()
    let expected = ''
    const noted = async function* (): AsyncIterable<Uint8Array> {
      const hash = createHash('sha256')
      let size = 0
      for await (const piece of many(1024)) {
        hash.update(piece)
        size += piece.length
        yield piece
      }
      expected = `${size} ${hash.digest('hex')}`
    }
    assert.equal(await sumOf(through(['-d', '-i', file], encrypted(noted(), [recipient]))), expected)
    assert.equal(await sumOf(decrypted(through(['-r', recipient], noted()), [identity])), expected)
    // Nothing of it is kept: what grows is the heap between two collections.
    assert.ok(process.memoryUsage.rss() - before < 300 * MB)
  })
})
