// Listeners on a machine without IPv6: every one that is configured for all addresses is there by IPv4.
import assert from 'node:assert/strict'
import { Server } from 'node:net'
import { mock, test } from 'node:test'
import { OperatorError } from '../../src/base/errors.ts'
import { openEach, type ListenAddress } from '../../src/server/ipv4-ipv6.ts'
import { startTestAppliance } from '../kit/appliance.ts'

const error = (code: string): Error => Object.assign(new Error(code), { code })
const quiet = { log: { info() {} } }

test('listens on "0.0.0.0" or leaves "::" out if IPv6 is missing, and fails for other errors', async () => {
  const opened = async (hosts: string[], code: string): Promise<string[]> =>
    openEach(
      hosts.map((host) => ({ host, port: 443 })),
      'https',
      quiet,
      async ({ host, ipv6Only }: ListenAddress) => {
        if (host.includes(':')) throw new OperatorError('A sentence.', { cause: error(code) })
        return ipv6Only ? `${host} alone` : host
      },
    )
  for (const code of ['EAFNOSUPPORT', 'EADDRNOTAVAIL']) {
    assert.deepEqual(await opened(['::'], code), ['0.0.0.0'])
    assert.deepEqual(await opened(['::', '0.0.0.0'], code), ['0.0.0.0'])
    assert.deepEqual(await opened(['127.0.0.1', '::'], code), ['127.0.0.1', '0.0.0.0'])
    await assert.rejects(opened(['2001:db8::1'], code), /A sentence/, 'one address is meant')
  }
  await assert.rejects(opened(['::'], 'EADDRINUSE'), /A sentence/)
  const both = await openEach(
    [
      { host: '::', port: 443 },
      { host: '0.0.0.0', port: 443 },
    ],
    'https',
    quiet,
    async (address) => address,
  )
  assert.deepEqual(
    both.map(({ ipv6Only }) => ipv6Only),
    [true, false],
  )
})

test('starts with every listener on a machine without IPv6', async () => {
  const original = Object.getOwnPropertyDescriptor(Server.prototype, 'listen')!.value as (...args: unknown[]) => Server
  const asked: string[] = []
  const lacking = mock.method(Server.prototype, 'listen', function (this: Server, ...args: unknown[]) {
    const [{ host }] = args as [{ host?: string }]
    asked.push(host ?? '')
    if (host?.includes(':') !== true) return original.apply(this, args)
    process.nextTick(() => this.emit('error', error('EAFNOSUPPORT')))
    return this
  })
  try {
    const all = '[::]:0'
    const postrider = await startTestAppliance({
      config: {
        http: { listen: all, tls_listen: [all] },
        smtp: { listen: [all] },
        submission: { listen: [all], tls_listen: [all] },
        acme: { listen: [all] },
      },
    })
    const { http, https, smtp, submission, submissions } = postrider.appliance
    assert.deepEqual(
      [http, ...https, ...smtp, ...submission, ...submissions].map(({ host }) => host),
      Array(5).fill('0.0.0.0'),
    )
    // Port 80 is also opened.
    assert.equal(asked.filter((host) => host === '::').length, 6)
    await postrider.stop()
  } finally {
    lacking.mock.restore()
  }
})
