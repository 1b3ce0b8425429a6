// A relay route to a cluster of real Postfix servers: an even load, one that is killed, and one that returns 421.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { withPrograms } from './rig/need.ts'
import { missing, receivingPostfix, type ReceivingPostfix } from './rig/postfix.ts'
import { startPostrider, type Mail, type RunningPostrider } from './rig/postrider.ts'
import { until } from './rig/sandbox.ts'

const FROM = 'shop.example'
const DOMAINS = ['there.example', 'second.example']
const MAILS = 300
/** The shipped limit of connections to one host. */
const MOST = 20
/** Each email takes a second, so that the speed of this machine does not decide which host is faster. */
const SLOW = { smtpd_data_restrictions: 'sleep 1' }
const AWAY = { smtpd_delay_reject: 'no', smtpd_client_restrictions: 'check_client_access static:{421 4.3.2 Away}' }

withPrograms('a relay route with several hosts', missing(), () => {
  let dns: TestDns
  let postrider: RunningPostrider
  const cluster: ReceivingPostfix[] = []

  before(async () => {
    dns = await startTestDns()
    let port: number | undefined
    for (const [index, settings] of [SLOW, SLOW, SLOW, AWAY].entries()) {
      const hostname = `mx${index + 1}.cluster.example`
      const address = `127.0.0.${index + 1}`
      dns.set(hostname, 'A', [address])
      const listen = port === undefined ? {} : { listen: { address, port } }
      cluster.push(await receivingPostfix({ domains: DOMAINS, hostname, settings, ...listen }).start())
      port = cluster[0]!.port
    }
    const hosts = (count: number): string =>
      JSON.stringify(Array.from({ length: count }, (_, index) => `mx${index + 1}.cluster.example`))
    postrider = await startPostrider({
      dns,
      hostname: 'mx.postrider.example',
      deliveryPort: port!,
      more: [3, 4]
        .map(
          (count, index) =>
            `[[delivery.routes]]\ndomains = ["${DOMAINS[index]}"]\nport = ${port}\nhosts = ${hosts(count)}\n`,
        )
        .join(''),
    })
    await postrider.sendingDomain(FROM)
  })
  after(async () => {
    const failures: unknown[] = []
    const stopped = [postrider, ...cluster].map((part) => part?.stop().catch((error: unknown) => failures.push(error)))
    await Promise.all(stopped)
    await dns?.close()
    if (failures.length > 0) throw failures[0]
  })

  const counts = (): Promise<number[]> => Promise.all(cluster.map((each) => each.count()))
  /** Posts emails to a domain, which are all due at the same time. */
  async function burst(domain: string): Promise<Mail[]> {
    await postrider.json('queue', 'hold', '--lane', domain)
    const mails: Mail[] = []
    while (mails.length < MAILS)
      mails.push(
        ...(await Promise.all(
          Array.from({ length: 20 }, (_, n) =>
            postrider.post({
              from: `ann@${FROM}`,
              to: `n${mails.length + n}@${domain}`,
              subject: 'A test',
              html: '<p>Hello.</p>',
            }),
          ),
        )),
      )
    await postrider.json('queue', 'release', '--lane', domain)
    return mails
  }
  /** Waits until each email is delivered, or has an attempt that failed. */
  const attempted = (mails: readonly Mail[]): Promise<Mail[]> =>
    Promise.all(
      mails.map(({ id }) =>
        postrider.settled(
          id,
          ({ attempts, next_attempt_at, status }) =>
            status === 'delivered' || (attempts > 0 && next_attempt_at !== null),
          60_000,
        ),
      ),
    )
  const assertEven = (loads: readonly number[]): void => {
    const mean = loads.reduce((sum, load) => sum + load, 0) / loads.length
    for (const load of loads) assert.ok(Math.abs(load - mean) <= mean / 10, `not within 10 %: ${loads.join(', ')}`)
  }

  test('spreads the load within 10 % of even', async (t) => {
    const mails = await attempted(await burst(DOMAINS[0]!))
    assert.ok(mails.every(({ recipients }) => recipients[0]!.attempts === 1 && recipients[0]!.status === 'delivered'))
    await until(
      async () => (await counts()).reduce((sum, each) => sum + each, 0) === MAILS,
      20_000,
      () => 'all emails',
    )
    const loads = await counts()
    t.diagnostic(`load: ${loads.join(', ')}`)
    assertEven(loads.slice(0, 3))
  })

  test('no email waits longer than one attempt if one host is killed and one returns 421', async (t) => {
    const earlier = await counts()
    const [killed] = [cluster[2]!]
    const posted = burst(DOMAINS[1]!)
    await until(
      async () => (await killed.count()) >= earlier[2]! + 10,
      60_000,
      () => 'the burst has begun',
    )
    process.kill(-killed.group, 'SIGKILL')
    const mails = await attempted(await posted)
    assert.ok(mails.every(({ recipients }) => recipients[0]!.attempts === 1))
    // The killed server had these emails and had not answered yet.
    const waiting = mails.filter(({ recipients }) => recipients[0]!.status !== 'delivered')
    assert.ok(waiting.length <= MOST, `${waiting.length} emails wait`)
    for (const { recipients } of waiting) assert.match(recipients[0]!.response ?? '', /after the message was sent/)
    for (const { id } of waiting) await postrider.json('queue', 'retry', id)
    for (const { id } of waiting)
      assert.equal((await postrider.settled(id, ({ status }) => status === 'delivered')).recipients[0]!.attempts, 2)
    const lost = await killed.count()
    const rest = MAILS - (lost - earlier[2]!)
    const loadsNow = async (): Promise<number[]> => (await counts()).map((count, index) => count - earlier[index]!)
    // The killed server may have accepted emails that it has not stored in a mailbox.
    await until(
      async () => (await loadsNow()).slice(0, 2).reduce((sum, each) => sum + each, 0) >= rest - MOST,
      20_000,
      () => 'the other emails',
    )
    const loads = await loadsNow()
    t.diagnostic(`load: ${loads.join(', ')}, retried: ${waiting.length}`)
    assert.equal(loads[3], 0)
    assertEven(loads.slice(0, 2))
    for (const name of ['mx3.cluster.example', 'mx4.cluster.example'])
      assert.match(postrider.log(), new RegExp(`"relay_host_left_out".*"${name}"`))
  })
})
