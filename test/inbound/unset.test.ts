// A server without any domain does not reject permanently, because its data may not be there yet (D46). The same
// applies to a domain that waits for its verification (D197).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { registerDomain } from '../../src/domains/lifecycle.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { RawClient } from '../smtp/raw.ts'

test('rejections are temporary without any domain, and permanent with one', async () => {
  await using postrider = await startTestAppliance()
  const { deps, smtp } = postrider.appliance
  const rcpt = async (address: string): Promise<string> => {
    const client = await RawClient.greeted(smtp[0]!.port)
    await client.ask('MAIL FROM:<ann@there.test>')
    const said = await client.said(`RCPT TO:<${address}>`)
    client.destroy()
    return said
  }
  for (const address of ['box@here.test', 'postmaster@here.test', `${'a'.repeat(26)}@bounces.here.test`])
    assert.equal(await rcpt(address), '451 4.3.0', address)
  await registerDomain({ ...deps, ring: () => {} }, postrider.user.key, { name: 'here.test', purpose: 'both' })
  assert.equal(await rcpt('box@else.test'), '554 5.7.1')
  for (const address of ['box@here.test', 'postmaster@here.test', 'dmarc-reports@bounce.here.test'])
    assert.equal(await rcpt(address), '451 4.3.0', address)
  for (const address of ['box@sub.here.test', 'box@bounces.else.test'])
    assert.match(await rcpt(address), /^55[04] 5\.[17]\.1$/, address)
})
