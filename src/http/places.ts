// The connection slots for HTTP, of all listeners together and of one address (D113). They are limited to a part of the
// process's file descriptors, so that SMTP, deliveries and the store keep theirs.
import { readFileSync } from 'node:fs'
import { BlockList, isIP, type Socket } from 'node:net'
import { count } from '../base/maps.ts'
import type { Config } from '../base/config.ts'
import { addNetwork, customerOf } from '../base/network.ts'

/** The limit of open files if the system does not report one. */
const USUAL_DESCRIPTORS = 1024
const MOST = 4096

/** Returns the limit of open file descriptors of this process. */
export function descriptors(): number {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return Number(soft ?? USUAL_DESCRIPTORS)
  } catch {
    return USUAL_DESCRIPTORS
  }
}

export class Places {
  readonly #most: number
  readonly #perAddress: number
  readonly #trusted = new BlockList()
  readonly #byAddress = new Map<string, number>()
  #taken = 0

  /**
   * A quarter of the descriptors for all connections, and a quarter of these for one address. Many users share the
   * address of this machine and of trusted proxies, so only the total limit applies to these.
   */
  constructor({ trusted_proxies }: Pick<Config['http'], 'trusted_proxies'>, available = descriptors()) {
    this.#most = Math.min(MOST, Math.floor(available / 4))
    this.#perAddress = Math.floor(this.#most / 4)
    for (const network of ['127.0.0.0/8', '::1/128', ...trusted_proxies]) addNetwork(this.#trusted, network)
  }

  /** Reserves a slot for a connection until it closes. Returns false if all are in use. */
  take(socket: Pick<Socket, 'remoteAddress' | 'once'>): boolean {
    const address = (socket.remoteAddress ?? '').replace(/^::ffff:/i, '')
    const customer = customerOf(address)
    const open = (this.#byAddress.get(customer) ?? 0) + 1
    if (this.#taken >= this.#most || (open > this.#perAddress && !this.#isTrusted(address))) return false
    this.#taken++
    this.#byAddress.set(customer, open)
    socket.once('close', () => {
      this.#taken--
      count(this.#byAddress, customer, -1)
    })
    return true
  }

  #isTrusted(address: string): boolean {
    return isIP(address) !== 0 && this.#trusted.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
  }
}
