// Queries a time server for the error of this machine's clock (SNTP, RFC 4330).
import { randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import type { Clock } from '../base/clock.ts'

/** Seconds from 1900, the start of NTP's time, to 1970. */
const EPOCH = 2_208_988_800
const PATIENCE = 3000
const PACKET = 48

/**
 * Milliseconds that the clock is behind the server's (negative: ahead), or undefined if no server answers within 3 s.
 */
export function clockOffset(clock: Clock, { host, port }: { host: string; port: number }): Promise<number | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
    let ended = false
    const end = (offset?: number): void => {
      // The look-up of the server's name may fail after the timeout.
      if (ended) return
      ended = true
      clearTimeout(limit)
      socket.close()
      resolve(offset)
    }
    const limit = setTimeout(end, PATIENCE)
    const question = Buffer.alloc(PACKET)
    // Version 4, mode 3: a client.
    question[0] = 0x23
    // A random value instead of our time, which the server does not need. Without seeing the query, an attacker cannot
    // forge the response.
    const token = randomBytes(8)
    token.copy(question, 40)
    const asked = clock.now()
    socket.on('error', () => end())
    socket.on('message', (answer) => {
      const now = clock.now()
      // Mode 4: a server. Stratum 0 is a "kiss of death" without a time.
      if (answer.length < PACKET || (answer[0]! & 7) !== 4 || answer[1] === 0) return
      if (!answer.subarray(24, 32).equals(token)) return
      const at = (offset: number): number =>
        (answer.readUInt32BE(offset) - EPOCH) * 1000 + (answer.readUInt32BE(offset + 4) / 2 ** 32) * 1000
      end((at(32) - asked + (at(40) - now)) / 2)
    })
    socket.send(question, port, host, (error) => void (error && end()))
  })
}
