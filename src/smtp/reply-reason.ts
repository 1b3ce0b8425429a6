// What a reply of a receiver means, in one sentence with what to do: data from config/reply-reasons.toml. It explains
// and decides nothing; what a refusal means for an address is bounce-class.ts.
import { parse } from 'smol-toml'
import { z } from 'zod'
import { configAsset } from '../base/assets.ts'
import { BOUNCE_CLASSES, classify } from './bounce-class.ts'

const entry = {
  name: z.string().min(1),
  words: z.string().min(1),
  samples: z.array(z.string().min(1)).min(1),
}
const schema = z.strictObject({
  reason: z.array(
    z.union([
      z.strictObject({
        ...entry,
        pattern: z
          .string()
          .min(1)
          .transform((text) => new RegExp(text, 'i')),
      }),
      z.strictObject({ ...entry, class: z.enum(BOUNCE_CLASSES) }),
    ]),
  ),
})

export type ReplyReason = z.output<typeof schema>['reason'][number]

/** Characters of a reply that are looked at. */
const LOOKED_AT = 1000

/** Reads the entries of a file. Throws when it is malformed. */
export const parseReasons = (text: string): ReplyReason[] => schema.parse(parse(text)).reason

let shipped: ReplyReason[] | undefined

/** What is known of a reply; `text` may begin with the codes. */
export interface SaidReply {
  code?: number | null
  enhanced?: string | null
  text: string
}

/** "550 5.1.1 No such user" in its parts; a text of a report often begins with the codes. */
function partsOf({ code, enhanced, text }: SaidReply): { code: number | null; enhanced: string | null; text: string } {
  const [, ofText = '', enhancedOfText = '', words = ''] =
    /^(?:([45]\d\d)(?:[ -]|$))?(?:#?([45]\.\d{1,3}\.\d{1,3})(?:[ :]|$))?(.*)$/s.exec(text.slice(0, LOOKED_AT)) ?? []
  return {
    code: code ?? (ofText === '' ? null : Number(ofText)),
    enhanced: enhanced ?? (enhancedOfText === '' ? null : enhancedOfText),
    text: words,
  }
}

/** The reason that a reply gives; undefined when no entry knows it. */
export function reasonOf(said: SaidReply): Pick<ReplyReason, 'name' | 'words'> | undefined {
  shipped ??= parseReasons(configAsset('reply-reasons.toml'))
  const reply = partsOf(said)
  const line = [reply.code, reply.enhanced, reply.text].filter((part) => part !== null && part !== '').join(' ')
  const meant = classify({ stage: 'rcpt', ...reply })
  return shipped.find((each) => ('class' in each ? each.class === meant : each.pattern.test(line)))
}
