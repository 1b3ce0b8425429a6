// The console, the command and the API read a list by one table of titles and words (D71, D127): whoever left stays
// away, whichever way the list comes.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { audienceById } from '../../src/campaigns/audiences.ts'
import { checkFile, importFile } from '../../src/lists/contacts-import.ts'
import { openSource } from '../../src/lists/csv-source.ts'
import type { Domain } from '../../src/domains/find.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { Guest } from '../kit/guest.ts'
import { givePassword } from '../kit/person.ts'

const PASSWORD = 'a password that is long enough'
const folder = mkdtempSync(join(tmpdir(), 'postrider-lists-'))
let postrider: TestAppliance
let ann: Guest
const kit = campaignKit(() => postrider)
let domains = 0

before(async () => {
  postrider = await startTestAppliance()
  await givePassword(postrider, postrider.user.email, PASSWORD)
  ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
})
after(async () => {
  await postrider.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** Titles, what their cell says of somebody who left, and the name of the file. */
const LEFT: readonly [title: string, cell: string, file?: string][] = [
  ['status', 'unsubscribed'],
  ['Status', 'Opted out'],
  ['Subscription status', 'Unsubscribed'],
  ['Email Marketing Status', 'unsubscribed'],
  ['email_status', 'bounced'],
  ['Opted out', 'yes'],
  ['Email Opt Out', '1'],
  ['Accepts Marketing', 'no'],
  ['unsubscribed', '2024-05-06 07:08:09'],
  ['Unsubscribed at', '2024-05-06'],
  ['email_blacklist', 'TRUE'],
  ['blacklisted', 'yes'],
  ['Do not email', 'x'],
  ['Hard bounced', '1'],
  ['Marked as spam', 'true'],
  ['UNSUB_TIME', '2024-06-01 10:00:00'],
  ['CLEAN_TIME', '2024-06-01 10:00:00'],
  ['City', 'Bergen', 'unsubscribed_email_audience_export_0a1b.csv'],
  ['City', 'Bergen', 'cleaned_email_audience_export_0a1b.csv'],
  ['City', 'Bergen', 'nonsubscribed_email_audience_export_0a1b.csv'],
]

interface Shown {
  attributes: Record<'email' | 'status' | 'reason' | 'scope', string>
}

interface Outcome {
  people: string[]
  suppressed: string[]
}

/** A new audience for a domain of its own, and what it holds after `bring`. */
async function outcome(bring: (audience: string) => Promise<unknown>): Promise<Outcome> {
  const domain: Domain = await postrider.activeDomain(`d${++domains}.test`)
  const audience = await kit.audience(domain)
  await bring(audience)
  const people = (await postrider.api('GET', `/audiences/${audience}/contacts`)).body.data
  const entries = (await postrider.api('GET', `/suppressions?filter%5Bdomain%5D=${domain.id}`)).body.data
  return {
    people: people.map(({ attributes }: Shown) => `${attributes.email} ${attributes.status}`).toSorted(),
    suppressed: entries.map(({ attributes }: Shown) => `${attributes.email} ${attributes.reason} ${attributes.scope}`),
  }
}

async function upload(audience: string, csv: string, name: string) {
  const page = await ann.open(`/audiences/${audience}`)
  const body = new FormData()
  body.set('proof', /name="proof" value="([^"]+)"/.exec(page.text)![1]!)
  body.set('action', 'preview')
  body.set('file', new File([csv], name, { type: 'text/csv' }))
  return ann.open(`/audiences/${audience}`, { method: 'POST', body })
}

async function byConsole(audience: string, csv: string, name: string): Promise<string> {
  const looked = await upload(audience, csv, name)
  const held = /<textarea class="hidden" name="held"[^>]*>\n([\s\S]*?)<\/textarea>/.exec(looked.text)![1]!
  return (await ann.send(looked, 'import', { held: held.replaceAll('&quot;', '"'), held_name: name })).text
}

async function byCommand(audience: string, csv: string, name: string): Promise<void> {
  const path = join(folder, name)
  writeFileSync(path, csv)
  const { deps } = postrider.appliance
  const source = await openSource(path, folder, deps.clock.now())
  const wishes = { preset: undefined, map: new Map<string, string>() }
  const checked = await checkFile(source, wishes)
  const bar = { add: () => {}, end: () => {} }
  await importFile(deps as never, {
    audience: audienceById(deps.store, audience)!,
    source,
    checked,
    wishes,
    bar: bar as never,
    dry: false,
  })
}

for (const [title, cell, file = 'list.csv'] of LEFT)
  test(`"${title}" with "${cell}" in ${file}: console and command do the same, and subscribe nobody (D71, D127)`, async () => {
    const csv = `email,${title}\nbob@there.test,${cell}\n`
    const console_ = await outcome((audience) => byConsole(audience, csv, file))
    const command = await outcome((audience) => byCommand(audience, csv, file))
    assert.deepEqual(console_, command)
    assert.ok(!console_.people.some((person) => person.endsWith(' subscribed')), console_.people.join())
  })

test('beside somebody who left, who stayed is subscribed, and a word that nobody knows is an error of its line (D127)', async () => {
  let said = ''
  const csv =
    'email,Name,Subscription status\nann@there.test,Ann,subscribed\nbob@there.test,Bob,unsubscribed\ncy@there.test,Cy,pending\ndee@there.test,Dee,unconfirmed\n'
  const { people, suppressed } = await outcome(async (audience) => {
    assert.match((await upload(audience, csv, 'list.csv')).text, /1 unsubscribed, and will be kept as unsubscribed/)
    said = await byConsole(audience, csv, 'list.csv')
  })
  assert.deepEqual(people, ['ann@there.test subscribed', 'bob@there.test unsubscribed'])
  assert.deepEqual(suppressed, ['bob@there.test unsubscribe marketing'])
  assert.match(said, /1 added, 1 kept as unsubscribed, 2 skipped/)
  assert.match(said, /line 4: Subscription status says (?:"|&quot;)pending(?:"|&quot;), which is not understood/)
})

test('a page that cannot tell the address says what to rename, not an option of the command', async () => {
  const page = await outcome(async (audience) => {
    const { text } = await upload(audience, 'who,status\na@there.test,x\n', 'list.csv')
    assert.match(text, /begins with|has no column/)
    assert.doesNotMatch(text, /--map/)
  })
  assert.deepEqual(page.people, [])
})

test('the API takes each standing, and suppresses only for who may (D127)', async () => {
  const contacts = ['subscribed', 'unconfirmed', 'unsubscribed', 'blocked', 'bounced', 'complained'].map(
    (standing) => ({ email: `${standing}@there.test`, standing }),
  )
  const { people, suppressed } = await outcome(async (audience) => {
    const path = `/audiences/${audience}/list-imports`
    const { body, status } = await postrider.api('POST', path, document('contacts', { contacts }))
    assert.equal(status, 200)
    assert.deepEqual(body.data.attributes, {
      created: 1,
      updated: 0,
      unsubscribed: 1,
      suppressed: 3,
      skipped: 1,
      errors: [],
    })
    const wrong = document('contacts', { contacts: [{ email: 'a@there.test', standing: 'pending' }] })
    assert.equal((await postrider.api('POST', path, wrong)).status, 422)
    const narrow = await postrider.tokenFor(postrider.user, ['contacts:write'])
    const refused = await postrider.api('POST', path, document('contacts', { contacts }), {
      authorization: `Bearer ${narrow}`,
    })
    assert.deepEqual([refused.status, refused.body.errors[0].code], [403, 'insufficient_scope'])
  })
  assert.deepEqual(people, [
    'bounced@there.test bounced',
    'complained@there.test complained',
    'subscribed@there.test subscribed',
    'unsubscribed@there.test unsubscribed',
  ])
  assert.equal(suppressed.length, 4)
})
