// DNS queries with more details than Node gives: whether the answer was validated (DNSSEC), and more record types.
import { createSocket } from 'node:dgram'
import { getServers } from 'node:dns'
import { connect } from 'node:net'
import { randomInt } from 'node:crypto'
import dnsPacket, { type Answer, type RecordType } from 'dns-packet'
import type { Config } from '../base/config.ts'
import { parseEndpoint } from '../base/network.ts'

export interface DnsAnswer {
  /** NOERROR, NXDOMAIN … */
  code: string
  /** The resolver has validated the answer (AD, RFC 4035 §3.2.3). */
  secure: boolean
  answers: Answer[]
}

export type AskDns = (name: string, type: RecordType) => Promise<DnsAnswer | undefined>

const TIMEOUT = 4000
const TRIES = 2
const UDP_SIZE = 1232
const TRUNCATED = 1 << 9
const AUTHENTIC = 1 << 5

/** Queries the first configured resolver, else the system's; undefined when it does not answer. */
export function dnsOf({ dns }: Pick<Config, 'dns'>): AskDns {
  const [system = '127.0.0.1'] = getServers()
  const server = dns.servers[0] ??
    parseEndpoint(/:\d+$/.test(system) && !/^[^[]*:.*:/.test(system) ? system : `[${system}]:53`) ?? {
      host: system,
      port: 53,
    }
  return async (name, type) => {
    const id = randomInt(65_536)
    const query = dnsPacket.encode({
      type: 'query',
      id,
      flags: dnsPacket.RECURSION_DESIRED | AUTHENTIC,
      questions: [{ name, type }],
      additionals: [
        {
          type: 'OPT',
          name: '.',
          udpPayloadSize: UDP_SIZE,
          flags: dnsPacket.DNSSEC_OK,
          extendedRcode: 0,
          ednsVersion: 0,
          flag_do: true,
          options: [],
        },
      ],
    })
    for (let tries = 0; tries < TRIES; tries++) {
      const reply = await byUdp(server, query, id)
      const packet = reply && (reply.readUInt16BE(2) & TRUNCATED ? await byTcp(server, query) : reply)
      if (packet) return readAnswer(packet)
    }
    return undefined
  }
}

/** The content of an answer; undefined when it is malformed. */
export function readAnswer(packet: Buffer): DnsAnswer | undefined {
  try {
    const flags = packet.readUInt16BE(2)
    const { answers = [], rcode } = dnsPacket.decode(packet) as { answers?: Answer[]; rcode?: string }
    return { code: rcode ?? 'NOERROR', secure: (flags & AUTHENTIC) !== 0, answers }
  } catch {
    return undefined
  }
}

function byUdp({ host, port }: { host: string; port: number }, query: Buffer, id: number): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
    const end = (reply?: Buffer): void => {
      clearTimeout(late)
      socket.close()
      resolve(reply)
    }
    const late = setTimeout(end, TIMEOUT)
    socket.on('message', (message) => void (message.length > 12 && message.readUInt16BE(0) === id && end(message)))
    socket.on('error', () => end())
    socket.send(query, port, host)
  })
}

function byTcp({ host, port }: { host: string; port: number }, query: Buffer): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const length = Buffer.alloc(2)
    length.writeUInt16BE(query.length)
    let received = Buffer.alloc(0)
    const socket = connect(port, host, () => socket.write(Buffer.concat([length, query])))
    const end = (reply?: Buffer): void => {
      socket.destroy()
      resolve(reply)
    }
    socket.setTimeout(TIMEOUT, () => end())
    socket.on('error', () => end()).on('close', () => end())
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      if (received.length > 2 && received.length >= received.readUInt16BE(0) + 2) end(received.subarray(2))
    })
  })
}
