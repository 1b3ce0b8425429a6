// The worker thread that delivers: it composes and signs mail and talks to exchangers, over its own connections. So the
// octets of a mail are made in the thread that sends them; they and the dialogue do not pass through the main thread.
import { isAscii } from 'node:buffer'
import { counters } from '../../base/counters.ts'
import { outside, serveJobs, tell } from '../../base/threads/jobs.ts'
import { letGo, letterOf } from '../../message/letters.ts'
import { reasonOf, UNFIT } from '../../message/reencode.ts'
import { openSession, type ConnectOptions, type Envelope, type SmtpSession } from '../../smtp/client.ts'
import { ownVerdict, type Verdict } from '../../smtp/verdict.ts'
import type { LetterJob } from '../queue/transaction.ts'

/** A connection, by a number that the main thread gives it. */
interface Of {
  session: number
}

export type WorkerJob = Of &
  (
    | { open: ConnectOptions }
    | { send: { letter: LetterJob; envelope: Envelope; sending: number } }
    | { handed: number }
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
  /** How often exchangers answered since the last job, by the first digit of their replies. */
  replies: Record<string, number>
}

/** A message of the worker that answers no job: a connection has ended. */
export interface EndedSession {
  ended: number
}

const sessions = new Map<number, SmtpSession>()
const opening = new Map<number, AbortController>()
/** For each mail whose octets the exchanger has, until its answer arrives: the indexes of the accepted recipients. */
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

/** Composes one mail and sends it. Throws when the mail cannot be composed now; then nothing was sent. */
async function send(session: SmtpSession, letter: LetterJob, envelope: Envelope, sending: number): Promise<Sent> {
  // The dialogue of a campaign's mail is not stored.
  const brief = (verdict: Verdict): Verdict => ('campaign' in letter ? { ...verdict, dialogue: null } : verdict)
  const told = (verdicts: Verdict[]): Sent => ({ verdicts: verdicts.map(brief), usable: session.usable })
  const made = await letterOf(letter)
  const wire = await fitFor(session, letter, envelope, bufferOf(made))
  if ('kind' in wire) return told(envelope.recipients.map(() => wire))
  const hear = (taken: number[]): (() => void) => {
    handed.set(sending, taken)
    return () => void handed.delete(sending)
  }
  const verdicts = await outside(session.send(envelope, wire, hear))
  // After an early answer the socket may still read this buffer: then the garbage collector frees it.
  if (session.flushed) letGo(wire)
  return told(verdicts)
}

const bufferOf = (octets: Uint8Array<ArrayBuffer>): Buffer =>
  Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength)

/**
 * The octets in a form that the server accepts. A mail from SMTP submission may have 8-bit octets: for a server without
 * 8BITMIME it is encoded in 7 bits (RFC 6152 §3). Its header may have UTF-8: for a server without SMTPUTF8 it is
 * changed to encoded words.
 */
async function fitFor(
  session: SmtpSession,
  letter: LetterJob,
  { recipients }: Envelope,
  wire: Buffer,
): Promise<Buffer | Verdict> {
  if (isAscii(wire)) return wire
  const wideHeader = !isAscii(wire.subarray(0, wire.indexOf('\r\n\r\n')))
  // When a recipient's address is not ASCII, the header stays as it is: `SmtpSession.send` gives the verdict.
  const asciiHeader =
    wideHeader && !session.takes('SMTPUTF8') && recipients.every((address) => isAscii(Buffer.from(address)))
  const sevenBit = !session.takes('8BITMIME')
  if (!sevenBit && !asciiHeader) return wire
  const made = await letterOf({ ...letter, sevenBit, asciiHeader })
  const reason = reasonOf(made)
  return reason === undefined ? bufferOf(made) : ownVerdict('bounced', ...UNFIT[reason], { stage: 'compose' })
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

/** The replies counted since the last call; the main thread shows these figures (http/metrics.ts). */
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
  const session = sessions.get(job.session)
  if (!session) throw new Error('The connection is not known to this thread.')
  return send(session, job.send.letter, job.send.envelope, job.send.sending)
}

serveJobs<WorkerJob, Done>(async (job) => ({ value: await perform(job), replies: newReplies() }))
