// Readers of uploaded images. What they store is an image too, of the same dimensions.
import assert from 'node:assert/strict'
import { BadImage } from '../../src/images/bytes.ts'
import { readOrientation } from '../../src/images/formats.ts'
import { readImage } from '../../src/images/read.ts'
import { namedIn } from '../../src/images/uses.ts'
import { newPicture, PICTURES } from '../images/pictures.ts'
import { both, of, text, type Parser } from './parser.ts'

const TIFF = 'MM\0*\0\0\0\x08\0\x02\x01\x0f\0\x02\0\0\0\x01A\0\0\0\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0'

/** The ranges of a file that hold one piece, and how often a seed repeats it. */
const repeated =
  (file: Buffer, from: number, to: number) =>
  (octets: number): Buffer[] => {
    const piece = file.subarray(from, to)
    const times = Math.max(1, Math.floor((octets - file.length) / piece.length))
    return [Buffer.concat([file.subarray(0, to), ...Array<Buffer>(times).fill(piece), file.subarray(to)])]
  }

const { gifMoving, jpeg, pngMoving, webpMoving } = PICTURES
const gifFrame = gifMoving.indexOf('!\xf9', 0, 'latin1')
const pngFrame = pngMoving.indexOf('fcTL') - 4
const webpFrame = webpMoving.indexOf('ANMF')

export const PICTURE: Record<string, Parser> = {
  'a picture': {
    files: ['images/bytes.ts', 'images/formats.ts', 'images/read.ts'],
    seeds: both(
      () => Object.values(PICTURES),
      (octets) => [newPicture(12, 8, octets)],
      repeated(gifMoving, gifFrame, gifMoving.indexOf('!\xf9', gifFrame + 1, 'latin1')),
      repeated(pngMoving, pngFrame, pngMoving.indexOf('fcTL', pngFrame + 8) - 4),
      repeated(webpMoving, webpFrame, webpMoving.indexOf('ANMF', webpFrame + 1)),
      repeated(jpeg, 2, 20),
      (octets) => [Buffer.concat([jpeg.subarray(0, -2), Buffer.alloc(octets, '\xff\0\xff\xd0', 'latin1')])],
    ),
    parse: (bytes) => {
      const { height, stored, width } = readImage(bytes)
      assert.ok(stored.length <= bytes.length + 36 && width * height <= 40_000_000)
      assert.deepEqual(readImage(stored), { ...readImage(bytes), stored })
    },
    declared: (thrown) => thrown instanceof BadImage,
  },
  'the pictures that HTML names': {
    files: ['images/uses.ts'],
    seeds: of(
      '<img src="https://here.test/images/0199c0de-7000-7000-8000-000000000001.png">',
      '/images/0199c0de-7000-',
    ),
    parse: (bytes) => namedIn(text(bytes)),
  },
  'the orientation in Exif': {
    files: ['images/formats.ts'],
    seeds: (octets) => [Buffer.from(TIFF, 'latin1'), Buffer.from(TIFF.padEnd(octets, TIFF.slice(10, 22)), 'latin1')],
    parse: (bytes) => {
      const orientation = readOrientation(bytes)
      assert.ok(orientation >= 1 && orientation <= 8)
    },
  },
}
