// The order in which the hosts of a route are tried.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseConfig } from '../../src/base/config.ts'
import { HostBalance } from '../../src/delivery/wire/host-balance.ts'
import type { Host } from '../../src/smtp/route.ts'

const [relay] = parseConfig({ delivery: { routes: [{ domains: ['*'], hosts: ['a.test', 'b.test'] }] } }).delivery.routes
const MINUTE = 60_000
const hostOf = (name: string, preference?: number): Host => ({
  name,
  port: 25,
  ...(preference === undefined ? { relay: relay! } : { preference }),
})

/** A balance that counts every first host of an order as one more connection. */
function balanced(open: Record<string, number> = {}) {
  const balance = new HostBalance(({ name }) => open[name] ?? 0)
  const connect = (hosts: readonly Host[], now = 0): string => {
    const [{ name } = hostOf('')] = balance.order(hosts, now)
    balance.opens(hostOf(name), now)()
    open[name] = (open[name] ?? 0) + 1
    return name
  }
  return {
    balance,
    connect,
    open,
    names: (hosts: readonly Host[], now = 0) => balance.order(hosts, now).map(({ name }) => name),
  }
}

test('the next connection goes to the best host by preference with the fewest connections', () => {
  const { connect, names, open } = balanced({ b: 3, c: 1 })
  const hosts = [hostOf('a', 10), hostOf('b', 10), hostOf('c', 10), hostOf('d', 20)]
  assert.deepEqual(names(hosts), ['a', 'c', 'b', 'd'])
  for (let n = 0; n < 26; n++) connect(hosts)
  assert.deepEqual(open, { a: 10, b: 10, c: 10 })
})

test('hosts take turns if each has the same number of connections', () => {
  const { connect, open } = balanced()
  const hosts = [hostOf('a'), hostOf('b'), hostOf('c')]
  const order = Array.from({ length: 6 }, () => {
    const name = connect(hosts)
    // The connection ends before the next one is opened.
    open[name] = 0
    return name
  })
  assert.deepEqual(order, ['a', 'b', 'c', 'a', 'b', 'c'])
})

test('a host that failed is the last one for a minute, and one connection at a time tries it then', () => {
  const { balance, names } = balanced({ b: 5, c: 9 })
  const hosts = [hostOf('a'), hostOf('b'), hostOf('c')]
  assert.equal(balance.leaveOut(hostOf('a'), 0), true)
  assert.equal(balance.leaveOut(hostOf('a'), 0), false)
  assert.deepEqual(names(hosts, MINUTE - 1), ['b', 'c', 'a'])
  assert.deepEqual(names(hosts, MINUTE), ['a', 'b', 'c'])
  // An email whose attempt failed is not the test.
  assert.deepEqual(balance.order(hosts, MINUTE, true).at(-1)?.name, 'a')
  const opened = balance.opens(hostOf('a'), MINUTE)
  assert.deepEqual(names(hosts, MINUTE), ['b', 'c', 'a'])
  balance.works(hostOf('a'))
  opened()
  assert.deepEqual(names(hosts, MINUTE), ['a', 'b', 'c'])
  // Another port of the same machine is another host.
  assert.equal(balance.isOut({ name: 'a', port: 26 }, 0), false)
})

test('a host that failed comes after those with a worse preference, and all are tried if all failed', () => {
  const { balance, names } = balanced()
  const hosts = [hostOf('a', 10), hostOf('b', 20)]
  balance.leaveOut(hosts[0]!, 0)
  assert.deepEqual(names(hosts), ['b', 'a'])
  balance.leaveOut(hosts[1]!, 0)
  assert.deepEqual(names(hosts), ['a', 'b'])
})

test('the limits of a relay apply to each host in use, and connections move to a host that has fewer', () => {
  const open = { a: 4, b: 4, c: 2 }
  const { balance } = balanced(open)
  const hosts = [hostOf('a'), hostOf('b'), hostOf('c')]
  assert.equal(balance.share(hosts, 0), 1)
  assert.ok(balance.isOver(hosts, hosts[0]!, 0))
  assert.ok(!balance.isOver(hosts, hosts[2]!, 0))
  open.c = 3
  assert.ok(!balance.isOver(hosts, hosts[0]!, 0))
  open.c = 0
  balance.leaveOut(hosts[2]!, 0)
  assert.equal(balance.share(hosts, 0), 2 / 3)
  assert.ok(!balance.isOver(hosts, hosts[0]!, 0))
  for (const host of hosts) balance.leaveOut(host, 0)
  assert.equal(balance.share(hosts, 0), 1)
  // MX hosts of a recipient domain keep their connections.
  open.c = 0
  const direct = [hostOf('a', 10), hostOf('c', 10)]
  assert.ok(!balance.isOver(direct, direct[0]!, 2 * MINUTE))
})
