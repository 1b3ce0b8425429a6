// Pictures by their octets: what usual programs write is taken, and stored without what says more than the picture
// shows; everything else is refused with the reason (D141).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import { BadPicture } from '../../src/images/octets.ts'
import { readPicture } from '../../src/images/read.ts'
import { PICTURES } from './pictures.ts'

const names = Object.keys(PICTURES) as (keyof typeof PICTURES)[]
const latin1 = (bytes: Buffer): string => bytes.toString('latin1')
const join = (...parts: (Buffer | string)[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part)))
const chunk = (type: string, data: Buffer | string = ''): Buffer => {
  const body = join(type, data)
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(body.length - 4)
  sum.writeUInt32BE(crc32(body))
  return join(length, body, sum)
}
/** The chunks of the PNG of a test, by name. */
function chunksOf(png: Buffer): [type: string, whole: Buffer][] {
  const found: [string, Buffer][] = []
  for (let at = 8; at < png.length;) {
    const end = at + 12 + png.readUInt32BE(at)
    found.push([latin1(png.subarray(at + 4, at + 8)), png.subarray(at, end)])
    at = end
  }
  return found
}
const SIGNATURE = PICTURES.png.subarray(0, 8)
const png = (...chunks: Buffer[]): Buffer => join(SIGNATURE, ...chunks)
const [, IDAT] = chunksOf(PICTURES.png).find(([type]) => type === 'IDAT')!
const header = (width: number, height: number, rest = '\x08\x02\0\0\0'): Buffer => {
  const size = Buffer.alloc(8)
  size.writeUInt32BE(width, 0)
  size.writeUInt32BE(height, 4)
  return chunk('IHDR', join(size, rest))
}
/** The bytes of a picture with some changed. */
const changed = (bytes: Buffer, change: (copy: Buffer) => unknown): Buffer => {
  const copy = Buffer.from(bytes)
  change(copy)
  return copy
}
const refusal = (bytes: Buffer): string => {
  try {
    const { height, octets, width } = readPicture(bytes)
    return `taken: ${width} by ${height}, ${octets.length} octets`
  } catch (thrown) {
    assert.ok(thrown instanceof BadPicture, String(thrown))
    return thrown.message
  }
}

test('what usual programs write is taken, with its size', () => {
  for (const name of names) {
    const { height, octets, type, width } = readPicture(PICTURES[name])
    // This photo lies on its side (Exif orientation 6).
    assert.deepEqual([width, height], name === 'jpegPhoto' ? [8, 12] : [12, 8], name)
    assert.equal(type, `image/${/^(?:png|jpeg|gif|webp)/.exec(name)![0]}`)
    assert.deepEqual(readPicture(octets), { width, height, octets, type }, `${name} read once more`)
  }
})

test('what shows nothing is not stored: texts, comments, places, programs', () => {
  for (const name of names) assert.doesNotMatch(latin1(readPicture(PICTURES[name]).octets), /Ann|Camera|script/i, name)
  for (const name of ['pngTexts', 'jpegPhoto', 'gifMoving', 'webpPhoto'] as const)
    assert.ok(readPicture(PICTURES[name]).octets.length < PICTURES[name].length, name)
  for (const name of ['png', 'pngMoving', 'jpeg', 'jpegProgressive', 'gif', 'webp', 'webpMoving'] as const)
    assert.deepEqual(readPicture(PICTURES[name]).octets, PICTURES[name], name)
})

test('which side of a photo is up stays, alone in its Exif', () => {
  const { octets } = readPicture(PICTURES.jpegPhoto)
  assert.ok(
    latin1(octets).includes('\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0'),
  )
  assert.doesNotMatch(latin1(readPicture(PICTURES.webpPhoto).octets), /EXIF|XMP /)
})

test('what comes after the end is not stored, so that no file is two kinds at once', () => {
  for (const name of names)
    for (const tail of ['<html><script>alert(1)</script>', 'PK\x03\x04\x14\0\0\0', '%PDF-1.7', '\0', '\xff\xd9'])
      assert.deepEqual(
        readPicture(join(PICTURES[name], tail)).octets,
        readPicture(PICTURES[name]).octets,
        `${name} and ${JSON.stringify(tail)}`,
      )
})

test('a picture that is cut off is refused, wherever it is cut', () => {
  for (const name of names)
    for (let length = 12; length < PICTURES[name].length; length++)
      assert.match(
        refusal(PICTURES[name].subarray(0, length)),
        /^is (?:a \w+ that (?:is cut off: save it again|is damaged|holds)|not PNG)/,
        `${name} at ${length}`,
      )
})

test('what is not a picture is refused, with what to do', () => {
  const cases: [Buffer | string, RegExp][] = [
    ['', /^is empty$/],
    ['<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', /^is SVG.*save it as PNG$/],
    ['<?xml version="1.0"?>\n<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN">\n<svg>', /^is SVG/],
    ['<html>', /^is not PNG, JPEG, GIF or WebP/],
    ['\0\0\0\x18ftypheic\0\0\0\0', /^is HEIC or AVIF.*save it as JPEG$/],
    ['\0\0\0\x18ftypavif\0\0\0\0', /^is HEIC or AVIF/],
    ['BM\0\0\0\0', /^is not PNG/],
    ['%PDF-1.7', /^is not PNG/],
    ['RIFF\x24\0\0\0WAVEfmt ', /^is not PNG/],
    ['GIF88a', /^is not PNG/],
    [join('<html>', PICTURES.png), /^is not PNG/],
  ]
  for (const [given, words] of cases) assert.match(refusal(join(given)), words, JSON.stringify(given).slice(0, 80))
})

test('the size of a picture has a bound on each side and in all, before anything else is read', () => {
  const cases: [Buffer, RegExp][] = [
    [png(header(8001, 1)), /is 8001 by 1 pixels; at most 8000 on a side/],
    [png(header(1, 8001)), /is 1 by 8001 pixels/],
    [png(header(7000, 7000)), /is 7000 by 7000 pixels.* 40 million in all/],
    [png(header(0xffffffff, 0xffffffff)), /pixels/],
    [png(header(0, 8)), /has no width or no height/],
    [png(header(8000, 5000), IDAT, chunk('IEND')), /^taken: 8000 by 5000/],
    [changed(PICTURES.gif, (copy) => copy.writeUInt16LE(65_535, 6)), /is 65535 by 8 pixels/],
    [changed(PICTURES.gif, (copy) => copy.writeUInt16LE(0, 8)), /has no width or no height/],
    [changed(PICTURES.webpPhoto, (copy) => copy.writeUIntLE(0xfffffe, 24, 3)), /is 16777215 by 8 pixels/],
    [changed(PICTURES.jpeg, (copy) => copy.writeUInt16BE(9000, sof(copy) + 5)), /is 12 by 9000 pixels/],
    [changed(PICTURES.jpeg, (copy) => copy.writeUInt16BE(0, sof(copy) + 5)), /has no width or no height/],
  ]
  for (const [given, words] of cases) assert.match(refusal(given), words)
})

const sof = (jpeg: Buffer): number => jpeg.indexOf(Buffer.from([0xff, 0xc0]))

test('a PNG is whole: its parts, their order and their checksums', () => {
  const end = chunk('IEND')
  const control = chunk('acTL', '\0\0\0\x02\0\0\0\0')
  const frame = (width: number, height: number, left = 0): Buffer => {
    const data = Buffer.alloc(26)
    for (const [at, value] of [0, width, height, left].entries()) data.writeUInt32BE(value, at * 4)
    return chunk('fcTL', data)
  }
  const cases: [Buffer, RegExp][] = [
    [png(header(12, 8), IDAT, end), /^taken/],
    [changed(PICTURES.png, (copy) => copy.writeUInt8(copy.readUInt8(50) ^ 1, 50)), /is damaged: a checksum/],
    [png(IDAT, end), /does not begin with its header/],
    [png(header(12, 8), end), /wrong order/],
    [png(header(12, 8), IDAT, chunk('tIME', '1234567'), IDAT, end), /wrong order/],
    [png(header(12, 8), header(12, 8), IDAT, end), /a part that no PNG has/],
    [png(header(12, 8), chunk('EVIL', 'x'), IDAT, end), /a part that no PNG has/],
    [png(header(12, 8), chunk('PLTE', 'abcd'), IDAT, end), /wrong order/],
    [png(header(12, 8), IDAT, chunk('IEND', '<script>')), /wrong order/],
    [png(header(12, 8, '\x08\x03\0\0\0'), IDAT, end), /has no palette/],
    [png(header(12, 8, '\x03\x02\0\0\0'), IDAT, end), /a header that no PNG may have/],
    [png(header(12, 8, '\x08\x02\0\0\x02'), IDAT, end), /a header that no PNG may have/],
    [png(header(12, 8), control, frame(12, 8), IDAT, end), /^taken/],
    [png(header(12, 8), control, frame(13, 8), IDAT, end), /lies outside of the picture/],
    [png(header(12, 8), control, frame(12, 8, 0xffffffff), IDAT, end), /lies outside of the picture/],
    [png(header(12, 8), control, frame(0, 8), IDAT, end), /without width or height/],
    [png(header(12, 8), frame(12, 8), IDAT, end), /wrong order/],
    [png(header(12, 8), control, ...Array<Buffer>(1001).fill(frame(1, 1)), IDAT, end), /more than 1000 frames/],
    [png(header(12, 8), ...Array<Buffer>(20_001).fill(IDAT), end), /too many parts/],
    [png(header(8000, 5000), control, ...Array<Buffer>(11).fill(frame(8000, 5000)), IDAT, end), /too many pixels/],
  ]
  for (const [given, words] of cases) assert.match(refusal(given), words)
  // A chunk that says how the picture looks stays, wherever it stands; a private one does not.
  const { octets } = readPicture(png(header(12, 8), chunk('gAMA', '\0\0\xb1\x8f'), chunk('prVt', 'x'), IDAT, end))
  assert.deepEqual(octets, png(header(12, 8), chunk('gAMA', '\0\0\xb1\x8f'), IDAT, end))
})

test('a JPEG is one picture, of a kind that is shown everywhere', () => {
  const segment = (marker: number, data: string): string =>
    `\xff${String.fromCharCode(marker)}${String.fromCharCode((data.length + 2) >> 8, (data.length + 2) & 0xff)}${data}`
  const after = (more: string): Buffer => join('\xff\xd8', more, PICTURES.jpeg.subarray(2))
  const frame = '\x08\0\x08\0\x0c\x03\x01\x22\0\x02\x11\x01\x03\x11\x01'
  const scans = '\xff\xda\0\x0c\x03\x01\0\x02\x11\x03\x11\0\x3f\0x'.repeat(101)
  const cases: [Buffer, RegExp][] = [
    [after(segment(0xc0, frame)), /more than one picture/],
    [after(segment(0xc3, frame)), /a way that mail programs do not show/],
    [after(segment(0xc9, frame)), /a way that mail programs do not show/],
    [after(segment(0xdc, '\0\x08')), /a way that mail programs do not show/],
    [after('\xff\xd8'), /is damaged/],
    [after(`${segment(0xfe, 'x')}<script>`), /is damaged/],
    [after(segment(0xc0, frame.replace('\x08', '\x0c'))), /a header that mail programs do not show/],
    [join('\xff\xd8\xff\xd9'), /holds no picture/],
    [join('\xff\xd8', segment(0xda, ''), 'x\xff\xd9'), /wrong order/],
    [join('\xff\xd8', segment(0xc0, frame), scans, '\xff\xd9'), /more than 100 scans/],
    [after(`\xff\xff\xff${segment(0xfe, '<script>').slice(1)}`), /^taken: 12 by 8, 650/],
    [after(segment(0xe5, 'x') + segment(0xe0, 'JFXX\0thumbnail') + segment(0xe2, 'MPF\0x')), /^taken: 12 by 8, 650/],
    [after(segment(0xe2, 'ICC_PROFILE\0\x01\x01x')), /^taken: 12 by 8, 669/],
  ]
  for (const [given, words] of cases) assert.match(refusal(given), words)
  // Whatever stands in Exif, an orientation is 1 to 8, and is looked for within the segment.
  for (const tiff of [
    'II*\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff',
    'MM\0*\0\0\0\x08\xff\xff\x01\x12\0\x03\0\0\0\x01\0\x09\0\0',
    'MM\0*\0\0\0\x08\0\x01\x01\x12\0\x04\0\0\0\x01\0\x06\0\0',
    '',
  ])
    assert.match(refusal(after(segment(0xe1, `Exif\0\0${tiff}`))), /^taken: 12 by 8, 650/)
  const little = 'II*\0\x08\0\0\0\x02\0\x0f\x01\x02\0\x01\0\0\0A\0\0\0\x12\x01\x03\0\x01\0\0\0\x08\0\0\0'
  assert.match(refusal(after(segment(0xe1, `Exif\0\0${little}`))), /^taken: 8 by 12, 686/)
})

test('a GIF has frames within it, and an end', () => {
  const at = PICTURES.gif.indexOf(',\0\0\0\0')
  const cases: [Buffer, RegExp][] = [
    [changed(PICTURES.gif, (copy) => copy.writeUInt16LE(1, at + 1)), /lies outside of the picture/],
    [changed(PICTURES.gif, (copy) => copy.writeUInt16LE(0, at + 5)), /without width or height/],
    [join(PICTURES.gif.subarray(0, at), ';'), /holds no picture/],
    [join(PICTURES.gif.subarray(0, at), '<script>'), /is damaged/],
    [join(PICTURES.gif.subarray(0, at + 10), '\x0c\x01x\0;'), /is damaged/],
    [join(PICTURES.gif.subarray(0, at + 10), '\x02\0;'), /has an empty frame/],
    [join(PICTURES.gif.subarray(0, at), '!\xf9\x02xx\0', PICTURES.gif.subarray(at)), /is damaged/],
    [join(PICTURES.gif.subarray(0, at), '!\xfe\x08<script>\0', PICTURES.gif.subarray(at)), /^taken: 12 by 8, 131/],
    [join(PICTURES.gif.subarray(0, at), '!\xff\x0bXMP DataXMP\x03x<>\0', PICTURES.gif.subarray(at)), /^taken: .* 131/],
    [
      join(PICTURES.gif.subarray(0, at), '!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0', PICTURES.gif.subarray(at)),
      /^taken: .* 150/,
    ],
  ]
  for (const [given, words] of cases) assert.match(refusal(given), words)
})

test('a WebP holds the picture that it says, and its frames lie within it', () => {
  const frame = PICTURES.webpMoving.indexOf('ANMF')
  const cases: [Buffer, RegExp][] = [
    [changed(PICTURES.webp, (copy) => copy.writeUInt32LE(0xffffffff, 4)), /is cut off/],
    [changed(PICTURES.webp, (copy) => copy.writeUInt8(0x9e, 23)), /is damaged/],
    [changed(PICTURES.webp, (copy) => copy.writeUInt8(copy.readUInt8(20) | 1, 20)), /is damaged/],
    [changed(PICTURES.webpLossless, (copy) => copy.writeUInt8(0x2e, 20)), /is damaged/],
    [changed(PICTURES.webpPhoto, (copy) => copy.writeUInt8(20, 24)), /holds another picture than it says/],
    [changed(PICTURES.webpMoving, (copy) => copy.writeUInt8(1, frame + 8)), /lies outside of the picture/],
    [changed(PICTURES.webpMoving, (copy) => copy.writeUInt8(5, frame + 14)), /of another size than it says/],
    [changed(PICTURES.webpMoving, (copy) => copy.writeUInt8(0, 20)), /has frames, and says that it has none/],
    [join('RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x0b\0\0\x07\0\0'), /holds no picture/],
  ]
  for (const [given, words] of cases) assert.match(refusal(given), words)
})
