// Verifies the signature of a release: SHA256SUMS, and SHA256SUMS.minisig by minisign. The public key is part of the
// executable (config/release-key.pub).
//
// minisign signs the BLAKE2b-512 of the file with Ed25519, and then that signature together with the trusted comment.
// The comment of a release is "postrider VERSION".
import { createHash, createPublicKey, verify, type KeyObject } from 'node:crypto'
import { configAsset } from '../base/assets.ts'
import { OperatorError } from '../base/errors.ts'

/** The largest SHA256SUMS and signature. */
export const MAX_SUMS = 65_536
export const MAX_SIGNATURE = 16_384

export interface SignedSums {
  /** The contents of SHA256SUMS and SHA256SUMS.minisig. */
  sums: Buffer
  signature: Buffer
  /** A public key of minisign. */
  publicKey: string
  /** Found in the sums by its hash, because a downloaded file may have another name. */
  file: { name: string; sha256: string }
}

/** The public key in the executable. verifySums rejects the empty one of a build without a key. */
export const releaseKey = (): string => configAsset('release-key.pub')

interface ReleaseKey {
  id: string
  key: KeyObject
}

/** Decodes a line of base64, or returns undefined if it has another length. */
function bytesOf(line: string | undefined, length: number): Buffer | undefined {
  const bytes = Buffer.from(line ?? '', 'base64')
  return bytes.length === length && bytes.toString('base64') === line ? bytes : undefined
}

/** As printed by minisign. */
const idOf = (bytes: Buffer): string => Buffer.from(bytes).reverse().toString('hex').toUpperCase()

const linesOf = (text: string): string[] => text.split(/\r?\n/)

function parseKey(text: string): ReleaseKey {
  const lines = linesOf(text).filter((line) => line !== '' && !line.startsWith('untrusted comment:'))
  if (lines.length === 0)
    throw new OperatorError(
      'This executable was built without a release key, so it cannot verify signatures; verify SHA256SUMS with minisign and the key of your publisher, then add --unsigned.',
    )
  const bytes = bytesOf(lines[0], 42)
  if (lines.length > 1 || bytes?.toString('latin1', 0, 2) !== 'Ed')
    throw new OperatorError(
      'The release key in this executable (config/release-key.pub) is not a minisign public key; rebuild it with a valid key.',
    )
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url', 10) }
  return { id: idOf(bytes.subarray(2, 10)), key: createPublicKey({ key: jwk, format: 'jwk' }) }
}

interface ReleaseSignature {
  id: string
  /** The signature of the file. */
  of: Buffer
  comment: string
  /** The signature of the first signature and the comment. */
  ofAll: Buffer
}

function parseSignature(bytes: Buffer): ReleaseSignature {
  const lines = linesOf(bytes.toString('latin1', 0, MAX_SIGNATURE + 1))
  const [first, signed, second, all] = lines
  const of = bytesOf(signed, 74)
  const ofAll = bytesOf(all, 64)
  const whole = first?.startsWith('untrusted comment: ') && second?.startsWith('trusted comment: ')
  if (bytes.length > MAX_SIGNATURE || !whole || !of || !ofAll || lines.slice(4).some((line) => line !== ''))
    throw new OperatorError('SHA256SUMS.minisig is not a minisign signature; download it again.')
  if (of.toString('latin1', 0, 2) !== 'ED')
    throw new OperatorError(
      'SHA256SUMS.minisig has the legacy minisign format; use the signature of a Postrider release, which is prehashed.',
    )
  return {
    id: idOf(of.subarray(2, 10)),
    of: of.subarray(10),
    comment: second!.slice('trusted comment: '.length),
    ofAll,
  }
}

/** The names in SHA256SUMS by their hash. Throws if a line is invalid. */
function parseSums(sums: Buffer): Map<string, string> {
  const lines = linesOf(sums.toString('utf8')).filter((line) => line !== '')
  return new Map(
    lines.map((line) => {
      const [, hash, name] = /^([0-9a-f]{64}) [ *]([^/\\].*)$/.exec(line) ?? []
      if (hash === undefined || name === undefined)
        throw new OperatorError('SHA256SUMS is not in the format of sha256sum; download it again.')
      return [hash, name]
    }),
  )
}

/**
 * Returns the signed version, and the name of the file in the sums. Throws an OperatorError if the sums were not signed
 * with the key, are not of a Postrider release, or do not contain the file.
 */
export function verifySums({ file, publicKey, signature, sums }: SignedSums): { version: string; name: string } {
  const { id, key } = parseKey(publicKey)
  const { comment, id: signer, of, ofAll } = parseSignature(signature)
  if (signer !== id)
    throw new OperatorError(
      `SHA256SUMS was signed with the key ${signer}, but the release key in this executable is ${id}; download the release from the source of this executable.`,
    )
  if (sums.length > MAX_SUMS || !verify(null, createHash('blake2b512').update(sums).digest(), key, of))
    throw new OperatorError('SHA256SUMS does not match its signature; download both files again.')
  if (!verify(null, Buffer.concat([of, Buffer.from(comment, 'latin1')]), key, ofAll))
    throw new OperatorError('The comment in SHA256SUMS.minisig does not match its signature; download it again.')
  const version = /^postrider (\d{1,5}\.\d{1,5}\.\d{1,5})$/.exec(comment)?.[1]
  if (version === undefined)
    throw new OperatorError(
      'SHA256SUMS is signed with the release key, but its comment is not that of a release; download the files of a release.',
    )
  const names = parseSums(sums)
  const name = names.get(file.sha256.toLowerCase())
  if (name === undefined)
    throw new OperatorError(
      [...names.values()].includes(file.name)
        ? `${file.name} does not have the SHA-256 that was signed for Postrider ${version}; download it again.`
        : `${file.name} is not a file of the signed release ${version}; download it again.`,
    )
  return { version, name }
}
