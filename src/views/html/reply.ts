// SMTP replies on pages.
interface ShownReply {
  enhanced_code?: string | null
  response?: string | null
  smtp_code?: number | null
}

/** An SMTP reply in one line. The text of a report often starts with the codes, which are not repeated. */
export function answerOf({ enhanced_code: enhanced, response, smtp_code: code }: ShownReply): string {
  const words = String(response ?? '')
  return /^\d{3}(?:[ -]|$)/.test(words) ? words : [code, enhanced, words].filter(Boolean).join(' ')
}

/** The codes and the text of an SMTP reply. A text that starts with the codes is split. */
export function replyParts({ enhanced_code, response, smtp_code }: ShownReply): [string, string, string] {
  const words = response ?? ''
  const [lead = '', code = '', enhanced = ''] =
    /^(?:(\d{3})(?:[ -]+|$))?(?:(\d\.\d{1,3}\.\d{1,3})(?:\s+|$))?/.exec(words) ?? []
  return [String(smtp_code ?? code), enhanced_code ?? enhanced, words.slice(lead.length)]
}
