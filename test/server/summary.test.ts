// What an owner is told each day who asked for it, and where the octets of the data directory are.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { listNotices } from '../../src/accounts/notices.ts'
import { listUsers, setSummary } from '../../src/identity/users.ts'
import { Commands } from '../commands/command.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mailsOf } from '../mail/mails.ts'

const { become, post } = mailsOf(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test'] }))

const summaries = () =>
  listNotices(postrider.appliance.deps.store).filter(({ subject }) => subject.startsWith('Your mail on'))
/** Turns the clock past midnight UTC, as far as the hour's tidying, and waits until the day was looked at. */
const nextDay = async (): Promise<void> => {
  const { appliance, clock } = postrider
  clock.leap(DAY - (clock.now() % DAY) + HOUR)
  const midnight = Math.floor(clock.now() / DAY) * DAY
  await until(() =>
    listUsers(appliance.deps.store).every((one) => one.summary === 'none' || one.summary_at === midnight),
  )
}

test('nobody gets a summary who did not ask; then one each day on which something happened, with what needs attention', async () => {
  exchanger.script = { answer: (line) => (line.startsWith('RCPT TO:<gone') ? '550 5.1.1 No such user' : undefined) }
  await become(await post({ to: 'bob@there.test' }), 'delivered')
  await nextDay()
  // By the clock of the appliance, which a command does not share.
  await setSummary(postrider.appliance.deps, 'ann@owner.test', 'daily')
  await become(await post({ to: 'gone@there.test' }), 'bounced')
  await become(await post({ to: 'bob@there.test' }), 'delivered')
  assert.equal(summaries().length, 0)
  await nextDay()
  assert.equal(summaries().length, 1)
  const [{ email, text }] = summaries() as [ReturnType<typeof summaries>[number]]
  assert.equal(email, 'ann@owner.test')
  assert.match(text, /here\.test: 1 delivered, 1 bounced \(50\.0 %\), 0 complaints/)
  assert.match(text, /gone@there\.test \(hard bounce, here\.test\)/)
  assert.match(text, /Nothing needs attention/)
  // A quiet day has none; a day with nothing but work for a hand has one.
  await nextDay()
  const added = await postrider.api('POST', '/domains', document('domains', { name: 'waiting.test', purpose: 'both' }))
  assert.equal(added.status, 201)
  await nextDay()
  assert.equal(summaries().length, 2)
  assert.match(summaries()[0]!.text, /The domain waiting\.test is pending/)
  assert.equal((await postrider.commands.json('user', 'set', 'ann@owner.test', '--summary', 'none')).summary, 'none')
  await nextDay()
  await become(await post({ to: 'bob@there.test' }), 'delivered')
  assert.equal(summaries().length, 2)
})

test('usage: every octet of the database stands with one table; mails cost what they take', async () => {
  const shown = await postrider.commands.json('usage')
  const table = shown.tables.find((each: { table: string }) => each.table === 'outbound_emails')
  assert.equal(table.rows, shown.mails)
  assert.ok(table.octets > table.index_octets && table.index_octets > 0)
  const sum = shown.kinds.reduce((total: number, { octets }: { octets: number }) => total + octets, 0)
  assert.equal(sum, shown.octets)
  // Of few mails the empty tables would count for most.
  assert.equal(shown.per_thousand_mails, null)
  assert.ok(shown.kinds.some(({ kind }: { kind: string }) => kind === 'webhook deliveries'))
  const text = async (...more: string[]): Promise<string> => (await postrider.commands.run(['usage', ...more])).stdout
  const few = await text()
  assert.match(few, /outbound_emails +mails/)
  assert.match(few, /^mails +[\d.,]+ \w+ +-$/m)
  assert.doesNotMatch(few, /^snds_rows /m, 'a table without a row')
  assert.match(await text('--all'), /^snds_rows /m)

  await postrider.appliance.deps.store.write((tx) =>
    tx.run(
      raw(`with recursive n (at) as (select 1 union all select at + 1 from n where at < 1000)
           insert into inbound_messages (id, mail_from, recipients, client, helo, received, size, cut, received_at, attempts)
           select 'usage-' || at, '', '[]', '127.0.0.1', 'x', '', 1, 0, 1, 0 from n`),
    ),
  )
  const many = await postrider.commands.json('usage')
  assert.equal(many.per_thousand_mails, Math.round((many.octets * 1000) / (many.mails + many.received)))
})

test('usage says how long an address that is erased stays in older backups, by what is kept (B12)', async () => {
  const told = async (backup: string): Promise<[days: number | null, text: string]> => {
    await using commands = Commands.beside(postrider, `[backup]\n${backup}`)
    const { erased_in_backups_days } = await commands.json<{ erased_in_backups_days: number | null }>('usage')
    return [erased_in_backups_days, (await commands.run(['usage'])).stdout]
  }
  const [days, text] = await told('to = ["/to"]')
  assert.equal(days, 186)
  assert.match(text, /stays in older backups for up to 186 days \("backup\.keep"\), and is erased again by "restore"\./)
  assert.equal((await told('to = ["/to"]\nkeep = { daily = 7, weekly = 0, monthly = 0 }'))[0], 7)
  const [none, words] = await told('')
  assert.equal(none, null)
  assert.match(words, /"backup\.to" is empty.*until you remove them/)
})
