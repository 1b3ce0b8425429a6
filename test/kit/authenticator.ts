// A device with passkeys (WebAuthn level 2), as far as a server sees one: it makes a key, and signs challenges with it.
import { createHash, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto'

export type Algorithm = 'ES256' | 'EdDSA' | 'RS256'

const sha256 = (bytes: string | Buffer): Buffer => createHash('sha256').update(bytes).digest()
const b64 = (bytes: Buffer): string => bytes.toString('base64url')
const hex = (text: string): Buffer => Buffer.from(text, 'hex')

/** Flags of authenticator data (WebAuthn §6.1): the user is there, was verified, a key is attached. */
const PRESENT = 0x01
const VERIFIED = 0x04
const ATTACHED = 0x40

function newKey(algorithm: Algorithm): { privateKey: KeyObject; cose: Buffer } {
  if (algorithm === 'ES256') {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const { x, y } = publicKey.export({ format: 'jwk' })
    const [one, other] = [Buffer.from(x!, 'base64url'), Buffer.from(y!, 'base64url')]
    return { privateKey, cose: Buffer.concat([hex('a5010203262001215820'), one, hex('225820'), other]) }
  }
  if (algorithm === 'EdDSA') {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    const x = Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url')
    return { privateKey, cose: Buffer.concat([hex('a4010103272006215820'), x]) }
  }
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const n = Buffer.from(publicKey.export({ format: 'jwk' }).n!, 'base64url')
  return { privateKey, cose: Buffer.concat([hex('a401030339010020590100'), n, hex('2143010001')]) }
}

export class Authenticator {
  readonly id = randomBytes(32)
  readonly #algorithm: Algorithm
  readonly #origin: string
  readonly #key: ReturnType<typeof newKey>
  /** Whether the device verifies its user by finger, face or PIN, or is only touched. */
  verifies = true
  /** Whether the page is in a frame of another origin. */
  framed = false
  /** The user that the device names at a sign-in. */
  userHandle: string | undefined

  constructor(origin: string, algorithm: Algorithm = 'ES256') {
    this.#origin = origin
    this.#algorithm = algorithm
    this.#key = newKey(algorithm)
  }

  /** The browser's answer to options of a registration. */
  make({ challenge }: { challenge: string }): object {
    const length = Buffer.from([0, this.id.length])
    const data = Buffer.concat([this.#data(ATTACHED), Buffer.alloc(16), length, this.id, this.#key.cose])
    const size = Buffer.alloc(2)
    size.writeUInt16BE(data.length)
    const attestationObject = Buffer.concat([
      hex('a363666d74646e6f6e656761747453746d74a068617574684461746159'),
      size,
      data,
    ])
    return this.#answer({
      clientDataJSON: b64(this.#client('webauthn.create', challenge)),
      attestationObject: b64(attestationObject),
    })
  }

  /** The browser's answer to options of a sign-in. */
  prove({ challenge }: { challenge: string }): object {
    const [data, client] = [this.#data(0), this.#client('webauthn.get', challenge)]
    const hash = this.#algorithm === 'EdDSA' ? null : 'sha256'
    return this.#answer({
      clientDataJSON: b64(client),
      authenticatorData: b64(data),
      signature: b64(sign(hash, Buffer.concat([data, sha256(client)]), this.#key.privateKey)),
      ...(this.userHandle === undefined ? {} : { userHandle: this.userHandle }),
    })
  }

  #data(more: number): Buffer {
    const flags = PRESENT | (this.verifies ? VERIFIED : 0) | more
    return Buffer.concat([sha256(new URL(this.#origin).hostname), Buffer.from([flags, 0, 0, 0, 0])])
  }

  #client(type: string, challenge: string): Buffer {
    return Buffer.from(JSON.stringify({ type, challenge, origin: this.#origin, crossOrigin: this.framed }))
  }

  #answer(response: object): object {
    return { id: b64(this.id), rawId: b64(this.id), type: 'public-key', clientExtensionResults: {}, response }
  }
}
