// Reads an aggregate report from the octets of a message, or of a file: the report itself, or an archive of it. Pure
// and synchronous: `readers.ts` runs it in a worker thread.
import { release } from '../../base/memory.ts'
import { MalformedMessage, nodesOf, parseTree } from '../../message/mime-tree.ts'
import { gunzip, unzip } from './archive.ts'
import { readDmarc, type TakeRecord } from './dmarc.ts'
import { isUtf16 } from './encoding.ts'
import { contentOf, headOf } from './part-octets.ts'
import { LIMITS, UnreadableReport, type AggregateReport, type ReadingTimes, type WholeReading } from './report.ts'
import { readTls } from './tls.ts'

type ContentForm = 'gzip' | 'zip' | 'xml' | 'json'

/** Octets that show what a content is. */
const HEAD = 512

/** What octets look like; undefined: neither a report nor an archive. Names and types prove nothing (DV47). */
function formOf(head: Buffer): ContentForm | undefined {
  const start = head.toString('latin1', 0, HEAD)
  if (start.startsWith('\x1f\x8b')) return 'gzip'
  if (start.startsWith('PK\x03\x04') || start.startsWith('PK\x05\x06')) return 'zip'
  if (isUtf16(head)) return 'xml'
  const [, first] = /^(?:\xef\xbb\xbf)?\s*([<{[])/.exec(start) ?? []
  return first === undefined ? undefined : first === '<' ? 'xml' : 'json'
}

const mostOf = (form: ContentForm): number => (form === 'gzip' || form === 'zip' ? LIMITS.archive : LIMITS.unpacked)

/** How something is read, and who takes the records of a DMARC report. */
interface HowToRead {
  times: ReadingTimes
  take: TakeRecord
}

/** Does the work, and frees octets at once that were made for it, and stand in no others: the collector is late. */
function freeing<T>(octets: Buffer, others: Buffer, work: (octets: Buffer) => T): T {
  try {
    return work(octets)
  } finally {
    if (octets.buffer !== others.buffer) release(octets)
  }
}

/** Reads a report itself, or an archive of one. Throws UnreadableReport. */
function readContent(content: Buffer, how: HowToRead): AggregateReport {
  const form = formOf(content)
  if (form === undefined) throw new UnreadableReport('not_a_report', false)
  if (content.length > mostOf(form)) throw new UnreadableReport('too_large')
  if (form !== 'gzip' && form !== 'zip') return readPlain(content, how)
  const unpacked = form === 'gzip' ? gunzip(content) : unzip(content)
  return freeing(unpacked, content, (octets) => readPlain(octets, how))
}

/** Reads what may not be an archive (again). */
function readPlain(content: Buffer, { take, times }: HowToRead): AggregateReport {
  const form = formOf(content)
  if (form === 'xml') return readDmarc(content, times, take)
  if (form === 'json') return readTls(content, times)
  throw new UnreadableReport('not_a_report', false)
}

/** The report in the first part of a message that is one. What only looks like a report is passed over. */
function readParts(message: Buffer, how: HowToRead): AggregateReport {
  let first: UnreadableReport | undefined
  for (const part of nodesOf(parseTree(message))) {
    if (part.children.length > 0) continue
    const form = formOf(headOf(message, part, HEAD))
    if (form === undefined) continue
    try {
      const content = contentOf(message, part, mostOf(form))
      if (!content) throw new UnreadableReport('too_large')
      return freeing(content, message, (octets) => readContent(octets, how))
    } catch (thrown) {
      if (!(thrown instanceof UnreadableReport) || thrown.isReport) throw thrown
      if (first === undefined || first.why === 'not_a_report') first = thrown
    }
  }
  throw first ?? new UnreadableReport('no_report', false)
}

/** A field of a header, or the line that mailboxes of Unix begin a message with. */
const HEADER = /^(?:From |[\x21-\x39\x3b-\x7e]{1,200}[ \t]*:)/

function read(octets: Buffer, how: HowToRead): AggregateReport {
  if (formOf(octets) === undefined && HEADER.test(octets.toString('latin1', 0, HEAD))) return readParts(octets, how)
  return readContent(octets, how)
}

/**
 * Never throws for what the octets hold: what is not a report, or exceeds a limit, is refused. `take` gets the records
 * of a DMARC report.
 */
export function readReport(octets: Uint8Array, times: ReadingTimes, take: TakeRecord): WholeReading {
  try {
    const report = read(Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength), { times, take })
    return { outcome: 'read', report }
  } catch (thrown) {
    if (thrown instanceof UnreadableReport) return { outcome: 'refused', why: thrown.why }
    if (thrown instanceof MalformedMessage) return { outcome: 'refused', why: 'malformed' }
    throw thrown
  }
}
