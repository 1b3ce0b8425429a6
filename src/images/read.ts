// What a picture is, by its octets: its name and what its sender says of it are not asked. PNG, JPEG, GIF and WebP are
// taken, which mail programs show. SVG can hold scripts, and is not.
import { isGif, readGif } from './gif.ts'
import { isJpeg, readJpeg } from './jpeg.ts'
import { BadPicture, type ReadPicture } from './octets.ts'
import { isPng, readPng } from './png.ts'
import { isWebp, readWebp } from './webp.ts'

/** The media types that are taken, with the endings of their addresses. */
export const TYPES = { 'image/png': 'png', 'image/jpeg': 'jpg', 'image/gif': 'gif', 'image/webp': 'webp' } as const
export type PictureType = keyof typeof TYPES

const READERS: readonly { type: PictureType; is: (bytes: Buffer) => boolean; read: (bytes: Buffer) => ReadPicture }[] =
  [
    { type: 'image/png', is: isPng, read: readPng },
    { type: 'image/jpeg', is: isJpeg, read: readJpeg },
    { type: 'image/gif', is: isGif, read: readGif },
    { type: 'image/webp', is: isWebp, read: readWebp },
  ]

/** Reads a picture. Throws BadPicture, whose message continues "the picture …". */
export function readPicture(bytes: Buffer): ReadPicture & { type: PictureType } {
  if (bytes.length === 0) throw new BadPicture('is empty')
  const reader = READERS.find(({ is }) => is(bytes))
  if (reader) return { type: reader.type, ...reader.read(bytes) }
  const head = bytes.toString('latin1', 0, 1000)
  if (/<svg\b|<!doctype svg/i.test(head))
    throw new BadPicture('is SVG, which can hold scripts and is not shown in mail: save it as PNG')
  if (/^....ftyp(?:hei[cfsx]|mif1|avi[fs])/s.test(head))
    throw new BadPicture('is HEIC or AVIF, which few mail programs show: save it as JPEG')
  throw new BadPicture('is not PNG, JPEG, GIF or WebP: save it as one of these')
}
