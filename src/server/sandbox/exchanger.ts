// The sandbox's MX host: a real SMTP listener on loopback that accepts mail for every address, verifies its
// DKIM signature with an independent library, and passes it on. Some local parts have an effect, with a tag (bounce+1@)
// as without one:
//
//   refuse@    550 at RCPT                 defer@   451 at RCPT, each time
//   slow@      the final answer takes 10 s
//   bounce@    a bounce message later      reply@   a reply, as a person writes it
//   complain@  a spam complaint later        confirm@  the button of a confirmation email, a second later
import { authenticate } from 'mailauth'
import { simpleParser } from 'mailparser'
import { makeCertificate } from '../../base/certificate.ts'
import { SECOND, type Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/errors.ts'
import type { Log } from '../../base/log.ts'
import { asNodeDns, askType, type Resolver } from '../../net/resolver.ts'
import type { SmtpRefusal } from '../../smtp/answers.ts'
import { startListener, type SmtpListener } from '../../smtp/listener.ts'
import { bounceOf, complaintOf, post, replyOf, type Arrived } from './answers.ts'
import { upTo } from '../../base/text.ts'

export interface ReceivedMail {
  from: string
  to: string[]
  subject: string
  /** The DKIM result, such as pass or fail. */
  dkim: string
  spf: string
  dmarc: string
  tls: boolean
  message: Buffer
}

export interface ExchangerOptions {
  hostname: string
  clock: Clock
  log: Log
  resolver: Resolver
  received: (mail: ReceivedMail) => void
  /** The listener for responses, called when a response is ready to send. */
  listener: () => { host: string; port: number } | undefined
}

const SLOW = 10 * SECOND
/** A report or a reply is sent after this time. */
const SOON = SECOND
const MAX_BYTES = 60 * 1024 * 1024

const FAILS = new Map<string, SmtpRefusal>([
  ['refuse', { code: 550, text: '5.1.1 This mailbox rejects on purpose' }],
  ['defer', { code: 451, text: '4.2.1 This mailbox defers on purpose' }],
])

interface LateAnswer {
  from: '' | 'recipient'
  to: 'return path' | 'reply address'
  write: typeof bounceOf
}

const ANSWERS = new Map<string, LateAnswer>([
  ['bounce', { from: '', to: 'return path', write: bounceOf }],
  ['complain', { from: 'recipient', to: 'return path', write: complaintOf }],
  ['reply', { from: 'recipient', to: 'reply address', write: replyOf }],
])

export function startExchanger(options: ExchangerOptions): Promise<SmtpListener> {
  const { clock, hostname, received, resolver } = options
  return startListener(
    { host: '127.0.0.1', port: 0 },
    {
      hostname,
      clock,
      certificate: makeCertificate(hostname, clock.now()),
      maxBytes: MAX_BYTES,
      recipient: (address) => FAILS.get(mailbox(address)),
      message: async (bytes, { from, to, client, helo, tls }, sound) => {
        const chunks: Buffer[] = []
        for await (const chunk of bytes) chunks.push(chunk)
        const refusal = sound()
        if (refusal) return refusal
        const message = Buffer.concat(chunks)
        const { dkim, spf, dmarc } = await authenticate(message, {
          ip: client,
          helo,
          sender: from,
          mta: hostname,
          disableBimi: true,
          resolver: async (name, type) => asNodeDns(await askType(resolver, name, type), type),
        })
        const parsed = await simpleParser(message, { skipHtmlToText: true, skipTextToHtml: true })
        const { subject = '' } = parsed
        received({
          from,
          to,
          subject,
          dkim: dkim?.results[0]?.status.result ?? 'none',
          spf: spf ? spf.status.result : 'none',
          dmarc: dmarc ? dmarc.status.result : 'none',
          tls: tls !== null,
          message,
        })
        const headers = {
          subject: subject.replace(/\s+/g, ' '),
          messageId: parsed.messageId ?? '',
          references: [parsed.references ?? []].flat().join(' '),
          replyTo: (parsed.replyTo ?? parsed.from)?.value[0]?.address ?? '',
        }
        for (const recipient of to) answer(options, { from, recipient, message, headers })
        if (to.some((address) => mailbox(address) === 'confirm')) confirmLater(options, parsed.text ?? '')
        if (to.some((address) => mailbox(address) === 'slow'))
          await new Promise<void>((resolve) => void clock.wake(clock.now() + SLOW, resolve))
        return undefined
      },
    },
  )
}

/** Sends the answer of the recipient's address after `SOON`. */
function answer({ clock, hostname, listener, log }: ExchangerOptions, arrived: Arrived): void {
  const way = ANSWERS.get(mailbox(arrived.recipient))
  const to = way?.to === 'return path' ? arrived.from : arrived.headers.replyTo
  if (!way || to === '') return
  clock.wake(clock.now() + SOON, () => {
    const where = listener()
    if (!where) return
    const by = { hostname, listener: where, now: clock.now() }
    post(by, way.from === '' ? '' : arrived.recipient, to, way.write(by, arrived)).catch((thrown: unknown) =>
      log.warn('sandbox_reply_rejected', { from: arrived.recipient, to, error: messageOf(thrown) }),
    )
  })
}

/** Presses the button behind the confirmation link of an email, as its recipient would. */
function confirmLater({ clock, log }: ExchangerOptions, text: string): void {
  const [link] = /https?:\/\/\S+\/c\/[\w-]+/.exec(text) ?? []
  if (link === undefined) return
  clock.wake(clock.now() + SOON, () => {
    fetch(link, { method: 'POST', body: new URLSearchParams({ action: 'confirm' }), redirect: 'manual' }).then(
      ({ body }) => body?.cancel(),
      (thrown: unknown) => log.warn('sandbox_confirmation_failed', { error: messageOf(thrown) }),
    )
  })
}

/** The local part without its tag. */
const mailbox = (address: string): string => upTo(upTo(address, '@'), '+').toLowerCase()
