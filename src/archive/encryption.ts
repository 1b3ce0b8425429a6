// Encrypts and decrypts backups in the age format (C2SP) with X25519 keys, by the library of the author of age, so that
// `age -d` opens a backup without Postrider. Decrypted data is authentic, and a truncated or modified stream ends in a
// DecryptionFault.
import { bech32 } from '@scure/base'
import { OperatorError } from '../base/errors.ts'
import { ByteReader } from './byte-reader.ts'

type ByteStream = AsyncIterable<Uint8Array>

/** The largest header: more than a hundred recipients. */
const MOST_HEADER = 64 * 1024
export const MOST_RECIPIENTS = 20

export class DecryptionFault extends OperatorError {
  readonly reason: 'damaged' | 'foreign' | 'key'

  constructor(reason: DecryptionFault['reason'], sentence: string) {
    super(sentence)
    this.name = 'DecryptionFault'
    this.reason = reason
  }
}

const FAULTS = {
  foreign: 'The file is not in the encrypted format age v1; use a file that a Postrider backup created.',
  damaged: 'The encrypted file is incomplete or was modified after it was written; use another backup.',
  key: 'The identity file does not contain the key that this backup is encrypted to; use the one whose public key was in "backup.recipients" when the backup was made.',
}

const fault = (reason: DecryptionFault['reason']): DecryptionFault => new DecryptionFault(reason, FAULTS[reason])

/** Loaded only when it is needed, because few commands encrypt. */
const age = () => import('age-encryption')

/** A new secret key, "AGE-SECRET-KEY-1…". */
export const newIdentity = async (): Promise<string> => (await age()).generateX25519Identity()

/** The public key of a secret key, "age1…". */
export const recipientOf = async (identity: string): Promise<string> => (await age()).identityToRecipient(identity)

/** Whether a text is a key of 32 bytes with this prefix. */
function isKey(text: string, prefix: string): boolean {
  const decoded = bech32.decodeUnsafe(text, 100)
  return decoded?.prefix === prefix && bech32.fromWordsUnsafe(decoded.words)?.length === 32
}

const isRecipient = (text: string): boolean => isKey(text, 'age')

/** Why a text is not the public key of a recipient, as the end of a sentence. */
export function recipientFault(text: string): string | undefined {
  if (isRecipient(text)) return undefined
  if (/^AGE-SECRET-KEY-1/i.test(text)) return 'is a secret key instead of a public key, which starts with "age1"'
  if (/^age1/i.test(text)) return 'is not a valid age public key, which has 62 characters and starts with "age1"'
  return 'is not an age public key, which starts with "age1" ("postrider backup key" creates one)'
}

/** The secret keys in the text of a file: one per line, with comments and empty lines. Throws an OperatorError. */
export function identitiesIn(text: string, file: string): string[] {
  const lines = text.split(/\r?\n/).map((line) => line.trim())
  const identities = lines.filter((line) => line !== '' && !line.startsWith('#'))
  const fix = 'use a file with the line that "postrider backup key" printed (AGE-SECRET-KEY-1…)'
  if (identities.length === 0) throw new OperatorError(`${file} contains no secret key; ${fix}.`)
  // The text is not repeated, because it may be a secret with a typing error.
  if (identities.some((identity) => !isKey(identity, 'age-secret-key-')))
    throw new OperatorError(`${file} has a line that is not a valid age secret key; ${fix}.`)
  return identities.map((identity) => identity.toUpperCase())
}

/** Encrypts a stream to these recipients ("age1…"). Throws an OperatorError if one is invalid. */
export async function* encrypted(bytes: ByteStream, recipients: readonly string[]): ByteStream {
  if (recipients.length === 0 || recipients.length > MOST_RECIPIENTS)
    throw new OperatorError(
      `A backup can be encrypted to 1 to ${MOST_RECIPIENTS} public keys, not ${recipients.length}; change "backup.recipients".`,
    )
  const { Encrypter } = await age()
  const encrypter = new Encrypter()
  for (const recipient of recipients) {
    if (!isRecipient(recipient))
      throw new OperatorError(`The recipient "${recipient.slice(0, 80)}" ${recipientFault(recipient)}.`)
    encrypter.addRecipient(recipient.toLowerCase())
  }
  yield* await encrypter.encrypt(ReadableStream.from(bytes))
}

/** Decrypts a stream with one of these secret keys. Throws a DecryptionFault, or the error of the stream. */
export async function* decrypted(bytes: ByteStream, identities: readonly string[]): ByteStream {
  const { Decrypter } = await age()
  const decrypter = new Decrypter()
  for (const identity of identities) decrypter.addIdentity(identity)
  let sourceFault: unknown
  const source = async function* (): ByteStream {
    try {
      yield* withHeader(bytes)
    } catch (thrown) {
      sourceFault = thrown
      throw thrown
    }
  }
  const stream = ReadableStream.from(source())
  const plain = await decrypter.decrypt(stream).catch((thrown: unknown) => {
    throw sourceFault ?? fault(reasonOf(thrown))
  })
  try {
    yield* plain
  } catch {
    throw sourceFault ?? fault('damaged')
  }
}

/** The reasons of the library's errors. */
function reasonOf(thrown: unknown): DecryptionFault['reason'] {
  const { message } = thrown as Error
  if (message.startsWith('no identity matched')) return 'key'
  return /^(?:invalid header HMAC|stream ended before)/.test(message) ? 'damaged' : 'foreign'
}

/** Verifies that the header ends within its limit, because the library would collect it without one. */
async function* withHeader(bytes: ByteStream): ByteStream {
  const reader = new ByteReader(bytes)
  try {
    const start = await reader.take(MOST_HEADER)
    if (!/\n--- [A-Za-z0-9+/]{43}\n/.test(start.toString('latin1'))) throw fault('foreign')
    yield start
    while (!(await reader.ended())) yield await reader.take(MOST_HEADER)
  } finally {
    await reader.close()
  }
}
