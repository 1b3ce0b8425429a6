// The public DNS of the test network: an nsd that serves the root zone with every name of the tests.

import { Resolver } from 'node:dns/promises'
import { Sandbox, until, type Daemon } from '../rig/sandbox.ts'

export const NSD = '/usr/sbin/nsd'

export class Names {
  readonly #address: string
  readonly #box: Sandbox
  readonly #daemon: Daemon
  readonly #lines = new Map<string, readonly string[]>()
  readonly #resolver = new Resolver({ timeout: 1000, tries: 1 })
  #serial = 0

  private constructor(address: string) {
    this.#address = address
    this.#box = new Sandbox('names')
    this.#resolver.setServers([address])
    this.#writeZone()
    const conf = this.#box.write(
      'nsd.conf',
      `server:
  ip-address: ${address}
  do-ip6: no
  username: ""
  chroot: ""
  database: ""
  pidfile: ""
  xfrdfile: ""
  xfrdir: "${this.#box.dir}"
  zonelistfile: "${this.#box.path('zone.list')}"
  server-count: 1
remote-control:
  control-enable: no
zone:
  name: "."
  zonefile: "${this.#box.path('zone')}"
`,
    )
    this.#daemon = this.#box.daemon(NSD, ['-d', '-c', conf], 'nsd.log')
  }

  static async serve(address: string): Promise<Names> {
    const names = new Names(address)
    try {
      await names.#served()
      return names
    } catch (error) {
      await names.close()
      throw error
    }
  }

  /** Lines of a zone file that stand together under a title; again with the same title they replace the former ones. */
  async publish(title: string, lines: readonly string[]): Promise<void> {
    this.#lines.set(title, lines)
    this.#writeZone()
    process.kill(this.#daemon.pid, 'SIGHUP')
    await this.#served()
  }

  /** Texts of a name; [] when there are none. */
  async txt(name: string): Promise<string[]> {
    const found = await this.#resolver.resolveTxt(name).catch(() => [])
    return found.map((parts) => parts.join(''))
  }

  /** Asks as mailauth wants it asked. */
  readonly resolve = async (name: string, type: string): Promise<string[] | string[][]> =>
    (await this.#resolver.resolve(name, type)) as string[] | string[][]

  async close(): Promise<void> {
    await this.#box.close()
  }

  #writeZone(): void {
    this.#serial++
    const head = [
      '$TTL 60',
      `. IN SOA ns.world.example. hostmaster.world.example. ${this.#serial} 3600 600 86400 5`,
      '. IN NS ns.world.example.',
      `ns.world.example. IN A ${this.#address}`,
    ]
    this.#box.write('zone', `${[...head, ...[...this.#lines.values()].flat()].join('\n')}\n`)
  }

  /** Until nsd answers from the zone as it was written last. */
  async #served(): Promise<void> {
    const log = () => `nsd does not serve its zone:\n${this.#box.read('nsd.log')}\n${this.#box.read('zone')}`
    const served = async () => {
      if (!this.#daemon.alive()) throw new Error(log())
      const soa = await this.#resolver.resolveSoa('.').catch(() => undefined)
      return soa?.serial === this.#serial
    }
    await until(served, 20_000, log)
  }
}
