// The worker threads that read and judge, hired as the server hires them, with a DNS that a test makes up.
import { Pool } from '../../src/base/threads/pool.ts'
import type { ParsedBody } from '../../src/message/parse.ts'
import { mailText } from '../../src/message/part-text.ts'
import type { ResolverAnswer, Mx } from '../../src/net/resolver.ts'
import type { InboundJob, InboundResult, Judgement, Reading } from '../../src/inbound/reader.ts'

export type Look = (ask: {
  name: string
  type: string
}) => ResolverAnswer<string | Mx> | Promise<ResolverAnswer<string | Mx>>

type Read = Extract<Reading, { kind: 'read' }>
/** A reading with its texts. */
export type WholeReading = Exclude<Reading, Read> | (Omit<Read, 'body'> & { body: ParsedBody | null })

export interface Threads {
  pool: Pool<InboundJob, InboundResult>
  look: Look
  /**
   * The expiry of cached answers, and the time of an evaluation. By default answers are not cached: each test has its
   * own.
   */
  until: number
  now: number
  /** Reads a message. Texts that refer to the message are resolved. */
  read(message: string | Buffer): Promise<WholeReading>
  judge(mail: {
    client?: string
    helo?: string
    from?: string
    message: string | Buffer
    /** In ms. */
    dnsTime?: number
  }): Promise<Judgement>
  close(): Promise<void>
}

export const HOSTNAME = 'mx.postrider.test'

/** Lines end in CRLF on the wire. */
export const wire = (message: string | Buffer): Buffer =>
  Buffer.isBuffer(message)
    ? Buffer.from(message.toString('latin1').replace(/\r?\n/g, '\r\n'), 'latin1')
    : Buffer.from(message.replace(/\r?\n/g, '\r\n'))

export function hire(size = 1): Threads {
  const threads: Threads = {
    look: () => ({ kind: 'nxdomain' }),
    until: 0,
    now: 0,
    pool: new Pool<InboundJob, InboundResult>(new URL('../../src/inbound/reader.ts', import.meta.url), {
      size,
      answer: async (ask) => {
        const answer = await threads.look(ask as { name: string; type: string })
        return { answer, until: threads.until }
      },
    }),
    read: async (message) => {
      const job = { task: 'read', content: wire(message), headerOnly: false, mailFrom: 'ann@there.test' } as const
      const reading = (await threads.pool.run(job, { cpu: 10_000 })) as Reading
      if (reading.kind === 'rejected' || !reading.body) return reading as WholeReading
      const { html, text } = reading.body
      const octets = (): Buffer => wire(message)
      return { ...reading, body: { ...reading.body, html: mailText(html, octets), text: mailText(text, octets) } }
    },
    judge: async ({ client = '192.0.2.1', helo = 'there.test', from = 'ann@there.test', message, dnsTime }) =>
      (await threads.pool.run({
        task: 'judge',
        content: wire(message),
        client,
        helo,
        mailFrom: from,
        hostname: HOSTNAME,
        now: threads.now,
        dnsTime,
      })) as Judgement,
    close: () => threads.pool.close(),
  }
  return threads
}

/**
 * Does work within a limit of CPU time (ms) of all threads. If a thread starts at the same time, the work is repeated,
 * because it costs the same each time.
 */
export async function within<T>(limit: number, work: () => Promise<T> | T): Promise<T> {
  for (let chance = 3; ; chance--) {
    const before = process.cpuUsage()
    const result = await work()
    const { system, user } = process.cpuUsage(before)
    const took = (system + user) / 1000
    if (took < limit) return result
    if (chance === 1) throw new Error(`it took ${Math.round(took)} ms, not ${limit}`)
  }
}

/** TXT and address records by name. Every other name does not exist. */
export function zone(records: Record<string, string[] | ResolverAnswer<string>>): Look {
  return ({ name, type }) => {
    const found = records[`${type} ${name.toLowerCase()}`]
    if (Array.isArray(found)) return { kind: 'found', records: found }
    if (found) return found
    return Object.keys(records).some((key) => key.endsWith(` ${name.toLowerCase()}`))
      ? { kind: 'none' }
      : { kind: 'nxdomain' }
  }
}
