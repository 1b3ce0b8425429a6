// Receiving servers of the kinds in the DANE table (dane-cases.ts) in this process, and the delivery of an email to
// them.
import { parseConfig, type ConfigInput } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import { allowPublicAnd } from '../../src/base/network.ts'
import {
  connectAlong,
  findRoute,
  type Route,
  type KnownPolicy,
  type StsCache,
} from '../../src/delivery/wire/connect.ts'
import type { Resolver } from '../../src/net/resolver.ts'
import { openSession, type ConnectOptions, type SmtpSession } from '../../src/smtp/client.ts'
import type { Verdict } from '../../src/smtp/verdict.ts'
import { EXCHANGERS, makeMaterial, type DaneCase, type ExchangerKind, type Material } from './dane-cases.ts'
import { startTestExchanger, type Script, type TestExchanger } from './exchanger.ts'
import { startSignedDns, type SignedDns } from './signed-zones.ts'

export interface DaneWorld extends AsyncDisposable {
  dns: SignedDns
  material: Material
  exchangers: Record<ExchangerKind, TestExchanger>
  /** Options of every connection that was opened. */
  opened: ConnectOptions[]
  publish(one: Pick<DaneCase, 'zones' | 'records' | 'bogus' | 'fails'>): void
  go(
    domain: string,
    options?: {
      resolver?: Resolver
      sts?: KnownPolicy
      policy?: 'Require' | 'Optional'
      delivery?: NonNullable<ConfigInput['delivery']>
    },
  ): Promise<{ session: SmtpSession | undefined; verdict: Verdict; route: Route | Verdict }>
}

const scriptOf = (kind: ExchangerKind, { shown }: Material): Script =>
  kind === 'plain'
    ? {}
    : kind === 'broken'
      ? { keywords: ['STARTTLS'], answer: (line) => (line === 'STARTTLS' ? '220 go\r\nthis is not TLS' : undefined) }
      : { tls: true, certificate: () => shown[kind] }

export async function startDaneWorld(): Promise<DaneWorld> {
  await using stack = new AsyncDisposableStack()
  const dns = stack.use(await startSignedDns())
  const material = makeMaterial()
  const entries = await Promise.all(
    EXCHANGERS.map(async (kind) => [kind, stack.use(await startTestExchanger(scriptOf(kind, material)))] as const),
  )
  const exchangers = Object.fromEntries(entries) as Record<ExchangerKind, TestExchanger>
  // Each appears in DNS with port 25 at its own address.
  const addressOf = (kind: string): string => `127.0.1.${EXCHANGERS.indexOf(kind as ExchangerKind) + 1}`
  const opened: ConnectOptions[] = []
  const open = (options: ConnectOptions): Promise<SmtpSession | Verdict> => {
    opened.push(options)
    const kind = EXCHANGERS[Number(options.address.split('.')[3]) - 1]!
    return openSession({ ...options, address: '127.0.0.1', port: exchangers[kind].port })
  }
  const closing = stack.move()
  return {
    dns,
    material,
    exchangers,
    opened,
    publish({ bogus = [], fails = {}, records, zones }) {
      dns.zones.set('test', true)
      for (const [zone, state] of Object.entries(zones)) {
        dns.zones.set(zone, state !== 'unsigned')
        // An opt-out span denies without a signature.
        if (state === 'optout') dns.zones.set(`_tcp.mx.${zone}`, false)
      }
      const sets = Map.groupBy(records, (line) => line.split(' ').slice(0, 2).join(' '))
      for (const [set, lines] of sets) {
        const [name = '', type = ''] = set.split(' ')
        const values = lines.map((line) => line.split(' ').slice(2).join(' '))
        dns.set(name, type, type === 'A' ? values.map(addressOf) : values)
      }
      // A resolver answers SERVFAIL when a signature is broken.
      for (const question of bogus) dns.fails.set(question, 'SERVFAIL')
      for (const [question, how] of Object.entries(fails)) dns.fails.set(question, how)
    },
    async go(domain, { delivery = {}, policy = 'Optional', resolver = dns.resolverOf(), sts } = {}) {
      const deps = {
        clock: dns.clock,
        resolver,
        allowed: allowPublicAnd(['127.0.0.0/8']),
        sts: { get: () => Promise.resolve(sts) } as unknown as StsCache,
        log: silentLog,
        config: parseConfig({ hostname: 'mx.here.example', delivery }),
        open,
      }
      const route = await findRoute(deps, domain)
      const answer = 'kind' in route ? route : await connectAlong(deps, domain, route, policy)
      if ('kind' in answer) return { session: undefined, verdict: answer, route }
      const [verdict] = await answer.send(
        { from: 'me@here.example', recipients: [`a@${domain}`] },
        Buffer.from('x\r\n.\r\n'),
      )
      await answer.quit()
      return { session: answer, verdict: verdict!, route }
    },
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  }
}
