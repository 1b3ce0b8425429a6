// Takes a message in: streams it to memory or, when it is large, to the spool, has it scanned, and writes its row. When `message`
// resolves with nothing the message is on the disk and will be read, whatever happens next (RFC 5321 §6.1).
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { rfc5322Date } from '../message/compose.ts'
import { MAX_HEADER } from '../message/mime-tree.ts'
import type { InboundEnvelope, SmtpRefusal } from '../smtp/listener.ts'
import { cleanText } from '../smtp/reply.ts'
import type { Store, Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import { SPOOL_ABOVE, type Draft, type Spool } from '../store/spool.ts'
import type { NewRow } from '../store/tables.ts'
import { isRefusal, judgeRecipient, UNKNOWN, type InboundRecipient } from './recipients.ts'
import { scan } from './scan.ts'

export interface ReceiveDesk {
  store: Store
  spool: Spool
  clock: Clock
  keyring: Keyring
  log: Log
  config: Pick<Config, 'hostname' | 'inbound'>
  /** Tells the readers that a message waits. */
  ring: () => void
}

/** Octets of unfinished messages that all sessions together hold in memory; beyond, also small ones go to the disk. */
const MAX_HELD = 64 * 1024 * 1024
/** From so many messages at once on, their rows wait for each other and share a commit. */
const MANY = 4
/** So many hands a message passes at most (RFC 5321 §6.3). */
const MAX_RECEIVED = 100

const TOO_LARGE: SmtpRefusal = { code: 552, text: '5.3.4 The message is larger than this server takes' }
const LOOP: SmtpRefusal = { code: 554, text: '5.4.6 Too many hops: the message goes round in circles' }
const UNSCANNED: SmtpRefusal = { code: 451, text: '4.7.1 The message cannot be scanned now; try again later' }

const insert = statement<NewRow<'inbound_messages'> & { key?: never }>()((arg) =>
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
    attempts: 0,
    next_attempt_at: arg.received_at,
  }),
)

/** What has come of a message so far. */
interface Intake {
  /** What is not in the draft. */
  chunks: Buffer[]
  /** Octets in `chunks`. */
  held: number
  /** Octets that came in all. */
  size: number
  /** The beginning, for its header. */
  head: Buffer[]
  draft: Draft | undefined
}

export class Reception {
  readonly #desk: ReceiveDesk
  #held = 0
  #open = 0

  constructor(desk: ReceiveDesk) {
    this.#desk = desk
  }

  /** Whether an address may be written to; undefined: it may. */
  recipient(address: string): SmtpRefusal | undefined {
    const judged = judgeRecipient(this.#desk, address)
    return isRefusal(judged) ? judged : undefined
  }

  /** Keeps a message, or says why not. */
  async message(
    bytes: AsyncIterable<Buffer>,
    envelope: InboundEnvelope,
    sound: () => SmtpRefusal | undefined,
  ): Promise<SmtpRefusal | undefined> {
    const now = this.#desk.clock.now()
    const id = newId(now)
    const intake: Intake = { chunks: [], held: 0, size: 0, head: [], draft: undefined }
    let kept = false
    this.#open++
    try {
      await this.#collect(bytes, intake, id)
      const refusal = sound()
      if (refusal) return refusal
      const cut = intake.size > this.#desk.config.inbound.max_message_bytes
      const header = headerOf(Buffer.concat(intake.head))
      if (hops(header) >= MAX_RECEIVED) return LOOP
      const content = cut ? header : Buffer.concat(intake.chunks)
      const found = cut ? null : await this.#scan(intake.draft ? { file: intake.draft.path } : content)
      if (found !== null && typeof found === 'object') return found
      if (intake.draft && !cut) {
        await intake.draft.keep()
        kept = true
      }
      const wanted = await this.#write(id, envelope, now, {
        size: intake.size,
        content: intake.draft && !cut ? null : content,
        spool: intake.draft && !cut ? id : null,
        cut: cut ? 1 : 0,
        virus: found,
      })
      if (!wanted && kept) await this.#desk.spool.remove(id)
      return cut ? TOO_LARGE : wanted ? undefined : UNKNOWN
    } catch (thrown) {
      // A file may have got its name before it failed to last.
      if (intake.draft) await this.#desk.spool.remove(id)
      throw thrown
    } finally {
      this.#open--
      this.#held -= intake.held
      if (!kept) await intake.draft?.drop()
    }
  }

  /** Reads to the end. What is beyond the limit is counted and dropped. */
  async #collect(bytes: AsyncIterable<Buffer>, intake: Intake, id: string): Promise<void> {
    const { config, spool } = this.#desk
    for await (const chunk of bytes) {
      if (intake.size <= MAX_HEADER) intake.head.push(chunk)
      intake.size += chunk.length
      if (intake.size > config.inbound.max_message_bytes) continue
      intake.chunks.push(chunk)
      intake.held += chunk.length
      this.#held += chunk.length
      if (intake.held <= SPOOL_ABOVE && this.#held <= MAX_HELD) continue
      intake.draft ??= await spool.draft(id)
      await this.#spill(intake, intake.draft)
    }
    if (intake.draft) await this.#spill(intake, intake.draft)
  }

  /** Moves what is held to the disk. */
  async #spill(intake: Intake, draft: Draft): Promise<void> {
    const bytes = Buffer.concat(intake.chunks.splice(0))
    this.#held -= intake.held
    intake.held = 0
    await draft.write(bytes)
  }

  /** The name of a virus, null when there is none, or the refusal when nobody can tell. */
  async #scan(content: Uint8Array | { file: string }): Promise<string | SmtpRefusal | null> {
    const { config, log } = this.#desk
    if (config.inbound.clamav === '') return null
    const result = await scan(config.inbound.clamav, content)
    if (result.kind === 'found') return result.name
    if (result.kind === 'clean') return null
    log.warn('virus scanner', { address: config.inbound.clamav, error: result.reason })
    return UNSCANNED
  }

  /** Writes the row, unless nobody is there any more to whom the message could go. */
  #write(
    id: string,
    envelope: InboundEnvelope,
    now: number,
    stored: Pick<NewRow<'inbound_messages'>, 'size' | 'content' | 'spool' | 'cut' | 'virus'>,
  ): Promise<boolean> {
    const { config, keyring, ring, store } = this.#desk
    const write = <T>(work: (tx: Tx) => T): Promise<T> =>
      this.#open < MANY ? store.write(work) : store.writeSoon(work)
    return write((tx) => {
      const recipients = envelope.to
        .map((address) => judgeRecipient({ store: tx as unknown as Store, keyring }, address))
        // What was deleted since RCPT is gone; the others get their mail.
        .filter((judged): judged is InboundRecipient => !isRefusal(judged))
      if (recipients.length === 0) return false
      tx.run(
        insert({
          id,
          mail_from: envelope.from,
          recipients: JSON.stringify(recipients),
          client: envelope.client,
          helo: envelope.helo,
          received: receivedField(envelope, config.hostname, id, now),
          received_at: now,
          attempts: 0,
          ...stored,
        }),
      )
      tx.afterCommit(ring)
      return true
    })
  }
}

/** The header of a message, its empty line included, as far as it was kept. */
function headerOf(head: Buffer): Buffer {
  // One that begins with the empty line has none.
  if (head.indexOf('\r\n') === 0) return head.subarray(0, 2)
  const end = head.indexOf('\r\n\r\n')
  return head.subarray(0, end < 0 ? MAX_HEADER : end + 4)
}

const hops = (header: Buffer): number => header.toString('latin1').match(/^received[ \t]*:/gim)?.length ?? 0

/** RFC 5321 §4.4. `for` only where there is one recipient: it would tell each of the others. */
function receivedField(envelope: InboundEnvelope, hostname: string, id: string, now: number): string {
  const { client, helo, protocol, tls, to } = envelope
  const name =
    cleanText(helo)
      .replace(/[^\x21-\x7e]|[()<>",;\\]/g, '')
      .slice(0, 255) || 'unknown'
  const literal = client.includes(':') ? `IPv6:${client}` : client
  const secured = tls === null ? '' : `\r\n\t(using ${tls.replace(/[()]/g, '')})`
  const only = to.length === 1 ? `\r\n\tfor <${to[0]!}>` : ''
  return `Received: from ${name} ([${literal}])${secured}\r\n\tby ${hostname} with ${protocol} id ${id}${only};\r\n\t${rfc5322Date(now)}\r\n`
}
