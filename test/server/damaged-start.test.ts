// A start on corrupt rows: a corrupt value neither prevents the start, leads out of the spool, nor deletes data. Its
// email stays queued, and verify names it.
import assert from 'node:assert/strict'
import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import Database from 'better-sqlite3'
import { faultsOf } from '../../src/archive/integrity.ts'
import { defineDigest } from '../../src/store/digests.ts'
import { raw } from '../../src/store/query.ts'
import { retryNow } from '../../src/delivery/queue/operator.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { start } from '../commands/command.ts'

let exchanger: TestExchanger
let dataDir: string
let postrider: TestAppliance
const clock = new ManualClock()

async function open(): Promise<void> {
  postrider = await startTestAppliance({ dataDir, clock, config: { delivery: { port: exchanger.port } } })
}

/** Stops the server, changes rows behind its back, without the triggers that keep digests, and starts it again. */
async function damaged(table: string, sql: string): Promise<void> {
  await postrider.stop()
  const database = new Database(join(dataDir, 'postrider.db'))
  defineDigest(database)
  const triggers = database
    .prepare(`select name, sql from sqlite_schema where type = 'trigger' and tbl_name = ?`)
    .all(table) as { name: string; sql: string }[]
  for (const { name } of triggers) database.exec(`drop trigger ${name}`)
  database.exec(sql)
  for (const trigger of triggers) database.exec(trigger.sql)
  database.close()
  await open()
}

/** Routes there.test to the MX host. A start has an empty zone. */
function route(): void {
  postrider.dns.set('there.test', 'MX', ['10 mx.there.test'])
  postrider.dns.set('mx.there.test', 'A', ['127.0.0.1'])
}

const faults = (): Promise<string[]> => faultsOf(postrider.appliance.deps)

before(async () => {
  exchanger = await startTestExchanger()
  dataDir = temporaryDirectory('damaged')
  await open()
  await postrider.activeDomain('here.test')
})
after(async () => {
  await postrider.stop()
  await exchanger.close()
})

test('does not return a file outside of the spool that a received message names', async () => {
  const made = await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Box', address: 'box@here.test' }))
  assert.equal(made.status, 201)
  const { id } = await receive(postrider, { to: 'box@here.test' })
  await damaged('inbound_messages', `update inbound_messages set spool = '../instance.key', content = null`)
  const answer = await postrider.api('GET', `/inbound-emails/${id}/raw`)
  assert.notEqual(answer.status, 200)
  assert.match((await faults()).join(), /Row 1 of inbound_messages has an invalid spool file name/)
  await damaged('inbound_messages', `update inbound_messages set spool = null, content = x'00'`)
})

test('deletes no contacts for an invalid deletion time', async () => {
  const kit = campaignKit(() => postrider)
  const [domain] = (await postrider.api('GET', '/domains')).body.data
  const audience = await kit.audience(domain)
  await kit.fill(audience, ['one@a.test', 'two@a.test'])
  for (const time of ['9007199254740993000', '-5']) {
    await damaged('audiences', `update audiences set deleted_at = ${time}`)
    clock.advance(60_000)
    const { n } = postrider.appliance.deps.store.first(raw<{ n: number }>('select count(*) as n from contacts'))!
    assert.equal(n, 2, time)
    assert.match((await faults()).join(), /deleted_at in audiences is not a valid time: row 1/)
  }
  await damaged('audiences', 'update audiences set deleted_at = null')
  assert.equal((await postrider.api('GET', `/audiences/${audience}/contacts`)).body.data.length, 2)
})

test('starts with a corrupt DKIM key, of which verify names the row and not instance.key', async () => {
  const first = 'key = (select min(key) from dkim_keys where sealed_private_key is not null)'
  const { store } = postrider.appliance.deps
  const { box } = store.first(
    raw<{ box: Uint8Array }>(`select sealed_private_key as box from dkim_keys where ${first}`),
  )!
  await damaged('dkim_keys', `update dkim_keys set sealed_private_key = x'00' where ${first}`)
  const found = await faults()
  assert.match(found.join(), /Texts in dkim_keys are corrupt/)
  assert.doesNotMatch(found.join(), /instance\.key/)
  await damaged(
    'dkim_keys',
    `update dkim_keys set sealed_private_key = x'${Buffer.from(box).toString('hex')}' where ${first}`,
  )
})

for (const harm of [`{"x`, `[null,5]`, `["../instance.key"]`])
  test(`starts and keeps an email queued whose list of files is ${harm}, and verify names it`, async () => {
    route()
    exchanger.script.answer = (command) => (command.startsWith('RCPT') ? '451 later' : undefined)
    const html = `<p>${'Hello. '.repeat(60_000)}</p>`
    const attributes = { from: 'ann@here.test', to: 'bob@there.test', subject: 'Large', html }
    const { body } = await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))
    const { id } = body.data
    const where = `email_key = (select key from outbound_emails where id = '${id}')`
    await until(
      () => postrider.appliance.deps.store.first(raw(`select 1 from deliveries where smtp_code = 451 and ${where}`)),
      'an attempt',
    )
    await damaged('outbound_bodies', `update outbound_bodies set spool = '${harm}' where ${where}`)
    route()
    delete exchanger.script.answer
    await retryNow(postrider.appliance.deps, id)
    postrider.appliance.engine.ring()
    const list = await postrider.api('GET', '/outbound-emails?fields[outbound-emails]=html,subject')
    assert.equal(list.status, 200)
    assert.equal((await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes.html, null)
    await until(
      () =>
        postrider.appliance.deps.store.first(
          raw(`select 1 from deliveries where trouble_since is not null and ${where}`),
        ),
      'the mail waits for its repair',
    )
    assert.match((await faults()).join(), /Row \d+ of outbound_bodies has an invalid spool file name/)
    assert.equal((await postrider.api('DELETE', `/outbound-emails/${id}`)).status, 204)
  })

test('verify names an invalid line of the erasure log', async () => {
  appendFileSync(join(dataDir, 'erasures.ledger'), '\0garbage\n')
  await postrider.stop()
  const config = join(dataDir, 'postrider.toml')
  writeFileSync(config, `hostname = "mx.postrider.test"\ndata_dir = "${dataDir}"\n`)
  const verify = start(['--config', config, 'verify'], dataDir)
  assert.equal(await verify.ended, 1)
  assert.match(verify.stdout(), /The erasure log \(erasures\.ledger\) is corrupt at line \d+\./)
  await open()
})
