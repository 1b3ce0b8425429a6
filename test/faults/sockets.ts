// The fault layer of the sockets of the server, in its main thread and in the delivery threads.
import net from 'node:net'
import type { Control, Kind } from './plan.ts'

type Method = (this: unknown, ...given: unknown[]) => unknown

const MOST = 65_536

/** Ports in shared memory. */
class PortSet {
  readonly #marks: Uint8Array

  constructor(memory: SharedArrayBuffer, from: number) {
    this.#marks = new Uint8Array(memory, from, MOST)
  }

  has(port: number): boolean {
    return this.#marks[port] === 1
  }

  add(port: number): this {
    this.#marks[port] = 1
    return this
  }

  clear(): void {
    this.#marks.fill(0)
  }
}

/** Whose sockets are whose: the kit's servers are the world, which does not fail. */
export class Ports {
  /** The ports of the environment: clients there are the server under test. */
  readonly world: PortSet
  /** Where the appliance listens. */
  readonly own: PortSet

  static memory = (): SharedArrayBuffer => new SharedArrayBuffer(2 * MOST)

  constructor(memory: SharedArrayBuffer) {
    this.world = new PortSet(memory, 0)
    this.own = new PortSet(memory, MOST)
  }
}

interface Inner extends net.Socket {
  _writeGeneric: (writev: boolean, data: unknown, encoding: unknown, done: (error?: Error | null) => void) => void
}

export function laySockets(control: Control, ports: Ports): void {
  const WORDS: Partial<Record<Kind, string>> = {
    EMFILE: 'connect EMFILE',
    EPIPE: 'write EPIPE',
    cut: 'read ECONNRESET',
  }
  const errorOf = (kind: Kind): Error =>
    Object.assign(new Error(WORDS[kind]!), { code: kind === 'cut' ? 'ECONNRESET' : kind })
  const prototype = net.Socket.prototype as Inner
  const { connect } = prototype as unknown as { connect: (this: net.Socket, ...given: unknown[]) => net.Socket }
  ;(prototype as unknown as Record<string, Method>)['connect'] = function (this: net.Socket, ...given) {
    const [first] = (Array.isArray(given[0]) ? given[0] : given) as [unknown]
    const port = Number(typeof first === 'object' && first !== null ? (first as { port?: unknown }).port : first)
    const kind = ports.world.has(port) ? control.fails('socket', 'connect', ['EMFILE']) : undefined
    if (!kind) return connect.apply(this, given)
    process.nextTick(() => this.destroy(errorOf(kind)))
    return this
  } as Method
  const text = (data: unknown): string =>
    (Array.isArray(data) ? data.map((each: { chunk: unknown }) => each.chunk) : [data])
      .map((chunk) => (Buffer.isBuffer(chunk) ? chunk.toString('latin1') : String(chunk)))
      .join('')
  const write = prototype._writeGeneric
  prototype._writeGeneric = function (this: Inner, writev, data, encoding, done) {
    const out = ports.world.has(this.remotePort ?? 0)
    if (!out && !ports.own.has(this.localPort ?? 0)) return write.call(this, writev, data, encoding, done)
    const said = text(data)
    const label = `${out ? 'write' : 'answer'} ${JSON.stringify(said.slice(0, 24))}${said.endsWith('\r\n.\r\n') ? ' final dot' : ''}`
    const kind = control.fails('socket', label, ['EPIPE', 'cut'])
    if (kind === 'EPIPE') {
      done(errorOf(kind))
      this.destroy()
      return undefined
    }
    if (kind === undefined) return write.call(this, writev, data, encoding, done)
    return write.call(this, writev, data, encoding, (error) => {
      done(error)
      this.destroy(errorOf(kind))
    })
  }
  const { emit } = net.Server.prototype as unknown as { emit: (this: net.Server, ...given: unknown[]) => boolean }
  ;(net.Server.prototype as unknown as Record<string, Method>)['emit'] = function (this: net.Server, ...given) {
    const address = given[0] === 'connection' ? this.address() : null
    const own = address !== null && typeof address === 'object' && ports.own.has(address.port)
    if (!own || !control.fails('socket', 'accept', ['accept'])) return emit.apply(this, given)
    ;(given[1] as net.Socket).destroy()
    return true
  } as Method
}
