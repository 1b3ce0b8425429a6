// Signatures of releases: output of minisign, and each way to change it.
// test/interop/release.interop.ts uses Debian's minisign.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { OperatorError } from '../../src/base/errors.ts'
import { releaseKey, MAX_SIGNATURE, MAX_SUMS, verifySums, type SignedSums } from '../../src/archive/signature.ts'
import * as vectors from './signature-vectors.ts'

const { deb, good } = vectors

const refused = (change: Partial<SignedSums>, why: RegExp): void =>
  assert.throws(
    () => verifySums({ ...good, ...change }),
    (thrown) => thrown instanceof OperatorError && why.test(thrown.message),
  )

describe('the signature of a release', () => {
  test('is verified and contains the version, and the file is found by its hash under any name', () => {
    assert.deepEqual(verifySums(good), { version: '1.2.3', name: deb })
    const renamed = { ...good.file, name: 'download(1).deb', sha256: good.file.sha256.toUpperCase() }
    assert.deepEqual(verifySums({ ...good, file: renamed }), { version: '1.2.3', name: deb })
    assert.deepEqual(verifySums({ ...good, signature: Buffer.from(vectors.signature.replaceAll('\n', '\r\n')) }), {
      version: '1.2.3',
      name: deb,
    })
  })

  test('rejects each flipped bit of the sums and of the signature', () => {
    for (const name of ['sums', 'signature'] as const)
      for (let at = name === 'sums' ? 0 : vectors.signature.indexOf('\n') + 1; at < good[name].length - 1; at++) {
        for (let bit = 0; bit < 8; bit++) {
          const changed = Buffer.from(good[name])
          changed.writeUInt8(changed.readUInt8(at) ^ (1 << bit), at)
          refused({ [name]: changed }, /./)
        }
      }
  })

  test('rejects a shorter or longer one', () => {
    for (let at = 0; at < good.signature.length - 1; at++) refused({ signature: good.signature.subarray(0, at) }, /./)
    refused({ signature: Buffer.concat([good.signature, Buffer.from('x\n')]) }, /not a minisign signature/)
    refused({ signature: Buffer.alloc(MAX_SIGNATURE + 1, 'a') }, /not a minisign signature/)
    refused({ sums: good.sums.subarray(1) }, /does not match its signature/)
    refused({ sums: Buffer.alloc(MAX_SUMS + 1) }, /does not match its signature/)
  })

  const cases: [name: string, change: Partial<SignedSums>, why: RegExp][] = [
    [
      'another key',
      { publicKey: vectors.otherKey },
      /signed with the key [0-9A-F]{16}, .* in this executable is [0-9A-F]{16}/,
    ],
    ['a key with the same id', { publicKey: vectors.sameId }, /SHA256SUMS does not match its signature/],
    ['no key', { publicKey: 'untrusted comment: none\n' }, /built without a release key/],
    ['an invalid key', { publicKey: 'untrusted comment: x\nRWQ\n' }, /not a minisign public key/],
    [
      'another comment',
      { signature: vectors.otherComment },
      /comment in SHA256SUMS.minisig does not match its signature/,
    ],
    ['a comment that is not of a release', { signature: vectors.notARelease }, /not that of a release/],
    ['the old form', { signature: vectors.oldForm }, /legacy minisign format/],
    ['an empty signature', { signature: Buffer.alloc(0) }, /not a minisign signature/],
    [
      'a file with other bytes',
      { file: { name: deb, sha256: createHash('sha256').update('other').digest('hex') } },
      /postrider_1\.2\.3_amd64\.deb does not have the SHA-256 that was signed for Postrider 1\.2\.3/,
    ],
    [
      'a file that is not in the sums',
      { file: { name: 'x.deb', sha256: createHash('sha256').update('other').digest('hex') } },
      /x\.deb is not a file of the signed release 1\.2\.3/,
    ],
    [
      'sums of another form',
      { sums: vectors.strangeSums, signature: vectors.strangeSignature },
      /not in the format of sha256sum/,
    ],
  ]
  for (const [name, change, why] of cases) test(`rejects ${name} with one sentence`, () => refused(change, why))

  test('the release key of the executable is a minisign key, or empty', () =>
    refused(
      { publicKey: releaseKey() },
      /^This executable was built without a release key|^SHA256SUMS was signed with/,
    ))
})
