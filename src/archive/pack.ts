// The archive of a backup as a stream: a zip without compression, compressed with zstd and encrypted, so that
// `age -d -i KEY FILE | zstd -d` returns the zip without Postrider.
import { counted } from '../base/text.ts'
import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib'
import { ZipFile } from 'yazl'
import { codeOf, messageOf, OperatorError } from '../base/errors.ts'
import { bufferCollector } from '../base/native.ts'
import { ByteReader } from './byte-reader.ts'
import type { Manifest } from './catalog.ts'
import { demandRatio, noSpace, spaceLeft, type UnpackSpace } from './unpack-space.ts'
import { decrypted, encrypted } from './encryption.ts'
import type { CopiedFile } from './snapshot.ts'

type ByteStream = AsyncIterable<Uint8Array>

/** A file, or bytes with a name in the archive. */
export type PackedFile = CopiedFile | { name: string; bytes: ByteStream }

/** Level 1 is faster than disks, and compresses email better than deflate. */
const LEVEL = 1
/** The most memory for decompression as a power of two: 8 MB, more than level 1 uses. */
const MOST_WINDOW = 23

/** A zip as a stream, which fails if a file cannot be read. */
function zipOf(files: readonly PackedFile[], compress: boolean): Readable {
  const zip = new ZipFile()
  const stream = zip.outputStream as Readable
  zip.on('error', (error: Error) => stream.destroy(error))
  for (const file of files)
    if ('path' in file) zip.addFile(file.path, file.name, { compress })
    else zip.addReadStream(Readable.from(file.bytes), file.name, { compress })
  zip.end()
  return stream
}

/** Writes a new zip with these files. Throws errors of the file system. */
export const writeZip = (target: string, files: readonly PackedFile[]): Promise<void> =>
  pipeline(zipOf(files, true), createWriteStream(target, { mode: 0o600, flags: 'wx' }))

/** The archive of these files. `count` is called with the sizes of pieces of the zip. */
export async function* packed(
  files: readonly PackedFile[],
  recipients: readonly string[],
  count: (bytes: number) => void,
): ByteStream {
  const zstd = createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: LEVEL } })
  const zip = zipOf(files, false)
  const collect = bufferCollector()
  zip.on('data', ({ length }: Buffer) => {
    count(length)
    collect(length)
  })
  const piped = pipeline(zip, zstd)
  // The reader of the stream sees the failure.
  piped.catch(() => {})
  try {
    yield* recipients.length === 0 ? (zstd as ByteStream) : encrypted(zstd, recipients)
  } finally {
    zstd.destroy()
    await piped.catch(() => {})
  }
}

const SEALED = 'age-encryption.org/'
const ZSTD = '28b52ffd'
const ZIP = '504b0304'

const isZip = (first: Uint8Array): boolean => Buffer.from(first.subarray(0, 4)).toString('hex') === ZIP

export interface Unpacking {
  /** The name of the source in messages. */
  shown: string
  /** age secret keys. */
  identities: readonly string[]
  space: UnpackSpace
  /** Undefined for a file without one. */
  manifest?: Pick<Manifest, 'plain' | 'recipients'> | undefined
}

/** Decrypts and decompresses an archive into a new zip file. Throws an OperatorError if it is incomplete or corrupt. */
export async function unpackTo(file: string, bytes: ByteStream, unpacking: Unpacking): Promise<void> {
  let packed = 0
  const counted = async function* (): ByteStream {
    for await (const piece of bytes) {
      packed += piece.length
      yield piece
    }
  }
  const source = new ByteReader(counted())
  try {
    const whole = opened(source, unpacking)
    const within = (size: number): void => demandRatio(unpacking.space, unpacking.shown, packed, size)
    await pipeline(
      Readable.from(bounded(whole, unpacking, within)),
      createWriteStream(file, { mode: 0o600, flags: 'wx' }),
    )
  } catch (thrown) {
    if (thrown instanceof OperatorError || codeOf(thrown).startsWith('E')) throw explainedRead(thrown, file, unpacking)
    throw damaged(unpacking, codeOf(thrown) || messageOf(thrown))
  } finally {
    await source.close()
  }
}

const damaged = ({ shown }: Unpacking, why: string): OperatorError =>
  new OperatorError(
    `${shown} is corrupt or not a Postrider backup (${why.replace(/[.\s]+$/, '')}); use another backup.`,
  )

function explainedRead(thrown: unknown, file: string, unpacking: Unpacking): unknown {
  const code = codeOf(thrown)
  if (thrown instanceof OperatorError || !/^E(?:NOSPC|DQUOT|ROFS|ACCES|FBIG)$/.test(code)) return thrown
  return new OperatorError(
    `${unpacking.shown} cannot be unpacked to ${file} (${code}); free some space there. No error was found in the backup so far.`,
  )
}

/** The zip in an archive, which may be encrypted and compressed. */
async function* opened(source: ByteReader, unpacking: Unpacking): ByteStream {
  const begin = await source.take(SEALED.length)
  const whole = join(begin, source)
  const isSealed = begin.toString('latin1') === SEALED
  const { manifest } = unpacking
  if (manifest && isSealed !== manifest.recipients.length > 0)
    throw damaged(unpacking, `it is ${isSealed ? '' : 'not '}encrypted, unlike its manifest`)
  if (!isSealed) return yield* unpackedOf(begin, whole, unpacking)
  if (unpacking.identities.length === 0)
    throw new OperatorError(
      `${unpacking.shown} is encrypted; set the file with the secret key with --identity or "backup.identity_file".`,
    )
  const plain = new ByteReader(decrypted(whole, unpacking.identities))
  try {
    const first = await plain.take(SEALED.length)
    yield* unpackedOf(first, join(first, plain), unpacking)
  } finally {
    await plain.close()
  }
}

async function* unpackedOf(begin: Buffer, whole: ByteStream, unpacking: Unpacking): ByteStream {
  if (isZip(begin)) return yield* whole
  if (!begin.toString('hex').startsWith(ZSTD)) throw damaged(unpacking, 'it is neither encrypted nor compressed as one')
  const zstd = createZstdDecompress({ chunkSize: UNPACKED, params: { [constants.ZSTD_d_windowLogMax]: MOST_WINDOW } })
  const piped = pipeline(Readable.from(whole), zstd)
  piped.catch(() => {})
  try {
    yield* zstd as ByteStream
  } finally {
    zstd.destroy()
    await piped.catch(() => {})
  }
}

/** The size of decompressed pieces, each of which needs a thread and a write. */
const UNPACKED = 512 * 1024
const PIECE = 64 * 1024

async function* join(begin: Uint8Array, rest: ByteReader): ByteStream {
  yield begin
  while (!(await rest.ended())) yield await rest.take(PIECE)
}

/** After how many bytes the free space is checked again. */
const ASKED = 16 * 1024 * 1024

/** Limits a zip to the size in its manifest and to the disk, which must also have space for its contents. */
async function* bounded(bytes: ByteStream, unpacking: Unpacking, within: (size: number) => void): ByteStream {
  const { manifest, shown, space } = unpacking
  const most = manifest?.plain ?? Infinity
  let size = 0
  let next = 0
  const collect = bufferCollector()
  for await (const piece of bytes) {
    if (size === 0 && !isZip(piece)) throw damaged(unpacking, 'it contains no archive')
    size += piece.length
    collect(piece.length)
    if (size > most) throw damaged(unpacking, 'it is larger than its manifest states')
    within(size)
    if (size >= next) {
      if (spaceLeft(space) < size) throw noSpace(space, `${shown} is larger than that`)
      next = size + ASKED
    }
    yield piece
  }
  if (manifest && size !== most)
    throw damaged(unpacking, `it contains ${counted(size, 'byte')} instead of the ${most} in its manifest`)
}
