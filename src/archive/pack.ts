// The archive of a backup as a stream: a zip without compression, packed with zstd and sealed to recipients, so that
// `age -d -i KEY FILE | zstd -d` gives the zip to a person without this program.
import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib'
import { ZipFile } from 'yazl'
import { codeOf, messageOf, OperatorError } from '../base/errors.ts'
import { bufferCollector } from '../base/native.ts'
import { Octets } from './octets.ts'
import type { Manifest } from './catalog.ts'
import { leftIn, noRoom, type Room } from './room.ts'
import { seal, unseal } from './seal.ts'
import type { PackedFile } from './snapshot.ts'

type OctetStream = AsyncIterable<Uint8Array>

/** Level 1 is faster than every disk, and smaller than deflate on mail. */
const LEVEL = 1
/** What zstd may hold of a stream that is unpacked: 8 MB, more than level 1 ever asks for. */
const MOST_WINDOW = 23

/** A zip that is being written: a failure to read a file ends its stream. */
function zipOf(files: readonly PackedFile[], compress: boolean): Readable {
  const zip = new ZipFile()
  const stream = zip.outputStream as Readable
  zip.on('error', (error: Error) => stream.destroy(error))
  for (const { name, path } of files) zip.addFile(path, name, { compress })
  zip.end()
  return stream
}

/** Writes a new zip with these files. Throws errors of the file system. */
export const writeZip = (target: string, files: readonly PackedFile[]): Promise<void> =>
  pipeline(zipOf(files, true), createWriteStream(target, { mode: 0o600, flags: 'wx' }))

/** The octets of an archive with these files; `count` is told how many octets the zip has. */
export async function* packed(
  files: readonly PackedFile[],
  recipients: readonly string[],
  count: (octets: number) => void,
): OctetStream {
  const zstd = createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: LEVEL } })
  const zip = zipOf(files, false)
  const collect = bufferCollector()
  zip.on('data', ({ length }: Buffer) => {
    count(length)
    collect(length)
  })
  const piped = pipeline(zip, zstd)
  // A failure reaches the reader of the stream.
  piped.catch(() => {})
  try {
    yield* recipients.length === 0 ? (zstd as OctetStream) : seal(zstd, recipients)
  } finally {
    zstd.destroy()
    await piped.catch(() => {})
  }
}

const SEALED = 'age-encryption.org/'
const ZSTD = '28b52ffd'
const ZIP = '504b0304'

/** Whether a file is a zip, which is read where it lies. */
export const isZip = (first: Uint8Array): boolean => Buffer.from(first.subarray(0, 4)).toString('hex') === ZIP

export interface Unpacking {
  /** Names the source in sentences. */
  shown: string
  /** Secret keys of age. */
  identities: readonly string[]
  room: Room
  /** What is known of it beside; undefined for a file alone. */
  manifest?: Manifest | undefined
}

/** Opens and unpacks an archive into a new zip file. Throws an OperatorError unless it is a whole archive. */
export async function unpackTo(file: string, octets: OctetStream, unpacking: Unpacking): Promise<void> {
  const source = new Octets(octets)
  try {
    const whole = opened(source, unpacking)
    await pipeline(Readable.from(bounded(whole, unpacking)), createWriteStream(file, { mode: 0o600, flags: 'wx' }))
  } catch (thrown) {
    if (thrown instanceof OperatorError || codeOf(thrown).startsWith('E')) throw explainedRead(thrown, file, unpacking)
    throw damaged(unpacking, codeOf(thrown) || messageOf(thrown))
  } finally {
    await source.close()
  }
}

const damaged = ({ shown }: Unpacking, why: string): OperatorError =>
  new OperatorError(
    `${shown} is damaged or no backup of Postrider (${why.replace(/[.\s]+$/, '')}); use another backup.`,
  )

function explainedRead(thrown: unknown, file: string, unpacking: Unpacking): unknown {
  const code = codeOf(thrown)
  if (thrown instanceof OperatorError || !/^E(?:NOSPC|DQUOT|ROFS|ACCES|FBIG)$/.test(code)) return thrown
  return new OperatorError(
    `${file} cannot take what is in ${unpacking.shown} (${code}); see that its disk has room. Nothing is wrong with the backup so far.`,
  )
}

/** The zip in an archive, whatever it is wrapped in. */
async function* opened(source: Octets, unpacking: Unpacking): OctetStream {
  const begin = await source.take(SEALED.length)
  const whole = join(begin, source)
  const isSealed = begin.toString('latin1') === SEALED
  const { manifest } = unpacking
  if (manifest && isSealed !== manifest.recipients.length > 0)
    throw damaged(unpacking, `it is ${isSealed ? '' : 'not '}sealed, and its manifest says otherwise`)
  if (!isSealed) return yield* unpackedOf(begin, whole, unpacking)
  if (unpacking.identities.length === 0)
    throw new OperatorError(
      `${unpacking.shown} is sealed; name the file with its secret key with --identity, or in "backup.identity_file".`,
    )
  const plain = new Octets(unseal(whole, unpacking.identities))
  try {
    const first = await plain.take(SEALED.length)
    yield* unpackedOf(first, join(first, plain), unpacking)
  } finally {
    await plain.close()
  }
}

async function* unpackedOf(begin: Buffer, whole: OctetStream, unpacking: Unpacking): OctetStream {
  if (isZip(begin)) return yield* whole
  if (!begin.toString('hex').startsWith(ZSTD)) throw damaged(unpacking, 'it is neither sealed nor packed as one')
  const zstd = createZstdDecompress({ chunkSize: UNPACKED, params: { [constants.ZSTD_d_windowLogMax]: MOST_WINDOW } })
  const piped = pipeline(Readable.from(whole), zstd)
  piped.catch(() => {})
  try {
    yield* zstd as OctetStream
  } finally {
    zstd.destroy()
    await piped.catch(() => {})
  }
}

/** What is unpacked comes in pieces of this size: each waits for a thread and for the disk. */
const UNPACKED = 512 * 1024
const PIECE = 64 * 1024

async function* join(begin: Uint8Array, rest: Octets): OctetStream {
  yield begin
  while (!(await rest.ended())) yield await rest.take(PIECE)
}

/** How often the disk is asked for its room. */
const ASKED = 16 * 1024 * 1024

/** The octets of a zip, as many as its manifest says and as the disk takes, with what is in it once more. */
async function* bounded(octets: OctetStream, unpacking: Unpacking): OctetStream {
  const { manifest, room, shown } = unpacking
  const most = manifest?.plain ?? Infinity
  let size = 0
  let next = 0
  const collect = bufferCollector()
  for await (const piece of octets) {
    if (size === 0 && !isZip(piece)) throw damaged(unpacking, 'there is no archive in it')
    size += piece.length
    collect(piece.length)
    if (size > most) throw damaged(unpacking, 'it holds more than its manifest says')
    if (size >= next) {
      if (leftIn(room) < size) throw noRoom(room, `${shown} holds more than that`)
      next = size + ASKED
    }
    yield piece
  }
  if (manifest && size !== most) throw damaged(unpacking, `it holds ${size} octets and its manifest says ${most}`)
}
