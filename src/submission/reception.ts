// Receives email that applications submit over SMTP: the same rules and the same queue as POST /outbound-emails (D75).
// When `message` returns `accepted`, the email is on the disk.
import { comparable } from '../base/recipient-hash.ts'
import { createHash, type Hash } from 'node:crypto'
import { codeOf, Refusal } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { NoWorker, TookTooLong, WorkerLost, type Pool } from '../base/threads/pool.ts'
import type { Space } from '../base/space.ts'
import type { InboundJob, InboundResult, SubmittedReading } from '../inbound/reader.ts'
import { parseAddrSpec } from '../message/address.ts'
import { MAX_HEADER } from '../message/mime-tree.ts'
import { readSubmitted, UnsendableHeader, type SubmittedHeader } from '../message/submitted.ts'
import { keyForDay, submitEmail, type SubmitDeps } from '../mail/accept/submit.ts'
import { stopWords, suppressedFor } from '../suppressions/stops.ts'
import type { NewEmail } from '../mail/accept/admit.ts'
import type { SmtpRefusal } from '../smtp/answers.ts'
import type { InboundEnvelope } from '../smtp/listener.ts'
import { db, statement } from '../store/query.ts'
import { Intake, type HeldBytes } from '../store/intake.ts'
import { SPOOL_ABOVE } from '../store/spool.ts'
import { replyTo, wordsOf, termsOf, type Sender, type Senders } from './senders.ts'

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

export interface SubmissionDeps extends SubmitDeps {
  senders: Senders
  space: Pick<Space, 'low'>
  /** Reads MIME within its own CPU budget. */
  reader: Pick<Pool<InboundJob, InboundResult>, 'run'>
  maxBytes: number
}

type Accepted = { accepted: string }

const FULL: SmtpRefusal = { code: 452, text: '4.3.1 Out of storage; try again later' }
const TOO_LARGE: SmtpRefusal = { code: 552, text: '5.3.4 The message exceeds the size limit' }
const NO_MAILBOX: SmtpRefusal = { code: 553, text: '5.1.3 Invalid recipient address' }
const unsendable = (text: string): SmtpRefusal => ({ code: 554, text: `5.6.0 ${wordsOf(text)}` })

const activeDomain = statement<{ user_key: number; name: string }>()((arg) =>
  db
    .selectFrom('domains')
    .select(['key', 'name'])
    .where('user_key', '=', arg.user_key)
    .where('name', '=', arg.name)
    .where('status', '=', 'active')
    .where('deleted_at', 'is', null),
)

/** One domain of the user, and the number of domains, in a single row, so that `fact` can keep it. */
const activeDomains = statement<{ user_key: number }>()((arg) =>
  db
    .selectFrom('domains')
    .select((eb) => [eb.fn.min('key').as('key'), eb.fn.min('name').as('name'), eb.fn.countAll<number>().as('count')])
    .where('user_key', '=', arg.user_key)
    .where('status', '=', 'active')
    .where('deleted_at', 'is', null),
)

interface Coming {
  id: string
  intake: Intake
  /** The first bytes, until the header is complete. */
  head: Buffer[]
  header: SubmittedHeader | undefined
  messageId: string
  hash: Hash
  size: number
  check: ContentCheck
  refusal: SmtpRefusal | undefined
}

export class Submissions {
  readonly #deps: SubmissionDeps
  readonly #held: HeldBytes = { octets: 0 }

  constructor(deps: SubmissionDeps) {
    this.#deps = deps
  }

  /** At MAIL: whether this sender may send now. Our own return path replaces the given one. */
  welcome(sender: Sender): SmtpRefusal | undefined {
    return this.#deps.space.low ? FULL : this.#deps.senders.mayBegin(sender)
  }

  /** At DATA: whether this sender may still send. */
  data(sender: Sender): SmtpRefusal | undefined {
    return this.#deps.senders.stillThere(sender)
  }

  /** At RCPT: checks a recipient. Suppressions can be checked here only if the sending domain is known (D77). */
  recipient(address: string, from: string, sender: Sender): SmtpRefusal | undefined {
    const { clock, keyring, senders, store } = this.#deps
    const gone = senders.stillThere(sender)
    if (gone) return gone
    const parsed = parseAddrSpec(address)
    if (!parsed) return NO_MAILBOX
    const domain = this.#domainFor(from, sender)
    const found = domain && suppressedFor(store, keyring, domain.key, parsed.address, clock.now())
    if (!domain || !found) return undefined
    const words = `${parsed.address} is suppressed on ${domain.name}: ${stopWords(found)}`
    return { code: 550, text: `5.7.1 ${wordsOf(words)}` }
  }

  /** The domain in MAIL FROM, or the user's only domain, or undefined if the From field will show the domain. */
  #domainFor(from: string, { userKey: user_key }: Sender): { key: number; name: string } | undefined {
    const { store } = this.#deps
    const name = parseAddrSpec(from)?.domain
    const named = name === undefined ? undefined : store.fact(activeDomain({ user_key, name }))
    if (named) return named
    const all = store.fact(activeDomains({ user_key }))
    return all?.count === 1 ? all : undefined
  }

  /** Stores a message and queues it, or returns the refusal. */
  async message(
    bytes: AsyncIterable<Buffer>,
    envelope: InboundEnvelope,
    sound: () => SmtpRefusal | undefined,
    sender: Sender,
  ): Promise<SmtpRefusal | Accepted> {
    const { clock, senders, spool } = this.#deps
    const id = newId(clock.now())
    const coming: Coming = {
      id,
      intake: new Intake(spool, `${id}-raw`, this.#held),
      head: [],
      header: undefined,
      messageId: '',
      hash: createHash('sha256'),
      size: 0,
      check: new ContentCheck(),
      refusal: undefined,
    }
    try {
      for await (const chunk of bytes) await this.#take(coming, chunk)
      if (!coming.header && !coming.refusal) await this.#readHeader(coming, Buffer.concat(coming.head))
      const refusal = sound() ?? coming.refusal ?? senders.stillThere(sender)
      return refusal ?? (await this.#submit(coming, envelope, sender))
    } finally {
      await coming.intake.close()
    }
  }

  /** Reads to the end even after an error, because the reply comes after the final dot. */
  async #take(coming: Coming, chunk: Buffer): Promise<void> {
    coming.size += chunk.length
    if (coming.size > this.#deps.maxBytes) coming.refusal = TOO_LARGE
    coming.check.add(chunk)
    if (coming.check.fault !== undefined) coming.refusal ??= unsendable(coming.check.fault)
    if (coming.refusal) return
    coming.hash.update(chunk)
    if (coming.header) return coming.intake.add(chunk)
    coming.head.push(chunk)
    const head = Buffer.concat(coming.head)
    const [end, body] =
      head.indexOf('\r\n') === 0 ? [0, 2] : [head.indexOf('\r\n\r\n') + 2, head.indexOf('\r\n\r\n') + 4]
    if (body > 3 || end === 0) await this.#readHeader(coming, head.subarray(0, end), head.subarray(body))
    else if (head.length > MAX_HEADER) coming.refusal = unsendable(`The header is larger than ${MAX_HEADER / 1024} KB.`)
  }

  async #readHeader(coming: Coming, header: Buffer, rest: Buffer = Buffer.alloc(0)): Promise<void> {
    const { clock } = this.#deps
    coming.head = []
    try {
      coming.header = readSubmitted(header)
    } catch (thrown) {
      if (!(thrown instanceof UnsendableHeader)) throw thrown
      coming.refusal = thrown.wish
        ? { code: 554, text: `5.5.4 ${wordsOf(thrown.message)}` }
        : unsendable(thrown.message)
      return
    }
    const { domain } = coming.header.from
    coming.messageId = coming.header.messageId ?? `<${coming.id}@${domain}>`
    const edited = coming.header.edited({ messageId: coming.messageId, now: clock.now() })
    await coming.intake.add(Buffer.from(`${edited}\r\n`, 'latin1'))
    await coming.intake.add(rest)
  }

  async #submit(coming: Coming, envelope: InboundEnvelope, sender: Sender): Promise<SmtpRefusal | Accepted> {
    const { reader, senders, spool } = this.#deps
    const header = coming.header!
    let bytes = await coming.intake.end()
    let spooled = await coming.intake.keep()
    let taken = false
    try {
      const content = spooled === null ? (bytes as Buffer) : { file: spool.path(spooled) }
      const { longLine } = coming.check
      const { body, bytes: shorter, refused, unreadable } = await read(reader, content, longLine !== undefined)
      if (unreadable !== null) return unsendable(`The message cannot be read as MIME. ${unreadable}`)
      if (longLine !== undefined) {
        if (shorter === null) return unsendable(longLine)
        if (spooled !== null) await spool.remove(spooled)
        bytes = Buffer.from(shorter)
        spooled = bytes.length > SPOOL_ABOVE ? await spool.put(`${coming.id}-raw`, bytes) : null
      }
      if (refused !== null) return { code: 554, text: `5.7.0 ${wordsOf(refused)}` }
      const token = senders.tokenOf(sender)
      const hash = coming.hash.update(`\n${envelope.to.toSorted().join('\n')}`).digest()
      const given: NewEmail = {
        from: header.fromText,
        ...rolesOf(distinct(envelope.to), header),
        subject: header.subject,
        html: '',
        ...termsOf(token, header.wishes.agent_id),
        track_opens: header.wishes.track_opens,
        track_clicks: header.wishes.track_clicks,
        ai_disclosure: header.wishes.ai_disclosure,
        idempotency_key: header.wishes.idempotency_key ?? this.#keyOf(coming, hash, sender),
        message: {
          id: coming.id,
          messageId: coming.messageId,
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
      }
      const { email } = await submitEmail(this.#deps, sender.userKey, given)
      taken = true
      return { accepted: `2.0.0 Ok: queued as ${email.id}` }
    } catch (thrown) {
      // A commit whose sync failed may exist after a restart. In that case its file is needed.
      taken = codeOf(thrown).startsWith('SQLITE_IOERR')
      if (thrown instanceof Refusal) return replyTo(thrown)
      throw thrown
    } finally {
      if (!taken && spooled !== null) await spool.remove(spooled)
    }
  }

  /**
   * The idempotency key: if a client repeats a message after a lost 250, the email must be sent only once. Token and
   * Message-ID are the key for 24 hours (D75). The same Message-ID with other bytes or recipients is another email:
   * relays send one message in several transactions.
   */
  #keyOf({ header, messageId }: Coming, hash: Buffer, { tokenKey, userKey }: Sender): string | undefined {
    if (header!.messageId === null) return undefined
    const pair = createHash('sha256').update(`${tokenKey}\n${messageId}\n`).update(hash).digest('hex').slice(0, 32)
    return keyForDay(this.#deps, userKey, (day) => `smtp ${day} ${pair}`)
  }
}

/**
 * Reads a message. A message that takes too much time or ends its thread is rejected, because its content is unknown.
 * Throws the errors of this server.
 */
async function read(
  reader: SubmissionDeps['reader'],
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
