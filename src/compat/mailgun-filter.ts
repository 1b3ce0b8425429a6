// Filter expressions of Mailgun's events: words or quoted words with OR and AND, such as "delivered OR opened" or
// "newsletter AND site". Two words side by side are joined by AND, which binds tighter than OR.
import { invalid } from './kit.ts'

/** Alternatives, each of words that must all match. In lower case. */
export type FilterExpression = readonly (readonly string[])[]

const MAX_EXPRESSION = 1000
const MAX_WORDS = 50

/** Parses an expression. Throws a CompatError for other operators, parentheses and incomplete expressions. */
export function parseFilter(name: string, text: string): FilterExpression {
  const broken = () =>
    invalid(name, `"${name}" must be words or "quoted words", joined by OR or AND, such as delivered OR opened.`)
  if (text.length > MAX_EXPRESSION) throw broken()
  const alternatives: string[][] = [[]]
  let wantsWord = true
  let count = 0
  const tokens = /\s*(?:"([^"]*)"|([^\s"()]+))(?=\s|$)/gy
  for (let at = 0; at < text.trimEnd().length; at = tokens.lastIndex) {
    tokens.lastIndex = at
    const [, quoted, bare] = tokens.exec(text) ?? []
    const word = quoted ?? bare
    if (bare !== undefined && /^(?:or|and|not)$/i.test(bare) && bare !== bare.toUpperCase())
      throw invalid(
        name,
        `"${name}" has the operator ${bare} in lower case. Write ${bare.toUpperCase()}, or "${bare}" in quotes if it is a word.`,
      )
    if (word === undefined || bare === 'NOT' || bare?.startsWith('-') || ++count > MAX_WORDS) throw broken()
    if (bare === 'OR' || bare === 'AND') {
      if (wantsWord) throw broken()
      if (bare === 'OR') alternatives.push([])
      wantsWord = true
    } else {
      alternatives.at(-1)?.push(word.toLowerCase())
      wantsWord = false
    }
  }
  if (wantsWord) throw broken()
  return alternatives
}

/** Whether an expression holds. `matches`: whether a word does. */
export const holds = (expression: FilterExpression, matches: (word: string) => boolean): boolean =>
  expression.some((words) => words.every((word) => matches(word)))

/** The single words of an expression without AND, or undefined. */
export const wordsOnly = (expression: FilterExpression): string[] | undefined => {
  const words = expression.flatMap(([word, ...others]) => (word !== undefined && others.length === 0 ? [word] : []))
  return words.length === expression.length ? words : undefined
}
