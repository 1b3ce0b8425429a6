// Reads PNG (W3C PNG, third edition) with its animation: chunk by chunk, each with its checksum. Only the chunks that
// say how the picture looks are kept: texts, times and Exif are not, nor is anything after the end.
import { crc32 } from 'node:zlib'
import { PictureOctets, type ReadPicture } from './octets.ts'

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')

/** The chunks that are kept beside those that the reader knows. */
const LOOKS = new Set(['tRNS', 'gAMA', 'cHRM', 'sRGB', 'iCCP', 'cICP', 'sBIT', 'bKGD', 'pHYs'])
/** The bit depths of each colour type. */
const DEPTHS: Record<number, readonly number[]> = {
  0: [1, 2, 4, 8, 16],
  2: [8, 16],
  3: [1, 2, 4, 8],
  4: [8, 16],
  6: [8, 16],
}
const PALETTE = 3

export const isPng = (bytes: Buffer): boolean => bytes.subarray(0, SIGNATURE.length).equals(SIGNATURE)

interface PngChunk {
  type: string
  data: Buffer
}

function nextChunk(octets: PictureOctets): PngChunk {
  const length = octets.take(4).readUInt32BE()
  const typeAt = octets.skip(4)
  const data = octets.take(length)
  const sum = crc32(octets.bytes.subarray(typeAt, octets.at))
  if (octets.take(4).readUInt32BE() !== sum) throw octets.fault('is damaged: a checksum does not fit')
  return { type: octets.bytes.toString('latin1', typeAt, typeAt + 4), data }
}

function headerOf(octets: PictureOctets, { data, type }: PngChunk): { width: number; height: number; colour: number } {
  if (type !== 'IHDR' || data.length !== 13) throw octets.fault('does not begin with its header')
  const [width, height] = [data.readUInt32BE(0), data.readUInt32BE(4)]
  const [depth, colour, compression, filter, interlace] = data.subarray(8) as unknown as [
    number,
    number,
    number,
    number,
    number,
  ]
  octets.checkSize(width, height)
  if (!DEPTHS[colour]?.includes(depth) || compression !== 0 || filter !== 0 || interlace > 1)
    throw octets.fault('has a header that no PNG may have')
  return { width, height, colour }
}

export function readPng(bytes: Buffer): ReadPicture {
  const octets = new PictureOctets(bytes, 'PNG')
  octets.skip(SIGNATURE.length)
  const header = headerOf(octets, nextChunk(octets))
  octets.keep(0)
  const seen = new Set<string>()
  let before = ''
  for (;;) {
    const from = octets.nextPart()
    const { data, type } = nextChunk(octets)
    const kept = checkChunk(octets, { type, data, before, seen, header })
    if (kept) octets.keep(from)
    seen.add(type)
    before = type
    if (type === 'IEND') return { width: header.width, height: header.height, octets: octets.whole() }
  }
}

interface ChunkAt extends PngChunk {
  before: string
  seen: ReadonlySet<string>
  header: ReturnType<typeof headerOf>
}

/** Whether a chunk is kept. Throws when it may not stand where it stands. */
function checkChunk(octets: PictureOctets, { before, data, header, seen, type }: ChunkAt): boolean {
  const order = (): Error => octets.fault(`has its parts in a wrong order (${type})`)
  switch (type) {
    case 'PLTE':
      if (seen.has('PLTE') || seen.has('IDAT') || data.length % 3 !== 0 || data.length > 768) throw order()
      return true
    case 'IDAT':
      if (seen.has('IDAT') && before !== 'IDAT') throw order()
      if (header.colour === PALETTE && !seen.has('PLTE')) throw octets.fault('has no palette')
      return true
    case 'acTL':
      if (seen.has('IDAT') || data.length !== 8) throw order()
      return true
    case 'fcTL':
      if (data.length !== 26 || !seen.has('acTL')) throw order()
      octets.checkFrame(
        {
          width: data.readUInt32BE(4),
          height: data.readUInt32BE(8),
          left: data.readUInt32BE(12),
          top: data.readUInt32BE(16),
        },
        header,
      )
      return true
    case 'fdAT':
      if (!seen.has('IDAT') || !seen.has('fcTL') || data.length < 4) throw order()
      return true
    case 'IEND':
      if (!seen.has('IDAT') || data.length > 0) throw order()
      return true
    default:
      // A chunk that nobody may leave out begins with a capital letter.
      if (!/^[a-z][A-Za-z]{3}$/.test(type)) throw octets.fault('has a part that no PNG has')
      return LOOKS.has(type)
  }
}
