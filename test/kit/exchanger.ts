// A receiving server that a test scripts line by line: it sends the given replies, and keeps the messages it receives.
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { createSecureContext, TLSSocket } from 'node:tls'
import { makeCertificate, type Certificate } from '../../src/base/certificate.ts'

export interface Heard {
  from: string
  to: string[]
  /** The message as received, with dots unstuffed and without the final dot. */
  message: string
  tls: boolean
}

export interface Script {
  /**
   * A function gets the number of accepted connections that are open, this one included. Connections that it refused
   * with 4xx or 5xx are ended and do not count, even while their clients keep them open.
   */
  greeting?: string | ((open: number) => string)
  /** EHLO keywords, e.g. ['PIPELINING', 'SIZE 1000']. STARTTLS is added when `tls` is set. */
  keywords?: string[]
  tls?: boolean
  /** The certificate for the name in SNI. undefined = one for mx.test. */
  certificate?: (name: string) => Certificate | undefined
  /** The answer to a command. Undefined = the usual answer. '' = no answer. 'close' = cut the connection. */
  answer?: (command: string, connection: number) => string | undefined
  /**
   * The reply after the final dot. undefined = 250. A promise makes the client wait. `heard` already has the message.
   */
  final?: (heard: Heard, connection: number) => string | Promise<string> | undefined
}

export interface TestExchanger {
  port: number
  heard: Heard[]
  /** Every line the clients sent, message bodies left out. */
  commands: string[]
  connections: number
  /** The number of open connections. */
  readonly open: number
  /** The address of each connection's client, in the order in which they came. */
  peers: string[]
  script: Script
  /** Cuts every open connection. New connections are accepted. */
  cut(): void
  /** Begins to receive. `port` is 0 until then. */
  listen(): Promise<void>
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

let certificate: Certificate | undefined

export async function startTestExchanger(script: Script = {}): Promise<TestExchanger> {
  const exchanger = testExchanger(script)
  await exchanger.listen()
  return exchanger
}

/** One that does not listen yet: the appliance to which it is given starts and closes it (kit/appliance.ts). */
export function testExchanger(script: Script = {}): TestExchanger {
  const sockets = new Set<Socket>()
  const letIn = new Set<Socket>()
  // Replies to pipelined commands are small writes. Delaying them would cost 40 ms an email.
  const server: Server = createServer({ noDelay: true }, (socket) => {
    exchanger.connections++
    exchanger.peers.push(socket.remoteAddress ?? '')
    sockets.add(socket)
    letIn.add(socket)
    socket.on('close', () => sockets.delete(socket) && letIn.delete(socket)).on('error', () => {})
    const { greeting = '220 mx.test ESMTP' } = exchanger.script
    const words = typeof greeting === 'string' ? greeting : greeting(letIn.size)
    converse(socket, exchanger, exchanger.connections, words)
    if (typeof greeting === 'string' || !/^[45]/.test(words)) return
    letIn.delete(socket)
    socket.end()
  })
  const exchanger: TestExchanger = {
    port: 0,
    heard: [],
    commands: [],
    connections: 0,
    get open() {
      return sockets.size
    },
    peers: [],
    script,
    cut() {
      for (const socket of sockets) socket.destroy()
    },
    async listen() {
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      exchanger.port = (server.address() as AddressInfo).port
    },
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
    [Symbol.asyncDispose]: () => exchanger.close(),
  }
  return exchanger
}

/** Answers the commands of a connection. Without `greeting`, TLS has been started. */
function converse(socket: Socket, exchanger: TestExchanger, connection: number, greeting?: string): void {
  const tls = greeting === undefined
  let buffer = ''
  let inData = false
  /** The received pieces of a message, and the last bytes, in which the end of the message may have begun. */
  let pieces: string[] = []
  let tail = ''
  /** MAIL was accepted: pipelined commands after a refused MAIL are refused too. */
  let begun = false
  let envelope: { from: string; to: string[] } = { from: '', to: [] }
  const say = (text: string): void => {
    if (text === 'close') socket.destroy()
    else if (text !== '') socket.write(text.endsWith('\r\n') ? text : `${text}\r\n`)
  }
  if (!tls) say(greeting)
  const command = (line: string): void => {
    exchanger.commands.push(line)
    const scripted = exchanger.script.answer?.(line, connection)
    const verb = line.split(/[ :]/)[0]!.toUpperCase()
    const refused = scripted !== undefined && !/^[23]/.test(scripted)
    if (verb === 'MAIL') {
      begun = !refused
      envelope = { from: /<(.*?)>/.exec(line)?.[1] ?? '', to: [] }
    }
    if (verb === 'RCPT' && !refused && begun) envelope.to.push(/<(.*?)>/.exec(line)?.[1] ?? '')
    if (verb === 'DATA' && (scripted === undefined ? envelope.to.length > 0 : scripted.startsWith('354'))) inData = true
    if (scripted !== undefined) return say(scripted)
    switch (verb) {
      case 'EHLO': {
        const words = [...(exchanger.script.keywords ?? ['PIPELINING', '8BITMIME', 'ENHANCEDSTATUSCODES'])]
        if (exchanger.script.tls && !tls) words.push('STARTTLS')
        const lines = ['mx.test', ...words]
        return say(lines.map((word, index) => `250${index === lines.length - 1 ? ' ' : '-'}${word}`).join('\r\n'))
      }
      case 'STARTTLS': {
        say('220 2.0.0 Go ahead')
        certificate ??= makeCertificate('mx.test', Date.now())
        socket.removeAllListeners('data')
        const secure = new TLSSocket(socket, {
          isServer: true,
          ...certificate,
          SNICallback: (name, done) =>
            done(null, createSecureContext(exchanger.script.certificate?.(name) ?? certificate!)),
        })
        secure.on('error', () => socket.destroy())
        converse(secure, exchanger, connection)
        return undefined
      }
      case 'RCPT':
        return say(begun ? '250 2.0.0 OK' : '503 5.5.1 MAIL first')
      case 'DATA':
        return say(inData ? '354 Go ahead' : '503 5.5.1 No recipients')
      case 'QUIT':
        say('221 2.0.0 Bye')
        return void socket.end()
      default:
        return say('250 2.0.0 OK')
    }
  }
  socket.on('data', (chunk: Buffer) => {
    const piece = chunk.toString('latin1')
    pieces.push(piece)
    if (inData) {
      // A large message arrives in a thousand pieces: it is joined only once.
      tail += piece
      if (!tail.includes('\r\n.\r\n')) return void (tail = tail.slice(-4))
    }
    buffer += pieces.join('')
    pieces = []
    for (;;) {
      if (inData) {
        const end = buffer.startsWith('.\r\n') ? 0 : buffer.indexOf('\r\n.\r\n') + 2
        if (end === 1) return void (tail = `\r\n${buffer}`.slice(-4))
        const message = Buffer.from(buffer.slice(0, end), 'latin1').toString('utf8').replace(/^\.\./gm, '.')
        buffer = buffer.slice(end + 3)
        inData = false
        const heard = { ...envelope, message, tls }
        const answer = exchanger.script.final?.(heard, connection)
        if (answer instanceof Promise) {
          exchanger.heard.push(heard)
          void answer.then(say)
          continue
        }
        if (answer === undefined || answer.startsWith('2') || answer === 'close' || answer === '')
          exchanger.heard.push(heard)
        say(answer ?? '250 2.0.0 Queued')
        continue
      }
      const end = buffer.indexOf('\r\n')
      if (end < 0) return
      const line = buffer.slice(0, end)
      buffer = buffer.slice(end + 2)
      command(line)
    }
  })
}
