import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allowPublicAnd, customerOf, reversed } from '../../src/base/network.ts'

test('a customer is an IPv4 address or an IPv6 /64', () => {
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

test('writes an address as in reverse DNS names', () => {
  assert.equal(reversed('192.0.2.1'), '1.2.0.192')
  assert.equal(reversed('2001:db8::1'), '1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2')
})

// The IANA special-purpose address registries of both families, a first or last address of each, and every form that
// embeds IPv4.
const SPECIAL = `
0.0.0.0 0.255.255.255 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.255 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1
192.0.0.170 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1
255.255.255.255 168.63.129.16
:: ::1 ::127.0.0.1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 ::ffff:0:7f00:1 ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::10.0.0.1
64:ff9b:1::1 64:ff9b:1::8.8.8.8 100::1 100:0:0:1::1 2001::1 2001:0:ffff::1 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1:: 2002:808:808::
3fff::1 4000::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1 ffff::1`
const PUBLIC = `1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 126.1.1.1 128.0.0.1 172.15.0.1 172.32.0.1 192.0.1.1 192.89.0.1
192.167.0.1 198.17.0.1 198.20.0.1 223.255.255.255 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2001:200::1 2001:4860:4860::8888 2606:4700::1111 2a00:1450::1 3ffe::1`
const words = (text: string): string[] => text.trim().split(/\s+/)

test('forbids every address of a special-purpose registry in any notation', () => {
  const check = allowPublicAnd([])
  assert.deepEqual(words(SPECIAL).filter(check), [])
  assert.deepEqual(
    words(PUBLIC).filter((address) => !check(address)),
    [],
  )
  assert.equal(check('mx.example.org'), false)
})

test('an operator can allow a network, including embedded addresses, without allowing others', () => {
  const check = allowPublicAnd(['127.0.0.0/8', 'fd00::/8', '192.0.2.7'])
  for (const address of ['127.0.0.1', '::ffff:127.0.0.1', 'fd00::1', '192.0.2.7', '8.8.8.8'])
    assert.ok(check(address), address)
  for (const address of ['10.0.0.1', '192.0.2.8', '::1', 'fe80::1', '::ffff:0:7f00:1'])
    assert.ok(!check(address), address)
})
