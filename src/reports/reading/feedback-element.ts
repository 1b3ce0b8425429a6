// The element `feedback` of an XML text, as events within limits. Text before and after the element is not parsed. The
// library is strict, expands only the five entities of XML, and reads no DTD. A DOCTYPE is rejected nevertheless.
import { SaxesParser } from 'saxes'
import { LIMITS, UnreadableReport } from './report.ts'

export interface FeedbackSink {
  /** Called with the local name of an element in `feedback`. */
  opened: (name: string) => void
  /** Called with a piece of text of the innermost open element. */
  said: (text: string) => void
  closed: () => void
}

/** Markup before the element that can contain its name, a DOCTYPE, and the element's tag. */
const MARK = /<!--|<!\[CDATA\[|<\?|<!DOCTYPE|<(?:[^\s<>/!?:&]{1,128}:)?feedback(?=[\s/>])/g
const ENDS: Record<string, string> = { '<!--': '-->', '<![CDATA[': ']]>', '<?': '?>' }
/** Maximum number of characters of a mark and of those that follow it. */
const LONGEST = 140

/** The pieces of a text, from the tag of the element on. */
function* fromElement(pieces: Iterable<string>): Iterable<string> {
  let begun = false
  let rest = ''
  /** The end of the markup that is skipped. */
  let end: string | undefined
  for (const piece of pieces) {
    if (begun) {
      yield piece
      continue
    }
    rest += piece
    for (let at = 0; !begun;) {
      if (end !== undefined) {
        const found = rest.indexOf(end, at)
        // Part of the end can be in the next piece.
        if (found < 0) {
          rest = rest.slice(Math.max(at, rest.length - end.length + 1))
          break
        }
        at = found + end.length
        end = undefined
      }
      MARK.lastIndex = at
      const [mark] = MARK.exec(rest) ?? []
      if (mark === undefined) {
        rest = rest.slice(Math.max(at, rest.length - LONGEST))
        break
      }
      if (mark === '<!DOCTYPE') throw new UnreadableReport('doctype', false)
      end = ENDS[mark]
      at = MARK.lastIndex
      if (end !== undefined) continue
      begun = true
      yield rest.slice(at - mark.length)
    }
  }
  if (!begun) throw new UnreadableReport('not_a_report', false)
}

const localName = (name: string): string => name.slice(name.indexOf(':') + 1)

class FeedbackElement {
  readonly #parser = new SaxesParser({ fragment: true })
  readonly #sink: FeedbackSink
  #namespace = ''
  #elements = 0
  #attributes = 0
  #depth = 0
  /** Characters of text since the last tag. */
  #run = 0
  #over = false
  /** The position at which the element ended. */
  #end = -1

  constructor(sink: FeedbackSink) {
    this.#sink = sink
    const parser = this.#parser
    parser.on('error', () => this.#fault())
    parser.on('opentagstart', ({ name }) => this.#opening(name))
    parser.on('attribute', ({ name, value }) => this.#attribute(name, value))
    parser.on('opentag', ({ name }) => this.#opened(localName(name)))
    parser.on('closetag', () => this.#closed())
    parser.on('text', (text) => this.#said(text))
    parser.on('cdata', (text) => this.#said(text))
  }

  read(pieces: Iterable<string>): string {
    for (const piece of pieces) {
      this.#parser.write(piece)
      if (this.#over) return this.#namespace
    }
    throw new UnreadableReport('malformed')
  }

  /** Throws if a limit is exceeded in the element. */
  #demand(holds: boolean): void {
    if (!holds && !this.#over) throw new UnreadableReport('too_large')
  }

  /** For the library, a closing tag of another name ends the element. It reports the error afterwards. */
  #fault(): void {
    if (!this.#over || this.#parser.position === this.#end) throw new UnreadableReport('malformed')
  }

  #opening(name: string): void {
    this.#attributes = 0
    this.#elements++
    this.#depth++
    this.#run = 0
    this.#demand(name.length <= LIMITS.name && this.#elements <= LIMITS.elements && this.#depth <= LIMITS.depth)
  }

  #attribute(name: string, value: string): void {
    this.#attributes++
    this.#demand(this.#attributes <= LIMITS.attributes && name.length <= LIMITS.name && value.length <= LIMITS.text)
    if (this.#elements === 1 && name === 'xmlns') this.#namespace = value
  }

  #opened(name: string): void {
    // The first one is the element itself.
    if (this.#elements > 1 && !this.#over) this.#sink.opened(name)
  }

  #closed(): void {
    if (this.#over) return
    this.#depth--
    this.#run = 0
    if (this.#depth > 0) return this.#sink.closed()
    this.#over = true
    this.#end = this.#parser.position
  }

  #said(text: string): void {
    if (this.#over) return
    this.#run += text.length
    this.#demand(this.#run <= LIMITS.text)
    this.#sink.said(text)
  }
}

/** Reads the first element `feedback` to its end. Returns its default namespace, or ''. Throws UnreadableReport. */
export const readFeedback = (pieces: Iterable<string>, sink: FeedbackSink): string =>
  new FeedbackElement(sink).read(fromElement(pieces))
