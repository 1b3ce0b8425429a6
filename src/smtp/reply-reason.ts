// The meaning of an SMTP reply, its fix and its subject, from config/reply-reasons.toml. This only explains replies:
// bounce-class.ts decides whether a rejection suppresses the address.
import { parse } from 'smol-toml'
import { z } from 'zod'
import { configAsset } from '../base/assets.ts'
import { BOUNCE_CLASSES, classify } from './bounce-class.ts'

/** The subjects of replies. The first six are about this server and its domains. */
const ABOUT_US = ['block', 'rate', 'reputation', 'authentication', 'reverse', 'policy'] as const
export const REPLY_CLASSES = [...ABOUT_US, 'tls', 'content', 'user', 'full', 'greylist'] as const
export type ReplyClass = (typeof REPLY_CLASSES)[number]

/** Whether a reply is about this server or its domains, not about the email, the mailbox or its owner. */
export const isAboutUs = (meant: ReplyClass | undefined): boolean => ABOUT_US.some((each) => each === meant)

const text = z.string().min(1)
const pattern = text.transform((written) => new RegExp(written, 'i'))
const code = z
  .string()
  .regex(/^[45]\.\d{1,3}\.\d{1,3}(?:-\d{1,3})?$/)
  .transform((written) => {
    const [, family = '', from = '', to = from] = /^(\d\.\d+)\.(\d+)(?:-(\d+))?$/.exec(written) ?? []
    return { family, from: Number(from), to: Number(to) }
  })
const schema = z.strictObject({
  reason: z.array(
    z
      .strictObject({
        name: text,
        class: z.enum(REPLY_CLASSES).optional(),
        receiver: z.array(text).min(1).optional(),
        codes: z.array(code).min(1).optional(),
        pattern: pattern.optional(),
        bounce: z.enum(BOUNCE_CLASSES).optional(),
        sentence: text,
        fix: text,
        source: z.url({ protocol: /^https$/ }),
        samples: z.array(text).min(1),
      })
      .refine((entry) => entry.pattern ?? entry.codes ?? entry.bounce, 'an entry needs pattern, codes or bounce')
      .transform((entry) => ({ ...entry, words: `${entry.sentence} ${entry.fix}` })),
  ),
})

export type ReplyReason = z.output<typeof schema>['reason'][number]

/** The most characters of a reply that are read. */
const LOOKED_AT = 1000

/** Reads the entries of a file. Throws if it is malformed. */
export const parseReasons = (file: string): ReplyReason[] => schema.parse(parse(file)).reason

let shipped: { reasons: ReplyReason[]; named: ReadonlySet<string> } | undefined

function shippedReasons(): { reasons: ReplyReason[]; named: ReadonlySet<string> } {
  if (shipped) return shipped
  const reasons = parseReasons(configAsset('reply-reasons.toml'))
  shipped = { reasons, named: new Set(reasons.flatMap(({ receiver = [] }) => receiver)) }
  return shipped
}

/** A reply. `text` can start with the codes. */
export interface SaidReply {
  code?: number | null
  enhanced?: string | null
  text: string
}

/** Splits "550 5.1.1 No such user" into its parts: the text in a report often starts with the codes. */
function partsOf(given: SaidReply): { code: number | null; enhanced: string | null; text: string } {
  const [, ofText = '', enhancedOfText = '', words = ''] =
    /^(?:([45]\d\d)(?:[ -]|$))?(?:#?([45]\.\d{1,3}\.\d{1,3})(?:[ :]|$))?(.*)$/s.exec(given.text.slice(0, LOOKED_AT)) ??
    []
  return {
    code: given.code ?? (ofText === '' ? null : Number(ofText)),
    enhanced: given.enhanced ?? (enhancedOfText === '' ? null : enhancedOfText),
    text: words,
  }
}

function hasCode({ codes }: ReplyReason, enhanced: string | null): boolean {
  if (!codes) return true
  const at = enhanced?.lastIndexOf('.') ?? -1
  const detail = Number(enhanced?.slice(at + 1))
  return codes.some(({ family, from, to }) => enhanced?.slice(0, at) === family && detail >= from && detail <= to)
}

function isOf({ codes, receiver: of }: ReplyReason, receiver: string | undefined): boolean {
  if (!of) return true
  if (receiver !== undefined && shippedReasons().named.has(receiver)) return of.includes(receiver)
  return codes === undefined
}

/**
 * Returns the meaning of a reply, or undefined if no entry matches. `receiver`: the provider that sent it, by its name
 * in config/shaping.toml, or the recipient domain.
 */
export function reasonOf(given: SaidReply, receiver?: string): ReplyReason | undefined {
  const reply = partsOf(given)
  const line = [reply.code, reply.enhanced, reply.text].filter((part) => part !== null && part !== '').join(' ')
  const meant = classify({ stage: 'rcpt', ...reply })
  return shippedReasons().reasons.find(
    (each) =>
      isOf(each, receiver) &&
      hasCode(each, reply.enhanced) &&
      (each.pattern?.test(line) ?? true) &&
      (each.bounce === undefined || each.bounce === meant),
  )
}

/** Returns the subject of a reply, or undefined if no entry matches, or if only the receiving server has a problem. */
export const classOf = (given: SaidReply, receiver?: string): ReplyClass | undefined => reasonOf(given, receiver)?.class
