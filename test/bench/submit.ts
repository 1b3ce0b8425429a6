// A client of SMTP submission for the benchmarks: TLS from the first byte, AUTH PLAIN, connections that are kept. It
// does as little as `post` does for HTTP: it checks only codes. Started as a process, it opens connections at a fixed
// rate, each with a separate handshake.
import { connect, type TLSSocket } from 'node:tls'
import { setTimeout as sleep } from 'node:timers/promises'
import { html, type Posted } from './rig.ts'

/** The email that `mailBody` posts with a text, as an application submits it: with Date, Message-ID and two parts. */
export function mailText(index: number): string {
  return [
    'From: hello@bench.example',
    `To: reader${index}@receiver.example`,
    `Subject: Mail ${index}`,
    `Date: ${new Date().toUTCString().replace('GMT', '+0000')}`,
    `Message-ID: <${index}.${process.hrtime.bigint()}@client.bench.example>`,
    'MIME-Version: 1.0',
    'Content-Type: multipart/alternative; boundary="parts"',
    '',
    '--parts',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: 7bit',
    '',
    `Mail ${index}`,
    '',
    '--parts',
    'Content-Type: text/html; charset=utf-8',
    'Content-Transfer-Encoding: 7bit',
    '',
    html(index).replaceAll('\n', '\r\n'),
    '',
    '--parts--',
    '',
  ].join('\r\n')
}

/** A connection to the listener that has been greeted and, with a token, is signed in. */
export class Client {
  readonly #socket: TLSSocket
  #rest = ''
  readonly #codes: number[] = []
  #waiting: ((code: number) => void) | undefined
  #failed: ((error: Error) => void) | undefined
  #error: Error | undefined

  private constructor(socket: TLSSocket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.on('error', (error) => this.#fail(error))
    socket.on('close', () => this.#fail(new Error('the server closed the connection')))
    socket.on('data', (chunk: Buffer) => this.#read(chunk.toString('latin1')))
  }

  /** Opens a connection with a full handshake, and reads the greeting. */
  static async greeted(port: number): Promise<Client> {
    const client = new Client(connect({ port, host: '127.0.0.1', rejectUnauthorized: false }))
    await client.#expect(220)
    return client
  }

  static async signedIn(port: number, token: string): Promise<Client> {
    const client = await Client.greeted(port)
    client.#socket.write('EHLO client.example\r\n')
    await client.#expect(250)
    client.#socket.write(`AUTH PLAIN ${Buffer.from(`\0bench\0${token}`).toString('base64')}\r\n`)
    await client.#expect(235)
    return client
  }

  /**
   * One email. With `pipelined` MAIL, RCPT and DATA are sent together (RFC 2920), otherwise each waits for its reply.
   */
  async send(to: string, text: string, pipelined: boolean): Promise<void> {
    const commands = ['MAIL FROM:<hello@bench.example>\r\n', `RCPT TO:<${to}>\r\n`, 'DATA\r\n']
    if (pipelined) {
      this.#socket.write(commands.join(''))
      for (const code of [250, 250, 354]) await this.#expect(code)
    } else
      for (const [index, command] of commands.entries()) {
        this.#socket.write(command)
        await this.#expect(index === 2 ? 354 : 250)
      }
    this.#socket.write(`${text}.\r\n`)
    await this.#expect(250)
  }

  destroy(): void {
    this.#socket.destroy()
  }

  async #expect(wanted: number): Promise<void> {
    const code = this.#codes.shift() ?? (await this.#next())
    if (code !== wanted) throw new Error(`answer ${code}, not ${wanted}`)
  }

  #next(): Promise<number> {
    if (this.#error) throw this.#error
    return new Promise((resolve, reject) => {
      this.#waiting = resolve
      this.#failed = reject
    })
  }

  #read(text: string): void {
    this.#rest += text
    for (let end = this.#rest.indexOf('\r\n'); end >= 0; end = this.#rest.indexOf('\r\n')) {
      const line = this.#rest.slice(0, end)
      this.#rest = this.#rest.slice(end + 2)
      // The last line of a reply has a space behind its code.
      if (line[3] === '-') continue
      const waiting = this.#waiting
      this.#waiting = undefined
      if (waiting) waiting(Number(line.slice(0, 3)))
      else this.#codes.push(Number(line.slice(0, 3)))
    }
  }

  #fail(error: Error): void {
    this.#error ??= error
    this.#failed?.(error)
  }
}

export interface Submitting {
  port: number
  token: string
  count: number
  /** Connections, each with one mail in progress. */
  posters: number
  pipelined: boolean
}

/** Hands in emails over connections that are kept. Signing in is not in the time. Throws when one is refused. */
export async function submit({ port, token, count, posters, pipelined }: Submitting): Promise<Posted> {
  const clients = await Promise.all(
    Array.from({ length: Math.min(posters, count) }, () => Client.signedIn(port, token)),
  )
  const latencies: number[] = []
  let next = 0
  const start = performance.now()
  await Promise.all(
    clients.map(async (client) => {
      while (next < count) {
        const index = next++
        const text = mailText(index)
        const at = performance.now()
        await client.send(`reader${index}@receiver.example`, text, pipelined)
        latencies.push(performance.now() - at)
      }
    }),
  )
  const wallMs = performance.now() - start
  for (const client of clients) client.destroy()
  return { latencies, wallMs }
}

/** A process that opens `rate` connections per second until it is killed, and often reports how many were greeted. */
if (import.meta.main) {
  const [port, rate] = process.argv.slice(2).map(Number) as [number, number]
  let greeted = 0
  setInterval(() => process.send!({ greeted }), 100)
  const start = performance.now()
  for (let index = 0; ; index++) {
    const wait = start + (index / rate) * 1000 - performance.now()
    if (wait > 0) await sleep(wait)
    void Client.greeted(port).then((client) => {
      greeted++
      client.destroy()
    })
  }
}
