// The hash of a relaxed body (RFC 6376 §3.4.4) that is canonical already: no copy is made of it.
import { hash } from 'node:crypto'
import { scan } from './octet-scan.ts'

const [LF, CR] = [10, 13]

/**
 * The SHA-256 in base64 of a body of printable ASCII in lines that end with CRLF, without tabs, runs of spaces and
 * spaces before line ends; undefined for any other body, and for one that shows nothing.
 */
export function hashOfCanonical(body: Buffer): string | undefined {
  if (scan(body) !== 0) return undefined
  let end = body.length
  // Empty lines at the end do not count; a last line without CRLF gets one.
  while (end >= 4 && body[end - 1] === LF && body[end - 3] === LF) end -= 2
  if (end < 3 || body[end - 1] !== LF || body[end - 2] !== CR) return undefined
  return hash('sha256', body.subarray(0, end), 'base64')
}
