// The Authentication-Results fields of a received message (RFC 8601): only those of this server are trusted. Foreign
// fields that carry the name of this server are removed first.

/** The header block without Authentication-Results fields that carry our authserv-id (RFC 8601 §5). */
export function withoutForged(header: string, hostname: string): string {
  return header
    .split(/(?<=\n)(?![ \t])/)
    .filter((field) => {
      const [, value] = /^authentication-results[ \t]*:([\s\S]*)/i.exec(field) ?? []
      return value === undefined || !claims(value, hostname)
    })
    .join('')
}

/** The same for a record of decoded fields by lower-case name, where an encoded word cannot hide our name. */
export function withoutForgedField(
  headers: Readonly<Record<string, string | string[]>>,
  hostname: string,
): Record<string, string | string[]> {
  const { 'authentication-results': results, ...others } = headers
  const kept = [results ?? []].flat().filter((value) => !claims(value, hostname))
  const [first, second] = kept
  if (first === undefined) return others
  return { ...others, 'authentication-results': second === undefined ? first : kept }
}

/** Whether a field's value begins with our name: in any case, quoted, after comments, or with a version after it. */
function claims(value: string, hostname: string): boolean {
  const rest = value.slice(commentsEnd(value))
  const [, quoted, plain = ''] = /^(?:"((?:[^"\\]|\\[\s\S])*)"?|([^\s;(/"]*))/.exec(rest) ?? []
  const id = quoted === undefined ? plain : quoted.replace(/\\([\s\S])/g, '$1').trim()
  return id.toLowerCase().replace(/\.$/, '') === hostname.toLowerCase()
}

/** The index after leading white space and comments, which can be nested (RFC 5322 §3.2.2). */
function commentsEnd(value: string): number {
  let depth = 0
  let at = 0
  for (; at < value.length; at++) {
    const character = value.charAt(at)
    if (character === '(') depth++
    else if (character === ')' && depth > 0) depth--
    else if (character === '\\' && depth > 0) at++
    else if (depth === 0 && !/\s/.test(character)) break
  }
  return at
}
