// The sandbox's DNS: a UDP server on loopback. It publishes the records that the sandbox's domains need, so that they
// are verified at once, and the built-in MX host for every other domain.
import { createSocket, type Socket } from 'node:dgram'
import dnsPacket, { type Answer, type Packet } from 'dns-packet'
import { portOf } from '../../base/network.ts'

export interface Zone {
  /**
   * Records of one type at a name, as text: TXT strings, "10 mx.host" for MX, addresses, CNAME targets. undefined is
   * NXDOMAIN, 'failure' is SERVFAIL.
   */
  lookUp(name: string, type: string): string[] | 'failure' | undefined
}

export interface DnsServer {
  port: number
  close(): Promise<void>
}

const TTL = 5
/** Response codes (RFC 1035 §4.1.1). */
const SERVFAIL = 2
const NXDOMAIN = 3

export async function startDns(zone: Zone, port = 0): Promise<DnsServer> {
  const socket = createSocket('udp4')
  socket.on('message', (message, { address, port: from }) => {
    const reply = answerTo(zone, message)
    if (reply) socket.send(reply, from, address)
  })
  socket.on('error', () => {})
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.bind(port, '127.0.0.1', resolve)
  })
  return { port: portOf(socket), close: () => closeSocket(socket) }
}

const closeSocket = (socket: Socket): Promise<void> => new Promise((resolve) => socket.close(() => resolve()))

/** Returns the response to a query, or undefined if the message is not a query. */
export function answerTo(zone: Zone, message: Buffer): Buffer | undefined {
  let query: Packet
  try {
    query = dnsPacket.decode(message)
  } catch {
    return undefined
  }
  const [question] = query.questions ?? []
  if (!question) return undefined
  const name = question.name.toLowerCase()
  const values = zone.lookUp(name, question.type)
  const code = values === undefined ? NXDOMAIN : values === 'failure' ? SERVFAIL : 0
  const flags = dnsPacket.AUTHORITATIVE_ANSWER | dnsPacket.RECURSION_AVAILABLE | code
  const found = Array.isArray(values) ? values : []
  const answers = found.flatMap((value) => recordOf(question.name, question.type, value))
  return dnsPacket.encode({ type: 'response', id: query.id ?? 0, flags, questions: [question], answers })
}

/** Parses a record from its text. Returns an empty list for an unsupported type. */
export function recordOf(name: string, type: string, value: string): Answer[] {
  switch (type) {
    case 'TXT':
      // A string of a TXT record has at most 255 bytes.
      return [{ name, type, ttl: TTL, data: value.match(/.{1,255}/gs) ?? [''] }]
    case 'MX': {
      const [preference, exchange = ''] = value.split(' ')
      return [{ name, type, ttl: TTL, data: { preference: Number(preference), exchange } }]
    }
    case 'TLSA': {
      const [usage, selector, matchingType, certificate = ''] = value.split(' ')
      const [u = NaN, s = NaN, m = NaN] = [usage, selector, matchingType].map(Number)
      const data = { usage: u, selector: s, matchingType: m, certificate: Buffer.from(certificate, 'hex') }
      return [{ name, type, ttl: TTL, data }]
    }
    case 'CAA': {
      const [, flags, tag, text] = /^(\d+) (issue|issuewild|iodef) "(.*)"$/.exec(value) ?? []
      return [{ name, type, ttl: TTL, data: { flags: Number(flags), tag: tag as 'issue', value: text ?? '' } }]
    }
    case 'NS':
    case 'A':
    case 'AAAA':
    case 'CNAME':
    case 'PTR':
      return [{ name, type, ttl: TTL, data: value }]
    default:
      return []
  }
}
