// Reads GIF (87a, 89a) block by block. Frames, their times and how often they repeat are kept; comments, texts and what
// programs added are not, nor is anything after the end.
import { PictureOctets, type ReadPicture } from './octets.ts'

const [EXTENSION, FRAME, TRAILER] = [0x21, 0x2c, 0x3b] as const
const [CONTROL, PROGRAM] = [0xf9, 0xff] as const
/** How often the frames repeat, as the two programs that say it begin. */
const REPEATS = /^(?:NETSCAPE2\.0|ANIMEXTS1\.0)$/

export const isGif = (bytes: Buffer): boolean => ['GIF87a', 'GIF89a'].includes(bytes.toString('latin1', 0, 6))

/** The octets of the table of colours that a flag octet tells of. */
const tableSize = (flags: number): number => (flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0)

export function readGif(bytes: Buffer): ReadPicture {
  const octets = new PictureOctets(bytes, 'GIF')
  octets.skip(6)
  const screen = octets.take(7)
  const size = { width: screen.readUInt16LE(0), height: screen.readUInt16LE(2) }
  octets.checkSize(size.width, size.height)
  octets.skip(tableSize(screen[4] ?? 0))
  octets.keep(0)
  for (let frames = 0; ;) {
    const from = octets.nextPart()
    const kind = octets.byte()
    if (kind === TRAILER) {
      if (frames === 0) throw octets.fault('holds no picture')
      octets.keep(from)
      return { ...size, octets: octets.whole() }
    }
    if (kind === FRAME) {
      readFrame(octets, size)
      frames++
      octets.keep(from)
    } else if (kind === EXTENSION) {
      if (isKept(octets)) octets.keep(from)
    } else throw octets.fault('is damaged')
  }
}

function readFrame(octets: PictureOctets, size: { width: number; height: number }): void {
  const head = octets.take(9)
  const [left, top, width, height] = [0, 2, 4, 6].map((at) => head.readUInt16LE(at)) as [number, number, number, number]
  octets.checkFrame({ left, top, width, height }, size)
  octets.skip(tableSize(head[8] ?? 0))
  const codes = octets.byte()
  if (codes < 2 || codes > 8) throw octets.fault('is damaged')
  if (skipBlocks(octets) === 0) throw octets.fault('has an empty frame')
}

/** Moves over blocks up to the empty one; returns how many octets they have. */
function skipBlocks(octets: PictureOctets): number {
  let sum = 0
  for (let size = octets.byte(); size > 0; size = octets.byte()) {
    octets.skip(size)
    sum += size
  }
  return sum
}

/** Reads an extension; whether it is one that says how the picture looks. */
function isKept(octets: PictureOctets): boolean {
  const label = octets.byte()
  const from = octets.at
  const sum = skipBlocks(octets)
  if (label === CONTROL) {
    if (sum !== 4) throw octets.fault('is damaged')
    return true
  }
  const name = octets.bytes.toString('latin1', from + 1, from + 12)
  return label === PROGRAM && octets.bytes[from] === 11 && sum === 14 && REPEATS.test(name)
}
