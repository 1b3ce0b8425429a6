// A message while it arrives, by SMTP or in a request of the API: its header is read and edited, its bytes are checked
// and stored, and it is queued as an outbound email (D75, D77). When `submit` resolves, the email is on the disk.
import { createHash, type Hash } from 'node:crypto'
import { codeOf, must, refuseAttribute, type Code, type Refusal } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { comparable } from '../base/recipient-hash.ts'
import { NoWorker, TookTooLong, WorkerLost, type Pool } from '../base/threads/pool.ts'
import type { InboundJob, InboundResult, SubmittedReading } from '../inbound/reader.ts'
import type { NewEmail } from '../mail/accept/admit.ts'
import { keyForDay, submitEmail, type SubmitDeps, type Submitted } from '../mail/accept/submit.ts'
import { MAX_HEADER } from '../message/mime-tree.ts'
import { readSubmitted, UnsendableHeader, type SubmittedHeader, type SubmittedWishes } from '../message/submitted.ts'
import { Intake, type HeldBytes } from '../store/intake.ts'
import { SPOOL_ABOVE } from '../store/spool.ts'

// Rejects content that an email must not have if it is sent unchanged: a NUL, and too long lines, because other servers
// would divide such lines and so break the signature.

/** Bytes of a line without its end (RFC 5321 §4.5.3.1.6). */
const MAX_LINE = 998

export class ContentCheck {
  #line = 0
  #lines = 1
  #fault: string | undefined
  #long: string | undefined

  /** An error message for the sender, or undefined if the message is valid so far. */
  get fault(): string | undefined {
    return this.#fault
  }

  /**
   * A sentence about a line that is too long, which another encoding would shorten, or undefined without such a line.
   */
  get longLine(): string | undefined {
    return this.#long
  }

  add(chunk: Buffer): void {
    if (this.#fault !== undefined) return
    if (chunk.includes(0)) this.#fault = 'The message contains a NUL byte. Encode it (RFC 5321 §4.5.2).'
    for (let at = 0; at < chunk.length && this.#long === undefined;) {
      const end = chunk.indexOf('\r\n', at, 'latin1')
      this.#line += (end < 0 ? chunk.length : end) - at
      // A CR at the end of the chunk may belong to the line end.
      if (this.#line > MAX_LINE + 1 || (end >= 0 && this.#line > MAX_LINE))
        this.#long = `Line ${this.#lines} of the message is longer than ${MAX_LINE} bytes (RFC 5321 §4.5.3.1.6). Encode it as quoted-printable or base64.`
      if (end < 0) return
      this.#line = 0
      this.#lines++
      at = end + 2
    }
  }
}

// The recipients of a submitted mail come from the envelope. The header only gives the role of each recipient (D75).
interface Roles {
  to: string
  cc: string[]
  bcc: string[]
}

/**
 * The primary recipient is the first recipient of the envelope that is in To, otherwise the first of all. Recipients in
 * Cc are visible, all others are hidden (bcc). An address keeps its spelling in the header.
 */
function rolesOf(recipients: readonly string[], { cc, to }: Pick<SubmittedHeader, 'to' | 'cc'>): Roles {
  const key = comparable
  const primary = recipients.find((address) => to.has(key(address))) ?? recipients[0]!
  const rest = recipients.filter((address) => key(address) !== key(primary))
  const [seen, unseen] = [
    rest.filter((address) => cc.has(key(address))),
    rest.filter((address) => !cc.has(key(address))),
  ]
  return {
    to: to.get(key(primary)) ?? primary,
    cc: seen.map((address) => cc.get(key(address))!),
    bcc: unseen,
  }
}

export interface MessageDeps extends SubmitDeps {
  /** Reads MIME within its own CPU budget. */
  reader: Pick<Pool<InboundJob, InboundResult>, 'run'>
  maxBytes: number
}

/** A refusal of the message itself. SMTP replies do not show the attribute. */
const unsendable = (text: string, code: Code = 'invalid'): Refusal => refuseAttribute(code, 'raw', text)

/** What the sender of a message adds to it. */
export interface Submitting {
  userKey: number
  /** The token of the sender: its repeats are the same email. */
  token: string | number
  recipients: readonly string[]
  /** Attributes of the email, by the fields of its header that are for this server. */
  attributes: (wishes: SubmittedWishes) => Partial<NewEmail>
  /** A hash of the attributes, if a repeat must have the same. */
  asked?: Buffer
}

export class ComingMessage {
  readonly #deps: MessageDeps
  readonly #id: string
  readonly #intake: Intake
  readonly #hash: Hash = createHash('sha256')
  readonly #check = new ContentCheck()
  /** The first bytes, until the header is complete. */
  #head: Buffer[] = []
  #header: SubmittedHeader | undefined
  #messageId = ''
  #size = 0
  /** Why the message cannot be sent, or undefined if it can so far. */
  refusal: Refusal | undefined

  /** `held` is shared by all messages of the same source. */
  constructor(deps: MessageDeps, held: HeldBytes) {
    this.#deps = deps
    this.#id = newId(deps.clock.now())
    this.#intake = new Intake(deps.spool, `${this.#id}-raw`, held)
  }

  /** Reads to the end even after an error, because an SMTP reply comes after the final dot. */
  async readAll(bytes: AsyncIterable<Buffer>): Promise<void> {
    for await (const chunk of bytes) await this.#take(chunk)
    if (!this.#header && !this.refusal) await this.#readHeader(Buffer.concat(this.#head))
  }

  /** Frees the memory, and deletes the file of a message that was not submitted. */
  close(): Promise<void> {
    return this.#intake.close()
  }

  async #take(chunk: Buffer): Promise<void> {
    this.#size += chunk.length
    const { maxBytes } = this.#deps
    if (this.#size > maxBytes)
      this.refusal = unsendable(
        `The message exceeds the size limit of ${maxBytes} bytes. Make it smaller.`,
        'message_too_large',
      )
    this.#check.add(chunk)
    if (this.#check.fault !== undefined) this.refusal ??= unsendable(this.#check.fault)
    if (this.refusal) return
    this.#hash.update(chunk)
    if (this.#header) return this.#intake.add(chunk)
    this.#head.push(chunk)
    const head = Buffer.concat(this.#head)
    const [end, body] =
      head.indexOf('\r\n') === 0 ? [0, 2] : [head.indexOf('\r\n\r\n') + 2, head.indexOf('\r\n\r\n') + 4]
    if (body > 3 || end === 0) await this.#readHeader(head.subarray(0, end), head.subarray(body))
    else if (head.length > MAX_HEADER) this.refusal = unsendable(`The header is larger than ${MAX_HEADER / 1024} KB.`)
  }

  async #readHeader(header: Buffer, rest: Buffer = Buffer.alloc(0)): Promise<void> {
    this.#head = []
    try {
      this.#header = readSubmitted(header)
    } catch (thrown) {
      if (!(thrown instanceof UnsendableHeader)) throw thrown
      this.refusal = unsendable(thrown.message, thrown.wish ? 'reserved_header' : 'invalid')
      return
    }
    const { domain } = this.#header.from
    this.#messageId = this.#header.messageId ?? `<${this.#id}@${domain}>`
    const edited = this.#header.edited({ messageId: this.#messageId, now: this.#deps.clock.now() })
    await this.#intake.add(Buffer.from(`${edited}\r\n`, 'latin1'))
    await this.#intake.add(rest)
  }

  /** Queues the message. Throws a Refusal. */
  async submit({ asked, attributes, recipients, token, userKey }: Submitting): Promise<Submitted> {
    if (this.refusal) throw this.refusal
    const { reader, spool } = this.#deps
    const header = must(this.#header, 'The header of a message')
    let bytes = await this.#intake.end()
    let spooled = await this.#intake.keep()
    let taken = false
    try {
      const content = spooled === null ? (bytes as Buffer) : { file: spool.path(spooled) }
      const { longLine } = this.#check
      const { body, bytes: shorter, refused, unreadable } = await read(reader, content, longLine !== undefined)
      if (unreadable !== null) throw unsendable(`The message cannot be read as MIME. ${unreadable}`)
      if (longLine !== undefined) {
        if (shorter === null) throw unsendable(longLine)
        if (spooled !== null) await spool.remove(spooled)
        bytes = Buffer.from(shorter)
        spooled = bytes.length > SPOOL_ABOVE ? await spool.put(`${this.#id}-raw`, bytes) : null
      }
      if (refused !== null) throw unsendable(refused, 'forbidden_attachment')
      this.#hash.update(`\n${recipients.toSorted().join('\n')}`)
      if (asked !== undefined) this.#hash.update(asked)
      const hash = this.#hash.digest()
      const { wishes } = header
      const own = attributes(wishes)
      const submitted = await submitEmail(this.#deps, userKey, {
        from: header.fromText,
        ...rolesOf(distinct(recipients), header),
        subject: header.subject,
        html: '',
        track_opens: wishes.track_opens,
        track_clicks: wishes.track_clicks,
        ai_disclosure: wishes.ai_disclosure,
        ...own,
        idempotency_key: own.idempotency_key ?? wishes.idempotency_key ?? this.#keyOf(hash, token, userKey),
        message: {
          id: this.#id,
          messageId: this.#messageId,
          html: body.html,
          text: body.text,
          bytes: spooled === null ? (bytes as Buffer) : { spooled },
          attachments: body.attachments.map(({ content_id, content_type, disposition, filename, size }) => ({
            filename: filename ?? '',
            contentType: content_type,
            contentId: content_id,
            disposition,
            size,
          })),
          hash,
        },
      })
      taken = true
      return submitted
    } catch (thrown) {
      // A commit whose sync failed may exist after a restart. In that case its file is needed.
      taken = codeOf(thrown).startsWith('SQLITE_IOERR')
      throw thrown
    } finally {
      if (!taken && spooled !== null) await spool.remove(spooled)
    }
  }

  /**
   * The idempotency key: if a client repeats a message after a lost answer, the email must be sent only once. Token and
   * Message-ID are the key for 24 hours (D75). The same Message-ID with other bytes or recipients is another email:
   * relays send one message in several transactions.
   */
  #keyOf(hash: Buffer, token: string | number, userKey: number): string | undefined {
    const messageId = this.#header?.messageId ?? null
    if (messageId === null) return undefined
    const pair = createHash('sha256').update(`${token}\n${messageId}\n`).update(hash).digest('hex').slice(0, 32)
    return keyForDay(this.#deps, userKey, (day) => `smtp ${day} ${pair}`)
  }
}

/**
 * Reads a message. A message that takes too much time or ends its thread is rejected, because its content is unknown.
 * Throws the errors of this server.
 */
async function read(
  reader: MessageDeps['reader'],
  content: Buffer | { file: string },
  longLines: boolean,
): Promise<SubmittedReading> {
  try {
    return (await reader.run({ task: 'submitted', content, longLines })) as SubmittedReading
  } catch (thrown) {
    const message = thrown instanceof TookTooLong || (thrown instanceof WorkerLost && !(thrown instanceof NoWorker))
    if (!message) throw thrown
    const unreadable = 'Parsing it exceeded the time limit.'
    return {
      kind: 'submitted',
      body: { text: null, html: null, attachments: [] },
      refused: null,
      unreadable,
      bytes: null,
    }
  }
}

function distinct(addresses: readonly string[]): string[] {
  const seen = new Set<string>()
  return addresses.filter((address) => !seen.has(comparable(address)) && seen.add(comparable(address)))
}
