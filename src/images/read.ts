// Detects the type of an uploaded image by its bytes and not its name: PNG, JPEG, GIF and WebP, which email clients
// show. SVG is rejected, because it can contain scripts.
import { BadImage, type ReadImage } from './bytes.ts'
import { readGif, readJpeg, readPng, readWebp } from './formats.ts'

/** The accepted media types, with the extensions of their URLs. */
export const TYPES = { 'image/png': 'png', 'image/jpeg': 'jpg', 'image/gif': 'gif', 'image/webp': 'webp' } as const
export type ImageType = keyof typeof TYPES

const FORMATS: readonly { type: ImageType; is: (head: string) => boolean; read: (file: Buffer) => ReadImage }[] = [
  { type: 'image/png', is: (head) => head.startsWith('\x89PNG\r\n\x1a\n'), read: readPng },
  { type: 'image/jpeg', is: (head) => head.startsWith('\xff\xd8\xff'), read: readJpeg },
  { type: 'image/gif', is: (head) => ['GIF87a', 'GIF89a'].includes(head.slice(0, 6)), read: readGif },
  { type: 'image/webp', is: (head) => /^RIFF.{4}WEBP/s.test(head), read: readWebp },
]

/** Reads an image. Throws BadImage if it is not acceptable. */
export function readImage(file: Buffer): ReadImage & { type: ImageType } {
  if (file.length === 0) throw new BadImage('is empty')
  const head = file.toString('latin1', 0, 1000)
  const format = FORMATS.find(({ is }) => is(head))
  if (format) return { type: format.type, ...format.read(file) }
  if (/<svg\b|<!doctype svg/i.test(head)) throw new BadImage('is SVG, which email clients do not show; save it as PNG')
  if (/^....ftyp(?:hei[cfsx]|mif1|avi[fs])/s.test(head))
    throw new BadImage('is HEIC or AVIF, which few email clients show; save it as JPEG')
  throw new BadImage('is not PNG, JPEG, GIF or WebP; save it in one of these formats')
}
