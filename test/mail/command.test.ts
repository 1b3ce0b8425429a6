// Everyday commands: find an email by its recipient, show it, show a domain. The version and the files in use. A change
// of the hostname.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { Commands } from '../commands/command.ts'
import { migrations } from '../../src/store/schema/migrations.ts'

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test'] }))

test('mail find and show accept the recipient in any case and print the reply and the SMTP transcript', async () => {
  const attributes = { from: 'me@here.test', to: 'Ada@there.test', cc: 'bob@there.test', subject: 'Receipt', html: 'x' }
  const { body } = await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))
  const { id } = body.data
  await until(
    async () => (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes.status === 'delivered',
  )
  for (const address of ['ada@there.test', 'ADA@there.test', 'bob@there.test']) {
    const found = await postrider.commands.json('mail', 'find', address)
    assert.deepEqual(
      found.map((each: { id: string }) => each.id),
      [id],
      address,
    )
  }
  assert.deepEqual(await postrider.commands.json('mail', 'find', 'ada@there.test', '--domain', 'other.test'), [])
  assert.deepEqual(await postrider.commands.json('mail', 'find', 'ada@there.test', '--since', '2099-01-01'), [])
  assert.deepEqual(await postrider.commands.json('mail', 'find', 'nobody@there.test'), [])
  const shown = await postrider.commands.json('mail', 'show', id)
  assert.match(shown.recipients[0].dialogue, /RCPT TO:<Ada@there\.test>/)
  assert.match((await postrider.commands.run(['mail', 'find', 'no address'])).stderr, /is not an email address/)
  assert.match((await postrider.commands.run(['mail', 'find', 'a@b.test', '--since', 'then'])).stderr, /is not a time/)
  assert.match((await postrider.commands.run(['mail', 'show', 'nothing'])).stderr, /There is no email/)
})

test('version prints the build and the files in use, and --verbose prints the files with any command', async () => {
  const shown = await postrider.commands.json('version')
  assert.match(shown.version, /^\d+\.\d+\.\d+$/)
  assert.match(shown.sqlite, /^3\./)
  assert.equal(shown.node, process.versions.node)
  assert.equal(shown.schema, migrations.length)
  assert.equal(shown.arch, process.arch)
  // A server that runs from sources has neither. packaging/package-smoke.sh checks the built one.
  assert.deepEqual([shown.commit, shown.built_from], [null, null])
  assert.equal(shown.data_dir, postrider.dataDir)
  assert.match(shown.config, /here\.toml$/)
  const { stderr } = await postrider.commands.run(['--verbose', 'domain', 'list'])
  assert.ok(stderr.includes('here.toml') && stderr.includes(postrider.dataDir), stderr)
})

test('after a change of the hostname, records, check and show report records that name another host', async () => {
  const other = Commands.beside(postrider, `[dns]\nservers = ["127.0.0.1:${postrider.dns.port}"]\n`)
  try {
    const env = { POSTRIDER_HOSTNAME: 'new.postrider.test' }
    const { stdout } = await other.run(['--json', 'domain', 'records', 'here.test'], { env })
    assert.match(stdout, /a:new\.postrider\.test/)
    assert.doesNotMatch(stdout, /mx\.postrider\.test/)
    const checked = await other.run(['domain', 'check', 'here.test'], { env })
    assert.match(
      checked.stdout,
      /The MX record at bounce\.here\.test names another host: change .* to "10 new\.postrider\.test"/,
    )
    assert.match(checked.stdout, /The SPF record at bounce\.here\.test names another host/)
    const shown = await other.run(['domain', 'show', 'here.test'], { env })
    assert.match(shown.stdout, /DKIM key \(signing\)/)
    assert.match(shown.stdout, /names another host/)
  } finally {
    await other.close()
  }
})
