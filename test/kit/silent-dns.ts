// A DNS server that gives no answer to some questions, as one behind a broken link. It hands the others on.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'

export interface SilentDns extends AsyncDisposable {
  port: number
  /** How many questions got no answer. */
  readonly unanswered: number
}

/** Hands questions on to the server at `port`, but not those for names with a label that fits. */
export async function startSilentDns(port: number, silent: RegExp): Promise<SilentDns> {
  const server = createSocket('udp4')
  const asking = new Set<ReturnType<typeof createSocket>>()
  let unanswered = 0
  server.on('message', (query, from) => {
    // Labels in a query are unencoded, each after its length.
    if (silent.test(query.toString('latin1'))) return void unanswered++
    const socket = createSocket('udp4')
    asking.add(socket)
    socket.once('message', (answer) => {
      asking.delete(socket)
      socket.close()
      server.send(answer, from.port, from.address)
    })
    socket.send(query, port, '127.0.0.1')
  })
  server.bind(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: server.address().port,
    get unanswered() {
      return unanswered
    },
    async [Symbol.asyncDispose]() {
      for (const socket of asking) socket.close()
      server.close()
      await once(server, 'close')
    },
  }
}
