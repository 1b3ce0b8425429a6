// The environment of the server, which does not fail: DNS, a receiving server, a webhook endpoint. It records
// everything on the wire.
import assert from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { ports, ROOT } from './layer.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { startTestExchanger, type Heard, type TestExchanger } from '../kit/exchanger.ts'
import { HOST, startTestReceiver, type TestReceiver } from '../kit/receiver.ts'
import type { TestDns } from '../kit/zone.ts'
import type { ConfigInput } from '../../src/base/config.ts'

/** Events of this domain have no webhook. Those of the other have one. */
export const QUIET = 'quiet.test'
export const TOLD = 'told.test'
export const INBOX = `box@${QUIET}`

export class World {
  dns!: TestDns
  readonly exchanger: TestExchanger
  readonly receiver: TestReceiver
  /** The messages that the receiving server accepted, by recipient. */
  readonly heard = new Map<string, Heard[]>()
  token = ''
  domains = { quiet: '', told: '' }
  /** The clock of the template when it was finished. */
  begin = 0

  constructor(exchanger: TestExchanger, receiver: TestReceiver) {
    this.exchanger = exchanger
    this.receiver = receiver
  }

  get config(): ConfigInput {
    return {
      hostname: 'mx.postrider.test',
      http: { listen: '127.0.0.1:0' },
      smtp: { listen: ['127.0.0.1:0'] },
      network: { allow_private: ['127.0.0.0/8'] },
      api: { rate_limit: 0 },
      delivery: { port: this.exchanger.port, retry: ['10s'] },
      webhooks: { ca_file: this.receiver.caFile, retry: Array.from({ length: 9 }, () => '5s') },
    }
  }

  copies(to: string): Heard[] {
    return this.heard.get(to) ?? []
  }

  async close(): Promise<void> {
    await this.exchanger.close()
    await this.receiver.close()
    await this.dns.close()
  }
}

export const TEMPLATE = join(ROOT, 'template')

/**
 * Makes the world, and a data directory as every lineage begins: a user with a token, two active domains, an inbox, a
 * webhook.
 */
export async function makeWorld(): Promise<World> {
  const exchanger = await startTestExchanger({
    final: (mail) => {
      const [to] = mail.to
      world.heard.set(to!, [...world.copies(to!), mail])
      return undefined
    },
    // It rejects at RCPT, where a rejection is about the address.
    answer: (command) => {
      const [, to] = /^RCPT TO:<(gone[^>]*)>/.exec(command) ?? []
      if (to === undefined) return undefined
      world.heard.set(to, [...world.copies(to), { from: '', to: [to], message: '', tls: false }])
      return '550 5.1.1 No such user'
    },
  })
  const receiver = await startTestReceiver()
  const world = new World(exchanger, receiver)
  ports.world.add(exchanger.port).add(receiver.port)
  const clock = new ManualClock()
  const first = await startTestAppliance({ dataDir: TEMPLATE, clock, config: world.config })
  // Its DNS outlives it.
  world.dns = first.dns
  first.dns.set('there.test', 'MX', ['10 mx.there.test'])
  first.dns.set('mx.there.test', 'A', ['127.0.0.1'])
  first.dns.set(HOST, 'A', ['127.0.0.1'])
  const quiet = await first.activeDomain(QUIET)
  const told = await first.activeDomain(TOLD)
  world.token = first.token
  world.domains = { quiet: quiet.id, told: told.id }
  await first.api('POST', '/inboxes', document('inboxes', { name: 'Box', address: INBOX }))
  const hook = { name: 'Hook', url: `${receiver.url}/hook`, events: ['*'] }
  const relationships = { domain: { data: { type: 'domains', id: told.id } } }
  const made = await first.api('POST', '/webhooks', document('webhooks', hook, { relationships }))
  assert.equal(made.status, 201, JSON.stringify(made.body))
  await first.appliance.stop()
  world.begin = clock.now()
  return world
}

let lineages = 0

/** A separate data directory, as a copy of the template. */
export function lineage(from = TEMPLATE): string {
  const dataDir = join(ROOT, `data-${++lineages}`)
  // A copy next to its origin would have its queue held (D209).
  cpSync(from, dataDir, { recursive: true, filter: (path) => !path.endsWith('/serving.json') })
  return dataDir
}
