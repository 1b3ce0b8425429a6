// Sockets that the service manager has opened and passed on (sd_listen_fds(3)): systemd's socket activation (D180).
// Connections wait in them while the server is started again, and it needs no right to open a port below 1024.
import { Socket, type AddressInfo } from 'node:net'
import { OperatorError } from '../base/errors.ts'
import type { Log } from '../base/log.ts'

/** The first descriptor that is passed (SD_LISTEN_FDS_START). */
const FIRST = 3
/** More descriptors are not looked at. */
const MOST = 64

/** What may be opened, by the names that sockets have in their units (FileDescriptorName=). */
export const DOORS = ['http', 'https', 'http-plain', 'smtp', 'submission', 'submissions'] as const
export type DoorName = (typeof DOORS)[number]

const VARIABLES = ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES', 'LISTEN_PIDFDID'] as const

interface Endpoint {
  host: string
  port: number
}

interface Passed extends Endpoint {
  name: string
  opened: Socket
}

export class PassedSockets {
  #left: Passed[]

  constructor(passed: Passed[] = []) {
    this.#left = passed
  }

  /**
   * The sockets for a door, and which of its addresses are still to be opened. A socket with the name of a door is for
   * that door, which then opens no other address; any other is for the door that has its port.
   */
  take(door: DoorName, endpoints: readonly Endpoint[]): { passed: Omit<Passed, 'name'>[]; others: Endpoint[] } {
    const named = this.#left.filter(({ name }) => name === door)
    const isNamed = (name: string): boolean => (DOORS as readonly string[]).includes(name)
    const passed =
      named.length > 0
        ? named
        : this.#left.filter(({ name, port }) => !isNamed(name) && endpoints.some((each) => each.port === port))
    this.#left = this.#left.filter((each) => !passed.includes(each))
    const others =
      named.length > 0 ? [] : endpoints.filter(({ port }) => port === 0 || passed.every((each) => each.port !== port))
    return { passed: passed.map(({ host, opened, port }) => ({ host, opened, port })), others }
  }

  /** Closes what no door has taken: its clients would wait for an answer that never comes. */
  closeOthers(log: Pick<Log, 'warn'>): void {
    for (const { host, name, opened, port } of this.#left) {
      log.warn('a socket of the service manager belongs to no listener', { name, host, port })
      opened.destroy()
    }
    this.#left = []
  }
}

/**
 * The sockets that were passed to this process. The variables are taken out of the environment, so that no child takes
 * the descriptors for its own.
 */
export function passedSockets(environment: Record<string, string | undefined>, pid = process.pid): PassedSockets {
  const { LISTEN_FDNAMES: names = '', LISTEN_FDS: count, LISTEN_PID: receiver } = environment
  for (const name of VARIABLES) delete environment[name]
  if (receiver !== String(pid) || !/^\d{1,4}$/.test(count ?? '')) return new PassedSockets()
  const each = names.split(':')
  return new PassedSockets(
    Array.from({ length: Math.min(Number(count), MOST) }, (_, index) => {
      const { address, opened, port } = socketOf(FIRST + index)
      return { name: each[index] ?? '', host: address, port, opened }
    }),
  )
}

function socketOf(descriptor: number): Pick<AddressInfo, 'address' | 'port'> & { opened: Socket } {
  try {
    const opened = new Socket({ fd: descriptor, readable: false, writable: false })
    const { address, port } = opened.address() as Partial<AddressInfo>
    if (address !== undefined && port !== undefined) return { address, opened, port }
  } catch {
    // No socket at all: the sentence below says it too.
  }
  throw new OperatorError(
    `Descriptor ${descriptor}, which the service manager passed on, is not a TCP socket; correct "ListenStream=" in the socket unit.`,
  )
}
