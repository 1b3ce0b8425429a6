// Distributes connections over the hosts of a route: among the best ones by preference, the next connection goes to the
// host with the fewest. A host that failed is left out for a minute, then a single connection tries it. If every host
// is left out, all of them are tried.
import { MINUTE } from '../../base/clock.ts'
import type { Host } from '../../smtp/route.ts'

/** A host, and the port to connect to. */
export type HostPort = Pick<Host, 'name' | 'port'>

/** How long (ms) a host is left out. */
const LEFT_OUT = MINUTE
const MAX_KNOWN = 10_000

interface HostState {
  /** The host failed and is left out until this time, or 0. */
  until: number
  /** The number of its last connection. */
  turn: number
  /** Connections that are being opened. */
  opening: number
}

export const isSameHost = (one: HostPort, other: HostPort): boolean =>
  one.name === other.name && one.port === other.port

export class HostBalance {
  readonly #known = new Map<string, HostState>()
  /** The number of open connections to a host. */
  readonly #openTo: (host: HostPort) => number
  #turns = 0

  constructor(openTo: (host: HostPort) => number) {
    this.#openTo = openTo
  }

  /**
   * The hosts of a route in the order in which the next connection tries them. `isRetry`: for an email whose attempt
   * failed, which does not test whether a host works again.
   */
  order(hosts: readonly Host[], now: number, isRetry = false): readonly Host[] {
    const keysOf = (host: Host): number[] => {
      const { turn, until } = this.#of(host)
      return [until > (isRetry ? 0 : now) ? 1 : 0, host.preference ?? 0, this.#load(host), turn]
    }
    return hosts
      .map((host) => ({ host, keys: keysOf(host) }))
      .sort((one, other) => one.keys.map((key, index) => key - other.keys[index]!).find(Boolean) ?? 0)
      .map(({ host }) => host)
  }

  /**
   * Counts a connection that is being opened, until the returned function is called. While it tests a host that failed,
   * no other one does.
   */
  opens(host: HostPort, now: number): () => void {
    const known = this.#of(host)
    known.turn = ++this.#turns
    known.opening++
    if (known.until > 0) known.until = now + LEFT_OUT
    return () => void known.opening--
  }

  works(host: HostPort): void {
    this.#of(host).until = 0
  }

  /** Leaves a host out. Returns false if it was left out before. */
  leaveOut(host: HostPort, now: number): boolean {
    const known = this.#of(host)
    const isNew = known.until === 0
    known.until = now + LEFT_OUT
    return isNew
  }

  isOut(host: HostPort, now: number): boolean {
    return this.#of(host).until > now
  }

  /** The number of hosts that share the connections of a relay now, divided by the usual number. */
  share(hosts: readonly Host[], now: number): number {
    return hosts[0]?.relay ? this.#sharing(hosts, now).length / bestOf(hosts).length : 1
  }

  /** Whether a connection should end, because another host of its relay has at least two fewer. */
  isOver(hosts: readonly Host[], at: HostPort, now: number): boolean {
    if (hosts.length < 2 || !hosts[0]?.relay) return false
    const sharing = this.#sharing(hosts, now)
    const own = this.#load(at)
    return sharing.some((host) => isSameHost(host, at)) && sharing.some((host) => own - this.#load(host) > 1)
  }

  #load(host: HostPort): number {
    return this.#openTo(host) + this.#of(host).opening
  }

  #sharing(hosts: readonly Host[], now: number): readonly Host[] {
    const inUse = hosts.filter((host) => !this.isOut(host, now))
    return bestOf(inUse.length > 0 ? inUse : hosts)
  }

  #of({ name, port }: HostPort): HostState {
    const key = `${name} ${port}`
    const known = this.#known.get(key) ?? { until: 0, turn: 0, opening: 0 }
    if (!this.#known.has(key) && this.#known.size >= MAX_KNOWN) this.#known.clear()
    this.#known.set(key, known)
    return known
  }
}

/** The hosts with the best preference, which share the connections. */
export function bestOf(hosts: readonly Host[]): readonly Host[] {
  const best = Math.min(...hosts.map(({ preference = 0 }) => preference))
  return hosts.filter(({ preference = 0 }) => preference === best)
}
