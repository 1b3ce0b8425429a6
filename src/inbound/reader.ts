// The worker thread that reads received messages: structure within limits, header and body, verdicts of SPF, DKIM, DMARC and ARC, and
// what a report reports. A message that kills or outlasts it costs one thread, not the server.
import { createReadStream, readFileSync } from 'node:fs'
import { authenticate } from 'mailauth'
import { SECOND } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import { ask, serveJobs } from '../base/jobs.ts'
import { asNodeDns, type Answer, type Mx } from '../base/resolver.ts'
import { MalformedMessage, parseTree } from '../message/mime-tree.ts'
import { attachmentOf, parseBody, parseHeader, type ParsedBody, type ParsedHeader } from '../message/parse.ts'
import { readReport, type Report } from '../message/report.ts'

/** Where a message lies. */
export type Content = Uint8Array | { file: string }

export interface ReadJob {
  task: 'read'
  content: Content
  /** The body was not kept, or is withheld. */
  headerOnly: boolean
}

export interface JudgeJob {
  task: 'judge'
  content: Content
  client: string
  helo: string
  mailFrom: string
  /** Our own name: the authserv-id. */
  hostname: string
}

export interface AttachmentJob {
  task: 'attachment'
  content: Content
  id: string
}

export type Reading =
  | { kind: 'read'; header: ParsedHeader; body: ParsedBody | null; report: Report | undefined }
  | { kind: 'rejected'; reason: string; header: ParsedHeader | null }

export interface Verdicts {
  spf: string
  dkim: string
  dmarc: string
  arc: string
}

export interface Judgement {
  verdicts: Verdicts
  /** Our Authentication-Results field, with its line end. */
  field: string | null
}

export type InboundJob = ReadJob | JudgeJob | AttachmentJob
export type InboundResult = Reading | Judgement | Uint8Array | null

/** All questions of one message together may take so long; after that its verdicts are temperror. */
const DNS_PATIENCE = 20 * SECOND

/** DNS is asked by the server's own resolver, so that its settings and limits hold here too. */
function resolverUntil(late: Promise<undefined>) {
  return async (name: string, type: string): Promise<string[] | string[][]> => {
    const answer = await Promise.race([late, ask<Answer<string | Mx>>({ name, type })])
    return asNodeDns(answer ?? { kind: 'failed', reason: 'no answer' }, type)
  }
}

const bytesOf = (content: Content): Buffer => ('file' in content ? readFileSync(content.file) : Buffer.from(content))

async function read({ content, headerOnly }: ReadJob): Promise<Reading> {
  const message = bytesOf(content)
  let tree
  try {
    tree = parseTree(message)
  } catch (thrown) {
    if (!(thrown instanceof MalformedMessage)) throw thrown
    return { kind: 'rejected', reason: thrown.message, header: headerAlone(message) }
  }
  const header = parseHeader(tree)
  if (headerOnly) return { kind: 'read', header, body: null, report: undefined }
  try {
    return { kind: 'read', header, body: await parseBody(message), report: readReport(message, tree) }
  } catch (thrown) {
    return { kind: 'rejected', reason: `It cannot be read: ${messageOf(thrown)}`, header }
  }
}

/** What the header says of a message whose structure is beyond the limits; null when it is the header that is. */
function headerAlone(message: Buffer): ParsedHeader | null {
  const end = message.indexOf('\r\n\r\n')
  try {
    return end < 0 ? null : parseHeader(parseTree(message.subarray(0, end + 4)))
  } catch {
    return null
  }
}

async function judge({ client, content, helo, hostname, mailFrom }: JudgeJob): Promise<Judgement> {
  let giveUp: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => (giveUp = setTimeout(() => resolve(undefined), DNS_PATIENCE)))
  try {
    // A file is hashed as it is read: the other thread holds the whole of it already.
    const message = 'file' in content ? createReadStream(content.file) : Buffer.from(content)
    const result = await authenticate(message, {
      ip: client,
      helo,
      sender: mailFrom,
      mta: hostname,
      resolver: resolverUntil(late),
      disableBimi: true,
      // The verdicts of the RFCs; without it, of what the library thinks was meant.
      strict: true,
    })
    const signatures = result.dkim?.results ?? []
    const passed = signatures.find(({ status }) => status.result === 'pass') ?? signatures[0]
    const verdicts = {
      spf: result.spf ? result.spf.status.result : 'none',
      dkim: passed?.status.result ?? 'none',
      dmarc: result.dmarc ? result.dmarc.status.result : 'none',
      arc: result.arc ? (result.arc.status?.result ?? 'none') : 'none',
    }
    const [, field] =
      /^(Authentication-Results:[\s\S]*?\n)(?![ \t])/im.exec(`${result.headers.trimEnd()}\r\n\r\n`) ?? []
    return { verdicts, field: field ?? null }
  } finally {
    clearTimeout(giveUp)
  }
}

function perform(job: InboundJob): Promise<InboundResult> {
  switch (job.task) {
    case 'read':
      return read(job)
    case 'judge':
      return judge(job)
    case 'attachment':
      return attachmentOf(bytesOf(job.content), job.id).then((bytes) => bytes ?? null)
  }
}

serveJobs<InboundJob, InboundResult>(perform)
