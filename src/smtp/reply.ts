// Reads SMTP replies (RFC 5321 §4.2, RFC 2034) of foreign servers: their length is limited, their text is cleaned, and
// bytes that are not SMTP are rejected.
import { StringDecoder } from 'node:string_decoder'
import { forLog } from '../base/clean-text.ts'
import { counters } from '../base/counters.ts'
import { isAddress } from '../base/network.ts'

export interface SmtpReply {
  /** 200 to 599. */
  code: number
  /** "5.1.1" if the text starts with a code whose class matches (RFC 3463), otherwise null. */
  enhanced: string | null
  /** The text of all lines without enhanced codes, cleaned of control characters and cut. */
  text: string
  /** The lines as received, at most 100 of at most 2,048 bytes. */
  lines: readonly string[]
}

/** The longest line in bytes. RFC 5321 §4.5.3.1.5 allows 512, but some servers send more. */
const MAX_LINE = 2048
const MAX_LINES = 100

/**
 * Collects the bytes of a server into replies. `push` returns the complete replies, even when bytes that are not SMTP
 * follow them.
 */
export class ReplyReader {
  readonly #decoder = new StringDecoder('utf8')
  #rest = ''
  #lines: string[] = []
  /** The server sent bytes that are not SMTP. The rest cannot be read. */
  broken = false

  /** Takes the next bytes. Returns the replies that are complete now (RFC 5321 §4.2.1). */
  push(chunk: Buffer): SmtpReply[] {
    const replies: SmtpReply[] = []
    this.#rest += this.#decoder.write(chunk)
    while (!this.broken) {
      const end = this.#rest.indexOf('\n')
      if (end < 0) break
      const line = this.#rest.slice(0, end).replace(/\r$/, '')
      this.#rest = this.#rest.slice(end + 1)
      const [, code, mark, text] = /^([2-5]\d\d)([ -]|$)(.*)$/s.exec(line) ?? []
      this.broken = line.length > MAX_LINE || code === undefined || this.#lines.length >= MAX_LINES
      if (this.broken || code === undefined) break
      this.#lines.push(text ?? '')
      if (mark === '-') continue
      counters.smtp.add({ direction: 'out', class: `${code[0]}xx` })
      replies.push(readReply(Number(code), this.#lines))
      this.#lines = []
    }
    this.broken ||= this.#rest.length > MAX_LINE
    return replies
  }

  /** True when part of a reply has arrived. */
  get hasRest(): boolean {
    return this.#rest.length > 0 || this.#lines.length > 0
  }
}

function readReply(code: number, lines: readonly string[]): SmtpReply {
  const enhanced = /^([245])\.(\d{1,3})\.(\d{1,3})(?=\s|$)/.exec(lines[0]!)
  // When the two codes disagree, the class of the basic code counts.
  const fits = enhanced !== null && enhanced[1] === String(code)[0]
  const words = fits ? lines.map((line) => line.replace(enhanced[0], '').trimStart()) : lines
  return { code, enhanced: fits ? enhanced[0] : null, text: forLog(words.join('\n')), lines }
}

/** The address that the server saw, where the first line of its EHLO reply names it, as those of large receivers do. */
export function addressIn({ lines }: Pick<SmtpReply, 'lines'>): string | undefined {
  const text = /\[(?:IPv6:)?([\da-fA-F.:]{3,45})\]/.exec(lines[0] ?? '')?.[1]
  return text !== undefined && isAddress(text) ? text : undefined
}

/**
 * The keywords of an EHLO reply (RFC 5321 §4.1.1.1) with their parameters, upper case: "SIZE" -> "35882577".
 * The first line is the host's name.
 */
export function readCapabilities({ lines }: SmtpReply): Map<string, string> {
  return new Map(
    lines.slice(1).map((line) => {
      const [keyword = '', ...parameters] = line.trim().split(/\s+/)
      return [keyword.toUpperCase(), parameters.join(' ').toUpperCase()] as const
    }),
  )
}
