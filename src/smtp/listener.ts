// A receiving SMTP listener behind two questions: may this recipient be written to, and is this message kept? It answers 250
// after the final dot only once the second was answered with yes.
import type { AddressInfo } from 'node:net'
import type { Readable } from 'node:stream'
import { SMTPServer, type SMTPServerSession } from 'smtp-server'
import type { Certificate } from '../base/certificate.ts'
import { messageOf } from '../base/errors.ts'

/** A refusal: 550 and "No such mailbox"; the listener puts the enhanced code that belongs to it in front. */
export interface SmtpRefusal {
  code: number
  text: string
}

export interface ListenerOptions {
  hostname: string
  certificate?: Certificate
  maxBytes: number
  /** Undefined: welcome. */
  recipient: (address: string, from: string) => Promise<SmtpRefusal | undefined> | SmtpRefusal | undefined
  /** Keeps the message; undefined: kept, whatever happens next. */
  message: (
    message: Buffer,
    envelope: { from: string; to: string[]; client: string; helo: string; tls: boolean },
  ) => Promise<SmtpRefusal | undefined>
}

export interface SmtpListener {
  port: number
  close(): Promise<void>
}

export async function startListener(
  { host, port }: { host: string; port: number },
  options: ListenerOptions,
): Promise<SmtpListener> {
  const server = new SMTPServer({
    name: options.hostname,
    banner: 'Postrider',
    size: options.maxBytes,
    authOptional: true,
    disabledCommands: ['AUTH', ...(options.certificate ? [] : ['STARTTLS'])],
    hideENHANCEDSTATUSCODES: false,
    disableReverseLookup: true,
    ...(options.certificate ? { ...options.certificate, minVersion: 'TLSv1.2' as const } : {}),
    onRcptTo(address, session, done) {
      void judge(done, async () => options.recipient(address.address, senderOf(session)))
    },
    onData(stream, session, done) {
      void judge(done, async () => {
        const message = await collect(stream, options.maxBytes)
        if (!message) return { code: 552, text: 'Message too big' }
        return options.message(message, {
          from: senderOf(session),
          to: session.envelope.rcptTo.map(({ address }) => address),
          client: session.remoteAddress,
          helo: session.hostNameAppearsAs || '',
          tls: session.secure,
        })
      })
    },
  })
  server.on('error', () => {})
  await new Promise<void>((resolve, reject) => {
    server.server.once('error', reject)
    server.listen(port, host, resolve)
  })
  return {
    port: (server.server.address() as AddressInfo).port,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  }
}

const senderOf = ({ envelope: { mailFrom } }: SMTPServerSession): string => (mailFrom ? mailFrom.address : '')

/** Tells smtp-server what came of a question; a fault of ours is a temporary refusal. */
async function judge(
  done: (error?: Error | null) => void,
  question: () => Promise<SmtpRefusal | undefined>,
): Promise<void> {
  const refusal = await question().catch((thrown: unknown): SmtpRefusal => ({ code: 451, text: messageOf(thrown) }))
  done(refusal ? Object.assign(new Error(refusal.text), { responseCode: refusal.code }) : null)
}

/** The whole message; undefined when it is larger than `max`. What is too much is read and dropped. */
async function collect(stream: Readable, max: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size <= max) chunks.push(chunk)
    else chunks.length = 0
  }
  return size <= max ? Buffer.concat(chunks) : undefined
}
