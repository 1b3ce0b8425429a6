// A resolver on loopback that marks every answer as validated, to measure the cost of DANE.
import { createSocket } from 'node:dgram'
import { answerTo, type Zone } from '../../src/server/sandbox/dns.ts'
import { portOf } from '../../src/base/network.ts'

const AUTHENTIC = 0x20

/** Its port. It ends with the process. */
export async function signedDns(zone: Zone): Promise<number> {
  const socket = createSocket('udp4')
  socket.on('message', (message, { address, port }) => {
    const reply = answerTo(zone, message)
    if (!reply) return
    reply[3]! |= AUTHENTIC
    socket.send(reply, port, address)
  })
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
  return portOf(socket)
}
