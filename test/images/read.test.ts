// Tests images by their bytes: files of common applications are accepted and stored without hidden data, and others are
// rejected with a reason (D141).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import { BadImage } from '../../src/images/bytes.ts'
import { readImage } from '../../src/images/read.ts'
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
/** The bytes of an image with some of them changed. */
const changed = (bytes: Buffer, change: (copy: Buffer) => unknown): Buffer => {
  const copy = Buffer.from(bytes)
  change(copy)
  return copy
}
const refusal = (bytes: Buffer): string => {
  try {
    const { height, stored, width } = readImage(bytes)
    return `accepted: ${width} by ${height}, ${stored.length} bytes`
  } catch (thrown) {
    assert.ok(thrown instanceof BadImage, String(thrown))
    return thrown.message
  }
}

test('accepts images of common programs and reads their size', () => {
  for (const name of names) {
    const { height, stored, type, width } = readImage(PICTURES[name])
    // This photo lies on its side (Exif orientation 6).
    assert.deepEqual([width, height], name === 'jpegPhoto' ? [8, 12] : [12, 8], name)
    assert.equal(type, `image/${/^(?:png|jpeg|gif|webp)/.exec(name)![0]}`)
    assert.deepEqual(readImage(stored), { width, height, stored, type }, `${name} read once more`)
  }
})

test('removes texts, comments, locations and program names', () => {
  for (const name of names) assert.doesNotMatch(latin1(readImage(PICTURES[name]).stored), /Ann|Camera|script/i, name)
  for (const name of ['pngTexts', 'jpegPhoto', 'gifMoving', 'webpPhoto'] as const)
    assert.ok(readImage(PICTURES[name]).stored.length < PICTURES[name].length, name)
  for (const name of ['png', 'pngMoving', 'jpeg', 'jpegProgressive', 'gif', 'webp', 'webpMoving'] as const)
    assert.deepEqual(readImage(PICTURES[name]).stored, PICTURES[name], name)
})

test('keeps only the orientation of the Exif data', () => {
  const { stored } = readImage(PICTURES.jpegPhoto)
  assert.ok(
    latin1(stored).includes('\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0'),
  )
  assert.doesNotMatch(latin1(readImage(PICTURES.webpPhoto).stored), /EXIF|XMP /)
})

test('removes data after the end, so that no file has two types', () => {
  for (const name of names)
    for (const tail of ['<html><script>alert(1)</script>', 'PK\x03\x04\x14\0\0\0', '%PDF-1.7', '\0', '\xff\xd9'])
      assert.deepEqual(
        readImage(join(PICTURES[name], tail)).stored,
        readImage(PICTURES[name]).stored,
        `${name} and ${JSON.stringify(tail)}`,
      )
})

test('rejects an image truncated at any byte', () => {
  for (const name of names)
    for (let length = 12; length < PICTURES[name].length; length++)
      assert.match(
        refusal(PICTURES[name].subarray(0, length)),
        /^is (?:a \w+ that (?:is truncated; upload|is corrupt|contains)|not PNG)/,
        `${name} at ${length}`,
      )
})

test('rejects files that are not images, with a fix', () => {
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

test('limits width, height and pixels', () => {
  const sized = (width: number, height: number): Buffer => png(header(width, height), IDAT, chunk('IEND'))
  const cases: [Buffer, RegExp][] = [
    [sized(8001, 1), /is 8001 by 1 pixels; the limit is 8000 per side/],
    [sized(1, 8001), /is 1 by 8001 pixels/],
    [sized(7000, 7000), /is 7000 by 7000 pixels.* 40 million in total/],
    [sized(0xffffffff, 0xffffffff), /pixels/],
    [sized(0, 8), /has no width or height/],
    [sized(8000, 5000), /^accepted: 8000 by 5000/],
    [changed(PICTURES.gif, (copy) => copy.writeUInt16LE(65_535, 6)), /is 65535 by 8 pixels/],
    [changed(PICTURES.gif, (copy) => copy.writeUInt16LE(0, 8)), /has no width or height/],
    [changed(PICTURES.webpPhoto, (copy) => copy.writeUIntLE(0xfffffe, 24, 3)), /is 16777215 by 8 pixels/],
    [changed(PICTURES.jpeg, (copy) => copy.writeUInt16BE(9000, sof(copy) + 5)), /is 12 by 9000 pixels/],
    [changed(PICTURES.jpeg, (copy) => copy.writeUInt16BE(0, sof(copy) + 5)), /has no width or height/],
  ]
  for (const [given, words] of cases) assert.match(refusal(given), words)
})

const sof = (jpeg: Buffer): number => jpeg.indexOf(Buffer.from([0xff, 0xc0]))

test('stores only the chunks of a PNG that decide how it looks', () => {
  const end = chunk('IEND')
  const gamma = chunk('gAMA', '\0\0\xb1\x8f')
  assert.deepEqual(
    readImage(png(header(12, 8), gamma, chunk('prVt', 'x'), chunk('tIME', '1234567'), IDAT, end)).stored,
    png(header(12, 8), gamma, IDAT, end),
  )
  assert.match(refusal(png(IDAT, end)), /does not start with its header/)
  assert.match(refusal(png(header(12, 8), end)), /contains no image/)
})

test('stores only the segments of a JPEG that decide how it looks', () => {
  const segment = (marker: number, data: string): string =>
    `\xff${String.fromCharCode(marker)}${String.fromCharCode((data.length + 2) >> 8, (data.length + 2) & 0xff)}${data}`
  const after = (more: string): Buffer => join('\xff\xd8', more, PICTURES.jpeg.subarray(2))
  const frame = '\x08\0\x08\0\x0c\x03\x01\x22\0\x02\x11\x01\x03\x11\x01'
  const cases: [Buffer, RegExp][] = [
    [after(segment(0xc0, frame)), /is corrupt/],
    [after(segment(0xc3, frame)), /a compression that email clients do not show/],
    [after(segment(0xc9, frame)), /a compression that email clients do not show/],
    [after(segment(0xdc, '\0\x08')), /a compression that email clients do not show/],
    [after('\xff\xd8'), /is corrupt/],
    [after(`${segment(0xfe, 'x')}<script>`), /is corrupt/],
    [join('\xff\xd8\xff\xd9'), /contains no image/],
    [after(`\xff\xff\xff${segment(0xfe, '<script>').slice(1)}`), /^accepted: 12 by 8, 650/],
    [after(segment(0xe5, 'x') + segment(0xe0, 'JFXX\0thumbnail') + segment(0xe2, 'MPF\0x')), /^accepted: 12 by 8, 650/],
    [after(segment(0xe2, 'ICC_PROFILE\0\x01\x01x')), /^accepted: 12 by 8, 669/],
  ]
  for (const [given, words] of cases) assert.match(refusal(given), words)
  // For any Exif content, an orientation is 1 to 8, and is read within the segment.
  for (const tiff of [
    'II*\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff',
    'MM\0*\0\0\0\x08\xff\xff\x01\x12\0\x03\0\0\0\x01\0\x09\0\0',
    'MM\0*\0\0\0\x08\0\x01\x01\x12\0\x04\0\0\0\x01\0\x06\0\0',
    '',
  ])
    assert.match(refusal(after(segment(0xe1, `Exif\0\0${tiff}`))), /^accepted: 12 by 8, 650/)
  const little = 'II*\0\x08\0\0\0\x02\0\x0f\x01\x02\0\x01\0\0\0A\0\0\0\x12\x01\x03\0\x01\0\0\0\x08\0\0\0'
  assert.match(refusal(after(segment(0xe1, `Exif\0\0${little}`))), /^accepted: 8 by 12, 686/)
})

test('stores only the extensions of a GIF that decide how it looks', () => {
  const at = PICTURES.gif.indexOf(',\0\0\0\0')
  const before = (more: string): Buffer => join(PICTURES.gif.subarray(0, at), more, PICTURES.gif.subarray(at))
  const cases: [Buffer, RegExp][] = [
    [join(PICTURES.gif.subarray(0, at), ';'), /contains no image/],
    [join(PICTURES.gif.subarray(0, at), '<script>'), /is corrupt/],
    [before('!\xfe\x08<script>\0'), /^accepted: 12 by 8, 131/],
    [before('!\xff\x0bXMP DataXMP\x03x<>\0'), /^accepted: .* 131/],
    [before('!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0'), /^accepted: .* 150/],
  ]
  for (const [given, words] of cases) assert.match(refusal(given), words)
})

test('rejects a WebP whose header does not match its content', () => {
  const cases: [Buffer, RegExp][] = [
    [changed(PICTURES.webp, (copy) => copy.writeUInt32LE(0xffffffff, 4)), /is truncated/],
    [changed(PICTURES.webp, (copy) => copy.writeUInt8(0x9e, 23)), /is corrupt/],
    [changed(PICTURES.webpLossless, (copy) => copy.writeUInt8(0x2e, 20)), /is corrupt/],
    [join('RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x0b\0\0\x07\0\0'), /contains no image/],
  ]
  for (const [given, words] of cases) assert.match(refusal(given), words)
})
