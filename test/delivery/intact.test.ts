// An email that is corrupt in the database is not sent to any recipient. It waits as local trouble with its id (D72),
// and is sent once the row is repaired.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { retryNow } from '../../src/delivery/queue/operator.ts'
import { raw } from '../../src/store/query.ts'
import { campaignKit } from '../kit/campaign.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mailsOf } from '../mail/mails.ts'

const said: string[] = []
const mails = mailsOf(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, logged: { level: 'error', lines: said }, domains: ['here.test'] }),
)

const DAMAGE: readonly [label: string, table: string, harm: string, repair: string, part: RegExp][] = [
  [
    'the body',
    'outbound_bodies',
    `content = replace(content, 'Hello', 'Hemlo')`,
    `content = replace(content, 'Hemlo', 'Hello')`,
    /body/,
  ],
  ['the sender', 'outbound_emails', `"from" = 'anm@here.test'`, `"from" = 'ann@here.test'`, /header or sender/],
  [
    'the header',
    'outbound_emails',
    `"to" = replace("to", 'b', 'c')`,
    `"to" = replace("to", 'c', 'b')`,
    /header or sender/,
  ],
  [
    'the address',
    'deliveries',
    `address = replace(address, 'bob', 'cob')`,
    `address = replace(address, 'cob', 'bob')`,
    /recipient/,
  ],
  ['the return path', 'domains', `mail_from_prefix = 'counce'`, `mail_from_prefix = 'bounce'`, /sending domain/],
]

/** Damage fires no trigger. */
async function write(table: string, sql: string): Promise<void> {
  const { store } = postrider.appliance.deps
  const triggers = store.all(
    raw<{ name: string; sql: string }>(
      `select name, sql from sqlite_schema where type = 'trigger' and tbl_name = ? and name like '%_digest_of_changed'`,
      [table],
    ),
  )
  await store.write((tx) => {
    for (const { name } of triggers) tx.run(raw(`drop trigger ${name}`))
    tx.run(raw(`update ${table} set ${sql}`))
    for (const trigger of triggers) tx.run(raw(trigger.sql))
  })
}

for (const [index, [label, table, harm, repair, part]] of DAMAGE.entries())
  test(`queues an email while ${label} is changed, and sends it once it is restored`, async () => {
    const { deps } = postrider.appliance
    const domain = `there${index}.test`
    mails.receiver(domain)
    exchanger.script.answer = (command) => (command.startsWith('RCPT') ? '451 later' : undefined)
    const id = await mails.post({ to: `bob@${domain}` })
    await mails.attempted(id, 1)
    delete exchanger.script.answer
    const before = exchanger.heard.length
    const set = (sql: string) => write(table, sql)
    const again = async (): Promise<void> => {
      await retryNow(deps, id)
      postrider.appliance.engine.ring()
    }
    await set(harm)
    await again()
    await until(() => deps.store.first(raw('select 1 from deliveries where trouble_since is not null')), 'the trouble')
    assert.deepEqual(
      deps.troubles.list().map(({ name }) => name),
      ['damage'],
    )
    const lines = said.filter((line) => line.includes('email_corrupt') && line.includes(id))
    assert.match(lines.join(), part)
    assert.equal(exchanger.heard.length, before)
    await set(repair)
    postrider.clock.leap(60_000)
    await again()
    await mails.become(id, 'delivered')
    assert.equal(exchanger.heard.length, before + 1)
  })

test('verify finds a campaign email with another recipient than it names', async () => {
  const { store } = postrider.appliance.deps
  const kit = campaignKit(() => postrider)
  mails.receiver('strayed.test')
  exchanger.script.answer = (command) => (command.startsWith('RCPT') ? '451 later' : undefined)
  const audience = await kit.audience(await postrider.activeDomain('strays.test'))
  await kit.fill(audience, ['Bob@strayed.test'])
  const campaign = await kit.draft(audience)
  assert.equal((await kit.patch(campaign, { status: 'scheduled' })).status, 200)
  await until(() => exchanger.commands.some((line) => /RCPT.*strayed\.test/i.test(line)))
  delete exchanger.script.answer
  assert.deepEqual(store.verify(), [])
  await write('outbound_emails', `"to" = replace("to", 'strayed', 'streyed') where "to" like '%strayed.test'`)
  assert.match(store.verify().join(), /differs from the address in the email/)
  await write('outbound_emails', `"to" = replace("to", 'streyed', 'strayed') where "to" like '%streyed.test'`)
  assert.deepEqual(store.verify(), [])
})

test('a corrupt email does not delay others to its domain', async () => {
  mails.receiver('both.test')
  exchanger.script.answer = (command) => (command.startsWith('RCPT') ? '451 later' : undefined)
  const harmed = await mails.post({ to: 'harmed@both.test' })
  await mails.attempted(harmed, 1)
  delete exchanger.script.answer
  await write('outbound_bodies', `content = replace(content, 'Hello', 'Hemlo')`)
  await retryNow(postrider.appliance.deps, harmed)
  postrider.appliance.engine.ring()
  await until(() => said.some((line) => line.includes('email_corrupt') && line.includes(harmed)))
  // The clock is not turned.
  await mails.become(await mails.post({ to: 'whole@both.test' }), 'delivered')
  await write('outbound_bodies', `content = replace(content, 'Hemlo', 'Hello')`)
  await retryNow(postrider.appliance.deps, harmed)
  postrider.appliance.engine.ring()
  await mails.become(harmed, 'delivered')
})

const CAMPAIGN_DAMAGE: readonly [label: string, table: string, one: string, other: string][] = [
  ['the text of a campaign', 'campaigns', 'body_html', 'Hello'],
  ['a contact’s name', 'contacts', 'name', 'Bob'],
  ['an audience’s name', 'audiences', 'name', 'Readers'],
]

for (const [index, [label, table, column, good]] of CAMPAIGN_DAMAGE.entries())
  test(`queues a campaign email while ${label} is changed, and sends it once it is restored`, async () => {
    const { deps, engine } = postrider.appliance
    const kit = campaignKit(() => postrider)
    const domain = `list${index}.test`
    mails.receiver(domain)
    const audience = await kit.audience(await postrider.activeDomain(`sender${index}.test`))
    await kit.fill(audience, [{ email: `bob@${domain}`, name: 'Bob' }])
    const campaign = await kit.draft(audience)
    const replaced = (from: string, to: string) => write(table, `${column} = replace(${column}, '${from}', '${to}')`)
    await replaced(good, 'Harm')
    assert.equal((await kit.patch(campaign, { status: 'scheduled' })).status, 200)
    await until(() => said.some((line) => line.includes('email_corrupt') && line.includes(`row of ${table}`)))
    const heard = () => exchanger.heard.filter(({ to }) => to.includes(`bob@${domain}`))
    assert.equal(heard().length, 0)
    await replaced('Harm', good)
    await until(() => deps.store.first(raw('select 1 from deliveries where trouble_since is not null')), 'the trouble')
    postrider.clock.leap(60_000)
    await retryNow(deps, undefined)
    engine.ring()
    await until(async () => (await kit.show(campaign))['status'] === 'sent', 'sent')
    assert.equal(heard().length, 1)
    assert.match(heard()[0]!.message, /Hello Bob/)
  })
