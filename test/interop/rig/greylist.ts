// Greylisting as a Postfix policy service (SMTPD_POLICY_README): the first attempts of a sender and recipient are
// deferred.
//
// It counts attempts instead of minutes, so that tests with a manual clock have the same results every time.

import { createServer, type AddressInfo } from 'node:net'

export interface Greylist {
  /** How many attempts of the same sender and recipient are deferred. Default 1. */
  refusals?: number
  /** Default `451 4.7.1 Greylisted, please try again later`. */
  reply?: string
}

/** Listens on a loopback port of its own until close(). */
export async function greylist(options: Greylist): Promise<{ port: number; close: () => void }> {
  const { refusals = 1, reply = '451 4.7.1 Greylisted, please try again later' } = options
  const seen = new Map<string, number>()

  const decide = (request: string): string => {
    const value = (name: string) => request.match(new RegExp(`^${name}=(.*)$`, 'm'))?.[1] ?? ''
    const pair = `${value('sender')} ${value('recipient')}`
    const attempts = (seen.get(pair) ?? 0) + 1
    seen.set(pair, attempts)
    return attempts > refusals ? 'DUNNO' : reply
  }

  const server = createServer((socket) => {
    socket.unref()
    let pending = ''
    socket.on('error', () => socket.destroy())
    socket.on('data', (chunk) => {
      pending += chunk.toString('latin1')
      // One request ends at an empty line; Postfix keeps the connection for the next.
      for (let end = pending.indexOf('\n\n'); end >= 0; end = pending.indexOf('\n\n')) {
        socket.write(`action=${decide(pending.slice(0, end))}\n\n`)
        pending = pending.slice(end + 2)
      }
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  server.unref()
  return { port: (server.address() as AddressInfo).port, close: () => void server.close() }
}
