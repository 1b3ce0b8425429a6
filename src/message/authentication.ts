// The Authentication-Results of a received message (RFC 8601): only ours are believed. What claims to be ours and is not goes
// before anybody sees it.

/** The header block without Authentication-Results fields that bear our authserv-id (RFC 8601 §5). */
export function withoutForged(header: string, hostname: string): string {
  const own = hostname.toLowerCase()
  return header
    .split(/(?<=\n)(?![ \t])/)
    .filter((field) => {
      const [, id] = /^authentication-results[ \t]*:\s*(?:\([^)]*\)\s*)*"?([^\s;"]+)/i.exec(field) ?? []
      return id === undefined || id.toLowerCase() !== own
    })
    .join('')
}
