// Reads JPEG (ITU-T T.81) segment by segment. Tables, scans, the colour profile and the kind of colours are kept; Exif,
// XMP, comments and thumbnails are not: they say where and by whom a photo was taken. Which side of a photo is up is
// kept, in an Exif segment of our own. What follows the end marker is not kept either.
import { PictureOctets, type ReadPicture } from './octets.ts'

const [TEM, SOI, EOI, SOS, COM] = [0x01, 0xd8, 0xd9, 0xda, 0xfe] as const
const [APP0, APP1, APP2, APP14, APP15] = [0xe0, 0xe1, 0xe2, 0xee, 0xef] as const
/** Tables of quantisation, of Huffman codes, and the interval of restarts. */
const TABLES: readonly number[] = [0xdb, 0xc4, 0xdd]
/** Baseline, extended and progressive: what browsers and mail programs show. */
const FRAMES: readonly number[] = [0xc0, 0xc1, 0xc2]
/** Segments of other kinds of JPEG. */
const RARE: readonly number[] = [0xdc, 0xde, 0xdf]
const MOST_SCANS = 100
const EXIF = 'Exif\0\0'
const JFIF = 'JFIF\0'
const ICC = 'ICC_PROFILE\0'
/** Segments of programs that say how the picture looks, by what they begin with. */
const LOOKS: ReadonlyMap<number, string> = new Map([
  [APP0, JFIF],
  [APP2, ICC],
  [APP14, 'Adobe'],
])

export const isJpeg = (bytes: Buffer): boolean => bytes[0] === 0xff && bytes[1] === SOI && bytes[2] === 0xff

/** An Exif segment with nothing but the orientation of a photo, 2 to 8. */
const orientationSegment = (orientation: number): Buffer =>
  Buffer.from(
    `\xff\xe1\0\x22${EXIF}MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0${String.fromCharCode(orientation)}\0\0\0\0\0\0`,
    'latin1',
  )

/** The orientation in an Exif segment (TIFF 6.0, tag 0x0112); 1, which is upright, when there is none. */
export function readOrientation(segment: Buffer): number {
  const tiff = segment.subarray(EXIF.length)
  if (tiff.length < 14) return 1
  const little = tiff.toString('latin1', 0, 2) === 'II'
  const short = (at: number): number =>
    at + 2 > tiff.length ? 0 : little ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at)
  const first = little ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4)
  for (let entry = 0; entry < short(first); entry++) {
    const at = first + 2 + entry * 12
    if (at + 12 > tiff.length) return 1
    if (short(at) !== 0x0112) continue
    const value = short(at + 8)
    return short(at + 2) === 3 && value >= 1 && value <= 8 ? value : 1
  }
  return 1
}

interface JpegSoFar {
  size: { width: number; height: number } | undefined
  scans: number
  orientation: number
}

export function readJpeg(bytes: Buffer): ReadPicture {
  const octets = new PictureOctets(bytes, 'JPEG')
  octets.skip(2)
  octets.keep(0)
  const soFar: JpegSoFar = { size: undefined, scans: 0, orientation: 1 }
  for (;;) {
    const from = octets.nextPart()
    const marker = nextMarker(octets)
    if (marker === EOI) {
      const { orientation, scans, size } = soFar
      if (!size || scans === 0) throw octets.fault('holds no picture')
      octets.keep(octets.at - 2)
      const turned = orientation > 4 ? { width: size.height, height: size.width } : size
      return { ...turned, octets: octets.whole() }
    }
    if (marker === TEM || (marker >= 0xd0 && marker <= SOI)) throw octets.fault('is damaged')
    const segment = octets.take(Math.max(octets.take(2).readUInt16BE() - 2, 0))
    if (readSegment(octets, marker, segment, soFar)) octets.keep(from)
  }
}

/** The next marker, which any number of 0xff may precede. */
function nextMarker(octets: PictureOctets): number {
  if (octets.byte() !== 0xff) throw octets.fault('is damaged')
  let marker = octets.byte()
  while (marker === 0xff) marker = octets.byte()
  return marker
}

/** Reads a segment; whether it is kept as it is. Throws when it may not stand here. */
function readSegment(octets: PictureOctets, marker: number, segment: Buffer, soFar: JpegSoFar): boolean {
  if (FRAMES.includes(marker)) {
    if (soFar.size) throw octets.fault('holds more than one picture')
    soFar.size = readFrame(octets, segment)
    return true
  }
  if (marker === SOS) {
    if (!soFar.size) throw octets.fault('has its parts in a wrong order')
    if (++soFar.scans > MOST_SCANS) throw octets.fault(`has more than ${MOST_SCANS} scans`)
    skipScan(octets)
    return true
  }
  if (TABLES.includes(marker)) return true
  if (marker === APP1) {
    if (!segment.toString('latin1', 0, EXIF.length).startsWith(EXIF) || soFar.orientation > 1) return false
    soFar.orientation = readOrientation(segment)
    if (soFar.orientation > 1) octets.add(orientationSegment(soFar.orientation))
    return false
  }
  if ((marker >= APP0 && marker <= APP15) || marker === COM) {
    const begins = LOOKS.get(marker)
    return begins !== undefined && segment.toString('latin1', 0, begins.length) === begins
  }
  const rare = (marker >= 0xc3 && marker <= 0xcf) || RARE.includes(marker)
  throw octets.fault(rare ? 'is compressed in a way that mail programs do not show: save it again' : 'is damaged')
}

function readFrame(octets: PictureOctets, segment: Buffer): { width: number; height: number } {
  const [precision, components] = [segment[0], segment[5] ?? 0]
  if (segment.length !== 6 + components * 3 || ![1, 3, 4].includes(components) || precision !== 8)
    throw octets.fault('has a header that mail programs do not show: save it again')
  const size = { height: segment.readUInt16BE(1), width: segment.readUInt16BE(3) }
  octets.checkSize(size.width, size.height)
  return size
}

/** Moves over the compressed octets of a scan, to the marker after them. */
function skipScan(octets: PictureOctets): void {
  const { at: from, bytes } = octets
  let at = from
  for (; at < bytes.length; at++) {
    if (bytes[at] !== 0xff) continue
    const next = bytes[at + 1] ?? 0
    // A stuffed 0xff, the marks at which a decoder begins again, and filling.
    if (next !== 0 && next !== 0xff && (next < 0xd0 || next > 0xd7)) break
  }
  octets.skip(at - from)
}
