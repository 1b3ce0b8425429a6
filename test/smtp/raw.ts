// An SMTP client that sends exactly the given bytes, and reads replies as they arrive.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls'

export interface RawReply {
  code: number
  /** Lines without code and separator. */
  lines: string[]
  /** The last line. */
  text: string
}

export class RawClient {
  socket: Socket | TLSSocket
  #text = ''
  #ended = false
  #wake = (): void => {}

  private constructor(socket: Socket) {
    this.socket = socket
    this.#listen()
  }

  /** Connects. The greeting is the first reply. */
  static async open(port: number, options: { localAddress?: string } = {}): Promise<RawClient> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true, ...options })
    const client = new RawClient(socket)
    await once(socket, 'connect')
    return client
  }

  /** Connects with TLS from the first byte. Throws the error of the handshake. */
  static async overTls(port: number, options: ConnectionOptions & { localAddress?: string } = {}): Promise<RawClient> {
    const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options })
    const client = new RawClient(socket)
    await new Promise<void>((resolve, reject) =>
      socket
        .once('secureConnect', resolve)
        .once('error', reject)
        .once('close', () => reject(new Error('closed'))),
    )
    return client
  }

  /** Connects, reads the greeting and sends EHLO. */
  static async greeted(port: number, helo = 'client.test'): Promise<RawClient> {
    const client = await RawClient.open(port)
    await client.reply()
    await client.ask(`EHLO ${helo}`)
    return client
  }

  #listen(): void {
    this.socket
      .setEncoding('utf8')
      .on('data', (chunk: string) => {
        this.#text += chunk
        this.#wake()
      })
      .on('error', () => {})
      .on('close', () => {
        this.#ended = true
        this.#wake()
      })
      .on('end', () => {
        this.#ended = true
        this.#wake()
      })
  }

  write(bytes: string | Uint8Array): void {
    if (this.socket.writable) this.socket.write(bytes)
  }

  /** Writes each piece only after the server, in this process, has had time to read the one before. */
  async writePieces(pieces: readonly Uint8Array[]): Promise<void> {
    for (const piece of pieces) {
      if (piece.length === 0) continue
      this.write(piece)
      for (let n = 0; n < 4; n++) await turn()
    }
  }

  /** The next reply, or undefined if the connection closes before it is complete. */
  async next(): Promise<RawReply | undefined> {
    for (;;) {
      const whole = /^(?:\d{3}-.*\r\n)*\d{3}(?: .*)?\r\n/.exec(this.#text)?.[0]
      if (whole !== undefined) {
        this.#text = this.#text.slice(whole.length)
        const lines = whole.trimEnd().split('\r\n')
        const texts = lines.map((line) => line.slice(4))
        return { code: Number(lines[0]!.slice(0, 3)), lines: texts, text: texts.at(-1)! }
      }
      if (this.#ended) return undefined
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }

  async reply(): Promise<RawReply> {
    const reply = await this.next()
    if (!reply) throw new Error(`the connection ended: ${JSON.stringify(this.#text)}`)
    return reply
  }

  async ask(line: string | Uint8Array): Promise<RawReply> {
    this.write(typeof line === 'string' ? `${line}\r\n` : line)
    return this.reply()
  }

  /** Code and enhanced code: "550 5.1.1". */
  async said(line: string | Uint8Array): Promise<string> {
    const { code, text } = await this.ask(line)
    return `${code} ${/^\d\.\d+\.\d+/.exec(text)?.[0] ?? ''}`.trimEnd()
  }

  /** MAIL, RCPT and DATA, up to 354. */
  async begin(to: string, from = 'ann@there.test', parameters = ''): Promise<void> {
    for (const line of [`MAIL FROM:<${from}>${parameters}`, `RCPT TO:<${to}>`, 'DATA']) {
      const { code, text } = await this.ask(line)
      if (code >= 400) throw new Error(`${line}: ${code} ${text}`)
    }
  }

  /** Every further reply until the connection ends. */
  async rest(): Promise<RawReply[]> {
    const replies: RawReply[] = []
    for (let reply = await this.next(); reply; reply = await this.next()) replies.push(reply)
    return replies
  }

  /**
   * STARTTLS and the handshake. Throws the error of the handshake. `behind` is sent in clear text in the same write as
   * the command.
   */
  async startTls(options: ConnectionOptions = {}, behind = ''): Promise<void> {
    this.write(`STARTTLS\r\n${behind}`)
    const { code } = await this.reply()
    if (code !== 220) throw new Error(`STARTTLS: ${code}`)
    this.socket.removeAllListeners('data').removeAllListeners('end').removeAllListeners('close')
    const secure = connectTls({ socket: this.socket, rejectUnauthorized: false, ...options })
    await once(secure, 'secureConnect')
    this.socket = secure
    this.#listen()
  }

  destroy(): void {
    this.socket.destroy()
  }
}
