// Signatures of releases (S2): what minisign wrote, and each way in which it can be changed.
// test/interop/release.interop.ts asks Debian's minisign.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { OperatorError } from '../../src/base/errors.ts'
import { releaseKey, SIGNATURE_OCTETS, SUMS_OCTETS, verifySums, type SignedSums } from '../../src/archive/signature.ts'
import * as vectors from './signature-vectors.ts'

const { deb, good } = vectors

const refused = (change: Partial<SignedSums>, why: RegExp): void =>
  assert.throws(
    () => verifySums({ ...good, ...change }),
    (thrown) => thrown instanceof OperatorError && why.test(thrown.message),
  )

describe('the signature of a release (S2)', () => {
  test('is verified, and names the version; the file is found by its octets, whatever its name', () => {
    assert.deepEqual(verifySums(good), { version: '1.2.3', name: deb })
    const renamed = { ...good.file, name: 'download(1).deb', sha256: good.file.sha256.toUpperCase() }
    assert.deepEqual(verifySums({ ...good, file: renamed }), { version: '1.2.3', name: deb })
    assert.deepEqual(verifySums({ ...good, signature: Buffer.from(vectors.signature.replaceAll('\n', '\r\n')) }), {
      version: '1.2.3',
      name: deb,
    })
  })

  test('each flipped bit of the sums and of the signature is refused', () => {
    for (const name of ['sums', 'signature'] as const)
      for (let at = name === 'sums' ? 0 : vectors.signature.indexOf('\n') + 1; at < good[name].length - 1; at++) {
        for (let bit = 0; bit < 8; bit++) {
          const changed = Buffer.from(good[name])
          changed.writeUInt8(changed.readUInt8(at) ^ (1 << bit), at)
          refused({ [name]: changed }, /./)
        }
      }
  })

  test('a shorter or longer one is refused', () => {
    for (let at = 0; at < good.signature.length - 1; at++) refused({ signature: good.signature.subarray(0, at) }, /./)
    refused({ signature: Buffer.concat([good.signature, Buffer.from('x\n')]) }, /not a signature of minisign/)
    refused({ signature: Buffer.alloc(SIGNATURE_OCTETS + 1, 'a') }, /not a signature of minisign/)
    refused({ sums: good.sums.subarray(1) }, /not what was signed/)
    refused({ sums: Buffer.alloc(SUMS_OCTETS + 1) }, /not what was signed/)
  })

  const cases: [name: string, change: Partial<SignedSums>, why: RegExp][] = [
    [
      'another key',
      { publicKey: vectors.otherKey },
      /signed with the key [0-9A-F]{16}, .* in this program is [0-9A-F]{16}/,
    ],
    ['a key with the same id', { publicKey: vectors.sameId }, /SHA256SUMS is not what was signed/],
    ['no key', { publicKey: 'untrusted comment: none\n' }, /built without a release key/],
    ['a key that is none', { publicKey: 'untrusted comment: x\nRWQ\n' }, /not a public key of minisign/],
    ['another comment', { signature: vectors.otherComment }, /comment in SHA256SUMS.minisig is not what was signed/],
    ['a comment that is not of a release', { signature: vectors.notARelease }, /not as a release/],
    ['the old form', { signature: vectors.oldForm }, /old form of minisign/],
    ['an empty signature', { signature: Buffer.alloc(0) }, /not a signature of minisign/],
    [
      'a file with other octets',
      { file: { name: deb, sha256: createHash('sha256').update('other').digest('hex') } },
      /postrider_1\.2\.3_amd64\.deb is not what was signed as Postrider 1\.2\.3/,
    ],
    [
      'a file of no line',
      { file: { name: 'x.deb', sha256: createHash('sha256').update('other').digest('hex') } },
      /x\.deb is not a file of the signed release 1\.2\.3/,
    ],
    [
      'sums of another form',
      { sums: vectors.strangeSums, signature: vectors.strangeSignature },
      /as sha256sum writes it/,
    ],
  ]
  for (const [name, change, why] of cases) test(`${name} is refused in a sentence`, () => refused(change, why))

  test('the release key of the program is one of minisign, or stands for none', () =>
    refused({ publicKey: releaseKey() }, /^This program was built without a release key|^SHA256SUMS was signed with/))
})
