// Finds the parts of a submitted message that would run as programs when they are opened (D28, D77). Each part is
// checked by every file name that a mail reader may give it, and by its first octets, whether it is declared as an
// attachment or as text.
import { refusalOf } from './file-type.ts'
import { isMessage, MalformedMessage, MAX_DEPTH, nodesOf, octetsOf, parseTree, type MimePart } from './mime-tree.ts'
import { decoded } from './parse.ts'

/** The number of octets at the beginning of a file that show its type. */
const HEAD = 64

/**
 * `"a.exe" is of a type …` for the first part that is refused; undefined when there is none. Throws MalformedMessage
 * beyond the limits.
 */
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
  const inner = octetsOf(message, node, node.end - node.start)
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

/** The first octets in each of the encodings that the part names; mostly one. */
function headsOf(message: Buffer, node: MimePart): Buffer[] {
  const named = valuesOf(node, /^content-transfer-encoding$/i).map((value) =>
    /base64/i.test(value) ? 'base64' : /quoted/i.test(value) ? 'quoted-printable' : '7bit',
  )
  return [...new Set(named.length > 0 ? named : ['7bit'])].map((encoding) => {
    // White space and soft line breaks decode to nothing: more is read until there is enough.
    for (let octets = 8 * HEAD; ; octets *= 8) {
      const head = octetsOf(message, node, octets, encoding)
      if (head.length >= HEAD || node.start + octets >= node.end) return head.subarray(0, HEAD)
    }
  })
}

const NAME = /\b((?:file)?name)(?:\*(\d{1,4}))?(\*?)\s*=\s*(?:"((?:[^"\\]|\\[\s\S])*)"?|([^;]*))/gi

/**
 * Every file name that a reader may take from a part: from all its fields, also from repeated fields and fields without
 * a semicolon; whole names, and names joined from pieces (RFC 2231 §3); with percent encoding (RFC 2231 §4) and encoded
 * words (RFC 2047; not allowed there, but widely used) decoded, and without comments.
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

/** The name as a reader shows it: percent encoding and encoded words decoded, octets read as UTF-8 where they are. */
function shownName(value: string): string {
  const name = value.replace(/^[\w.:-]*'[\w-]*'/, '')
  return decoded(name.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))))
}
