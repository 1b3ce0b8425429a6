// What a refusal means for the address (D35, D63): rules as data in config/bounce-rules.txt, the first that fits counts. Only `hard`
// says that the address is gone, and only what was said about the recipient can be that: to RCPT, or in a report. A refusal that no
// rule knows is `policy`: it is never held against the address.
import { configAsset } from '../base/assets.ts'
import type { Stage } from './verdict.ts'

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

/** Where a refusal was said: in the dialogue, or in a report that came home. */
export type SaidAt = Stage | 'report'

export interface Refusal {
  stage: SaidAt
  code: number | null
  enhanced: string | null
  text: string
}

/** The command that some servers add to a reply that they quote (Postfix, Exim). */
const QUOTED_AT =
  /\bin reply to (?:initial |end of )?(EHLO|HELO|MAIL|DATA|greeting)|\bafter (initial connection|EHLO|HELO|MAIL FROM|DATA|end of data)\b/i

/** Whether a refusal was said about its recipient: all else is about the sender, the connection or the mail (D63). */
export function isAboutRecipient({ code, stage, text }: Refusal): boolean {
  if (stage === 'rcpt') return code !== null
  return stage === 'report' && !QUOTED_AT.test(text)
}

const ADDRESS = /[^\s<>@"'(),:;[\]]{1,64}@[^\s<>@"'(),:;[\]]{1,255}/g

const URL_PATH = /(https?:\/\/[^\s/?#]{1,255})[^\s]*/gi

/** The class of a refusal by the shipped rules. */
export function classify(refusal: Refusal): BounceClass {
  shipped ??= parseRules(configAsset('bounce-rules.txt'))
  const { code, enhanced, text } = refusal
  // A mailbox may be called "no.such.user", and a page about errors "policy".
  const words = text.replace(URL_PATH, '$1').replace(ADDRESS, '@')
  const said = [code, enhanced, words].filter((part) => part !== null).join(' ')
  const found = shipped.find(({ pattern }) => pattern.test(said))?.class ?? 'policy'
  if (found !== 'hard') return found
  // Where nobody said anything, the way there is what failed.
  if (!isAboutRecipient(refusal)) return code === null && refusal.stage !== 'report' ? 'infrastructure' : 'policy'
  // What a server says for now is no evidence that an address is gone (RFC 5321 §4.2.1), even when it was given up in the end.
  const temporary = code === null ? enhanced?.startsWith('4.') : code < 500
  return temporary ? 'soft' : 'hard'
}
