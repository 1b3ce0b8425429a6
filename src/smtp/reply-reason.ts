// What a reply of a receiver means, in one sentence with what to do, and what it is about: data from
// config/reply-reasons.toml. It explains and decides nothing; what a refusal means for an address is bounce-class.ts.
import { parse } from 'smol-toml'
import { z } from 'zod'
import { configAsset } from '../base/assets.ts'
import { BOUNCE_CLASSES, classify } from './bounce-class.ts'

/** What a reply is about. The first six are about this server and its domains. */
const ABOUT_US = ['block', 'rate', 'reputation', 'authentication', 'reverse', 'policy'] as const
export const REPLY_CLASSES = [...ABOUT_US, 'tls', 'content', 'user', 'full', 'greylist'] as const
export type ReplyClass = (typeof REPLY_CLASSES)[number]

/** Whether a reply speaks of this server or its domains: not of the mail, the mailbox or its owner. */
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
        mend: text,
        source: z.url({ protocol: /^https$/ }),
        samples: z.array(text).min(1),
      })
      .refine((entry) => entry.pattern ?? entry.codes ?? entry.bounce, 'an entry needs pattern, codes or bounce')
      .transform((entry) => ({ ...entry, words: `${entry.sentence} ${entry.mend}` })),
  ),
})

export type ReplyReason = z.output<typeof schema>['reason'][number]

/** Characters of a reply that are looked at. */
const LOOKED_AT = 1000

/** Reads the entries of a file. Throws when it is malformed. */
export const parseReasons = (file: string): ReplyReason[] => schema.parse(parse(file)).reason

let shipped: { reasons: ReplyReason[]; named: ReadonlySet<string> } | undefined

function shippedReasons(): { reasons: ReplyReason[]; named: ReadonlySet<string> } {
  if (shipped) return shipped
  const reasons = parseReasons(configAsset('reply-reasons.toml'))
  shipped = { reasons, named: new Set(reasons.flatMap(({ receiver = [] }) => receiver)) }
  return shipped
}

/** What is known of a reply; `text` may begin with the codes. */
export interface SaidReply {
  code?: number | null
  enhanced?: string | null
  text: string
}

/** "550 5.1.1 No such user" in its parts; a text of a report often begins with the codes. */
function partsOf(said: SaidReply): { code: number | null; enhanced: string | null; text: string } {
  const [, ofText = '', enhancedOfText = '', words = ''] =
    /^(?:([45]\d\d)(?:[ -]|$))?(?:#?([45]\.\d{1,3}\.\d{1,3})(?:[ :]|$))?(.*)$/s.exec(said.text.slice(0, LOOKED_AT)) ??
    []
  return {
    code: said.code ?? (ofText === '' ? null : Number(ofText)),
    enhanced: said.enhanced ?? (enhancedOfText === '' ? null : enhancedOfText),
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
 * The meaning of a reply; undefined when no entry knows it. `receiver`: the provider that gave it, by its name in
 * config/shaping.toml, or the receiving domain.
 */
export function reasonOf(said: SaidReply, receiver?: string): ReplyReason | undefined {
  const reply = partsOf(said)
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

/** What a reply is about; undefined when no entry knows it, or when it is trouble of the receiver alone. */
export const classOf = (said: SaidReply, receiver?: string): ReplyClass | undefined => reasonOf(said, receiver)?.class
