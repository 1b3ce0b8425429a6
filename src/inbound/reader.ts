// The worker thread that reads received messages (structure within limits, header, body, report) and evaluates them
// (judge.ts). A message that crashes or exceeds its time costs one thread, not the server.
import { messageOf } from '../base/errors.ts'
import { release } from '../base/memory.ts'
import { serveJobs } from '../base/threads/jobs.ts'
import { readProven } from '../base/spooled.ts'
import { MalformedMessage, parseTree, type MimePart } from '../message/mime-tree.ts'
import {
  attachmentOf,
  parseBody,
  parseHeader,
  type InboundAttachment,
  type ParsedBody,
  type ParsedHeader,
} from '../message/parse.ts'
import { referTo, type MailText } from '../message/part-text.ts'
import { withShortLines } from '../message/reencode.ts'
import { programIn } from '../message/programs.ts'
import { readReport, type Report } from '../message/report.ts'
import { judge, type MessageContent, type Judgement, type JudgeJob } from './judge.ts'

export type { MessageContent as Content, Judgement, Verdicts } from './judge.ts'

export interface ReadJob {
  task: 'read'
  content: MessageContent
  /** The body was not kept, or is withheld. */
  headerOnly: boolean
  /** '' for the null sender. */
  mailFrom: string
}

/** Reads and evaluates in one job, because a message between threads costs as much as a small job. */
export interface ExamineJob extends Omit<ReadJob, 'task'>, Omit<JudgeJob, 'task' | 'content' | 'unjudged'> {
  task: 'examine'
}

export interface Examined {
  kind: 'examined'
  reading: Reading
  judgement: Judgement
}

export interface AttachmentJob {
  task: 'attachment'
  content: MessageContent
  /** The parsed contents. */
  attachment: InboundAttachment
}

/**
 * A text that is contained in the message unchanged is referred to by its part, unless the message is a file or is
 * rewritten.
 */
export interface ReadBody extends Omit<ParsedBody, 'html' | 'text'> {
  html: MailText
  text: MailText
}

/** An email from SMTP submission: its contents, and whether it has an attachment of a refused type. */
export interface SubmittedJob {
  task: 'submitted'
  content: MessageContent
  /** The email has lines that are too long: its parts must be re-encoded. */
  longLines: boolean
}

export interface SubmittedReading {
  kind: 'submitted'
  body: ReadBody
  /** `"a.exe" is of a type …`, for the first refused attachment. */
  refused: string | null
  /** The reason why its content cannot be read, as a sentence, or null if it was read. */
  unreadable: string | null
  /** The bytes with shorter lines, or null if they were not requested or this is impossible. */
  bytes: Uint8Array | null
}

export type Reading =
  | { kind: 'read'; header: ParsedHeader; body: ReadBody | null; report: Report | undefined }
  | { kind: 'rejected'; reason: string; header: ParsedHeader | null }

export type InboundJob = ReadJob | JudgeJob | ExamineJob | AttachmentJob | SubmittedJob
export type InboundResult = Reading | Examined | SubmittedReading | Judgement | Uint8Array | null

/** The bytes themselves, without a copy. Each job has its own. */
const bytesOf = (content: MessageContent): Buffer =>
  'file' in content ? readProven(content.file) : Buffer.from(content.buffer, content.byteOffset, content.byteLength)

async function read({ content, headerOnly, mailFrom }: Omit<ReadJob, 'task'>): Promise<Reading> {
  // Outside the try, because an unreadable file is not an error of the message.
  const message = bytesOf(content)
  let header: ParsedHeader | null = null
  try {
    const tree = parseTree(message)
    header = parseHeader(tree)
    if (headerOnly) return { kind: 'read', header, body: null, report: undefined }
    const parsed = parseBody(message, tree)
    const body = 'file' in content ? parsed : referTo(message, tree, parsed)
    return { kind: 'read', header, body, report: readReport(message, tree, mailFrom === '') }
  } catch (thrown) {
    if (thrown instanceof MalformedMessage)
      return { kind: 'rejected', reason: thrown.message, header: header ?? headerAlone(message) }
    return { kind: 'rejected', reason: `It cannot be read: ${messageOf(thrown)}`, header }
  } finally {
    // Evaluation needs memory too, and reads the file again.
    if ('file' in content) release(message)
  }
}

/** Reads a submitted email. An email that exceeds the limits of MIME cannot be checked, and is rejected (D77). */
async function readSubmitted({ content, longLines }: SubmittedJob): Promise<SubmittedReading> {
  const given = bytesOf(content)
  const short = longLines ? withShortLines(given) : undefined
  const bytes = short ? new Uint8Array(short) : null
  const message = short ?? given
  const reading = { kind: 'submitted', body: NO_BODY, refused: null, unreadable: null, bytes } as const
  let refused: string | undefined
  let tree: MimePart
  try {
    tree = parseTree(message)
    refused = programIn(message, tree)
  } catch (thrown) {
    if (thrown instanceof MalformedMessage) return { ...reading, unreadable: thrown.message }
    throw thrown
  }
  if (refused !== undefined) return { ...reading, refused }
  try {
    const body = parseBody(message, tree)
    return { ...reading, body: 'file' in content || short ? body : referTo(message, tree, body) }
  } catch {
    // A text that cannot be read is not shown. All parts were checked above.
    return reading
  }
}

const NO_BODY: ParsedBody = { text: null, html: null, attachments: [] }

/** The header of a message whose structure exceeds the limits, or null if the header itself exceeds them. */
function headerAlone(message: Buffer): ParsedHeader | null {
  const end = message.indexOf('\r\n\r\n')
  try {
    return end < 0 ? null : parseHeader(parseTree(message.subarray(0, end + 4)))
  } catch {
    return null
  }
}

// One after the other: both at once would take CPU time in each other's turns.
const examine = async (job: ExamineJob): Promise<Examined> => ({
  kind: 'examined',
  reading: await read(job),
  judgement: await judge({ ...job, task: 'judge' }),
})

function attachment({ attachment: known, content }: AttachmentJob): Uint8Array | null {
  const message = bytesOf(content)
  return attachmentOf(message, parseTree(message), known) ?? null
}

function perform(job: InboundJob): Promise<InboundResult> {
  switch (job.task) {
    case 'read':
      return read(job)
    case 'judge':
      return judge(job)
    case 'examine':
      return examine(job)
    case 'submitted':
      return readSubmitted(job)
    case 'attachment':
      return Promise.resolve(attachment(job))
  }
}

serveJobs<InboundJob, InboundResult>(perform, { lot: 1 })
