// Signed DNS in a separate network: a root, a top-level domain and zones below it, signed by BIND's tools, served by
// NSD and BIND, and an Unbound that validates with only that root's key.

import { execFile, execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { Resolver } from 'node:dns/promises'
import { promisify } from 'node:util'
import dnsPacket from 'dns-packet'
import type { DaneCase } from '../../kit/dane-cases.ts'
import { Sandbox, until } from './sandbox.ts'

const run = promisify(execFile)

/** Everybody has an address of loopback, in a network namespace that leads nowhere. */
export const PLACES = { nsd: '127.0.0.10', named: '127.0.0.11', mean: '127.0.0.12', unbound: '127.0.0.1' } as const

export const DNS_PROGRAMS = [
  '/usr/sbin/nsd',
  '/usr/sbin/named',
  '/usr/sbin/unbound',
  '/usr/bin/dnssec-keygen',
  '/usr/bin/dnssec-signzone',
] as const
const [NSD, NAMED, UNBOUND, KEYGEN, SIGNZONE] = DNS_PROGRAMS

interface Zone {
  /** '' is the root. */
  name: string
  state: DaneCase['zones'][string]
  place: string
  records: string[]
  bogus: string[]
}

export class SignedWorld implements AsyncDisposable {
  readonly #box = new Sandbox('signed')
  readonly #fails = new Map<string, 'SERVFAIL' | 'drop'>()
  readonly #mean = createSocket('udp4')

  /** `local`: a domain whose questions go to a server at this port of 127.0.0.1, unsigned. */
  static async serve(
    cases: readonly DaneCase[],
    addressOf: (kind: string) => string,
    local: { domain: string; port: number },
  ): Promise<SignedWorld> {
    const world = new SignedWorld()
    try {
      await world.#serve(cases, addressOf, local)
      return world
    } catch (error) {
      await world[Symbol.asyncDispose]()
      throw error
    }
  }

  log(): string {
    return ['nsd.log', 'named.log', 'unbound.log'].map((name) => this.#box.read(name)).join('\n')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#mean.close()
    await this.#box.close()
  }

  async #serve(
    cases: readonly DaneCase[],
    addressOf: (kind: string) => string,
    local: { domain: string; port: number },
  ): Promise<void> {
    for (const name of ['keys', 'zones', 'signed', 'named']) mkdirSync(this.#box.path(name))
    const zones = cases.flatMap((one, index) => zonesOf(one, index, addressOf))
    for (const { fails = {} } of cases)
      for (const [question, how] of Object.entries(fails)) this.#fails.set(question, how)
    const delegations: string[] = []
    // Two at a time: that many processors the machine has.
    const rest = [...zones]
    await Promise.all(
      [0, 1].map(async () => {
        for (let zone = rest.shift(); zone; zone = rest.shift()) delegations.push(...(await this.#publish(zone)))
      }),
    )
    const top = await this.#publish({
      name: 'test',
      state: 'signed',
      place: PLACES.nsd,
      records: delegations,
      bogus: [],
    })
    // Else the root would say, signed, that there is no such name.
    const unsigned = [`${local.domain}. 300 IN NS ns.${local.domain}.`, `ns.${local.domain}. 300 IN A ${PLACES.nsd}`]
    await this.#publish({ name: '', state: 'signed', place: PLACES.nsd, records: [...top, ...unsigned], bogus: [] })
    await this.#beMean()
    this.#startServers(zones)
    this.#startUnbound(local)
    const resolver = new Resolver({ timeout: 2000, tries: 1 })
    resolver.setServers([PLACES.unbound])
    const known = async (): Promise<boolean> =>
      resolver.resolve4('mx.r4.test').then(
        () => true,
        () => false,
      )
    await until(known, 30_000, () => `the resolver does not answer:\n${this.log()}`)
  }

  /** Writes and signs a zone. Returns the records for its parent. */
  async #publish({ bogus, name, place, records, state }: Zone): Promise<string[]> {
    const origin = `${name}.`
    const below = name === '' ? '' : `.${name}`
    const file = fileOf(name)
    const plain = this.#box.path('zones', file)
    const lines = [
      `${origin} 300 IN SOA ns${below}. hostmaster${below}. 1 3600 900 604800 60`,
      `${origin} 300 IN NS ns${below}.`,
      `ns${below}. 300 IN A ${place}`,
      ...records,
    ]
    writeFileSync(plain, `${lines.join('\n')}\n`)
    const signed = this.#box.path('signed', file)
    const delegation = name === '' ? [] : lines.slice(1, 3)
    if (state === 'unsigned') {
      writeFileSync(signed, readFileSync(plain))
      return delegation
    }
    const keys = this.#box.path('keys')
    await run(KEYGEN, ['-q', '-K', keys, '-a', 'ECDSAP256SHA256', '-f', 'KSK', origin])
    const denial = state === 'optout' ? ['-3', '-', '-A'] : []
    const how = ['-S', '-z', '-K', keys, '-d', this.#box.path('named'), '-O', 'full', '-o', origin]
    await run(SIGNZONE, [...how, ...denial, '-f', signed, plain])
    let text = readFileSync(signed, 'utf8')
    for (const question of bogus) {
      const [type = '', owner = ''] = question.split(' ')
      const broken = text.replace(
        new RegExp(`^(${owner.replaceAll('.', '\\.')}\\.\\s.*\\sRRSIG\\s+${type}\\s.*\\s)(\\S)(\\S+)$`, 'm'),
        (_, head: string, first: string, tail: string) => `${head}${first === 'A' ? 'B' : 'A'}${tail}`,
      )
      if (broken === text) throw new Error(`no signature of ${question} in ${name}`)
      text = broken
    }
    writeFileSync(signed, text)
    return [...delegation, ...this.#box.read(`named/dsset-${origin}`).trim().split('\n')]
  }

  /** A name server that hands questions on, but for those that it answers badly or not at all. */
  async #beMean(): Promise<void> {
    this.#mean.on('message', (message, { address, port }) => {
      const query = dnsPacket.decode(message)
      const [question] = query.questions ?? []
      const failing = question && this.#fails.get(`${question.type} ${question.name.toLowerCase()}`)
      if (failing === 'drop') return
      if (failing === 'SERVFAIL') {
        this.#mean.send(
          dnsPacket.encode({ type: 'response', id: query.id ?? 0, flags: 2, questions: [question!] }),
          port,
          address,
        )
        return
      }
      const asking = createSocket('udp4')
      asking.once('message', (answer) => {
        this.#mean.send(answer, port, address)
        asking.close()
      })
      asking.on('error', () => {})
      asking.send(message, 53, PLACES.named)
    })
    await new Promise<void>((resolve) => this.#mean.bind(53, PLACES.mean, resolve))
  }

  /** A server that has a zone and its parent answers for both at once: each zone lies on one server alone. */
  #startServers(zones: readonly Zone[]): void {
    const box = this.#box
    const [near, far] = [true, false].map((wanted) => zones.filter(({ place }) => (place === PLACES.nsd) === wanted))
    const listed = ['', 'test', ...near!.map(({ name }) => name)].map(
      (name) => `zone:\n  name: "${name}."\n  zonefile: "${box.path('signed', fileOf(name))}"\n`,
    )
    const nsd = box.write(
      'nsd.conf',
      `server:
  ip-address: ${PLACES.nsd}
  do-ip6: no
  username: ""
  chroot: ""
  database: ""
  pidfile: ""
  xfrdfile: ""
  xfrdir: "${box.dir}"
  zonelistfile: "${box.path('zone.list')}"
  server-count: 1
remote-control:
  control-enable: no
${listed.join('')}`,
    )
    box.daemon(NSD, ['-d', '-c', nsd], 'nsd.log')
    const named = box.write(
      'named.conf',
      `options {
  directory "${box.path('named')}";
  pid-file none;
  session-keyfile none;
  listen-on { ${PLACES.named}; };
  listen-on-v6 { none; };
  recursion no;
  dnssec-validation no;
  check-mx-cname ignore;
};
controls { };
${far!.map(({ name }) => `zone "${name}" { type primary; file "${box.path('signed', fileOf(name))}"; };\n`).join('')}`,
    )
    // BIND listens on addresses that an interface has.
    execFileSync('ip', ['address', 'add', `${PLACES.named}/8`, 'dev', 'lo'])
    box.daemon(NAMED, ['-g', '-n', '1', '-c', named], 'named.log')
  }

  #startUnbound({ domain, port }: { domain: string; port: number }): void {
    const box = this.#box
    const hints = box.write('hints', `. 3600 IN NS ns.\nns. 3600 IN A ${PLACES.nsd}\n`)
    const anchor = box.read('named/dsset-.').trim().split('\n')[0]!
    const conf = box.write(
      'unbound.conf',
      `server:
  interface: ${PLACES.unbound}
  do-ip6: no
  do-daemonize: no
  use-syslog: no
  username: ""
  chroot: ""
  pidfile: ""
  directory: "${box.dir}"
  root-hints: "${hints}"
  trust-anchor: "${anchor.replaceAll(/\s+/g, ' ')}"
  do-not-query-localhost: no
  local-zone: "test." nodefault
  local-zone: "example." nodefault
  domain-insecure: "${domain}"
  val-log-level: 2
  qname-minimisation: no
  cache-max-negative-ttl: 0
  num-threads: 1
remote-control:
  control-enable: no
stub-zone:
  name: "${domain}"
  stub-addr: 127.0.0.1@${port}
`,
    )
    box.daemon(UNBOUND, ['-d', '-p', '-c', conf], 'unbound.log')
  }
}

const fileOf = (name: string): string => (name === '' ? 'root' : name)

/** The zones of a case; those of every other case lie on BIND, and those that fail on the server that does. */
function zonesOf(one: DaneCase, index: number, addressOf: (kind: string) => string): Zone[] {
  const place = one.fails ? PLACES.mean : index % 2 === 0 ? PLACES.nsd : PLACES.named
  const names = Object.keys(one.zones).sort((a, b) => b.length - a.length)
  const zoneOf = (owner: string): string | undefined =>
    names.find((name) => owner === name || owner.endsWith(`.${name}`))
  return names.map((name) => ({
    name,
    state: one.zones[name]!,
    place,
    bogus: one.bogus ?? [],
    records: one.records
      .filter((line) => zoneOf(line.split(' ')[0]!) === name)
      .map((line) => {
        const [owner = '', type = '', ...value] = line.split(' ')
        const data = type === 'A' ? addressOf(value[0]!) : value.join(' ')
        return `${owner}. 300 IN ${type} ${type === 'MX' || type === 'CNAME' ? `${data}.` : data}`
      }),
  }))
}
