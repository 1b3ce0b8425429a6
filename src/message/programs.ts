// Finds the parts of a submitted message that would run as programs when they are opened (D28, D77). Each part is
// checked by every file name that a message reader may give it, and by its first bytes, whether it is declared as an
// attachment or as text.
import { refusalOf } from './file-type.ts'
import { isMessage, MalformedMessage, MAX_DEPTH, nodesOf, decodedBytes, parseTree, type MimePart } from './mime-tree.ts'
import { decoded } from './charset.ts'
import { transferEncodingOf } from './transfer.ts'

/** The number of bytes at the beginning of a file that show its type. */
const HEAD = 64

/** `"a.exe" is of a type …` for the first rejected part, or undefined. Throws MalformedMessage beyond the limits. */
export function programIn(message: Buffer, tree: MimePart, depth = 0): string | undefined {
  if (depth > MAX_DEPTH) throw new MalformedMessage(`Its messages are nested more than ${MAX_DEPTH} deep.`)
  for (const node of nodesOf(tree)) {
    const found = programOf(message, node) ?? programInside(message, node, depth)
    if (found !== undefined) return found
  }
  return undefined
}

/** Checks a message inside a part with a transfer encoding: parseTree skips it, readers open it (RFC 6532 §3.7). */
function programInside(message: Buffer, node: MimePart, depth: number): string | undefined {
  if (node.children.length > 0 || !isMessage(node.type)) return undefined
  const inner = decodedBytes(message, node, node.end - node.start)
  return programIn(inner, parseTree(inner), depth + 1)
}

function programOf(message: Buffer, node: MimePart): string | undefined {
  const names = namesOf(node)
  for (const name of names) {
    const why = refusalOf(name, NOTHING)
    if (why !== undefined) return `"${name}" ${why}.`
  }
  if (node.children.length > 0) return undefined
  for (const head of headsOf(message, node)) {
    const why = refusalOf('', head)
    if (why !== undefined && (names.length > 0 || !isShown(node) || !isText(head)))
      return `"${names[0] ?? 'A file without a name'}" ${why}.`
  }
  return undefined
}

const NOTHING = Buffer.alloc(0)

const valuesOf = ({ fields }: MimePart, wanted: RegExp): string[] =>
  fields.flatMap(({ name, value }) => (wanted.test(name) ? [value] : []))

/** Whether a part is text to be shown, not saved. Such text may begin with "MZ" or "#!" without being a program. */
const isShown = (node: MimePart): boolean =>
  node.type.startsWith('text/') && !valuesOf(node, /^content-disposition$/i).some((value) => /attachment/i.test(value))
// oxlint-disable-next-line no-control-regex
const isText = (head: Buffer): boolean => !/[\0-\x08\x0e-\x1f]/.test(head.toString('latin1'))

/** The first bytes, decoded from each encoding that the part names, usually one. */
function headsOf(message: Buffer, node: MimePart): Buffer[] {
  // A reader may take the first encoding that a field names, or another one behind it.
  const named = valuesOf(node, /^content-transfer-encoding$/i)
    .flatMap((value) => [value, value.replace(/^.*?(?=base64|quoted)/i, '')])
    .map(transferEncodingOf)
  return [...new Set([...named, node.encoding])].map((encoding) => {
    // White space and soft line breaks have no decoded bytes, so more is read until there is enough.
    for (let bytes = 8 * HEAD; ; bytes *= 8) {
      const head = decodedBytes(message, node, bytes, encoding)
      if (head.length >= HEAD || node.start + bytes >= node.end) return head.subarray(0, HEAD)
    }
  })
}

const NAME = /\b((?:file)?name)(?:\*(\d{1,4}))?(\*?)\s*=\s*(?:"((?:[^"\\]|\\[\s\S])*)"?|([^;]*))/gi

/**
 * Every file name of a part that any client might use:
 * - from all its fields, including repeated fields and fields without a semicolon
 * - whole names, and names joined from pieces (RFC 2231 §3)
 * - with percent encoding (RFC 2231 §4) and encoded words (RFC 2047, not allowed there but widely used) decoded
 * - without comments
 */
function namesOf(node: MimePart): string[] {
  const names = new Set<string>()
  for (const field of valuesOf(node, /^content-(?:type|disposition)$/i)) {
    const pieces = new Map<string, string[]>()
    for (const [, key = '', piece, , quoted, bare = ''] of field.matchAll(NAME)) {
      const value = quoted?.replace(/\\([\s\S])/g, '$1') ?? bare.trim()
      if (piece === undefined) {
        names.add(shownName(value))
        // Some readers end a name without quotes at white space or a comment: both forms are checked.
        if (quoted === undefined) names.add(shownName(value.replace(/["\s(].*$/, '')))
      } else {
        const list = pieces.get(key.toLowerCase()) ?? []
        list[Number(piece)] ??= value
        pieces.set(key.toLowerCase(), list)
      }
    }
    for (const list of pieces.values()) names.add(shownName(list.join('')))
  }
  names.delete('')
  return [...names]
}

/** The name as a reader shows it: percent encoding and encoded words decoded, bytes read as UTF-8 where they are. */
function shownName(value: string): string {
  const name = value.replace(/^[\w.:-]*'[\w-]*'/, '')
  return decoded(name.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))))
}
