// The local part of an email address (RFC 5321 §4.1.2): a dot-string, or a quoted string such as "a..b". Both forms can
// name one mailbox, which has one form here: the dot-string if there is one, else the shortest quoted string.

const DOT_STRING = /^[\p{L}\p{N}\p{M}!#$%&'*+/=?^_`{|}~-]+(?:\.[\p{L}\p{N}\p{M}!#$%&'*+/=?^_`{|}~-]+)*$/u
const QUOTED = /^"((?:[^"\\]|\\.)*)"$/su
/** The allowed characters (QcontentSMTP, RFC 6531 §3.3): printable ASCII and letters of other scripts. */
const CONTENT = /^[\x20-\x7e\p{L}\p{N}\p{M}]+$/u

/** A local part in its one form, or undefined if the text is not a local part. */
export function localPart(text: string): string | undefined {
  if (DOT_STRING.test(text)) return text
  const content = QUOTED.exec(text)?.[1]?.replace(/\\(.)/gsu, '$1')
  return content === undefined || !CONTENT.test(content) ? undefined : asLocalPart(content)
}

/** The local part with this content, in quotes where it needs them. */
export const asLocalPart = (content: string): string =>
  DOT_STRING.test(content) ? content : `"${content.replace(/["\\]/g, '\\$&')}"`
