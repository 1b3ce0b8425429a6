// The daily summary for owners, and the disk usage of the data directory.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { listNotices } from '../../src/users/notices.ts'
import { listUsers, setSummary } from '../../src/users/users.ts'
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
  listNotices(postrider.appliance.deps.store).filter(({ subject }) => subject.startsWith('Email summary of'))
/** Turns the clock past midnight UTC, as far as the hour's tidying, and waits until the day was looked at. */
const nextDay = async (): Promise<void> => {
  const { appliance, clock } = postrider
  clock.leap(DAY - (clock.now() % DAY) + HOUR)
  const midnight = Math.floor(clock.now() / DAY) * DAY
  await until(() =>
    listUsers(appliance.deps.store).every((one) => one.summary === 'none' || one.summary_at === midnight),
  )
}

test('sends a summary only to owners who enabled it, for each day with events, with the problems to solve', async () => {
  exchanger.script = { answer: (line) => (line.startsWith('RCPT TO:<gone') ? '550 5.1.1 No such user' : undefined) }
  await become(await post({ to: 'bob@there.test' }), 'delivered')
  await nextDay()
  // Uses the clock of the appliance, which a command does not have.
  await setSummary(postrider.appliance.deps, 'ann@owner.test', 'daily')
  await become(await post({ to: 'gone@there.test' }), 'bounced')
  await become(await post({ to: 'bob@there.test' }), 'delivered')
  assert.equal(summaries().length, 0)
  await nextDay()
  assert.equal(summaries().length, 1)
  const [{ email, text }] = summaries() as [ReturnType<typeof summaries>[number]]
  assert.equal(email, 'ann@owner.test')
  assert.match(text, /here\.test: 1 delivered, 1 bounced \(50\.0%\), 0 complaints/)
  assert.match(text, /gone@there\.test \(hard bounce, here\.test\)/)
  assert.match(text, /Nothing needs attention/)
  // A day without events has no summary. A day with only a problem to solve has one.
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

test('usage assigns every byte of the database to one table, and shows the cost of 1,000 emails', async () => {
  const shown = await postrider.commands.json('usage')
  const table = shown.tables.find((each: { table: string }) => each.table === 'outbound_emails')
  assert.equal(table.rows, shown.mails)
  assert.ok(table.octets > table.index_octets && table.index_octets > 0)
  const sum = shown.kinds.reduce((total: number, { octets }: { octets: number }) => total + octets, 0)
  assert.equal(sum, shown.octets)
  // With few emails, the empty tables would dominate the cost.
  assert.equal(shown.per_thousand_mails, null)
  assert.ok(shown.kinds.some(({ kind }: { kind: string }) => kind === 'webhook deliveries'))
  const text = async (...more: string[]): Promise<string> => (await postrider.commands.run(['usage', ...more])).stdout
  const few = await text()
  assert.match(few, /outbound_emails +emails/)
  assert.match(few, /^emails +[\d.,]+ \w+ +-$/m)
  assert.doesNotMatch(few, /^watches /m, 'a table without a row')
  assert.match(await text('--all'), /^watches /m)

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

test('usage reports how long older backups contain an erased address, by retention', async () => {
  const told = async (backup: string): Promise<[days: number | null, text: string]> => {
    await using commands = Commands.beside(postrider, `[backup]\n${backup}`)
    const { erased_in_backups_days } = await commands.json<{ erased_in_backups_days: number | null }>('usage')
    return [erased_in_backups_days, (await commands.run(['usage'])).stdout]
  }
  const [days, text] = await told('to = ["/to"]')
  assert.equal(days, 218)
  assert.match(
    text,
    /stays in older backups for up to 218 days \("backup\.keep"\); "postrider restore" erases it again\./,
  )
  assert.equal((await told('to = ["/to"]\nkeep = { daily = 7, weekly = 0, monthly = 0 }'))[0], 39)
  const [none, words] = await told('')
  assert.equal(none, null)
  assert.match(words, /"backup\.to" is empty.*until you delete them/)
})
