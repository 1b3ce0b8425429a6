import assert from 'node:assert/strict'
import { test } from 'node:test'
import { customerOf, reversed } from '../../src/base/network.ts'

test('an address counts for itself, of IPv6 for the /64 that one customer has', () => {
  for (const [address, customer] of [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:192.0.2.2', '192.0.2.2'],
    ['2001:db8:0:7:1:2:3:4', '2001:db8:0:7::/64'],
    ['2001:DB8:0:7::1', '2001:db8:0:7::/64'],
    ['2001:db8::7:0:0:0:1', '2001:db8:0:7::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
    ['', ''],
  ] as const)
    assert.equal(customerOf(address), customer, address)
})

test('an address as names of the reverse DNS write it', () => {
  assert.equal(reversed('192.0.2.1'), '1.2.0.192')
  assert.equal(reversed('2001:db8::1'), '1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2')
})
