// The limits of public requests (AU38, AU46): how many one client sends, and how many are processed at once. Clients
// are kept in memory by their address, or the /64 of IPv6. A restart forgets them.
import { DAY, MINUTE } from '../base/clock.ts'
import { keepNewest } from '../base/maps.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import { customerOf } from '../base/network.ts'

const SHORT = 10 * MINUTE
/** With more clients than this, those that came first are forgotten. */
const MOST_CLIENTS = 50_000

type ClientRates = Pick<Config['signup'], 'per_client' | 'per_client_day'>

export class ClientLimits {
  /** The times of the requests of each client, the oldest first. */
  readonly #times = new Map<string, number[]>()

  /** Counts a request. Returns the time (ms) until the next one is possible, or 0 if this one is. */
  take(client: string, { per_client, per_client_day }: ClientRates, now: number): number {
    const times = (this.#times.get(client) ?? []).filter((at) => at > now - DAY && at <= now)
    const wait = Math.max(waitFor(times, per_client_day, DAY, now), waitFor(times, per_client, SHORT, now))
    if (wait === 0) times.push(now)
    // Written again, so that the map is in the order of the last requests.
    this.#times.delete(client)
    this.#times.set(client, times)
    keepNewest(this.#times, MOST_CLIENTS)
    return wait
  }

  /** Does not count the last request: it had an error of typing, which costs nothing. */
  giveBack(client: string): void {
    this.#times.get(client)?.pop()
  }
}

/** The time until fewer than `most` requests are younger than `window`. */
function waitFor(times: readonly number[], most: number, window: number, now: number): number {
  const oldest = times.at(-most)
  return oldest === undefined ? 0 : Math.max(0, oldest + window - now)
}

/** Public requests that are processed at the same time. */
export class Slots {
  readonly #most: number
  #taken = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Runs `work`, or returns undefined if there are too many. */
  async run<T>(work: () => Promise<T>): Promise<T | undefined> {
    if (this.#taken >= this.#most) return undefined
    this.#taken++
    try {
      return await work()
    } finally {
      this.#taken--
    }
  }
}

/** The hash that is stored of a client, hex, under a key of its own purpose (AU30). */
export const clientHash = (keyring: Keyring, address: string): string =>
  keyring.mac('client', customerOf(address)).toString('hex')

/** The times at which each form was sent, in memory, for any address: they must not show which addresses are known. */
export class FormTimes {
  readonly #times = new Map<number, number[]>()

  /** How often a form was sent from a time on. Earlier times are forgotten. */
  since(form: number, time: number): number {
    const times = this.#times.get(form) ?? []
    const first = times.findIndex((at) => at >= time)
    times.splice(0, first < 0 ? times.length : first)
    return times.length
  }

  /** `most`: the limit of the form. More times than that are not kept. */
  add(form: number, now: number, most: number): void {
    const times = this.#times.get(form) ?? []
    times.push(now)
    if (times.length > most) times.shift()
    this.#times.set(form, times)
  }
}

export interface PublicLimits {
  clients: ClientLimits
  forms: FormTimes
  /** Requests with a body that are processed. */
  slots: Slots
}

const MOST_AT_ONCE = 500
const limits = new WeakMap<object, PublicLimits>()

/** The limits of a server, which its public pages and its API share. */
export function limitsOf(store: object): PublicLimits {
  const known = limits.get(store)
  if (known) return known
  const made = { clients: new ClientLimits(), forms: new FormTimes(), slots: new Slots(MOST_AT_ONCE) }
  limits.set(store, made)
  return made
}
