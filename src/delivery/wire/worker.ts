// The delivery worker thread: it composes, signs and sends email over its own connections to receiving servers. So
// email bytes and SMTP transcripts do not pass through the main thread.
import { release } from '../../base/memory.ts'
import { isAscii } from 'node:buffer'
import { counters } from '../../base/counters.ts'
import { ask, outside, serveJobs, tell } from '../../base/threads/jobs.ts'
import { letterOf } from '../../message/letters.ts'
import { reasonOf, UNFIT } from '../../message/reencode.ts'
import { openSession, type ConnectOptions, type Envelope, type SmtpSession } from '../../smtp/client.ts'
import { ownVerdict, type Verdict } from '../../smtp/verdict.ts'
import type { LetterJob } from '../queue/transaction.ts'
import { LARGE_LETTER } from './letter-memory.ts'

/** A connection, by a number that the main thread gives it. */
interface Of {
  session: number
}

export type WorkerJob = Of &
  (
    | { open: ConnectOptions }
    | { send: { letter: LetterJob; envelope: Envelope; sending: number } }
    | { handed: number }
    | { compose: LetterJob }
    | { end: 'quit' | 'destroy' }
  )

/** An open session. */
export interface Opened {
  tls: string | null
}

export interface Sent {
  /** One for each recipient, in their order. */
  verdicts: Verdict[]
  /** The session can carry more mail. */
  usable: boolean
}

/** The result of a job. */
export interface Done {
  value: unknown
  /** How often receiving servers answered since the last job, by the first digit of their replies. */
  replies: Record<string, number>
}

/** A message of the worker that is not a reply: a connection has ended. */
export interface EndedSession {
  ended: number
}

/** A message of the worker that is not a reply: memory for large emails is free (letter-memory.ts). */
export interface FreedMemory {
  freed: number
}

const sessions = new Map<number, SmtpSession>()
const opening = new Map<number, AbortController>()
/**
 * For each email whose bytes the receiving server has, until its answer arrives: the indexes of the accepted
 * recipients.
 */
const handed = new Map<number, number[]>()

async function open(session: number, options: ConnectOptions): Promise<Opened | Verdict> {
  const abort = new AbortController()
  opening.set(session, abort)
  const opened = await outside(openSession(options, abort.signal))
  opening.delete(session)
  if ('kind' in opened) return opened
  sessions.set(session, opened)
  opened.onEnd(() => tell({ ended: session } satisfies EndedSession))
  return { tls: opened.tls }
}

/** The memory for the large emails of a job. */
class LetterReservation {
  #bytes = 0

  readonly take = async (bytes: number): Promise<void> => {
    if (bytes < LARGE_LETTER) return
    await ask({ memory: bytes })
    this.#bytes += bytes
  }

  end(): void {
    if (this.#bytes > 0) tell({ freed: this.#bytes } satisfies FreedMemory)
  }
}

/** Composes one email and sends it. Throws if the email cannot be composed now, before any of it was sent. */
async function send(session: SmtpSession, letter: LetterJob, envelope: Envelope, sending: number): Promise<Sent> {
  // The SMTP transcript of a campaign's email is not stored.
  const brief = (verdict: Verdict): Verdict => ('campaign' in letter ? { ...verdict, dialogue: null } : verdict)
  const sent = (verdicts: Verdict[]): Sent => ({ verdicts: verdicts.map(brief), usable: session.usable })
  const memory = new LetterReservation()
  try {
    const made = await letterOf(letter, memory.take)
    const wire = unfitOf(made) ?? (await fitFor(session, letter, envelope, bufferOf(made)))
    if ('kind' in wire) return sent(envelope.recipients.map(() => wire))
    const hear = (taken: number[]): (() => void) => {
      handed.set(sending, taken)
      return () => void handed.delete(sending)
    }
    const verdicts = await outside(session.send(envelope, wire, hear))
    // After an early answer the socket may still read this buffer: then the garbage collector frees it.
    if (session.flushed) release(wire)
    return sent(verdicts)
  } finally {
    memory.end()
  }
}

const bufferOf = (octets: Uint8Array<ArrayBuffer>): Buffer =>
  Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength)

/**
 * The bytes in a form that the server accepts. An email from SMTP submission may contain 8-bit data: for a server
 * without 8BITMIME it is encoded in 7 bits (RFC 6152 §3). Its header may have UTF-8: for a server without SMTPUTF8 it
 * is changed to encoded words.
 */
async function fitFor(
  session: SmtpSession,
  letter: LetterJob,
  { recipients }: Envelope,
  wire: Buffer,
): Promise<Buffer | Verdict> {
  if (isAscii(wire)) return wire
  const wideHeader = !isAscii(wire.subarray(0, wire.indexOf('\r\n\r\n')))
  // If a recipient's address is not ASCII, the header stays as it is: `SmtpSession.send` returns the verdict.
  const asciiHeader =
    wideHeader && !session.takes('SMTPUTF8') && recipients.every((address) => isAscii(Buffer.from(address)))
  const sevenBit = !session.takes('8BITMIME')
  if (!sevenBit && !asciiHeader) return wire
  const made = await letterOf({ ...letter, sevenBit, asciiHeader })
  return unfitOf(made) ?? bufferOf(made)
}

/** The verdict on an email that cannot be converted for this server, or is too large for every server. */
function unfitOf(made: Uint8Array): Verdict | undefined {
  const reason = reasonOf(made)
  return reason && ownVerdict(reason === 'large' ? 'rejected' : 'bounced', ...UNFIT[reason], { stage: 'compose' })
}

function end(number: number, how: 'quit' | 'destroy'): Promise<void> | undefined {
  const session = sessions.get(number)
  sessions.delete(number)
  opening.get(number)?.abort()
  if (how === 'quit') return session && outside(session.quit())
  session?.destroy()
  return undefined
}

const counted = new Map<string, number>()

/** The replies counted since the last call. The main thread reports these metrics (http/metrics.ts). */
function newReplies(): Record<string, number> {
  const found: Record<string, number> = {}
  for (const [{ class: digit, direction }, sum] of counters.smtp.values()) {
    if (direction !== 'out' || digit === undefined) continue
    const more = sum - (counted.get(digit) ?? 0)
    if (more > 0) found[digit] = more
    counted.set(digit, sum)
  }
  return found
}

function perform(job: WorkerJob): unknown {
  if ('open' in job) return open(job.session, job.open)
  if ('handed' in job) return handed.get(job.handed) ?? []
  if ('end' in job) return end(job.session, job.end)
  if ('compose' in job) return letterOf(job.compose).then(release)
  const session = sessions.get(job.session)
  if (!session) throw new Error('The connection is not known to this thread.')
  return send(session, job.send.letter, job.send.envelope, job.send.sending)
}

serveJobs<WorkerJob, Done>(async (job) => ({ value: await perform(job), replies: newReplies() }))
