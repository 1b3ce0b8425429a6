// A validating resolver on loopback: zones are signed or not, an answer has AD if every step to it is in a signed zone,
// and single queries can fail.
import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'
import dnsPacket, { type Answer, type Packet } from 'dns-packet'
import { portOf } from '../../src/base/network.ts'
import { createResolver, type Resolver } from '../../src/net/resolver.ts'
import { createValidating, type ValidatingOptions } from '../../src/net/validated.ts'
import { recordOf } from '../../src/server/sandbox/dns.ts'
import { ManualClock } from './clock.ts'

/** The failure of a query: a code, no answer, or a truncated answer with TC (complete over TCP). */
export type Failing = 'SERVFAIL' | 'REFUSED' | 'FORMERR' | 'NOTIMP' | 'drop' | 'truncate'

export interface SignedDns extends AsyncDisposable {
  port: number
  clock: ManualClock
  /** "TYPE name" of each query, or "tcp TYPE name" over TCP. */
  asked: string[]
  /** Messages as they came. */
  questions: Packet[]
  /** Zones, of which the longest matching name applies. Names outside all zones are unsigned. */
  zones: Map<string, boolean>
  set(name: string, type: string, values: readonly string[], ttl?: number): void
  fails: Map<string, Failing>
  /** Changes an answer before it is sent. */
  bend: ((packet: Packet, ask: { name: string; type: string }) => Packet | readonly Packet[]) | undefined
  resolverOf(options?: Partial<ValidatingOptions>): Resolver
}

const CODES: Record<string, number> = { FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, NOTIMP: 4, REFUSED: 5 }

export async function startSignedDns(): Promise<SignedDns> {
  const records = new Map<string, { values: readonly string[]; ttl: number }>()
  const names = new Set<string>()
  const isSigned = (name: string): boolean => {
    const [zone] = [...dns.zones.keys()]
      .filter((each) => each === '' || name === each || name.endsWith(`.${each}`))
      .sort((one, other) => other.length - one.length)
    return zone !== undefined && dns.zones.get(zone) === true
  }
  const answer = (message: Buffer, tcp: boolean): Buffer[] => {
    const query = dnsPacket.decode(message)
    const [question] = query.questions!
    const { type } = question!
    const name = question!.name.toLowerCase().replace(/\.$/, '')
    dns.asked.push(`${tcp ? 'tcp ' : ''}${type} ${name}`)
    dns.questions.push(query)
    const failing = dns.fails.get(`${type} ${name}`)
    if (failing === 'drop') return []
    const found: Answer[] = []
    let [end, secure] = [name, isSigned(name)]
    for (let step = 0; step < 20 && type !== 'CNAME'; step++) {
      const [target] = records.get(`CNAME ${end}`)?.values ?? []
      if (target === undefined) break
      found.push({ name: end, type: 'CNAME', ttl: 300, data: target })
      end = target
      secure &&= isSigned(end)
    }
    const { ttl = 300, values = [] } = records.get(`${type} ${end}`) ?? {}
    const cut = failing === 'truncate' && !tcp
    if (!cut)
      for (const value of values) found.push(...recordOf(end, type, value).map((each) => ({ ...each, ttl }) as Answer))
    const code = failing && failing !== 'truncate' ? CODES[failing]! : names.has(end) ? 0 : CODES['NXDOMAIN']!
    const flags =
      dnsPacket.RECURSION_AVAILABLE |
      (secure && code !== CODES['SERVFAIL'] ? dnsPacket.AUTHENTIC_DATA : 0) |
      (cut ? dnsPacket.TRUNCATED_RESPONSE : 0) |
      code
    const packet: Packet = { type: 'response', id: query.id ?? 0, flags, questions: [question!], answers: found }
    const sent = dns.bend?.(packet, { name, type }) ?? packet
    return (Array.isArray(sent) ? (sent as Packet[]) : [sent as Packet]).map((each) => dnsPacket.encode(each))
  }
  const socket = createSocket('udp4')
  socket.on('message', (message, { address, port }) => {
    for (const reply of answer(message, false)) socket.send(reply, port, address)
  })
  const server = createServer((client) => {
    client.on('error', () => {})
    client.on('data', (message: Buffer) => {
      for (const reply of answer(message.subarray(2), true)) {
        const length = Buffer.alloc(2)
        length.writeUInt16BE(reply.length)
        // In two pieces, as a network may cut them.
        client.write(Buffer.concat([length, reply.subarray(0, 10)]))
        setImmediate(() => client.end(reply.subarray(10)))
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const port = portOf(server)
  await new Promise<void>((resolve) => socket.bind(port, '127.0.0.1', resolve))
  const clock = new ManualClock()
  const dns: SignedDns = {
    port,
    clock,
    asked: [],
    questions: [],
    zones: new Map(),
    fails: new Map(),
    bend: undefined,
    set(name, type, values, ttl = 300) {
      records.set(`${type} ${name}`, { values, ttl })
      names.add(name)
      // The names above exist too.
      for (let above = name; above !== ''; above = above.split('.').slice(1).join('.')) names.add(above)
    },
    resolverOf(options = {}) {
      const servers = [{ host: '127.0.0.1', port }]
      return createResolver({
        servers,
        validating: createValidating({ clock, servers, trusted: [], timeout: 150, ...options }),
      })
    },
    async [Symbol.asyncDispose]() {
      socket.close()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return dns
}
