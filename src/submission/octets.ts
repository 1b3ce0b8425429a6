// Refuses octets that a mail must not have when it is sent on unchanged: a NUL, and too long lines, because other
// servers would divide such lines and so break the signature.

/** Octets of a line without its end (RFC 5321 §4.5.3.1.6). */
const MAX_LINE = 998

/** Checks a message while it arrives. */
export class OctetCheck {
  #line = 0
  #lines = 1
  #fault: string | undefined
  #long: string | undefined

  /** A sentence for the sender; undefined: no fault so far. */
  get fault(): string | undefined {
    return this.#fault
  }

  /** A sentence about a line that is too long, which another encoding would shorten; undefined: there is none. */
  get longLine(): string | undefined {
    return this.#long
  }

  add(chunk: Buffer): void {
    if (this.#fault !== undefined) return
    if (chunk.includes(0)) this.#fault = 'The message holds a NUL octet; encode it (RFC 5321 §4.5.2).'
    for (let at = 0; at < chunk.length && this.#long === undefined;) {
      const end = chunk.indexOf('\r\n', at, 'latin1')
      this.#line += (end < 0 ? chunk.length : end) - at
      // A CR at the end of the chunk may belong to the line end.
      if (this.#line > MAX_LINE + 1 || (end >= 0 && this.#line > MAX_LINE))
        this.#long = `Line ${this.#lines} of the message is longer than ${MAX_LINE} octets (RFC 5321 §4.5.3.1.6); send it as quoted-printable or base64.`
      if (end < 0) return
      this.#line = 0
      this.#lines++
      at = end + 2
    }
  }
}
