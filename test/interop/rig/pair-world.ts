// The world around a failover pair: a DNS server, an MX host that records each message, a client that records each
// accepted email (crash/ledger.ts), and the volume with a new installation.
import { fork, type ChildProcess } from 'node:child_process'
import { createSocket, type Socket } from 'node:dgram'
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket as NetSocket } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import type { Promised, Work } from '../../crash/ledger.ts'
import { document, startTestAppliance } from '../../kit/appliance.ts'
import { ManualClock } from '../../kit/clock.ts'
import { startTestExchanger, type TestExchanger } from '../../kit/exchanger.ts'
import { NAMESERVER, PROVIDER, SERVER } from '../guide/network.ts'
import { becomes } from './machine.ts'
import { Volume, type PairMachine } from './pair.ts'
import type { Sandbox } from './sandbox.ts'

/** The address of the pair, on the machine that serves. */
export const ADDRESS = SERVER
const HOST = 'mx.postrider.test'

const CONFIG = (dataDir: string): string => `hostname = "${HOST}"
data_dir = ${JSON.stringify(dataDir)}
[http]
listen = "0.0.0.0:8025"
[smtp]
listen = ["0.0.0.0:25"]
[dns]
servers = ["${NAMESERVER}:53"]
[log]
level = "warn"
[api]
rate_limit = 0
[delivery]
retry = ["1s"]
[[delivery.sources]]
address = "${ADDRESS}"
warmup = false
`

/** The emails that the MX host has received, by recipient: their Message-IDs with the time (performance.now). */
export type Copies = Map<string, { id: string; at: number }[]>

export class PairWorld {
  readonly volume: Volume
  readonly config: string
  readonly copies: Copies = new Map()
  /** The first and the latest promise of each round, and their number. */
  readonly given = new Map<number, { first: number; last: number; count: number }>()
  /** The longest time between two promises (ms), since `forgetPauses`. */
  longest = 0
  readonly refused: string[] = []
  readonly #witness: ChildProcess
  readonly #ledger: string
  readonly #token: string
  readonly #closing: (() => unknown)[]
  #last = 0
  #ended = -1

  static async make(box: Sandbox): Promise<PairWorld> {
    const dataDir = box.path('data')
    const exchanger = await startTestExchanger()
    const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now() - 60_000) })
    const { dns, token } = setUp
    dns.set(HOST, 'A', [ADDRESS])
    await setUp.activeDomain('here.test')
    setUp.route('there.test', PROVIDER)
    await setUp.api('POST', '/inboxes', document('inboxes', { name: 'Box', address: 'box@here.test' }))
    await setUp.appliance.stop()
    // It names this machine.
    rmSync(join(dataDir, 'serving.json'))
    const relays = [await relayQueries(dns.port), await relayConnections(exchanger.port)]
    return new PairWorld(box, exchanger, token, [...relays.map((each) => () => each.close()), () => dns.close()])
  }

  private constructor(box: Sandbox, exchanger: TestExchanger, token: string, closing: (() => unknown)[]) {
    this.config = box.write('postrider.toml', CONFIG(box.path('data')))
    this.volume = new Volume(box, box.path('data'))
    rmSync(box.path('data'), { recursive: true })
    mkdirSync(box.path('data'), { mode: 0o700 })
    this.#token = token
    this.#ledger = box.path('ledger')
    this.#closing = [...closing, () => exchanger.close()]
    exchanger.script.final = (mail) => {
      const id = /^Message-ID: *(<[^>]*>)/im.exec(mail.message)?.[1] ?? ''
      this.copies.set(mail.to[0]!, [...(this.copies.get(mail.to[0]!) ?? []), { id, at: performance.now() }])
      mail.message = ''
      return undefined
    }
    this.#witness = fork(fileURLToPath(new URL('../../crash/ledger.ts', import.meta.url)), {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    this.#witness.on('message', (said: { promised?: number; ended?: number; refused?: string }) => {
      const now = performance.now()
      if (said.refused !== undefined) this.refused.push(said.refused)
      if (said.promised !== undefined) {
        const { count, first } = this.given.get(said.promised) ?? { count: 0, first: now }
        this.given.set(said.promised, { first, last: now, count: count + 1 })
        this.longest = Math.max(this.longest, now - (this.#last || now))
        this.#last = now
      }
      this.#ended = said.ended ?? this.#ended
    })
  }

  /** The client works from now on, in place of an earlier round. */
  work(round: number): void {
    const work: Work = {
      url: `http://${ADDRESS}:8025`,
      host: ADDRESS,
      smtp: 25,
      patience: 1000,
      token: this.#token,
      file: this.#ledger,
      from: ['me@here.test'],
      to: ['there.test'],
      round,
    }
    this.#witness.send(work)
  }

  /** Resolves with the time of the first promise of a round, when there are so many. */
  async promised(round: number, count = 1, limit = 60_000): Promise<number> {
    const enough = (): boolean => (this.given.get(round)?.count ?? 0) >= count
    await becomes(enough, () => `promise ${count} of round ${round}: ${this.refused.at(-1) ?? ''}`, limit)
    return this.given.get(round)!.first
  }

  /** The client stops when its requests have been answered. */
  async rest(round: number): Promise<void> {
    this.#witness.send('gone')
    await becomes(() => this.#ended === round, 'the end of the round', 120_000)
  }

  forgetPauses(): void {
    this.longest = 0
    this.#last = 0
  }

  /** Every promise so far. */
  promises(): Promised[] {
    const lines = existsSync(this.#ledger) ? readFileSync(this.#ledger, 'utf8').trim().split('\n') : []
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Promised)
  }

  /** Recipients whose email has a durable outcome on the volume, before another machine gets it. */
  settled(): Set<string> {
    const database = new Database(join(this.volume.database(), 'postrider.db'))
    try {
      const rows = database
        .prepare<[], { address: string }>(
          `select address from deliveries where status not in ('queued', 'active', 'held')`,
        )
        .all()
      return new Set(rows.map(({ address }) => address))
    } finally {
      database.close()
    }
  }

  /** Waits until every accepted email has arrived. Returns how many recipients got it more than once. */
  async delivered(limit = 120_000): Promise<number> {
    const posts = this.promises().filter(({ kind }) => kind === 'post')
    const lost = (): string[] => posts.filter(({ name }) => !this.copies.has(name)).map(({ name }) => name)
    await becomes(
      () => lost().length === 0,
      () => `${lost().length} of ${posts.length} emails, as ${lost()[0]}`,
      limit,
    )
    return [...this.copies.values()].filter(({ length }) => length > 1).length
  }

  /** Waits until every accepted message is in the inbox. Throws if one is there twice. Returns their number. */
  async received(limit = 120_000): Promise<number> {
    const wanted = this.promises().filter(({ kind }) => kind === 'message')
    let found: string[] = []
    await becomes(
      async () => {
        found = await this.#inBox()
        const there = new Set(found)
        return wanted.every(({ name }) => there.has(name))
      },
      `every message of ${wanted.length}`,
      limit,
    )
    if (new Set(found).size !== found.length) throw new Error('a message is in the inbox twice')
    return wanted.length
  }

  async #inBox(): Promise<string[]> {
    const found: string[] = []
    for (let cursor = ''; ;) {
      const page = `page[size]=100${cursor && `&page[cursor]=${encodeURIComponent(cursor)}`}`
      const response = await fetch(`http://${ADDRESS}:8025/api/v1/inbound-emails?${page}`, {
        // The server may have moved since the last request.
        headers: { authorization: `Bearer ${this.#token}`, connection: 'close' },
      })
      const { data, meta } = (await response.json()) as {
        data: { attributes: { subject: string } }[]
        meta: { has_more: boolean; next_cursor: string }
      }
      found.push(...data.map(({ attributes }) => attributes.subject))
      if (!meta.has_more) return found
      cursor = meta.next_cursor
    }
  }

  /** Waits until a machine serves. */
  serves(machine: PairMachine, limit = 60_000): Promise<unknown> {
    return becomes(
      () => machine.runs.at(-1)?.said.includes('"event":"server_ready"'),
      () => `${machine.name}: ${machine.runs.map(({ said }) => said).join('')}`,
      limit,
    )
  }

  async close(): Promise<void> {
    this.#witness.disconnect()
    for (const close of this.#closing) await close()
  }
}

/** Answers queries to the name server of the world by a server on loopback. */
async function relayQueries(port: number): Promise<Socket> {
  const socket = createSocket('udp4')
  socket.on('message', (query, client) => {
    const upstream = createSocket('udp4')
    upstream.on('message', (reply) => {
      socket.send(reply, client.port, client.address)
      upstream.close()
    })
    upstream.send(query, port, '127.0.0.1')
  })
  await new Promise<void>((resolve) => socket.bind(53, NAMESERVER, resolve))
  return socket
}

/** Passes connections to the MX host of the world to a server on loopback. */
async function relayConnections(port: number): Promise<{ close: () => void }> {
  const open = new Set<NetSocket>()
  const server = createServer((socket) => {
    const upstream = connect(port, '127.0.0.1')
    open.add(socket)
    socket.on('close', () => open.delete(socket))
    for (const [from, to] of [
      [socket, upstream],
      [upstream, socket],
    ] as const)
      from.pipe(to).on('error', () => from.destroy())
    socket.on('error', () => upstream.destroy()).on('close', () => upstream.destroy())
    upstream.on('error', () => socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(25, PROVIDER, resolve))
  return {
    close() {
      server.close()
      for (const socket of open) socket.destroy()
    },
  }
}
