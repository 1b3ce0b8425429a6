// Estimates the work of libraries for an untrusted page: it grows with the number of tags times the depth of open
// elements. One linear pass counts both before a library parses the page. The count is never below that of a library:
// every start tag counts, even in a comment, and an end tag counts only if it is certainly one.
import { must } from '../base/errors.ts'
import { count } from '../base/maps.ts'
import { readAttributes } from './html-tokens.ts'

/** The most elements that may be open at once, and the most tags of a page. */
export const MOST_OPEN = 500
export const MOST_TAGS = 100_000

const VOID = /^(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)$/
/** Elements that end an open element of the same name. */
const ENDS_ITS_LIKE = /^(?:p|li|dd|dt|tr|td|th|option)$/
/** Elements whose content may be text and not markup. */
const RAW = /^(?:style|script|title|textarea|xmp|iframe|noembed|noframes|plaintext|noscript)$/

const FOREIGN = /^(?:svg|math)$/

/** Whether a page has more tags, or more elements in each other, than the libraries are given. */
export function isBeyondBounds(html: string): boolean {
  const open: string[] = []
  const counts = new Map<string, number>()
  const pop = (): string => {
    const top = must(open.pop(), 'An open element')
    count(counts, top, -1)
    return top
  }
  /** Before this offset an end tag may be text, in a comment, an attribute or a text element. */
  let unsure = 0
  /** Before this offset everything is surely a comment. */
  let comment = 0
  let tags = 0
  let foreign = false
  for (const { 1: mark = '', 2: given = '', index } of html.matchAll(/<([!?/]?)([a-z][^\s/>]*)?/gi)) {
    if (index < comment) continue
    const name = given.toLowerCase()
    if (mark === '!' || mark === '?') {
      if (index < unsure) continue
      unsure = endOfDeclaration(html, index)
      if (isSurelyComment(html.slice(index, unsure))) comment = unsure
    } else if (name !== '' && ++tags > MOST_TAGS) return true
    else if (mark === '/') {
      // For a library the slash of `</b/>` is of the name.
      if (name !== '' && index >= unsure && counts.get(name) && html[index + 2 + name.length] !== '/')
        while (pop() !== name);
    } else if (name !== '' && !VOID.test(name)) {
      if (open.at(-1) === name && ENDS_ITS_LIKE.test(name)) pop()
      foreign ||= FOREIGN.test(name)
      const end = index < unsure ? undefined : readAttributes(html, index + 1 + name.length).end
      // Libraries close `<x/>` at once within foreign elements, so an end tag may belong to another element.
      const own = !foreign || (end !== undefined && !/\/\s*>$/.test(html.slice(index, end))) ? name : ''
      if (open.push(own) > MOST_OPEN) return true
      count(counts, own, 1)
      if (end !== undefined) unsure = RAW.test(name) ? endOfText(html, name, end) : end
    }
  }
  return false
}

/** The end of a comment, or of another declaration, in the interpretation with the latest end. */
function endOfDeclaration(html: string, at: number): number {
  const comment = html.startsWith('<!--', at)
  const end = html.indexOf(comment ? '-->' : '>', comment ? at + 4 : at)
  return end < 0 ? html.length : end + (comment ? 2 : 1)
}

/** Whether every library continues a comment up to its end. */
const isSurelyComment = (text: string): boolean =>
  text.startsWith('<!--') && text.endsWith('--') && !/^<!--(?:-?>)|--!>/.test(text)

function endOfText(html: string, name: string, from: number): number {
  const end = new RegExp(`</${name}(?=[\\s/>])`, 'gi')
  end.lastIndex = from
  return end.exec(html)?.index ?? html.length
}
