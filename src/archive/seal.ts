// Seals a stream to recipients in the format age v1 with X25519 (C2SP), so that `age -d` opens it without this
// program, and opens such streams. A header wraps one file key for each recipient; what follows is cut into chunks of
// 64 KiB, each encrypted and authenticated, the last one marked. No octet is given before its chunk is authentic, and
// a stream that was cut, changed or sealed to others ends in a SealFault.
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
  type KeyObject,
} from 'node:crypto'
import { must, OperatorError } from '../base/errors.ts'
import { ofBech32, toBech32 } from './bech32.ts'
import { Octets } from './octets.ts'

type Sealing = AsyncIterable<Uint8Array>

const VERSION = 'age-encryption.org/v1'
const X25519 = `${VERSION}/X25519`
const CHUNK = 64 * 1024
const TAG = 16
const NONCE = 16
/** A header of more octets is refused: it has room for more than a hundred recipients. */
const MOST_HEADER = 64 * 1024
/** The most recipients that a stream is sealed to. */
export const MOST_RECIPIENTS = 20

/** Why a sealed stream is not opened, in one sentence. */
export class SealFault extends OperatorError {
  readonly reason: 'damaged' | 'foreign' | 'key'

  constructor(reason: SealFault['reason'], sentence: string) {
    super(sentence)
    this.name = 'SealFault'
    this.reason = reason
  }
}

const foreign = (): SealFault =>
  new SealFault('foreign', 'This is not sealed in the format age v1; choose a file that a backup of Postrider wrote.')
const damaged = (): SealFault =>
  new SealFault('damaged', 'The sealed file was cut off or changed after it was written; use another backup.')

/** A new secret, "AGE-SECRET-KEY-1…"; `recipientOf` gives its public half. */
export function newIdentity(): string {
  const { d } = generateKeyPairSync('x25519').privateKey.export({ format: 'jwk' })
  return toBech32('age-secret-key-', Buffer.from(String(d), 'base64url')).toUpperCase()
}

/** The public half of an identity, "age1…". Throws an OperatorError for a text that is none. */
export const recipientOf = (identity: string): string => toBech32('age', publicOctets(secretOf(identity)))

/** Why a text is not the public key of a recipient, as the end of a sentence. */
export function recipientFault(text: string): string | undefined {
  if (ofBech32('age', text) !== undefined) return undefined
  if (/^AGE-SECRET-KEY-1/i.test(text)) return 'is a secret key; give the public key, which begins with "age1"'
  if (/^age1/i.test(text)) return 'has a mistake in it; copy the public key whole, 62 characters that begin with "age1"'
  return 'is not a public key of age; it begins with "age1" ("postrider backup key" makes one)'
}

/** The identities in the text of a file: one in a line, beside empty lines and comments. Throws an OperatorError. */
export function identitiesIn(text: string, file: string): string[] {
  const lines = text.split(/\r?\n/).map((line) => line.trim())
  const identities = lines.filter((line) => line !== '' && !line.startsWith('#'))
  const fix = 'name a file with the line that "postrider backup key" printed (AGE-SECRET-KEY-1…)'
  if (identities.length === 0) throw new OperatorError(`${file} holds no secret key; ${fix}.`)
  // The text itself is not repeated: it may be a secret with a mistake in it.
  if (identities.some((identity) => !isSecret(identity)))
    throw new OperatorError(`${file} has a line that is not a secret key of age, or has a mistake in it; ${fix}.`)
  return identities
}

// The DER of a key before its 32 octets (RFC 8410).
const PRIVATE = Buffer.from('302e020100300506032b656e04220420', 'hex')
const PUBLIC = Buffer.from('302a300506032b656e032100', 'hex')

const publicKey = (octets: Uint8Array): KeyObject =>
  createPublicKey({ key: Buffer.concat([PUBLIC, octets]), format: 'der', type: 'spki' })

const publicOctets = (key: KeyObject): Buffer =>
  Buffer.from(String(createPublicKey(key).export({ format: 'jwk' }).x), 'base64url')

const octetsOfSecret = (identity: string): Uint8Array | undefined => ofBech32('age-secret-key-', identity)
const isSecret = (identity: string): boolean => octetsOfSecret(identity) !== undefined

function secretOf(identity: string): KeyObject {
  const octets = must(octetsOfSecret(identity), 'A secret key')
  return createPrivateKey({ key: Buffer.concat([PRIVATE, octets]), format: 'der', type: 'pkcs8' })
}

const derived = (key: Uint8Array, salt: Uint8Array, info: string): Buffer =>
  Buffer.from(hkdfSync('sha256', key, salt, info, 32))

const base64 = (octets: Uint8Array): string => Buffer.from(octets).toString('base64').replaceAll('=', '')

/** The octets of canonical base64 without padding. */
function ofBase64(text: string): Buffer {
  const octets = Buffer.from(text, 'base64')
  if (base64(octets) !== text) throw foreign()
  return octets
}

function encrypted(key: Uint8Array, nonce: Uint8Array, plain: Uint8Array): Buffer {
  const cipher = createCipheriv('chacha20-poly1305', key, nonce, { authTagLength: TAG })
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

/** The plain octets; undefined when they are not authentic. */
function decrypted(key: Uint8Array, nonce: Uint8Array, sealed: Buffer): Buffer | undefined {
  if (sealed.length < TAG) return undefined
  const cipher = createDecipheriv('chacha20-poly1305', key, nonce, { authTagLength: TAG })
  cipher.setAuthTag(sealed.subarray(sealed.length - TAG))
  const plain = cipher.update(sealed.subarray(0, sealed.length - TAG))
  try {
    cipher.final()
    return plain
  } catch {
    return undefined
  }
}

const ZEROS = Buffer.alloc(12)

/** The key that wraps the file key between two parties; undefined for a share that gives none (RFC 7748 §6.1). */
function wrapKey(secret: KeyObject, theirs: Uint8Array, share: Uint8Array, recipient: Uint8Array): Buffer | undefined {
  let shared: Buffer
  try {
    shared = diffieHellman({ privateKey: secret, publicKey: publicKey(theirs) })
  } catch {
    return undefined
  }
  return shared.every((octet) => octet === 0) ? undefined : derived(shared, Buffer.concat([share, recipient]), X25519)
}

function stanzaFor(recipient: string, fileKey: Buffer): string {
  const theirs = ofBech32('age', recipient)
  if (!theirs) throw new OperatorError(`The recipient "${recipient.slice(0, 80)}" ${recipientFault(recipient)}.`)
  const { privateKey } = generateKeyPairSync('x25519')
  const share = publicOctets(privateKey)
  const key = wrapKey(privateKey, theirs, share, theirs)
  if (!key)
    throw new OperatorError(`The recipient "${recipient}" is not a key that anybody can hold; make another one.`)
  return `-> X25519 ${base64(share)}\n${base64(encrypted(key, ZEROS, fileKey))}\n`
}

const macOf = (fileKey: Buffer, header: string): Buffer =>
  createHmac('sha256', derived(fileKey, Buffer.alloc(0), 'header'))
    .update(header, 'latin1')
    .digest()

/** The nonces of the chunks of a stream: a counter, and a mark of the last one. */
class Nonces {
  #nonce = Buffer.alloc(12)
  #count = 0

  next(last: boolean): Buffer {
    // 2^48 chunks are more than any file has.
    this.#nonce.writeUIntBE(this.#count++, 5, 6)
    this.#nonce[11] = last ? 1 : 0
    return this.#nonce
  }
}

/** Seals a stream to these recipients ("age1…"). Throws an OperatorError for a recipient that is none. */
export async function* seal(octets: Sealing, recipients: readonly string[]): Sealing {
  if (recipients.length === 0 || recipients.length > MOST_RECIPIENTS)
    throw new OperatorError(`A backup is sealed to 1 to ${MOST_RECIPIENTS} recipients, not to ${recipients.length}.`)
  const fileKey = randomBytes(16)
  const header = `${VERSION}\n${recipients.map((recipient) => stanzaFor(recipient, fileKey)).join('')}---`
  yield Buffer.from(`${header} ${base64(macOf(fileKey, header))}\n`, 'latin1')
  const nonce = randomBytes(NONCE)
  yield nonce
  const key = derived(fileKey, nonce, 'payload')
  const nonces = new Nonces()
  const source = new Octets(octets)
  try {
    for (;;) {
      const chunk = await source.take(CHUNK)
      const last = await source.ended()
      yield encrypted(key, nonces.next(last), chunk)
      if (last) return
    }
  } finally {
    await source.close()
  }
}

/** Opens a stream that is sealed to one of these identities ("AGE-SECRET-KEY-1…"). Throws a SealFault. */
export async function* unseal(octets: Sealing, identities: readonly string[]): Sealing {
  const secrets = identities.map(secretOf)
  const source = new Octets(octets)
  try {
    yield* opened(source, await openHeader(source, secrets))
  } finally {
    await source.close()
  }
}

async function* opened(source: Octets, fileKey: Buffer): Sealing {
  const nonce = await source.take(NONCE)
  if (nonce.length < NONCE) throw damaged()
  const key = derived(fileKey, nonce, 'payload')
  const nonces = new Nonces()
  for (let first = true; ; first = false) {
    const sealed = await source.take(CHUNK + TAG)
    const last = await source.ended()
    const plain = decrypted(key, nonces.next(last), sealed)
    // Only the first chunk may be empty, so that no stream has two forms.
    if (!plain || (plain.length === 0 && !first)) throw damaged()
    if (plain.length > 0) yield plain
    if (last) return
  }
}

/** Reads the header and gives the file key. */
async function openHeader(source: Octets, secrets: readonly KeyObject[]): Promise<Buffer> {
  if ((await line(source, VERSION.length + 1)) !== VERSION) throw foreign()
  let header = `${VERSION}\n`
  const stanzas: Stanza[] = []
  for (;;) {
    const text = await line(source, MOST_HEADER - header.length)
    const mac = /^--- ([A-Za-z0-9+/]{43})$/.exec(text)?.[1]
    if (mac !== undefined) return keyOf(stanzas, secrets, `${header}---`, ofBase64(mac))
    const stanza = /^-> ([!-~]+(?: [!-~]+)*)$/.exec(text)?.[1]
    if (stanza === undefined) throw foreign()
    header += `${text}\n`
    let body = ''
    for (;;) {
      const part = await line(source, MOST_HEADER - header.length)
      if (part.length > 64) throw foreign()
      header += `${part}\n`
      body += part
      // A line that is not full ends the body; it may be empty.
      if (part.length < 64) break
    }
    stanzas.push({ words: stanza.split(' '), body: ofBase64(body) })
  }
}

interface Stanza {
  words: string[]
  body: Buffer
}

/** A line of the header without its end. Throws a SealFault when it does not end within `most` octets. */
async function line(source: Octets, most: number): Promise<string> {
  const text = await source.line(most)
  if (text === undefined) throw foreign()
  return text
}

function keyOf(stanzas: readonly Stanza[], secrets: readonly KeyObject[], header: string, mac: Buffer): Buffer {
  for (const { body, words } of stanzas) {
    const [kind, text, ...rest] = words
    // Recipients of other kinds may stand beside ours.
    if (kind !== 'X25519') continue
    const share = ofBase64(text ?? '')
    if (rest.length > 0 || share.length !== 32 || body.length !== 16 + TAG) throw foreign()
    for (const secret of secrets) {
      const key = wrapKey(secret, share, share, publicOctets(secret))
      const fileKey = key && decrypted(key, ZEROS, body)
      if (!fileKey) continue
      if (!timingSafeEqual(macOf(fileKey, header), mac)) throw damaged()
      return fileKey
    }
  }
  throw new SealFault(
    'key',
    'The file is sealed to another key than those of the identity file; give the file whose public key was among "backup.recipients" when it was written.',
  )
}
