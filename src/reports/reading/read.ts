// Reads an aggregate report from the bytes of a message or a file: the report itself, or an archive of it. Pure and
// synchronous: `readers.ts` runs it in a worker thread.
import { release } from '../../base/memory.ts'
import { MalformedMessage, nodesOf, decodedBytes, parseTree } from '../../message/mime-tree.ts'
import { gunzip, unzip } from './archive.ts'
import { readDmarc, type TakeRecord } from './dmarc.ts'
import { isUtf16 } from './encoding.ts'
import { LIMITS, UnreadableReport, type AggregateReport, type ReadingTimes, type WholeReading } from './report.ts'
import { readTls } from './tls.ts'

type ContentForm = 'gzip' | 'zip' | 'xml' | 'json'

/** The first bytes, which show the form of a content. */
const HEAD = 512

/** The form of a content, or undefined if neither a report nor an archive. Names and media types are ignored. */
function formOf(head: Buffer): ContentForm | undefined {
  const start = head.toString('latin1', 0, HEAD)
  if (start.startsWith('\x1f\x8b')) return 'gzip'
  if (start.startsWith('PK\x03\x04') || start.startsWith('PK\x05\x06')) return 'zip'
  if (isUtf16(head)) return 'xml'
  const [, first] = /^(?:\xef\xbb\xbf)?\s*([<{[])/.exec(start) ?? []
  return first === undefined ? undefined : first === '<' ? 'xml' : 'json'
}

const mostOf = (form: ContentForm): number => (form === 'gzip' || form === 'zip' ? LIMITS.archive : LIMITS.unpacked)

/** The times of the reading, and the callback for the records of a DMARC report. */
interface HowToRead {
  times: ReadingTimes
  take: TakeRecord
}

/** Does the work, and then frees its bytes unless they are part of others: garbage collection is late. */
function freeing<T>(bytes: Buffer, others: Buffer, work: (bytes: Buffer) => T): T {
  try {
    return work(bytes)
  } finally {
    if (bytes.buffer !== others.buffer) release(bytes)
  }
}

/** Reads a report itself, or an archive of one. Throws UnreadableReport. */
function readContent(content: Buffer, how: HowToRead): AggregateReport {
  const form = formOf(content)
  if (form === undefined) throw new UnreadableReport('not_a_report', false)
  if (content.length > mostOf(form)) throw new UnreadableReport('too_large')
  if (form !== 'gzip' && form !== 'zip') return readPlain(content, how)
  const unpacked = form === 'gzip' ? gunzip(content) : unzip(content)
  return freeing(unpacked, content, (bytes) => readPlain(bytes, how))
}

/** Reads a content that must not be an archive. */
function readPlain(content: Buffer, { take, times }: HowToRead): AggregateReport {
  const form = formOf(content)
  if (form === 'xml') return readDmarc(content, times, take)
  if (form === 'json') return readTls(content, times)
  throw new UnreadableReport('not_a_report', false)
}

/** No transfer encoding makes more than four bytes of one. */
const ENCODED = 4

/** Reads the first part of a message that is a report. A part that only looks like a report is skipped. */
function readParts(message: Buffer, how: HowToRead): AggregateReport {
  let first: UnreadableReport | undefined
  for (const part of nodesOf(parseTree(message))) {
    if (part.children.length > 0) continue
    const form = formOf(decodedBytes(message, part, ENCODED * HEAD))
    if (form === undefined) continue
    try {
      const content = decodedBytes(message, part, ENCODED * mostOf(form))
      return freeing(content, message, (bytes) => readContent(bytes, how))
    } catch (thrown) {
      if (!(thrown instanceof UnreadableReport) || thrown.isReport) throw thrown
      if (first === undefined || first.why === 'not_a_report') first = thrown
    }
  }
  throw first ?? new UnreadableReport('no_report', false)
}

/** A header field, or the first line of a message in a Unix mailbox. */
const HEADER = /^(?:From |[\x21-\x39\x3b-\x7e]{1,200}[ \t]*:)/

function read(bytes: Buffer, how: HowToRead): AggregateReport {
  if (formOf(bytes) === undefined && HEADER.test(bytes.toString('latin1', 0, HEAD))) return readParts(bytes, how)
  return readContent(bytes, how)
}

/**
 * Reads a report. Never throws because of the contents: bytes that are not a report, or exceed a limit, are rejected.
 * `take` receives the records of a DMARC report.
 */
export function readReport(bytes: Uint8Array, times: ReadingTimes, take: TakeRecord): WholeReading {
  try {
    const report = read(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), { times, take })
    return { outcome: 'read', report }
  } catch (thrown) {
    if (thrown instanceof UnreadableReport) return { outcome: 'refused', why: thrown.why }
    if (thrown instanceof MalformedMessage) return { outcome: 'refused', why: 'malformed' }
    throw thrown
  }
}
