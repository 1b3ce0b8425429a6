// Classifies a refusal by its meaning for the address (D35, D63). The rules are data in config/bounce-rules.txt. The
// first that matches counts. Only `hard` means that the address does not exist, and only a refusal of the recipient can
// be `hard`: an answer to RCPT, or a report. A refusal that no rule matches is `policy`, which never counts against the
// address.
import { configAsset } from '../base/assets.ts'
import { isOneOf } from '../base/one-of.ts'
import type { Stage } from './verdict.ts'

export const BOUNCE_CLASSES = ['hard', 'soft', 'quota', 'policy', 'content', 'infrastructure'] as const
export type BounceClass = (typeof BOUNCE_CLASSES)[number]

export interface BounceRule {
  class: BounceClass
  pattern: RegExp
  /** The real reply that the rule was written for. */
  sample: string
}

/** Reads the rules of a file. Throws an Error with the line number for a malformed line. */
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
    if (pattern === undefined || name === undefined || !isOneOf(BOUNCE_CLASSES, name))
      throw new Error(`bounce-rules.txt:${index + 1}: "${line}" is not a rule`)
    rules.push({ class: name, pattern: new RegExp(pattern, 'i'), sample })
  }
  return rules
}

let shipped: BounceRule[] | undefined

/** Where a refusal was given: in the SMTP dialogue, or in a later report. */
export type SaidAt = Stage | 'report'

export interface ExchangerRefusal {
  stage: SaidAt
  code: number | null
  enhanced: string | null
  text: string
  /**
   * The sending domain, when the recipient is at another domain. A refusal that names only addresses of the sending
   * domain is about these addresses, not about the recipient.
   */
  sender?: string | undefined
}

/** The command that some servers name when they quote a reply in a report (Postfix, Exim, 1&1, qmail). */
const QUOTED_AT =
  /\bin reply to (?:initial |end of )?(?:EHLO|HELO|MAIL|DATA|greeting)|\bafter (?:pipelined )?(?:initial connection|EHLO|HELO|MAIL FROM|DATA|end of data)\b|\bfor (?:EHLO|HELO|MAIL FROM|DATA|final dot) command\b|\bbut (?:(?:sender|my name) was rejected|greeting failed)\b|\bfailed (?:on DATA command|after I sent the message)\b/i

/** Whether a refusal is about its recipient. All others are about the sender, the connection or the mail (D63). */
export function isAboutRecipient({ code, stage, text }: ExchangerRefusal): boolean {
  if (stage === 'rcpt') return code !== null
  return stage === 'report' && !QUOTED_AT.test(text)
}

const ADDRESS = /[^\s<>@"'(),:;[\]]{1,64}@[^\s<>@"'(),:;[\]]{1,255}/g

const URL_PATH = /(https?:\/\/[^\s/?#]{1,255})[^\s]*/gi

function namesSender({ sender, text }: ExchangerRefusal): boolean {
  if (sender === undefined) return false
  const domains = (text.match(ADDRESS) ?? []).map((address) =>
    address.slice(address.lastIndexOf('@') + 1).toLowerCase(),
  )
  return domains.length > 0 && domains.every((domain) => domain === sender || domain.endsWith(`.${sender}`))
}

/** The class of a refusal by the shipped rules. Throws only when the rules file is missing or malformed. */
export function classify(refusal: ExchangerRefusal): BounceClass {
  shipped ??= parseRules(configAsset('bounce-rules.txt'))
  const { code, enhanced, text } = refusal
  // Addresses and URL paths are removed first: a mailbox may be called "no.such.user", and an error page "policy".
  const words = text.replace(URL_PATH, '$1').replace(ADDRESS, '@')
  const said = [code, enhanced, words].filter((part) => part !== null).join(' ')
  const found = shipped.find(({ pattern }) => pattern.test(said))?.class ?? 'policy'
  if (found !== 'hard') return found
  if (namesSender(refusal)) return 'policy'
  // Without an answer of a server, the connection failed, not the address.
  if (!isAboutRecipient(refusal)) return code === null && refusal.stage !== 'report' ? 'infrastructure' : 'policy'
  // A temporary answer is not proof that an address does not exist (RFC 5321 §4.2.1), even when retries have ended.
  const temporary = code === null ? enhanced?.startsWith('4.') : code < 500
  return temporary ? 'soft' : 'hard'
}
