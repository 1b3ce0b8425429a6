// Reads the dimensions of PNG, JPEG, GIF and WebP, and copies an image without its metadata: texts, Exif, XMP,
// thumbnails, and anything after the end, so that a file has only one type. Metadata that affects the display is kept.
import { ImageBytes, type ReadImage } from './bytes.ts'

/** Chunks of PNG (W3C PNG, third edition) that are stored: critical ones, colours, and the frames of an animation. */
const PNG_CHUNKS = /^(?:[A-Z][A-Za-z]{3}|tRNS|gAMA|cHRM|sRGB|iCCP|cICP|sBIT|bKGD|pHYs|acTL|fcTL|fdAT)$/

export function readPng(file: Buffer): ReadImage {
  const image = new ImageBytes(file, 'PNG')
  image.store(image.take(8))
  let size: { width: number; height: number } | undefined
  for (let data = false; ;) {
    const from = image.at
    const length = image.take(4).readUInt32BE()
    const name = image.take(4).toString('latin1')
    const content = image.take(length)
    image.take(4)
    if (size === undefined) {
      if (name !== 'IHDR' || length !== 13) throw image.error('does not start with its header')
      size = { width: content.readUInt32BE(0), height: content.readUInt32BE(4) }
    }
    if (PNG_CHUNKS.test(name)) image.storeFrom(from)
    data ||= name === 'IDAT'
    if (name === 'IEND') return image.done(data ? size : undefined)
  }
}

const [SOI, EOI, SOS, APP0, APP1, APP2, APP14] = [0xd8, 0xd9, 0xda, 0xe0, 0xe1, 0xe2, 0xee] as const
/** Baseline, extended and progressive: the compressions that browsers and email clients show. */
const FRAMES: readonly number[] = [0xc0, 0xc1, 0xc2]
/** Other compressions. The tables of Huffman codes (0xc4) are among their numbers. */
const isRare = (marker: number): boolean =>
  (marker >= 0xc3 && marker <= 0xcf && marker !== 0xc4) || [0xdc, 0xde, 0xdf].includes(marker)
/** Application segments that are stored, by their first bytes. */
const LOOKS: ReadonlyMap<number, string> = new Map([
  [APP0, 'JFIF'],
  [APP2, 'ICC_PROFILE'],
  [APP14, 'Adobe'],
])
const EXIF = 'Exif\0\0'

/** Reads JPEG (ITU-T T.81). Of Exif, it stores only the orientation. */
export function readJpeg(file: Buffer): ReadImage {
  const image = new ImageBytes(file, 'JPEG', 36)
  image.store(image.take(2))
  let size: { width: number; height: number } | undefined
  let orientation = 1
  for (let scanned = false; ;) {
    const from = image.at
    if (image.byte() !== 0xff) throw image.error('is corrupt')
    const marker = image.byte()
    if (marker === 0xff) {
      // Any number of these bytes can precede a marker.
      image.at = from + 1
      continue
    }
    if (marker === EOI) {
      image.storeFrom(from)
      const turned = orientation > 4 && size ? { width: size.height, height: size.width } : size
      return image.done(scanned ? turned : undefined)
    }
    if (marker <= 1 || (marker >= 0xd0 && marker <= SOI)) throw image.error('is corrupt')
    const segment = image.take(Math.max(image.take(2).readUInt16BE() - 2, 0))
    if (isRare(marker)) throw image.error('has a compression that email clients do not show; save it again')
    if (FRAMES.includes(marker)) {
      if (size || segment.length < 6) throw image.error('is corrupt')
      size = { height: segment.readUInt16BE(1), width: segment.readUInt16BE(3) }
    }
    if (marker === SOS) {
      scanned = true
      skipScan(image)
    }
    if (marker === APP1 && orientation === 1 && segment.toString('latin1', 0, EXIF.length) === EXIF) {
      orientation = readOrientation(segment.subarray(EXIF.length))
      if (orientation > 1) image.store(orientationSegment(orientation))
    }
    if (isStored(marker, segment)) image.storeFrom(from)
  }
}

/** Application segments and comments (0xfe) are stored only if they decide how the image looks. */
function isStored(marker: number, segment: Buffer): boolean {
  if (marker < APP0) return true
  const start = LOOKS.get(marker)
  return start !== undefined && segment.toString('latin1', 0, start.length) === start
}

/** Moves to the marker after compressed data, which can contain stuffed 0xff and restart markers. */
function skipScan(image: ImageBytes): void {
  for (;;) {
    const found = image.bytes.indexOf(0xff, image.at)
    image.take((found < 0 ? image.bytes.length : found) - image.at)
    const next = image.take(2).readUInt8(1)
    if (next !== 0 && next !== 0xff && (next < 0xd0 || next > 0xd7)) {
      image.at -= 2
      return
    }
    if (next === 0xff) image.at--
  }
}

/** The orientation in Exif (TIFF 6.0, tag 0x0112). Defaults to 1, upright. */
export function readOrientation(tiff: Buffer): number {
  const little = tiff.toString('latin1', 0, 2) === 'II'
  const short = (at: number): number =>
    at + 2 > tiff.length ? 0 : little ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at)
  // The directory starts at the offset of bytes 4 to 7, of which the two lower ones are enough for a segment.
  const first = short(little ? 4 : 6)
  for (let entry = 0; entry < short(first); entry++) {
    const at = first + 2 + entry * 12
    if (at + 12 > tiff.length) return 1
    if (short(at) !== 0x0112) continue
    const value = short(at + 8)
    return short(at + 2) === 3 && value >= 1 && value <= 8 ? value : 1
  }
  return 1
}

/** An Exif segment with only an orientation. */
const orientationSegment = (orientation: number): Buffer =>
  Buffer.from(
    `\xff\xe1\0\x22${EXIF}MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0${String.fromCharCode(orientation)}\0\0\0\0\0\0`,
    'latin1',
  )

const [EXTENSION, FRAME, TRAILER] = [0x21, 0x2c, 0x3b] as const
/** Extensions that are stored: frame times and transparency, and how often an animation repeats. */
const GIF_EXTENSIONS = ['\xf9\x04', '\xff\x0bNETSCAPE2.0\x03', '\xff\x0bANIMEXTS1.0\x03'] as const

/** Reads GIF (87a and 89a). */
export function readGif(file: Buffer): ReadImage {
  const image = new ImageBytes(file, 'GIF')
  const screen = image.take(13)
  image.take(gifTable(screen.readUInt8(10)))
  image.storeFrom(0)
  for (let frames = 0; ;) {
    const from = image.at
    const kind = image.byte()
    if (kind === EXTENSION) {
      skipBlocks(image, 1)
      const start = file.toString('latin1', from + 1, from + 15)
      if (GIF_EXTENSIONS.some((each) => start.startsWith(each))) image.storeFrom(from)
      continue
    }
    if (kind === FRAME) {
      frames++
      image.take(gifTable(image.take(9).readUInt8(8)))
      skipBlocks(image, 1)
    } else if (kind !== TRAILER) throw image.error('is corrupt')
    image.storeFrom(from)
    if (kind === TRAILER)
      return image.done(frames > 0 ? { width: screen.readUInt16LE(6), height: screen.readUInt16LE(8) } : undefined)
  }
}

/** The size of the colour table that follows these flags. */
const gifTable = (flags: number): number => (flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0)

/** Moves past some bytes and the blocks after them, up to the empty one. */
function skipBlocks(image: ImageBytes, before: number): void {
  image.take(before)
  while (image.take(image.byte()).length > 0);
}

/** Chunks of WebP (RFC 9649) that are stored. */
const WEBP_CHUNKS = /^(?:VP8X|ICCP|ANIM|ANMF|ALPH|VP8 |VP8L)$/
/** The flags of Exif and XMP in the header. */
const METADATA_FLAGS = 0x0c

export function readWebp(file: Buffer): ReadImage {
  const image = new ImageBytes(file, 'WebP')
  const end = image.take(12).readUInt32LE(4) + 8
  image.storeFrom(0)
  let size: { width: number; height: number } | undefined
  let shown = false
  while (image.at < end) {
    const from = image.at
    const name = image.take(4).toString('latin1')
    const length = image.take(4).readUInt32LE()
    const content = image.take(length)
    image.take(length % 2)
    size ??= webpSize(image, name, content)
    shown ||= name !== 'VP8X' && /^(?:ANMF|VP8.)$/.test(name)
    if (WEBP_CHUNKS.test(name)) image.storeFrom(from)
  }
  const { stored, ...found } = image.done(shown ? size : undefined)
  stored.writeUInt32LE(stored.length - 8, 4)
  if (stored.toString('latin1', 12, 16) === 'VP8X') stored.writeUInt8(stored.readUInt8(20) & ~METADATA_FLAGS, 20)
  return { ...found, stored }
}

/** The dimensions in the first chunk: those of the canvas, or of the only image (RFC 6386 §9.1). */
function webpSize(image: ImageBytes, name: string, content: Buffer): { width: number; height: number } {
  if (name === 'VP8X' && content.length === 10)
    return { width: content.readUIntLE(4, 3) + 1, height: content.readUIntLE(7, 3) + 1 }
  if (name === 'VP8 ' && content.length > 10 && content.readUIntBE(3, 3) === 0x9d012a)
    return { width: content.readUInt16LE(6) & 0x3fff, height: content.readUInt16LE(8) & 0x3fff }
  if (name === 'VP8L' && content.length > 5 && content[0] === 0x2f) {
    const bits = content.readUInt32LE(1)
    return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
  }
  throw image.error('is corrupt')
}
