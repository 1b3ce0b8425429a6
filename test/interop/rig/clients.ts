// Other SMTP clients: swaks, smtp-source, Python's smtplib, and a simple one that sends exact bytes to a server.

import { execFile } from 'node:child_process'
import { accessSync } from 'node:fs'
import { connect } from 'node:net'
import { PROGRAMS } from './sandbox.ts'

const SWAKS = '/usr/bin/swaks'
const TIMEOUT = 60_000

export function missingSwaks(): string[] {
  try {
    accessSync(SWAKS)
    return []
  } catch {
    return [SWAKS]
  }
}

export interface Ended {
  code: number
  output: string
}

function run(program: string, args: readonly string[], input?: Buffer): Promise<Ended> {
  return new Promise((resolve) => {
    // HOME: swaks reads a .swaksrc there.
    const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/nonexistent' }
    const options = { timeout: TIMEOUT, killSignal: 'SIGKILL', maxBuffer: 1 << 24, env } as const
    const child = execFile(program, [...args], options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1, output: stdout + stderr }),
    )
    child.stdin!.on('error', () => {}).end(input)
  })
}

export const swaks = (port: number, ...args: string[]): Promise<Ended> =>
  run(SWAKS, ['--server', '127.0.0.1', '--port', String(port), '--helo', 'swaks.example', '--no-hints', ...args])

export const smtpSource = (port: number, ...args: string[]): Promise<Ended> =>
  run(PROGRAMS.smtpSource, [...args, `127.0.0.1:${port}`])

const SMTPLIB = `
import smtplib, sys
port, sender, recipient, *options = sys.argv[1:]
with smtplib.SMTP('127.0.0.1', int(port), 'python.example', timeout=30) as client:
    client.sendmail(sender, [recipient], sys.stdin.buffer.read(), options)
`

/** Python's smtplib. `options` are used in MAIL. */
export const smtplib = (port: number, from: string, to: string, message: Buffer, options: string[]): Promise<Ended> =>
  run(PROGRAMS.python, ['-I', '-c', SMTPLIB, String(port), from, to, ...options], message)

/** Sends messages with CRLF line ends to a server on one connection. Returns the reply to each. */
export function inject(port: number, from: string, to: string, messages: readonly Buffer[]): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    const steps: (string | Buffer)[] = ['EHLO inject.example\r\n']
    for (const message of messages) {
      const stuffed = message.toString('latin1').replace(/(?<=^|\r\n)\./g, '..')
      steps.push(`MAIL FROM:<${from}> BODY=8BITMIME\r\n`, `RCPT TO:<${to}>\r\n`, 'DATA\r\n')
      steps.push(Buffer.from(`${stuffed}.\r\n`, 'latin1'))
    }
    const replies: string[] = []
    let text = ''
    socket.setTimeout(TIMEOUT, () => socket.destroy(new Error('no reply')))
    socket.on('error', reject).on('data', (data) => {
      text += data.toString('latin1')
      for (let match; (match = /^(?:\d{3}-.*\r\n)*(\d{3} .*)\r\n/.exec(text)); text = text.slice(match[0].length)) {
        replies.push(match[1]!)
        const next = steps.shift()
        if (next !== undefined) socket.write(next)
        else {
          socket.end('QUIT\r\n')
          // The greeting, EHLO, and then the last of each four.
          return resolve(replies.slice(2).filter((_, index) => index % 4 === 3))
        }
      }
    })
  })
}
