// What a refusal means for the address (D35): rules as data in config/bounce-rules.txt, the first that fits counts. Only `hard`
// says that the address is gone; a refusal that no rule knows is `policy`: it is never held against the address.
import { configAsset } from '../base/assets.ts'

export const BOUNCE_CLASSES = ['hard', 'soft', 'quota', 'policy', 'content', 'infrastructure'] as const
export type BounceClass = (typeof BOUNCE_CLASSES)[number]

export interface BounceRule {
  class: BounceClass
  pattern: RegExp
  /** The real reply that it was written for. */
  sample: string
}

/** Reads the rules; throws for a line that is none, with its number. */
export function parseRules(text: string): BounceRule[] {
  const rules: BounceRule[] = []
  let sample = ''
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue
    if (line.startsWith('>')) {
      sample = line.slice(1).trim()
      continue
    }
    const [, name, pattern] = /^(\w+)\s+(.+)$/.exec(line) ?? []
    if (pattern === undefined || !(BOUNCE_CLASSES as readonly string[]).includes(name!))
      throw new Error(`bounce-rules.txt:${index + 1}: "${line}" is no rule`)
    rules.push({ class: name as BounceClass, pattern: new RegExp(pattern, 'i'), sample })
  }
  return rules
}

let shipped: BounceRule[] | undefined

export interface Refusal {
  code: number | null
  enhanced: string | null
  text: string
}

/** The class of a refusal by the shipped rules. */
export function classify({ code, enhanced, text }: Refusal): BounceClass {
  shipped ??= parseRules(configAsset('bounce-rules.txt'))
  const said = [code, enhanced, text].filter((part) => part !== null).join(' ')
  const found = shipped.find(({ pattern }) => pattern.test(said))?.class
  // What a server says for now is no evidence that an address is gone (RFC 5321 §4.2.1), even when it was given up in the end.
  const temporary = code === null ? enhanced?.startsWith('4.') : code < 500
  if (found === 'hard' && temporary) return 'soft'
  return found ?? (code === 550 && enhanced === null ? 'hard' : 'policy')
}
