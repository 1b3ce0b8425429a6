// The Authentication-Results of a received message (RFC 8601): only ours are believed. What claims to be ours and is not goes
// before anybody sees it.

/** The header block without Authentication-Results fields that bear our authserv-id (RFC 8601 §5). */
export function withoutForged(header: string, hostname: string): string {
  return header
    .split(/(?<=\n)(?![ \t])/)
    .filter((field) => {
      const [, value] = /^authentication-results[ \t]*:([\s\S]*)/i.exec(field) ?? []
      return value === undefined || !claims(value, hostname)
    })
    .join('')
}

/** The same of fields by their lower-case names, decoded: encoded words do not hide a name either. */
export function withoutForgedField(
  headers: Readonly<Record<string, string | string[]>>,
  hostname: string,
): Record<string, string | string[]> {
  const { 'authentication-results': results, ...others } = headers
  const kept = [results ?? []].flat().filter((value) => !claims(value, hostname))
  return kept.length === 0 ? others : { ...others, 'authentication-results': kept.length === 1 ? kept[0]! : kept }
}

/** Whether a field's value begins with our name: in any case, quoted, after comments, with a version behind it. */
function claims(value: string, hostname: string): boolean {
  const rest = value.slice(commentsEnd(value))
  const [, quoted, plain = ''] = /^(?:"((?:[^"\\]|\\[\s\S])*)"?|([^\s;(/"]*))/.exec(rest) ?? []
  const id = quoted === undefined ? plain : quoted.replace(/\\([\s\S])/g, '$1').trim()
  return id.toLowerCase().replace(/\.$/, '') === hostname.toLowerCase()
}

/** Where white space and comments, which nest (RFC 5322 §3.2.2), end. */
function commentsEnd(value: string): number {
  let depth = 0
  let at = 0
  for (; at < value.length; at++) {
    const character = value[at]!
    if (character === '(') depth++
    else if (character === ')' && depth > 0) depth--
    else if (character === '\\' && depth > 0) at++
    else if (depth === 0 && !/\s/.test(character)) break
  }
  return at
}
