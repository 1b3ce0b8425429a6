// An independent record of what a server accepted: a separate process that posts email and delivers messages, and
// writes down each 201 and 250 before the next request. The parent sends it the address of the server, and the end of
// it.
import { appendFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { JSON_API, document } from '../kit/appliance.ts'
import { deliver } from '../kit/sender.ts'

export interface Work {
  /** Where the API listens. */
  url: string
  smtp: number
  /** The address of SMTP. Default: 127.0.0.1. */
  host?: string
  /** A post is given up after so many ms: the server may be gone without a word. */
  patience?: number
  token: string
  /** The ledger: a line for each promise. */
  file: string
  /** The senders, in turn, and the recipient domains. */
  from: readonly string[]
  to: readonly string[]
  /** Names begin with it, so that no two are alike. */
  round: number
}

/** A line of the ledger. */
export interface Promised {
  kind: 'post' | 'message'
  /** The recipient of an email, the subject of a message. */
  name: string
  /** As the server calls an email. */
  id: string
}

const POSTERS = 4
const SENDERS = 2
const LARGE = 'large '.repeat(60_000)

let current = -1
let count = 0

async function work({
  file,
  from: senders,
  host = '127.0.0.1',
  patience,
  round,
  smtp,
  to: domains,
  token,
  url,
}: Work): Promise<void> {
  current = round
  const going = (): boolean => current === round
  const promised = (line: Promised): void => {
    appendFileSync(file, `${JSON.stringify(line)}\n`)
    process.send!({ promised: round })
  }
  const post = async (): Promise<void> => {
    while (going()) {
      const n = ++count
      const to = `p${round}-${n}@${domains[n % domains.length]}`
      const html = n % 10 === 0 ? `<p>${LARGE}</p>` : '<p>Hello</p>'
      const from = senders[n % senders.length]
      const mail = document('outbound-emails', { from, to, subject: 'Hello', html, idempotency_key: to })
      try {
        const response = await fetch(`${url}/api/v1/outbound-emails`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}`, 'content-type': JSON_API },
          body: JSON.stringify(mail),
          signal: patience === undefined ? null : AbortSignal.timeout(patience),
        })
        // The status line is the promise.
        if (response.status === 201) promised({ kind: 'post', name: to, id: response.headers.get('location') ?? '' })
        else process.send!({ refused: `POST: ${response.status} ${await response.text()}` })
        await response.arrayBuffer().catch(() => undefined)
      } catch {
        // Cut off: no answer, no promise.
        await pause(1)
      }
    }
  }
  const send = async (): Promise<void> => {
    while (going()) {
      const n = ++count
      const name = `m${round}-${n}`
      const body = n % 6 === 0 ? `${LARGE.replaceAll(/(.{60}) /g, '$1\n')}\n` : 'Hello\n'
      const message = `From: ann@there.test\nSubject: ${name}\nMessage-ID: <${name}@there.test>\n\n${body}`
      try {
        const [verdict] = await deliver({ host, port: smtp }, { to: 'box@here.test', message })
        if (verdict?.kind === 'delivered') promised({ kind: 'message', name, id: '' })
        else if (verdict?.code !== null) process.send!({ refused: `SMTP: ${verdict?.code} ${verdict?.text}` })
      } catch {
        await pause(1)
      }
    }
  }
  await Promise.all([...Array.from({ length: POSTERS }, post), ...Array.from({ length: SENDERS }, send)])
  process.send!({ ended: round })
}

process.on('message', (told: Work | 'gone') => {
  if (told === 'gone') current = -1
  else void work(told)
})
process.on('disconnect', () => process.exit())
