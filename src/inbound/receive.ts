// Receives a message: writes it to memory or, if it is large, to the spool, has it scanned, and writes its row. When
// `message` resolves with undefined, the message is on the disk and will be processed (RFC 5321 §6.1).
import { sole } from '../base/lists.ts'
import { forLog } from '../base/clean-text.ts'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { codeOf } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { rfc5322Date } from '../message/compose.ts'
import { MAX_HEADER } from '../message/mime-tree.ts'
import type { SmtpRefusal } from '../smtp/answers.ts'
import type { InboundEnvelope } from '../smtp/listener.ts'
import type { Store, Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import { Intake, type HeldBytes } from '../store/intake.ts'
import type { Spool } from '../store/spool.ts'
import type { NewRow } from '../store/schema/tables.ts'
import { insertWaiting, LEASE } from './claims.ts'
import type { InboundEngine } from './reading.ts'
import type { InboundMessage } from './queue.ts'
import { isRefusal, judgeRecipient, type InboundRecipient } from './recipients.ts'
import { scan } from './scan.ts'

export interface ReceiveDeps {
  store: Store
  spool: Spool
  clock: Clock
  keyring: Keyring
  log: Log
  config: Pick<Config, 'hostname' | 'inbound'>
  /** Examines stored messages (reading.ts). */
  engine: Pick<InboundEngine, 'storageFor' | 'take'>
  /** The number of clients at work (listener.ts). */
  clientsAtWork: () => number
}

/**
 * While fewer clients than this are at work, the row of a message is written immediately. With more, it waits a while
 * for each of them, so that their rows share its commit: about as long as they need to send their messages. Counting
 * the messages that arrive is not enough: of twenty clients that connect for each message, most are at their greeting
 * or at an address at any moment, and each message would have its own commit.
 */
const FEW = 3
const MS_PER_CLIENT = 0.25
const MAX_WAIT_MS = 5
/** The most servers that a message may pass (RFC 5321 §6.3). */
const MAX_RECEIVED = 100

const TOO_LARGE: SmtpRefusal = { code: 552, text: '5.3.4 The message exceeds the size limit' }
const LOOP: SmtpRefusal = { code: 554, text: '5.4.6 Too many hops; mail loop detected' }
const UNSCANNED: SmtpRefusal = { code: 451, text: '4.7.1 Message scanner unavailable; try again later' }

export const insertMessage = statement<NewRow<'inbound_messages'> & { key?: never }>()((arg) =>
  db.insertInto('inbound_messages').values({
    id: arg.id,
    mail_from: arg.mail_from,
    recipients: arg.recipients,
    client: arg.client,
    helo: arg.helo,
    received: arg.received,
    size: arg.size,
    content: arg.content,
    spool: arg.spool,
    cut: arg.cut,
    virus: arg.virus,
    received_at: arg.received_at,
    attempts: arg.attempts,
  }),
)

export class Reception {
  readonly #deps: ReceiveDeps
  readonly #held: HeldBytes = { octets: 0 }

  constructor(deps: ReceiveDeps) {
    this.#deps = deps
  }

  /** The refusal of an address, or undefined if it is accepted. */
  recipient(address: string): SmtpRefusal | undefined {
    const judged = judgeRecipient(this.#deps, address)
    return isRefusal(judged) ? judged : undefined
  }

  /** Stores a message, or returns the refusal. */
  async message(
    bytes: AsyncIterable<Buffer>,
    envelope: InboundEnvelope,
    sound: () => SmtpRefusal | undefined,
  ): Promise<SmtpRefusal | undefined> {
    const now = this.#deps.clock.now()
    const id = newId(now)
    const intake = new Intake(this.#deps.spool, id, this.#held)
    let name: string | null = null
    try {
      const { head, size } = await this.#collect(bytes, intake)
      const refusal = sound()
      if (refusal) return refusal
      const cut = size > this.#deps.config.inbound.max_message_bytes
      const header = headerOf(Buffer.concat(head))
      if (hops(header) >= MAX_RECEIVED) return LOOP
      const whole = await intake.end()
      const found = cut ? null : await this.#scan(whole)
      if (found !== null && typeof found === 'object') return found
      if (!cut) name = await intake.keep()
      const unwanted = await this.#write(id, envelope, now, {
        size,
        content: cut ? header : 'file' in whole ? null : whole,
        spool: name,
        cut: cut ? 1 : 0,
        virus: found,
      })
      if (unwanted && name !== null) await this.#deps.spool.remove(name)
      return cut ? TOO_LARGE : unwanted
    } catch (thrown) {
      // A commit whose sync failed may exist after a restart. In that case its file is needed. If it does not exist,
      // the file is moved into quarantine.
      if (name !== null && !codeOf(thrown).startsWith('SQLITE_IOERR')) await this.#deps.spool.remove(name)
      throw thrown
    } finally {
      await intake.close()
    }
  }

  /**
   * Reads to the end. Returns the beginning, for its header, and the number of bytes. Bytes beyond the limit are
   * discarded.
   */
  async #collect(bytes: AsyncIterable<Buffer>, intake: Intake): Promise<{ head: Buffer[]; size: number }> {
    const head: Buffer[] = []
    let size = 0
    for await (const chunk of bytes) {
      if (size <= MAX_HEADER) head.push(chunk)
      size += chunk.length
      if (size <= this.#deps.config.inbound.max_message_bytes) await intake.add(chunk)
    }
    return { head, size }
  }

  /** The name of a virus, null if the content is clean, or a refusal if the scanner has no result. */
  async #scan(content: Uint8Array | { file: string }): Promise<string | SmtpRefusal | null> {
    const { config, log } = this.#deps
    if (config.inbound.clamav === '') return null
    const result = await scan(config.inbound.clamav, content)
    if (result.kind === 'found') return result.name
    if (result.kind === 'clean') return null
    log.warn('virus_scanner_unavailable', { address: config.inbound.clamav, error: result.reason })
    return UNSCANNED
  }

  /** Writes the row, or returns the refusal if no recipient is left or one is deferred. */
  #write(
    id: string,
    envelope: InboundEnvelope,
    now: number,
    stored: Pick<InboundMessage, 'size' | 'content' | 'spool' | 'cut' | 'virus'>,
  ): Promise<SmtpRefusal | undefined> {
    const { clock, config, engine, keyring, store } = this.#deps
    const clients = this.#deps.clientsAtWork()
    const write = <T>(work: (tx: Tx) => T): Promise<T> =>
      clients < FEW ? store.write(work) : store.writeSoon(work, Math.min(clients * MS_PER_CLIENT, MAX_WAIT_MS))
    return write((tx) => {
      const [refusals, recipients] = parted(
        envelope.to.map((address) => judgeRecipient({ store: tx, keyring }, address)),
      )
      // Recipients deleted since RCPT are dropped. The others get their mail. If the domain of one must be verified
      // again, the whole message is deferred.
      const refusal = refusals.find(({ code }) => code < 500) ?? refusals[0]
      if (refusal && (refusal.code < 500 || recipients.length === 0)) return refusal
      const storedAs = engine.storageFor(envelope.client)
      const message = {
        id,
        mail_from: envelope.from,
        recipients: JSON.stringify(recipients),
        client: envelope.client,
        helo: envelope.helo,
        received: receivedField(envelope, config.hostname, id, now),
        received_at: now,
        attempts: 0,
        ...stored,
      }
      const { key } = tx.run(insertMessage(message))
      const attempts = storedAs === 'claimed' ? 1 : 0
      const at = clock.now() + (storedAs === 'due' ? 0 : LEASE)
      tx.run(insertWaiting({ message_key: key, attempts, next_attempt_at: at }))
      tx.afterCommit(() => engine.take({ ...message, key, attempts }, storedAs))
      return undefined
    })
  }
}

const parted = (judged: readonly (InboundRecipient | SmtpRefusal)[]): [SmtpRefusal[], InboundRecipient[]] => [
  judged.filter(isRefusal),
  judged.filter((each): each is InboundRecipient => !isRefusal(each)),
]

/** The header of a message with its empty line, or the part of the header that was kept. */
function headerOf(head: Buffer): Buffer {
  // A message that begins with the empty line has no header.
  if (head.indexOf('\r\n') === 0) return head.subarray(0, 2)
  const end = head.indexOf('\r\n\r\n')
  return head.subarray(0, end < 0 ? MAX_HEADER : end + 4)
}

const hops = (header: Buffer): number => header.toString('latin1').match(/^received[ \t]*:/gim)?.length ?? 0

/** The Received field (RFC 5321 §4.4). `for` only with a single recipient: it would show a recipient to the others. */
function receivedField(envelope: InboundEnvelope, hostname: string, id: string, now: number): string {
  const { client, helo, protocol, tls, to } = envelope
  const name =
    forLog(helo)
      .replace(/[^\x21-\x7e]|[()<>",;\\]/g, '')
      .slice(0, 255) || 'unknown'
  const literal = client.includes(':') ? `IPv6:${client}` : client
  const secured = tls === null ? '' : `\r\n\t(using ${tls.replace(/[()]/g, '')})`
  const recipient = sole(to)
  const only = recipient === undefined ? '' : `\r\n\tfor <${recipient}>`
  return `Received: from ${name} ([${literal}])${secured}\r\n\tby ${hostname} with ${protocol} id ${id}${only};\r\n\t${rfc5322Date(now)}\r\n`
}
