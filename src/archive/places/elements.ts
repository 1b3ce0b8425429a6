// The elements of an XML answer of S3 or WebDAV that hold text, in order, within limits. Names are without their
// namespaces. The library is strict, knows no entities but the five of XML, and reads no DTD.
import { SaxesParser } from 'saxes'

export interface TextElement {
  /** The names of the elements around it and its own: "ListBucketResult/Contents/Key". */
  path: string
  text: string
}

const MOST_DEPTH = 20
const MOST_ELEMENTS = 200_000

/** Undefined when it is not whole, or not XML. Elements without text have the text "". */
export function readElements(octets: Buffer): TextElement[] | undefined {
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
  const said = (text: string): void => {
    const last = open.at(-1)
    if (last) last.text += text
  }
  parser.on('text', said)
  parser.on('cdata', said)
  parser.on('closetag', () => {
    if (wrong) return
    const path = open.map(({ name }) => name).join('/')
    const last = open.pop()
    if (last) found.push({ path, text: last.text.trim() })
  })
  const text = octets.toString('utf8')
  // In pieces, so that the first fault ends the work.
  for (let at = 0; at < text.length && !wrong; at += 65_536) parser.write(text.slice(at, at + 65_536))
  if (!wrong) parser.close()
  return wrong ? undefined : found
}
