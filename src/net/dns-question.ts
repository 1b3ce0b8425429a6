// DNS queries with the data that Node omits: whether the resolver validated the answer (AD, RFC 4035 §3.2.3), the time
// to live, aliases, TLSA. A response is accepted only from the server that was queried, with the same id and question.
import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { Resolver as NodeResolver } from 'node:dns'
import { connect } from 'node:net'
import dnsPacket, { type Answer, type Packet, type RecordType } from 'dns-packet'
import { codeOf } from '../base/errors.ts'
import { isLocal } from '../base/local-trouble.ts'
import { parseEndpoint } from '../base/network.ts'

export type DnsServerAddress = Readonly<{ host: string; port: number }>

export interface DnsAnswer {
  /** NOERROR, NXDOMAIN … */
  code: string
  /** The resolver has validated the answer: AD. */
  secure: boolean
  answers: Answer[]
  authorities: Answer[]
}

/** Why there is no answer: "ETIMEOUT" or a code of the system. */
export interface NoDnsAnswer {
  failure: string
  /** This machine had no descriptor or no memory for the question. */
  local?: true
}

export type DnsQuestion = Readonly<{ name: string; type: RecordType }>

/** RFC 9715 §3.1: no fragments. */
const UDP_SIZE = 1232
const TRUNCATED = 1 << 9
const AUTHENTIC = 1 << 5
/** One message by TCP (RFC 1035 §4.2.2). */
const MAX_TCP = 65_535 + 2

/** The servers of the configuration, else those of the system. */
export function serversOf(configured: readonly DnsServerAddress[]): DnsServerAddress[] {
  if (configured.length > 0) return [...configured]
  return new NodeResolver().getServers().map(
    (text) =>
      parseEndpoint(/:\d+$/.test(text) && !/^[^[]*:.*:/.test(text) ? text : `[${text}]:53`) ?? {
        host: text,
        port: 53,
      },
  )
}

/**
 * Queries one server, over TCP if the answer does not fit in UDP. `timeout` in ms for each. `plainly`: without EDNS.
 * Never rejects.
 */
export async function askServer(
  server: DnsServerAddress,
  question: DnsQuestion,
  timeout: number,
  plainly = false,
): Promise<DnsAnswer | NoDnsAnswer> {
  if (!isName(question.name)) return { failure: 'EBADNAME' }
  const id = randomInt(65_536)
  const query = encode(id, question, plainly)
  const read = (packet: Buffer): DnsAnswer | undefined => readAnswer(packet, { id, ...question })
  const short = (packet: Buffer): boolean => (packet.readUInt16BE(2) & TRUNCATED) !== 0
  const reply = await byUdp(server, query, read, timeout)
  if (!Buffer.isBuffer(reply)) return reply
  const whole = short(reply) ? await byTcp(server, query, timeout) : reply
  if (!Buffer.isBuffer(whole)) return whole
  return read(whole) ?? { failure: 'EBADRESP' }
}

/** RFC 1035 §2.3.4. The root is ".". */
const isName = (name: string): boolean =>
  name === '.' ||
  (Buffer.byteLength(name) <= 254 &&
    name
      .replace(/\.$/, '')
      .split('.')
      .every((label) => label !== '' && Buffer.byteLength(label) <= 63))

const EDNS: Answer = {
  type: 'OPT',
  name: '.',
  udpPayloadSize: UDP_SIZE,
  flags: 0,
  extendedRcode: 0,
  ednsVersion: 0,
  flag_do: false,
  options: [],
}

const encode = (id: number, question: DnsQuestion, plainly: boolean): Buffer =>
  dnsPacket.encode({
    type: 'query',
    id,
    flags: dnsPacket.RECURSION_DESIRED | (plainly ? 0 : AUTHENTIC),
    questions: [question],
    additionals: plainly ? [] : [EDNS],
  })

const plain = (name: string): string => name.toLowerCase().replace(/\.$/, '')

/** The content of an answer, or undefined if it is malformed, or the answer to another question. */
export function readAnswer(packet: Buffer, asked: DnsQuestion & { id: number }): DnsAnswer | undefined {
  try {
    const flags = packet.readUInt16BE(2)
    const { answers, authorities, id, questions, rcode, type } = dnsPacket.decode(packet) as Packet & { rcode?: string }
    const [question] = questions ?? []
    if (type !== 'response' || id !== asked.id || !question || questions?.length !== 1) return undefined
    if (plain(question.name) !== plain(asked.name) || question.type !== asked.type) return undefined
    return {
      code: rcode ?? 'NOERROR',
      secure: (flags & AUTHENTIC) !== 0,
      answers: answers ?? [],
      authorities: authorities ?? [],
    }
  } catch {
    return undefined
  }
}

const failureOf = (error: Error): NoDnsAnswer =>
  isLocal(error) ? { failure: codeOf(error), local: true } : { failure: codeOf(error) || 'unknown' }

/** The first packet that is an answer to the question: others may be forged and are passed over. */
function byUdp(
  { host, port }: DnsServerAddress,
  query: Buffer,
  read: (packet: Buffer) => DnsAnswer | undefined,
  timeout: number,
): Promise<Buffer | NoDnsAnswer> {
  return new Promise((resolve) => {
    const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
    const end = (result: Buffer | NoDnsAnswer): void => {
      clearTimeout(late)
      socket.removeAllListeners('message')
      socket.close()
      resolve(result)
    }
    const late = setTimeout(() => end({ failure: 'ETIMEOUT' }), timeout)
    socket.on('message', (message) => void (message.length > 12 && read(message) && end(message)))
    socket.once('error', (error) => {
      socket.on('error', () => {})
      end(failureOf(error))
    })
    // A connected socket hears the server alone.
    socket.connect(port, host, () => socket.send(query))
  })
}

function byTcp({ host, port }: DnsServerAddress, query: Buffer, timeout: number): Promise<Buffer | NoDnsAnswer> {
  return new Promise((resolve) => {
    const length = Buffer.alloc(2)
    length.writeUInt16BE(query.length)
    const received: Buffer[] = []
    let size = 0
    const socket = connect(port, host, () => socket.write(Buffer.concat([length, query])))
    const end = (result: Buffer | NoDnsAnswer): void => {
      clearTimeout(late)
      socket.destroy()
      resolve(result)
    }
    const late = setTimeout(() => end({ failure: 'ETIMEOUT' }), timeout)
    socket.on('error', (error) => end(failureOf(error))).on('close', () => end({ failure: 'ECONNRESET' }))
    socket.on('data', (chunk: Buffer) => {
      received.push(chunk)
      size += chunk.length
      if (size > MAX_TCP) return end({ failure: 'EBADRESP' })
      const whole = Buffer.concat(received)
      if (size > 2 && size >= whole.readUInt16BE(0) + 2) end(whole.subarray(2, whole.readUInt16BE(0) + 2))
    })
  })
}
