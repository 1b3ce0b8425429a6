// Reduces long runs of white space in quoted-printable parts before the library decodes them. White space at the end of
// a line is not a part of the text (RFC 2045 §6.7, rule 3); the library searches for it from every space again, so a
// megabyte of spaces would take hours. A run within a line gets soft line breaks, a run at the end is removed: the same
// text in linear time.
import { MalformedMessage, nodesOf, parseTree, type MimePart } from './mime-tree.ts'

const LONG = 256
const SPACE = 0x20
const TAB = 0x09
const CR = 0x0d
const LF = 0x0a
const SOFT = Buffer.from('=\r\n')

/** The message without long runs of spaces in its quoted-printable parts; the same buffer when it has none. */
export function withoutLongSpaces(message: Buffer): Buffer {
  const pieces: Buffer[] = []
  let done = 0
  for (const { end, start } of quotedParts(message))
    for (const [from, to] of longRuns(message, start, end)) {
      pieces.push(message.subarray(done, from))
      const last = to >= end || message[to] === CR || message[to] === LF
      if (!last)
        for (let at = from; at < to; at += LONG) pieces.push(message.subarray(at, Math.min(at + LONG, to)), SOFT)
      done = to
    }
  return pieces.length === 0 ? message : Buffer.concat([...pieces, message.subarray(done)])
}

function quotedParts(message: Buffer): MimePart[] {
  try {
    return [...nodesOf(parseTree(message))].filter((node) => node.children.length === 0 && isQuoted(node))
  } catch (thrown) {
    if (thrown instanceof MalformedMessage) return []
    throw thrown
  }
}

/** True when any one of several such fields says "quoted": it is unknown which field the library uses. */
const isQuoted = ({ fields }: MimePart): boolean =>
  fields.some(({ name, value }) => /^content-transfer-encoding$/i.test(name) && /quoted/i.test(value))

function* longRuns(message: Buffer, start: number, end: number): Iterable<[number, number]> {
  for (let at = start; at < end; at++) {
    if (message[at] !== SPACE && message[at] !== TAB) continue
    const from = at
    while (at < end && (message[at] === SPACE || message[at] === TAB)) at++
    if (at - from > LONG) yield [from, at]
  }
}
