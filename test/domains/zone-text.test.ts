// The zone lines in the output of commands: only missing or changed records, and one DMARC record per organisation.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestAppliance } from '../kit/appliance.ts'

test('domain records prints zone lines only for records that are missing or different', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const zone = async (): Promise<string> =>
    (await postrider.commands.json<{ zone: string }>('domain', 'records', 'here.test')).zone
  assert.doesNotMatch(await zone(), /_domainkey|IN MX|^bounce/m)
  postrider.dns.set('bounce.here.test', 'MX', undefined)
  await postrider.commands.json('domain', 'check', 'here.test')
  assert.match(await zone(), /^bounce\.here\.test\. \d+ IN MX 10 mx\.postrider\.test\.$/m)
  assert.doesNotMatch(await zone(), /_domainkey/)
})

test('domain records prints the DMARC record of an organisation once for its three domains', async () => {
  await using postrider = await startTestAppliance()
  const names = ['a.org.test', 'b.org.test', 'org.test']
  const zones: string[] = []
  for (const name of names) {
    const { zone } = await postrider.commands.json('domain', 'add', name, '--user', postrider.user.email)
    zones.push(zone)
  }
  assert.equal([...zones.join('\n').matchAll(/^_dmarc\.org\.test\. /gm)].length, 1)
  const { stdout } = await postrider.commands.run(['domain', 'records', 'b.org.test'])
  assert.match(String(stdout), /The DMARC record is shared with a\.org\.test/)
})

test('domain check identifies the record to remove if there are two', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const old = 'v=spf1 a:old.test -all'
  postrider.dns.set('bounce.here.test', 'TXT', [old, 'v=spf1 a:mx.postrider.test -all'])
  const { stdout } = await postrider.commands.run(['domain', 'check', 'here.test'])
  assert.ok(String(stdout).includes(`has 2 SPF records, but only one is allowed; remove "${old}".`), String(stdout))
})
