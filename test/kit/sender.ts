// A real SMTP client for tests of received mail.
import { openSession } from '../../src/smtp/client.ts'
import type { Verdict } from '../../src/smtp/verdict.ts'
import type { TestAppliance } from './appliance.ts'
import { until } from './until.ts'

export interface Sent {
  from?: string
  to: string | readonly string[]
  /** The lines of the message. LF line ends become CRLF. */
  message?: string | Buffer
}

/** Delivers a message to a listener. The verdict on each recipient. */
export async function deliver(
  { port, host, localAddress }: { port: number; host: string; localAddress?: string },
  { from = 'ann@there.test', to, message }: Sent,
): Promise<Verdict[]> {
  const session = await openSession({ host, address: host, port, hostname: 'client.test', tls: 'none', localAddress })
  if ('kind' in session) throw new Error(session.text)
  const text = message ?? `From: ${from}\nTo: ${String(to)}\nSubject: Hello\nMessage-ID: <1@there.test>\n\nHello.\n`
  const lines = Buffer.isBuffer(text) ? text.toString('latin1') : Buffer.from(text).toString('latin1')
  const wire = lines.replace(/\r?\n/g, '\r\n').replace(/^\./gm, '..')
  try {
    const recipients = typeof to === 'string' ? [to] : to
    return await session.send(
      { from, recipients },
      Buffer.from(`${wire.endsWith('\r\n') ? wire : `${wire}\r\n`}.\r\n`, 'latin1'),
    )
  } finally {
    void session.quit()
  }
}

/** Delivers a message to an inbox of a test appliance, waits until it was read, and returns its resource of the API. */
export async function receive(postrider: TestAppliance, sent: Sent, token = postrider.token) {
  const ids = async (): Promise<{ id: string }[]> =>
    (await postrider.raw('/api/v1/inbound-emails?page[size]=100', { headers: { authorization: `Bearer ${token}` } }))
      .body.data
  const before = new Set((await ids()).map(({ id }) => id))
  const [verdict] = await deliver(postrider.appliance.smtp[0]!, sent)
  if (verdict!.kind !== 'delivered') throw new Error(`${verdict!.code} ${verdict!.text}`)
  return until(async () => (await ids()).find(({ id }) => !before.has(id)), 'a received mail')
}
