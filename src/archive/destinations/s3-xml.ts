// Reads the XML of an S3 response: the text of its elements in order, with limits. Names are without their namespaces.
// The library is strict, supports only the five entities of XML, and reads no DTD.
import { SaxesParser } from 'saxes'

export interface TextElement {
  /** The names of its parents and its own: "ListBucketResult/Contents/Key". */
  path: string
  text: string
}

const MOST_DEPTH = 20
const MOST_ELEMENTS = 200_000

/** The elements of a document, or undefined if it is incomplete or not XML. */
export function readElements(bytes: Buffer): TextElement[] | undefined {
  const parser = new SaxesParser()
  const found: TextElement[] = []
  const open: { name: string; text: string }[] = []
  let wrong = false
  const fault = (): void => void (wrong = true)
  parser.on('error', fault)
  parser.on('doctype', fault)
  parser.on('opentag', ({ name }) => {
    if (open.length >= MOST_DEPTH || found.length >= MOST_ELEMENTS) fault()
    else open.push({ name: name.slice(name.indexOf(':') + 1), text: '' })
  })
  const add = (text: string): void => {
    const last = open.at(-1)
    if (last) last.text += text
  }
  parser.on('text', add)
  parser.on('cdata', add)
  parser.on('closetag', () => {
    if (wrong) return
    const path = open.map(({ name }) => name).join('/')
    const last = open.pop()
    if (last) found.push({ path, text: last.text.trim() })
  })
  const text = bytes.toString('utf8')
  // In pieces, to stop at the first error.
  for (let at = 0; at < text.length && !wrong; at += 65_536) parser.write(text.slice(at, at + 65_536))
  if (!wrong) parser.close()
  return wrong ? undefined : found
}
