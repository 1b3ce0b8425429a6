// Decides which attachments are accepted (D28): no executables, detected by file name or first bytes.
import { detectMimeType } from 'nodemailer/lib/mime-funcs'
import { changesDirection } from '../base/clean-text.ts'
import { configAsset } from '../base/assets.ts'

let refused: ReadonlySet<string> | undefined

/** The endings of config/refused-attachments.txt, lower case, without the dot. */
function refusedEndings(): ReadonlySet<string> {
  refused ??= new Set(
    configAsset('refused-attachments.txt')
      .split('\n')
      .map((line) => line.replace(/#.*/, '').trim().toLowerCase())
      .filter(Boolean),
  )
  return refused
}

const MAGIC: readonly (readonly [name: string, bytes: number[]])[] = [
  ['a Windows program', [0x4d, 0x5a]],
  ['a Linux program', [0x7f, 0x45, 0x4c, 0x46]],
  ['a macOS program', [0xfe, 0xed, 0xfa, 0xce]],
  ['a macOS program', [0xfe, 0xed, 0xfa, 0xcf]],
  ['a macOS program', [0xce, 0xfa, 0xed, 0xfe]],
  ['a macOS program', [0xcf, 0xfa, 0xed, 0xfe]],
  ['a program or Java class', [0xca, 0xfe, 0xba, 0xbe]],
  ['a script', [0x23, 0x21]],
]

/**
 * Why a file with this name and these first bytes is rejected, as "is …" or "has …", or undefined if it is accepted.
 */
export function refusalOf(filename: string, head: Uint8Array): string | undefined {
  if (changesDirection(filename)) return 'has a file name with characters that change the text direction'
  const endings = filename
    .toLowerCase()
    .replace(/(?<![. ])[. ]+$/, '')
    .split('.')
    .slice(1)
  const ending = endings.find((each) => refusedEndings().has(each.trim()))
  if (ending !== undefined) return `has a file type that is not allowed (.${ending.trim()})`
  const magic = MAGIC.find(([, bytes]) => bytes.every((byte, index) => head[index] === byte))
  return magic && `is ${magic[0]}, regardless of its name`
}

/** Bytes at fixed places of a file that show its media type, independent of its name. */
const SIGNS: readonly (readonly [type: string, at: number, octets: string])[] = [
  ['application/pdf', 0, '%PDF-'],
  ['image/png', 0, '\x89PNG\r\n'],
  ['image/jpeg', 0, '\xff\xd8\xff'],
  ['image/gif', 0, 'GIF87a'],
  ['image/gif', 0, 'GIF89a'],
  ['image/webp', 8, 'WEBPVP8'],
  ['image/tiff', 0, 'II*\0'],
  ['image/tiff', 0, 'MM\0*'],
  ['audio/wav', 8, 'WAVEfmt'],
  ['audio/mpeg', 0, 'ID3\x03\0'],
  ['audio/mpeg', 0, 'ID3\x04\0'],
  ['video/mp4', 4, 'ftypisom'],
  ['video/mp4', 4, 'ftypmp4'],
  ['application/rtf', 0, '{\\rtf'],
]
/** Containers of many kinds of file: the name's extension is more specific. */
const WRAPPERS: typeof SIGNS = [
  ['application/zip', 0, 'PK\x03\x04'],
  ['application/gzip', 0, '\x1f\x8b'],
]
const UNKNOWN = 'application/octet-stream'

/**
 * The media type by the first bytes, otherwise by the name's extension, or application/byte-stream if both are unknown.
 */
export function typeOf(filename: string, head: Uint8Array): string {
  const text = Buffer.from(head.subarray(0, 16)).toString('latin1')
  const by = (signs: typeof SIGNS): string | undefined =>
    signs.find(([, at, octets]) => text.startsWith(octets, at))?.[0]
  const named = /.\.[^.]+$/.test(filename) ? detectMimeType(filename) : UNKNOWN
  return by(SIGNS) ?? (named === UNKNOWN ? (by(WRAPPERS) ?? UNKNOWN) : named)
}
