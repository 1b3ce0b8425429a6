// The sandbox's receiving exchanger: a real SMTP listener on loopback that takes mail for everybody, judges its DKIM
// signature with an independent library, and hands it on. Some local parts fail on purpose:
//
//   bounce@  550 at RCPT            defer@  451 at RCPT, each time            slow@  the final answer takes 10 seconds
import { authenticate } from 'mailauth'
import { simpleParser } from 'mailparser'
import { makeCertificate } from '../base/certificate.ts'
import { SECOND, type Clock } from '../base/clock.ts'
import type { Answer, Mx, Resolver } from '../base/resolver.ts'
import { startListener, type SmtpListener, type SmtpRefusal } from '../smtp/listener.ts'

export interface ReceivedMail {
  from: string
  to: string[]
  subject: string
  /** The DKIM verdict: pass, fail, none … */
  dkim: string
  spf: string
  dmarc: string
  tls: boolean
  message: Buffer
}

export interface ExchangerOptions {
  hostname: string
  clock: Clock
  resolver: Resolver
  listen: { host: string; port: number }
  received: (mail: ReceivedMail) => void
}

const SLOW = 10 * SECOND
const MAX_BYTES = 60 * 1024 * 1024

const FAILS: Record<string, SmtpRefusal> = {
  bounce: { code: 550, text: 'This mailbox bounces on purpose' },
  defer: { code: 451, text: 'This mailbox defers on purpose' },
}

export function startExchanger({
  clock,
  hostname,
  listen,
  received,
  resolver,
}: ExchangerOptions): Promise<SmtpListener> {
  return startListener(listen, {
    hostname,
    certificate: makeCertificate(hostname, clock.now()),
    maxBytes: MAX_BYTES,
    recipient: (address) => FAILS[localPart(address)],
    message: async (message, { from, to, client, helo, tls }) => {
      const { dkim, spf, dmarc } = await authenticate(message, {
        ip: client,
        helo,
        sender: from,
        mta: hostname,
        resolver: (name, type) => lookUp(resolver, name, type),
      })
      const { subject = '' } = await simpleParser(message, { skipHtmlToText: true, skipTextToHtml: true })
      received({
        from,
        to,
        subject,
        dkim: dkim?.results[0]?.status.result ?? 'none',
        spf: spf ? spf.status.result : 'none',
        dmarc: dmarc ? dmarc.status.result : 'none',
        tls,
        message,
      })
      if (to.some((address) => localPart(address) === 'slow'))
        await new Promise<void>((resolve) => void clock.wake(clock.now() + SLOW, resolve))
      return undefined
    },
  })
}

const localPart = (address: string): string => address.split('@')[0]!.toLowerCase()

const ask = (resolver: Resolver, name: string, type: string): Promise<Answer<string | Mx>> => {
  switch (type) {
    case 'TXT':
      return resolver.txt(name)
    case 'A':
      return resolver.a(name)
    case 'AAAA':
      return resolver.aaaa(name)
    case 'MX':
      return resolver.mx(name)
    default:
      return Promise.resolve({ kind: 'none' })
  }
}

/** mailauth asks as node:dns does: records, or an error with a code. */
async function lookUp(resolver: Resolver, name: string, type: string): Promise<string[] | string[][]> {
  const answer = await ask(resolver, name, type)
  if (answer.kind === 'found')
    return type === 'TXT' ? answer.records.map((text) => [text as string]) : (answer.records as string[])
  const code = { none: 'ENODATA', nxdomain: 'ENOTFOUND', failed: 'ETIMEOUT' }[answer.kind]
  throw Object.assign(new Error(`${type} ${name}: ${code}`), { code })
}
