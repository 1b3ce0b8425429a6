// The sandbox's webhook receiver: an HTTPS endpoint on loopback that shows the events it gets. The path chooses its
// answer: /200 (or anything), /500, /410, /429, /slow.
import { createServer } from 'node:https'
import { makeCertificate } from '../../base/certificate.ts'
import { SECOND, type Clock } from '../../base/clock.ts'
import { portOf } from '../../base/network.ts'

export interface PushedEvent {
  path: string
  type: string
  id: string
  answered: number
}

export interface Receiver {
  port: number
  /** PEM, for tls.ca_file. */
  certificate: string
  close(): Promise<void>
}

const MAX_BODY = 64 * 1024
const SLOW = 20 * SECOND

export async function startReceiver(
  host: string,
  clock: Clock,
  pushed: (event: PushedEvent) => void,
): Promise<Receiver> {
  const certificate = makeCertificate(host, clock.now())
  const server = createServer(certificate, (request, response) => {
    const path = request.url ?? '/'
    const status = Number(/^\/([1-5]\d\d)\b/.exec(path)?.[1] ?? 200)
    let body = ''
    request.setEncoding('utf8').on('data', (chunk: string) => {
      if (body.length < MAX_BODY) body += chunk
    })
    request.on('end', () => {
      const answer = (): void => {
        response
          .writeHead(status, { 'content-type': 'text/plain', ...(status === 429 ? { 'retry-after': '10' } : {}) })
          .end(`${status}\n`)
      }
      pushed({ path, type: typeOf(body), id: String(request.headers['webhook-id'] ?? ''), answered: status })
      if (path.startsWith('/slow')) clock.wake(clock.now() + SLOW, answer)
      else answer()
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    port: portOf(server),
    certificate: certificate.cert,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

function typeOf(body: string): string {
  try {
    return String((JSON.parse(body) as { type?: string }).type)
  } catch {
    return 'not JSON'
  }
}
