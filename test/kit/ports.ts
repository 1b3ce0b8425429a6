// Loaded into every process of a test, and into processes that tests start (ending.ts). A port that a test names by its
// number may belong to another program of the machine, such as a mail server or a sandbox. Listening at such a port, or
// connecting to it on this machine, ends the process with an error message.
import { readFileSync } from 'node:fs'
import { Server, Socket } from 'node:net'

/** A closed port: tests use it for an address that refuses connections. */
const SILENT = 1
/** The exit code of a process that used a fixed port. */
export const FIXED_PORT = 97

/** The lowest port that the system chooses. */
export function lowestChosen(file = '/proc/sys/net/ipv4/ip_local_port_range'): number {
  try {
    return Number(readFileSync(file, 'utf8').split(/\s+/)[0])
  } catch {
    // RFC 6335 §6.
    return 49_152
  }
}

const HERE = /^(?:127(?:\.\d+){3}|0\.0\.0\.0|::1?|::ffff:127(?:\.\d+){3}|localhost)$/i

/** The arguments of `listen` and `connect`: options, or port and host. Node hands them on as a list. */
function addressIn(args: readonly unknown[]): { host: unknown; port: unknown } {
  const [first, second] = Array.isArray(args[0]) ? (args[0] as unknown[]) : args
  if (typeof first !== 'object' || first === null) return { host: second, port: first }
  const { host, path, port } = first as { host?: unknown; path?: unknown; port?: unknown }
  return { host, port: typeof path === 'string' ? undefined : port }
}

/** The fixed port of this machine that a call uses, or undefined if it does not use one. */
export function fixedPort(call: 'listen' | 'connect', args: readonly unknown[], chosen: number): number | undefined {
  const { host, port } = addressIn(args)
  const number = typeof port === 'string' && port !== '' ? Number(port) : port
  if (typeof number !== 'number' || !(number > 0 && number < chosen)) return undefined
  if (call === 'connect' && number === SILENT) return undefined
  return typeof host !== 'string' || HERE.test(host) ? number : undefined
}

function guard(prototype: object, call: 'listen' | 'connect'): void {
  const original = Reflect.get(prototype, call) as (...args: unknown[]) => unknown
  const chosen = lowestChosen()
  Reflect.set(prototype, call, function (this: unknown, ...args: unknown[]): unknown {
    const port = fixedPort(call, args, chosen)
    if (port !== undefined) {
      const { stack = '' } = new Error(`a test uses the fixed port ${port} (${call}); let the system choose one`)
      process.stderr.write(`${process.argv.slice(1).join(' ')}: ${stack}\n`)
      process.exit(FIXED_PORT)
    }
    return original.apply(this, args)
  })
}

guard(Server.prototype, 'listen')
guard(Socket.prototype, 'connect')
