// The signature of a release: SHA256SUMS beside its files, and SHA256SUMS.minisig, which minisign made of it. The
// public key ships with the program (config/release-key.pub). Nothing here reads a file: a caller hashes what it was
// given.
//
// minisign signs the BLAKE2b-512 of the file by Ed25519, and then that signature together with the trusted comment; the
// comment of a release is "postrider VERSION". What is answered was signed by the owner of the key.
import { createHash, createPublicKey, verify, type KeyObject } from 'node:crypto'
import { configAsset } from '../base/assets.ts'
import { OperatorError } from '../base/errors.ts'

/** The most octets of SHA256SUMS and of its signature: a caller need not read more. */
export const SUMS_OCTETS = 65_536
export const SIGNATURE_OCTETS = 16_384

export interface SignedSums {
  /** The octets of SHA256SUMS and of SHA256SUMS.minisig. */
  sums: Buffer
  signature: Buffer
  /** The text of a public key of minisign. */
  publicKey: string
  /** What has to be in the sums: found by its octets, for a downloaded file may have another name. */
  file: { name: string; sha256: string }
}

/** The public key of the program, as its file says it; verifySums refuses the one that stands for none. */
export const releaseKey = (): string => configAsset('release-key.pub')

interface ReleaseKey {
  id: string
  key: KeyObject
}

/** The octets of a line of base64 that has exactly so many; undefined when it has not. */
function octetsOf(line: string | undefined, length: number): Buffer | undefined {
  const octets = Buffer.from(line ?? '', 'base64')
  return octets.length === length && octets.toString('base64') === line ? octets : undefined
}

/** As minisign shows it. */
const idOf = (octets: Buffer): string => Buffer.from(octets).reverse().toString('hex').toUpperCase()

const linesOf = (text: string): string[] => text.split(/\r?\n/)

function parseKey(text: string): ReleaseKey {
  const lines = linesOf(text).filter((line) => line !== '' && !line.startsWith('untrusted comment:'))
  if (lines.length === 0)
    throw new OperatorError(
      'This program was built without a release key and can verify no signature; verify SHA256SUMS by minisign with the key of whom you have the release from, then pass --unsigned.',
    )
  const octets = octetsOf(lines[0], 42)
  if (lines.length > 1 || octets?.toString('latin1', 0, 2) !== 'Ed')
    throw new OperatorError('The release key in this program (config/release-key.pub) is not a public key of minisign.')
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: octets.toString('base64url', 10) }
  return { id: idOf(octets.subarray(2, 10)), key: createPublicKey({ key: jwk, format: 'jwk' }) }
}

interface ReleaseSignature {
  id: string
  /** Of the octets that are signed. */
  of: Buffer
  comment: string
  /** Of the first signature and the comment. */
  ofAll: Buffer
}

function parseSignature(octets: Buffer): ReleaseSignature {
  const lines = linesOf(octets.toString('latin1', 0, SIGNATURE_OCTETS + 1))
  const [first, signed, second, all] = lines
  const of = octetsOf(signed, 74)
  const ofAll = octetsOf(all, 64)
  const whole = first?.startsWith('untrusted comment: ') && second?.startsWith('trusted comment: ')
  if (octets.length > SIGNATURE_OCTETS || !whole || !of || !ofAll || lines.slice(4).some((line) => line !== ''))
    throw new OperatorError('SHA256SUMS.minisig is not a signature of minisign; fetch it again.')
  if (of.toString('latin1', 0, 2) !== 'ED')
    throw new OperatorError(
      'SHA256SUMS.minisig has the old form of minisign, without a hash; a release of Postrider has the new one.',
    )
  return {
    id: idOf(of.subarray(2, 10)),
    of: of.subarray(10),
    comment: second!.slice('trusted comment: '.length),
    ofAll,
  }
}

/** The names in SHA256SUMS by the hash of their octets. Throws when a line has another form. */
function parseSums(sums: Buffer): Map<string, string> {
  const lines = linesOf(sums.toString('utf8')).filter((line) => line !== '')
  return new Map(
    lines.map((line) => {
      const [, hash, name] = /^([0-9a-f]{64}) [ *]([^/\\].*)$/.exec(line) ?? []
      if (hash === undefined || name === undefined)
        throw new OperatorError('SHA256SUMS is not as sha256sum writes it; fetch it again.')
      return [hash, name]
    }),
  )
}

/**
 * The version that was signed, and the name of the file in it. Throws an OperatorError when the sums were not signed
 * with the key, when they say nothing of a version of Postrider, or when the file is not among them.
 */
export function verifySums({ file, publicKey, signature, sums }: SignedSums): { version: string; name: string } {
  const { id, key } = parseKey(publicKey)
  const { comment, id: signer, of, ofAll } = parseSignature(signature)
  if (signer !== id)
    throw new OperatorError(
      `SHA256SUMS was signed with the key ${signer}, the release key in this program is ${id}; fetch the release again from where you had this program from.`,
    )
  if (sums.length > SUMS_OCTETS || !verify(null, createHash('blake2b512').update(sums).digest(), key, of))
    throw new OperatorError(
      'SHA256SUMS is not what was signed: it was changed, or is of another release; fetch it again.',
    )
  if (!verify(null, Buffer.concat([of, Buffer.from(comment, 'latin1')]), key, ofAll))
    throw new OperatorError('The comment in SHA256SUMS.minisig is not what was signed; fetch it again.')
  const version = /^postrider (\d{1,5}\.\d{1,5}\.\d{1,5})$/.exec(comment)?.[1]
  if (version === undefined)
    throw new OperatorError('SHA256SUMS was signed with the release key, but not as a release: its comment is another.')
  const names = parseSums(sums)
  const name = names.get(file.sha256.toLowerCase())
  if (name === undefined)
    throw new OperatorError(
      [...names.values()].includes(file.name)
        ? `${file.name} is not what was signed as Postrider ${version}: it has another SHA-256; fetch it again.`
        : `${file.name} is not a file of the signed release ${version}: no line of SHA256SUMS has its SHA-256.`,
    )
  return { version, name }
}
