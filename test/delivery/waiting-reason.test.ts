// The reason why an email is queued, as the API, the Emails page, the page of an email and the commands show it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MINUTE } from '../../src/base/clock.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger({
  answer: (command) => (command.startsWith('RCPT TO:<busy') ? '451 4.2.1 mailbox busy' : undefined),
})
const postrider = ofFile(() => startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test'] }))
let ann: Guest
setUp(async () => void (ann = await signedIn(postrider)))

const post = async (to: string, more: object = {}): Promise<string> => {
  const attributes = { from: 'ann@here.test', to, subject: `For ${to}`, html: '<p>Hello</p>', ...more }
  return (await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))).body.data.id
}
const reasonOf = async (id: string): Promise<string | null> =>
  (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes.recipients[0].waiting_reason
/** The list of the API, its row on the Emails page, and the commands have the same reason as the email itself. */
const isEverywhere = async (id: string, reason: string): Promise<void> => {
  await until(async () => (await reasonOf(id)) === reason, reason)
  const listed = (await postrider.api('GET', '/outbound-emails?filter[search]=status:queued')).body.data
  assert.equal(listed.find((each: { id: string }) => each.id === id).attributes.recipients[0].waiting_reason, reason)
  const row = (await ann.open('/mail?q=status%3Aqueued')).text.split('<tr>').find((each) => each.includes(id))
  assert.ok(row?.includes(`title="${reason}"`), row ?? 'no row')
  assert.ok((await ann.open(`/mail/${id}`)).text.includes(`>${reason}</td>`))
  const mail = await postrider.commands.json<{ recipients: { waiting_reason: string }[] }>('mail', 'show', id)
  assert.equal(mail.recipients[0]!.waiting_reason, reason)
}

test('an email that a receiving server deferred has its reply as the reason', async () => {
  await isEverywhere(await post('busy@there.test'), 'Deferred: 451 4.2.1 mailbox busy')
})

test('an email that an operator holds says so, and so does every email to a held domain', async () => {
  assert.equal((await postrider.api('POST', '/lanes/held.test/hold')).status, 202)
  const id = await post('ada@held.test')
  await isEverywhere(id, 'Email to held.test is on hold')
  assert.equal((await postrider.api('POST', `/outbound-emails/${id}/hold`)).status, 202)
  await isEverywhere(id, 'Held by an operator')
})

test('an email of a paused campaign names the campaign', async () => {
  assert.equal((await postrider.api('POST', '/lanes/paused.test/hold')).status, 202)
  const kit = campaignKit(() => postrider)
  const { body } = await postrider.api('GET', '/domains')
  const audience = await kit.audience(body.data[0])
  await kit.fill(audience, ['reader@paused.test'])
  const campaign = await kit.draft(audience)
  await kit.patch(campaign, { status: 'scheduled' })
  const mails = () => postrider.api('GET', `/outbound-emails?filter[campaign]=${campaign}`)
  const id = await until(async () => (await mails()).body.data[0]?.id as string | undefined, 'the email')
  await kit.patch(campaign, { status: 'paused' })
  await isEverywhere(id, 'Held by the campaign Spring (paused)')
  assert.match((await ann.open(`/campaigns/${campaign}/recipients`)).text, />Held by the campaign Spring \(paused\)</)
})

test('an email over the daily limit of warm-up, or to servers that cannot be reached, has this reason', async () => {
  const { clock, store } = postrider.appliance.deps
  // The queue is held, so that the email stays as it is written below.
  assert.equal((await postrider.api('POST', '/lanes/limit.test/hold')).status, 202)
  const id = await post('ada@limit.test')
  const set = (values: string) =>
    store.write((tx) =>
      tx.run(
        raw(`update deliveries set ${values} where email_key = (select key from outbound_emails where id = ?)`, [id]),
      ),
    )
  await isEverywhere(id, 'Email to limit.test is on hold')
  await store.write((tx) => tx.run(raw(`delete from lane_holds where lane = 'limit.test'`, [])))
  await set(
    `response = 'warm-up: the limit for limit.test is reached for today; sending resumes at 2026-01-16T00:00:00Z', smtp_code = null, enhanced_code = null`,
  )
  await isEverywhere(id, 'Warm-up: the limit for limit.test is reached for today')
  await set(`response = null`)
  // Commands have the machine's clock, the server has the test's.
  const latest = Math.max(clock.now(), Date.now())
  await store.write((tx) =>
    tx.run(
      raw(
        `insert into learned_lanes (lane, connections, per_second, paused_until, learned_at) values ('limit.test', null, null, ?, ?)`,
        [latest + MINUTE, latest],
      ),
    ),
  )
  await isEverywhere(id, 'Delivery to limit.test is paused: its servers could not be reached')
})

test('an email whose agent may send only at a low rate has this reason, and a delivered one has none', async () => {
  const sent = await post('ada@there.test', { agent_id: 'shop' })
  const next = await post('ben@there.test', { agent_id: 'shop' })
  const later = await post('cem@there.test', { agent_id: 'shop' })
  assert.deepEqual(
    [await reasonOf(next), await reasonOf(later)].includes('The sending rate of its agent is limited'),
    true,
  )
  await until(
    async () =>
      (await postrider.api('GET', `/outbound-emails/${sent}`)).body.data.attributes.recipients[0].status ===
      'delivered',
    'the delivery',
  )
  assert.equal(await reasonOf(sent), null)
})
