// Which attachments are taken (D28): not what runs when it is opened, whether its name says so or its first bytes.
import { detectMimeType } from 'nodemailer/lib/mime-funcs'
import { configAsset } from '../base/assets.ts'

let refused: ReadonlySet<string> | undefined

/** The endings of config/refused-attachments.txt, lower case without dot. */
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

/** Why a file of this name and beginning is refused, as "is …"; undefined when it is welcome. */
export function refusalOf(filename: string, head: Uint8Array): string | undefined {
  // Characters that turn the direction of writing hide the true ending.
  if (/[\u202a-\u202e\u2066-\u2069\u200e\u200f]/.test(filename))
    return 'has a name with characters that change the direction of writing'
  const endings = filename
    .toLowerCase()
    .replace(/[. ]+$/, '')
    .split('.')
    .slice(1)
  const ending = endings.find((each) => refusedEndings().has(each.trim()))
  if (ending !== undefined) return `is of a type that is not permitted (.${ending.trim()})`
  const magic = MAGIC.find(([, bytes]) => bytes.every((byte, index) => head[index] === byte))
  return magic && `is ${magic[0]}, whatever its name says`
}

/** The media type by the name's ending. */
export function typeOf(filename: string): string {
  return detectMimeType(filename)
}
