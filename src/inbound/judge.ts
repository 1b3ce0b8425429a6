// Evaluates a received message in a worker thread: SPF, DKIM, DMARC and ARC, by mailauth. The library gets only the
// parts that the results can depend on (message/evidence.ts). Parts beyond the limits are left out, and the
// Authentication-Results field reports it: "policy" for signatures (RFC 8601 §2.7.1), "permerror" for DMARC without an
// author, "fail" for a chain.
import { Readable } from 'node:stream'
import { authenticate, type AuthenticateResult } from 'mailauth'
import { SECOND } from '../base/clock.ts'
import { openSpooled } from '../base/spooled.ts'
import { ask } from '../base/threads/jobs.ts'
import { AnswerMemory, type RememberedAnswer } from '../net/remembered.ts'
import { asNodeDns, type ResolverAnswer, type Mx } from '../net/resolver.ts'
import { evidenceOf, type Beyond } from '../message/evidence.ts'
import { MAX_HEADER } from '../message/mime-tree.ts'
import { organisationalDomain } from '../message/address.ts'

// Whether a message provably comes from the domain of its From field (D62): by a valid DKIM signature, or by SPF for
// the envelope sender, of the same organisation. Unlike DMARC, this does not need a published policy.
export function isProven({ dkim, dmarc, spf }: AuthenticateResult): boolean {
  // Without a From field of exactly one domain, alignment cannot be checked.
  const from = dmarc ? dmarc.status.header?.from : undefined
  if (from === undefined) return false
  const signed = dkim.results.some(
    // A signature over only a part of the body does not cover appended text. A signature in test mode does not count.
    ({ status }) => status.result === 'pass' && status.aligned && !status.underSized && !status.testing,
  )
  return (
    signed || (spf !== false && spf.status.result === 'pass' && organisationOf(spf.domain) === organisationOf(from))
  )
}

function authorOf({ dmarc }: AuthenticateResult): string | null {
  const from = dmarc ? dmarc.status.header?.from : undefined
  return from === undefined ? null : organisationOf(from)
}

/** Whether a signature of the author's domain covers the whole message, as required for TLS reports (RFC 8460 §3). */
const isSigned = ({ dkim }: AuthenticateResult): boolean =>
  dkim.results.some(
    ({ canonBodyLengthLimited, status }) =>
      status.result === 'pass' && status.aligned && !canonBodyLengthLimited && !status.testing,
  )

const organisationOf = (domain: string): string => {
  const name = domain.toLowerCase().replace(/\.$/, '')
  return organisationalDomain(name) ?? name
}

/** The content of a message: its bytes, or the file that holds them. */
export type MessageContent = Uint8Array | { file: string }

export interface JudgeJob {
  task: 'judge'
  /** Null to check only SPF, which does not need the message. */
  content: MessageContent | null
  /** The reason why the message is not evaluated, if `content` is null. */
  unjudged?: string
  client: string
  helo: string
  mailFrom: string
  /** Our own host name: the authserv-id. */
  hostname: string
  /** The time in epoch ms, because DNS answers are cached. */
  now: number
  /** Checks the keys for TLS reports, which may have their own keys (RFC 8460 §3), and not for email. */
  forTlsReports?: boolean
  /** Milliseconds for all DNS answers together. */
  dnsTime?: number | undefined
}

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
  /** The parts of the message that exceed the limits. */
  beyond: string | null
  /** True if the message provably comes from the domain of its From field (D62). */
  proven: boolean
  /** The organisational domain of the only author, or null if there is no author, or several. */
  author: string | null
  /** A signature of the author's domain covers the whole message. */
  signed: boolean
}

/**
 * The most DNS queries for one message: SPF has 10 terms with 10 hosts each (RFC 7208 §4.6.4), then keys of signatures
 * and seals, and DMARC.
 */
export const MAX_QUESTIONS = 100
/** The most time for all DNS answers together (RFC 7208 §4.6.4 requires at least 20 seconds). */
const DNS_PATIENCE = 20 * SECOND
/** The most records of an answer, and characters of one: four times the longest key in use. */
const MAX_RECORDS = 50
const MAX_RECORD = 4096
/** The most bytes of one line of a signed body. */
export const MAX_LINE = 1024 * 1024
const BLOCK = 256 * 1024

/** The answers that this thread has got from the server. */
const memory = new AnswerMemory<ResolverAnswer<string | Mx>>()

type DnsFunction = (name: string, type: string) => Promise<string[] | string[][]>

/**
 * The library accepts keys whose services (`s=`) allow email. For TLS reports the service is tlsrpt, so its name is
 * replaced by email, and email by another one.
 */
const forTlsReports =
  (resolve: DnsFunction): DnsFunction =>
  async (name, type) => {
    const records = await resolve(name, type)
    if (type !== 'TXT' || !/\._domainkey\./i.test(name)) return records
    const services = (list: string): string =>
      list.replace(/[^:\s]+/g, (each) => ({ tlsrpt: 'email', email: 'mail' })[each.toLowerCase()] ?? each)
    return (records as string[][]).map((strings) => [
      strings
        .join('')
        .replace(
          /(^|;)(\s*s\s*=)([^;]*)/,
          (_, start: string, tag: string, list: string) => start + tag + services(list),
        ),
    ])
  }

/**
 * A DNS function for the library that uses the server's own resolver, with its settings and limits. `now` is the
 * server's time, in epoch ms.
 */
function resolver(patience: number, now: number): DnsFunction {
  let questions = 0
  let left = patience
  return async (name, type) => {
    if (++questions > MAX_QUESTIONS || left <= 0 || name.length > 255)
      return asNodeDns({ kind: 'failed', reason: 'too many questions' }, type)
    const known = memory.get(name, type, now)
    if (known) return asNodeDns(known, type)
    const asked = performance.now()
    const found = await ask<RememberedAnswer>({ name, type }, left)
    left -= performance.now() - asked
    const answer = bounded(found?.answer)
    if (found && answer.kind !== 'failed') memory.keep(name, type, answer, found.until)
    return asNodeDns(answer, type)
  }
}

function bounded(answer: ResolverAnswer<string | Mx> | undefined): ResolverAnswer<string | Mx> {
  if (!answer) return { kind: 'failed', reason: 'no answer' }
  if (answer.kind !== 'found') return answer
  const records = answer.records.slice(0, MAX_RECORDS)
  const fits = records.every((record) => (typeof record === 'string' ? record : record.exchange).length <= MAX_RECORD)
  return fits ? { kind: 'found', records } : { kind: 'failed', reason: 'too long' }
}

class LongLine extends Error {}

export async function judge(job: JudgeJob): Promise<Judgement> {
  const { content, unjudged } = job
  const { header, start } = content ? await headerOf(content) : { header: '', start: 0 }
  const { beyond, header: shown, unusable } = evidenceOf(header)
  if (unjudged !== undefined) beyond.unjudged = unjudged
  const signed = /^(?:dkim-signature|arc-message-signature)[ \t]*:/im.test(shown)
  try {
    const message = signed && content ? Readable.from(signedMessage(shown, content, start)) : whole(shown)
    return await verdictsOf(job, message, beyond, unusable)
  } catch (thrown) {
    if (!(thrown instanceof LongLine)) throw thrown
    const unsigned = evidenceOf(
      header.replace(/^(?:dkim-signature|arc-message-signature)(?=[ \t\r\n]*:)/gim, 'x-beyond'),
    )
    const reason = `line over ${MAX_LINE / 1024} KB`
    return verdictsOf(job, whole(unsigned.header), { ...beyond, signatures: reason, chain: reason }, unusable)
  }
}

const whole = (header: string): Buffer => Buffer.from(`${header}\r\n`, 'latin1')

async function verdictsOf(
  job: JudgeJob,
  message: Readable | Buffer,
  beyond: Beyond,
  unusable: string | undefined,
): Promise<Judgement> {
  const { client, dnsTime = DNS_PATIENCE, helo, hostname, mailFrom, now } = job
  const result = await authenticate(message, {
    ip: client,
    helo,
    sender: mailFrom,
    mta: hostname,
    resolver: job.forTlsReports ? forTlsReports(resolver(dnsTime, now)) : resolver(dnsTime, now),
    disableBimi: true,
    // Results as the RFCs define them. Without this setting the library guesses the meaning of malformed fields.
    strict: true,
  })
  const signatures = result.dkim?.results ?? []
  const passed = signatures.find(({ status }) => status.result === 'pass') ?? signatures[0]
  const dkim = passed?.status.result ?? 'none'
  const dmarc = result.dmarc ? result.dmarc.status.result : 'none'
  const arc = result.arc ? (result.arc.status?.result ?? 'none') : 'none'
  // The library may accept such a From, but a domain that is not the only author does not prove the message.
  const author = unusable ?? (result.dmarc ? undefined : 'From without one domain')
  const lacks = lackingOf(beyond, author)
  const verdicts = {
    spf: result.spf ? result.spf.status.result : 'none',
    dkim: dkim === 'pass' ? dkim : (lacks.dkim?.result ?? dkim),
    dmarc: lacks.dmarc?.result ?? dmarc,
    arc: lacks.arc?.result ?? arc,
  }
  const [, field] = /^(Authentication-Results:[\s\S]*?\n)(?![ \t])/im.exec(`${result.headers.trimEnd()}\r\n\r\n`) ?? []
  return {
    verdicts,
    field: field === undefined ? null : marked(field, lacks),
    beyond: reasonOf(beyond),
    proven: lacks.dmarc === undefined && isProven(result),
    author: lacks.dmarc === undefined ? authorOf(result) : null,
    signed: lacks.dmarc === undefined && isSigned(result),
  }
}

const reasonOf = (beyond: Beyond): string | null => [...new Set(Object.values(beyond))].join(', ') || null

type Method = 'dkim' | 'dmarc' | 'arc'
type Lacks = Partial<Record<Method, { result: string; why: string }>>

/** The methods without complete evidence, and the results that they get. */
function lackingOf({ author, chain, header, signatures, unjudged }: Beyond, unusable: string | undefined): Lacks {
  const lacks: Lacks = {}
  const put = (method: Method, result: string, why: string | undefined): void => {
    if (why !== undefined) lacks[method] ??= { result, why }
  }
  put('dkim', 'temperror', unjudged)
  put('dmarc', 'temperror', unjudged)
  put('dkim', 'policy', header ?? signatures)
  put('dmarc', 'permerror', header ?? author ?? unusable)
  put('arc', 'fail', header ?? chain)
  return lacks
}

const LIBRARY = ['dmarc', 'arc'] as const

/** Our Authentication-Results field with these results. */
function marked(field: string, lacks: Lacks): string {
  // The library did not get this evidence, so that its own results would be wrong.
  const results = field
    .trimEnd()
    .split(/;\r\n[ \t]+/)
    .filter((each) => !LIBRARY.some((method) => lacks[method] && each.startsWith(`${method}=`)))
    .filter((each) => !lacks.dkim || !each.startsWith('dkim=none'))
  const own = Object.entries(lacks).map(([name, { result, why }]) => `${name}=${result} (${why})`)
  return `${[...results, ...own].join(';\r\n ')}\r\n`
}

/** The header in latin1, its last line end included, and the offset of the body. */
async function headerOf(content: MessageContent): Promise<{ header: string; start: number }> {
  const head = 'file' in content ? await beginning(content.file) : Buffer.from(content.subarray(0, MAX_HEADER + 4))
  if (head[0] === 0x0d && head[1] === 0x0a) return { header: '', start: 2 }
  const end = head.indexOf('\r\n\r\n')
  return end < 0
    ? { header: head.toString('latin1'), start: head.length }
    : { header: head.toString('latin1', 0, end + 2), start: end + 4 }
}

async function beginning(file: string): Promise<Buffer> {
  const handle = await openSpooled(file)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAX_HEADER + 4), 0, MAX_HEADER + 4, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}

/** The message in blocks of whole lines, because the library would join a divided line again for each piece of it. */
async function* signedMessage(header: string, content: MessageContent, start: number): AsyncIterable<Buffer> {
  yield whole(header)
  let rest: Buffer[] = []
  let held = 0
  for await (const block of blocksOf(content, start)) {
    const end = block.lastIndexOf(0x0a) + 1
    if (end > 0) {
      const lines = Buffer.concat([...rest, block.subarray(0, end)])
      if (held + block.indexOf(0x0a) > MAX_LINE) throw new LongLine()
      rest = []
      held = 0
      yield lines
    }
    if (end === block.length) continue
    rest.push(Buffer.from(block.subarray(end)))
    held += block.length - end
    if (held > MAX_LINE) throw new LongLine()
  }
  if (held > 0) yield Buffer.concat(rest)
}

async function* blocksOf(content: MessageContent, start: number): AsyncIterable<Buffer> {
  if (!('file' in content)) {
    const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength)
    for (let at = start; at < bytes.length; at += BLOCK) yield bytes.subarray(at, at + BLOCK)
    return
  }
  const handle = await openSpooled(content.file)
  try {
    for (let at = start; ;) {
      const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(BLOCK), 0, BLOCK, at)
      if (bytesRead === 0) return
      at += bytesRead
      yield buffer.subarray(0, bytesRead)
    }
  } finally {
    await handle.close()
  }
}
