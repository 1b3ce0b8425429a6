// The unsubscribe header of an email whose sender manages the list (RFC 2369, RFC 8058).

/** The unsubscribe links of an email. */
export interface Unsubscribe {
  /** URIs of the sender. */
  uris: readonly string[]
  /** Whether a POST to the https URI unsubscribes. */
  one_click: boolean
  /** Whether this server's own address is added. */
  mail: boolean
}

/** Every URI fits on a line of the header (RFC 5322 §2.1.1). */
export const MAX_URI = 900

/** Whether a text is an https, http or mailto URI that can be in angle brackets. */
export const isUnsubscribeUri = (text: string): boolean =>
  text.length <= MAX_URI &&
  /^(?:https?:\/\/[\w[]|mailto:[^@?]+@\w)[\x21-\x7e]*$/i.test(text) &&
  !/[<>"\\^`{|}]/.test(text) &&
  URL.canParse(text)

/** The header fields. `mailto` is this server's own address for the recipient. */
export function unsubscribeFields({ mail, one_click, uris }: Unsubscribe, mailto: string): [string, string][] {
  const all = [...uris, ...(mail ? [mailto] : [])]
  return [
    ['List-Unsubscribe', all.map((uri) => `<${uri}>`).join(', ')],
    ...(one_click ? [['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click'] as [string, string]] : []),
  ]
}
