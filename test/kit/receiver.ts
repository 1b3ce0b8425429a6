// An HTTPS endpoint on loopback whose answers a test sets. It keeps every request.
import { rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Webhook } from 'standardwebhooks'
import { makeCertificate } from '../../src/base/certificate.ts'
import { temporaryDirectory } from './directory.ts'

export interface Request {
  path: string
  headers: Record<string, string>
  body: string
}

export interface TestReceiver {
  /** https://hooks.test:port */
  url: string
  port: number
  /** PEM file for tls.ca_file. */
  caFile: string
  requests: Request[]
  /** The answer: a status, or a function that answers itself. */
  answer: number | ((request: Request, response: ServerResponse, incoming: IncomingMessage) => void)
  /** Begins to receive. `url`, `port` and `caFile` are set then. */
  listen(): Promise<void>
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

export const HOST = 'hooks.test'

export async function startTestReceiver(): Promise<TestReceiver> {
  const receiver = testReceiver()
  await receiver.listen()
  return receiver
}

/** One that does not listen yet: the appliance to which it is given starts and closes it (kit/appliance.ts). */
export function testReceiver(): TestReceiver {
  let server: Server
  let directory: string
  const heard = (incoming: IncomingMessage, response: ServerResponse): void => {
    let body = ''
    incoming.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
    incoming.on('end', () => {
      const request = { path: incoming.url!, headers: incoming.headers as Record<string, string>, body }
      receiver.requests.push(request)
      if (typeof receiver.answer === 'number') response.writeHead(receiver.answer).end('ok')
      else receiver.answer(request, response, incoming)
    })
  }
  const receiver: TestReceiver = {
    url: '',
    port: 0,
    caFile: '',
    requests: [],
    answer: 200,
    async listen() {
      const certificate = makeCertificate(HOST, Date.now())
      directory = temporaryDirectory('receiver')
      receiver.caFile = join(directory, 'ca.pem')
      writeFileSync(receiver.caFile, certificate.cert)
      server = createServer(certificate, heard)
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      receiver.port = (server.address() as AddressInfo).port
      receiver.url = `https://${HOST}:${receiver.port}`
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => {
          rmSync(directory, { recursive: true, force: true })
          resolve()
        })
      }),
    [Symbol.asyncDispose]: () => receiver.close(),
  }
  return receiver
}

/** Throws unless the standardwebhooks library, its clock set to `now` (ms), accepts the request with this secret. */
export function verify({ body, headers }: Request, secret: string, now: number): void {
  const clock = Date.now
  Date.now = () => now
  try {
    new Webhook(secret).verify(body, headers)
  } finally {
    Date.now = clock
  }
}
