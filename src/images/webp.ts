// Reads WebP (RFC 9649) chunk by chunk. The picture, its frames, transparency and colour profile are kept; Exif, XMP
// and unknown chunks are not, nor is anything after the end.
import { PictureOctets, type ReadPicture } from './octets.ts'

const HEAD = 12
/** Chunks of the extended form that say how the picture looks. */
const LOOKS = new Set(['ICCP', 'ANIM', 'ANMF', 'ALPH', 'VP8 ', 'VP8L'])
/** The flags of the extended form that say that there is Exif or XMP, and that it moves. */
const [TELLS_MORE, MOVES] = [0x0c, 0x02] as const

export const isWebp = (bytes: Buffer): boolean =>
  bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, HEAD) === 'WEBP'

interface WebpSize {
  width: number
  height: number
}
interface WebpChunk {
  name: string
  data: Buffer
}

function nextChunk(octets: PictureOctets): WebpChunk {
  const name = octets.take(4).toString('latin1')
  const length = octets.take(4).readUInt32LE()
  const data = octets.take(length)
  if (length % 2 === 1) octets.skip(1)
  return { name, data }
}

export function readWebp(bytes: Buffer): ReadPicture {
  const octets = new PictureOctets(bytes, 'WebP')
  octets.skip(HEAD)
  const length = bytes.readUInt32LE(4)
  octets.endAt(8 + length)
  const first = nextChunk(octets)
  const extended = first.name === 'VP8X'
  const size = extended ? canvasOf(octets, first.data) : frameSize(octets, first)
  octets.checkSize(size.width, size.height)
  if (extended) octets.add(withoutMore(bytes.subarray(HEAD, octets.at)))
  else octets.keep(HEAD)
  if (extended) readChunks(octets, size, ((first.data[0] ?? 0) & MOVES) !== 0)
  const kept = octets.whole()
  const head = Buffer.from(bytes.subarray(0, HEAD))
  head.writeUInt32LE(kept.length + 4, 4)
  return { ...size, octets: Buffer.concat([head, kept]) }
}

/** The first chunk of the extended form, without the flags of what is not kept. */
function withoutMore(chunk: Buffer): Buffer {
  const copy = Buffer.from(chunk)
  copy[8] = (copy[8] ?? 0) & ~TELLS_MORE
  return copy
}

function canvasOf(octets: PictureOctets, data: Buffer): WebpSize {
  if (data.length !== 10) throw octets.fault('has a header that no WebP may have')
  return { width: data.readUIntLE(4, 3) + 1, height: data.readUIntLE(7, 3) + 1 }
}

/** Reads the chunks after the first of the extended form, and keeps those that say how the picture looks. */
function readChunks(octets: PictureOctets, size: WebpSize, moves: boolean): void {
  let pictures = 0
  while (!octets.atEnd) {
    const from = octets.nextPart()
    const chunk = nextChunk(octets)
    const { data, name } = chunk
    if (name === 'ANMF') {
      if (!moves) throw octets.fault('has frames, and says that it has none')
      readFrame(octets, data, size)
      pictures++
    } else if (name === 'VP8 ' || name === 'VP8L') {
      const { height, width } = frameSize(octets, chunk)
      if (moves || pictures > 0 || width !== size.width || height !== size.height)
        throw octets.fault('holds another picture than it says')
      pictures++
    } else if (name === 'ANIM' && data.length !== 6) throw octets.fault('is damaged')
    if (LOOKS.has(name)) octets.keep(from)
  }
  if (pictures === 0) throw octets.fault('holds no picture')
}

/** The size of the picture in a chunk. Throws when the chunk holds none. */
function frameSize(octets: PictureOctets, { data, name }: WebpChunk): WebpSize {
  if (name === 'VP8 ' && data.length > 10) {
    const tag = data.readUIntLE(0, 3)
    // A key frame, whose first part lies in the chunk (RFC 6386 §9.1).
    if ((tag & 1) === 0 && data.readUIntBE(3, 3) === 0x9d012a && tag >>> 5 <= data.length - 10)
      return { width: data.readUInt16LE(6) & 0x3fff, height: data.readUInt16LE(8) & 0x3fff }
  }
  if (name === 'VP8L' && data.length > 5) {
    const bits = data.readUInt32LE(1)
    if (data[0] === 0x2f && bits >>> 29 === 0)
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
  }
  throw octets.fault('is damaged')
}

/** A frame: where it stands, and chunks of its own. */
function readFrame(outer: PictureOctets, data: Buffer, size: WebpSize): void {
  if (data.length < 16) throw outer.fault('is damaged')
  const [left, top, width, height] = [0, 3, 6, 9].map((at) => data.readUIntLE(at, 3)) as [
    number,
    number,
    number,
    number,
  ]
  const frame = { left: left * 2, top: top * 2, width: width + 1, height: height + 1 }
  outer.checkFrame(frame, size)
  const octets = new PictureOctets(data, 'WebP')
  octets.skip(16)
  let chunk = nextChunk(octets)
  if (chunk.name === 'ALPH') chunk = nextChunk(octets)
  const shown = frameSize(octets, chunk)
  if (shown.width !== frame.width || shown.height !== frame.height || !octets.atEnd)
    throw outer.fault('has a frame of another size than it says')
}
