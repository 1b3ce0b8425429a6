// The campaign pages of the console: the review before a start, the start and its schedule, the list, the report, and
// the exports of recipients and statistics (D144).
import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { hidesInName } from '../../src/base/clean-text.ts'
import { bodyOf } from '../../src/campaigns/body-parts.ts'
import { FIRST_TEXT, PLAIN_LOOK } from '../../src/campaigns/designs.ts'
import { newId } from '../../src/base/ids.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { givePassword, makeMember } from '../kit/person.ts'
import { until } from '../kit/until.ts'
import { HOSTILE_NAMES } from './hostile.ts'

const HOUR = 3_600_000
const PASSWORD = 'a long enough password'
const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)
const store = () => postrider.appliance.deps.store
let ann: Guest

setUp(async () => {
  for (const { email } of [postrider.user, postrider.other]) await givePassword(postrider, email, PASSWORD)
  ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
})
beforeEach(() => {
  exchanger.script = {}
  exchanger.heard.length = 0
  ann.cookies.set('tz', 'America/New_York')
})

const words = (html: string): string =>
  html
    .replace(/^[^]*<main/, '')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
async function draft(contacts: readonly string[], attributes: Record<string, unknown> = {}) {
  const list = await kit.audience(domain, 'Readers')
  const emails = contacts.map((name) => `${name}@there.test`)
  if (emails.length > 0) await kit.fill(list, emails)
  return { list, id: await kit.draft(list, attributes) }
}
const refuse = (name: string) => (command: string) =>
  command.startsWith(`RCPT TO:<${name}@`) ? '550 5.1.1 Nobody here' : undefined

describe('review and send', () => {
  test('shows the recipients and the excluded contacts with links to their lists, then sends the campaign', async () => {
    const { id, list } = await draft(['ann', 'ben', 'gone', 'away'])
    exchanger.script.answer = refuse('gone')
    const first = await kit.draft(list)
    await kit.send(first)
    await store().write((tx) =>
      tx.run(
        raw(
          `insert into suppressions (id, user_key, domain_key, email, reason, source, scope, strikes, created_at, updated_at)
           values (?, ?, ?, 'away@there.test', 'manual', 'manual', 'all', 0, 1, 1)`,
          [newId(1), domain.user_key, domain.key],
        ),
      ),
    )
    exchanger.heard.length = 0
    const page = await ann.open(`/campaigns/${id}/send`)
    assert.match(words(page.text), /Recipients 2 .* Excluded 2 1 bounced ?, 1 suppressed/)
    assert.ok(page.text.includes(`href="/audiences/${list}?status=bounced"`))
    const bounced = await ann.open(`/audiences/${list}?status=bounced`)
    assert.match(bounced.text, /gone@there\.test/)
    assert.match((await ann.open(`/audiences/${list}/suppressed`)).text, /away@there\.test/)
    assert.match(page.text, /name="question" value="[^"]*2 recipients, 2 excluded \(1 bounced, 1 suppressed\)\./)
    assert.match((await ann.open(`/campaigns/${id}`)).text, new RegExp(`href="/campaigns/${id}/send"`))
    assert.match((await ann.open('/campaigns/new')).text, /Readers \(2 recipients\)/)
    const started = await ann.send(page, 'now')
    assert.match(started.text, /role="status">Started: 2 recipients\.</)
    await until(async () => (await kit.show(id))['status'] === 'sent', 'the end')
    assert.equal(exchanger.heard.length, 2)
    const again = await ann.open(`/campaigns/${id}/send`)
    assert.equal(again.path, `/campaigns/${id}`, 'what has begun is not started again')
  })

  test('shows the prompt on a separate page without JavaScript', async () => {
    const { id } = await draft(['ann'])
    const page = await ann.open(`/campaigns/${id}/send`)
    const asked = await ann.send(page, 'later', { at: '2040-01-15T14:00', sure: '' })
    assert.match(words(asked.text), /Are you sure\?.*1 recipient\..*Sending starts on 2040-01-15 14:00 UTC\./)
    assert.equal((await kit.show(id))['status'], 'draft')
  })

  test('reads a time in the user’s time zone, and rejects a past one', async () => {
    const { id } = await draft(['ann'])
    for (const at of ['2020-01-01T10:00', '', 'soon']) {
      const answered = await ann.send(await ann.open(`/campaigns/${id}/send`), 'later', { at })
      assert.match(answered.text, /That time has passed, so the campaign was not scheduled/)
      assert.equal((await kit.show(id))['status'], 'draft')
    }
    const said = await ann.send(await ann.open(`/campaigns/${id}/send`), 'later', { at: '2040-01-15T14:00' })
    assert.match(said.text, /role="status">Scheduled for 15 Jan 2040 09:00\.</)
    assert.equal((await kit.show(id))['scheduled_at'], '2040-01-15T14:00:00.000Z')
    assert.match(words(said.text), /If sent now: 1 recipient\./)

    const review = await ann.open(`/campaigns/${id}/send`)
    assert.match(review.text, /value="2040-01-15T14:00"/)
    const moved = await ann.send(review, 'reschedule', { at: '2041-01-15T14:00' })
    assert.match(moved.text, /role="status">Scheduled for 15 Jan 2041 09:00\.</)
    assert.equal((await kit.show(id))['scheduled_at'], '2041-01-15T14:00:00.000Z')
    const back = await ann.send(moved, 'unschedule')
    assert.match(back.text, /role="status">“Spring” is a draft again and will not start\.</)
    assert.equal((await kit.show(id))['status'], 'draft')
    // An outdated page shows the present state.
    assert.match((await ann.send(moved, 'unschedule')).text, /The campaign is draft and has no start time to change/)
    // "Send now" overrides an earlier schedule.
    await ann.send(await ann.open(`/campaigns/${id}/send`), 'now')
    await until(async () => (await kit.show(id))['status'] === 'sent', 'the end')
  })

  test('requires the typed number above 1,000 recipients, checked by the server', async () => {
    const { id, list } = await draft([])
    const key = store().first<{ key: number }>(raw('select key from audiences where id = ?', [list]))!.key
    const many = (from: number, to: number) =>
      store().write((tx) =>
        tx.run(
          raw(
            `with recursive n(i) as (select ? union all select i + 1 from n where i < ?)
             insert into contacts (id, user_key, audience_key, email, status, status_at, created_at, updated_at)
             select ? || i, ?, ?, 'reader' || i || '@there.test', 'subscribed', 1, 1, 1 from n`,
            [from, to, list, domain.user_key, key],
          ),
        ),
      )
    await many(1, 1000)
    assert.doesNotMatch((await ann.open(`/campaigns/${id}/send`)).text, /name="typed"/)
    await many(1001, 1234)
    const page = await ann.open(`/campaigns/${id}/send`)
    assert.match(page.text, /You are sending to more than 1,000 people\. Type 1,234 to confirm\./)
    for (const action of ['now', 'later'])
      for (const typed of ['', 'yes', '1000', '12340']) {
        const refused = await ann.send(page, action, { typed, at: '2040-01-15T14:00' })
        assert.match(refused.text, /Type 1,234, the number of recipients, to confirm\./, `${action} ${typed}`)
      }
    assert.equal((await kit.show(id))['status'], 'draft')
    // No duration is shown, because the receiving server of these tests is not public and has no warm-up.
    const scheduled = await ann.send(page, 'later', { typed: '1,234', at: '2040-01-15T14:00' })
    assert.match(scheduled.text, /Scheduled for/)
  })

  test('shows how long sending takes, and requires a second confirmation above three days', async () => {
    const { id, list } = await draft([])
    // No email was sent to this domain yet, so its provider is unknown.
    postrider.route('fresh.test')
    await kit.fill(
      list,
      Array.from({ length: 300 }, (_, n) => `slow${n}@fresh.test`),
    )
    const forecast = async () => (await postrider.api('GET', `/campaigns/${id}/forecast`)).body.data.attributes
    const { days, receivers, recipients } = await forecast()
    assert.deepEqual([days, recipients], [5, 300])
    assert.deepEqual(receivers, [{ receiver: 'fresh.test', recipients: 300, today: 16, days: 5 }])
    const page = await ann.open(`/campaigns/${id}/send`)
    assert.match(words(page.text), /Sending time Sending takes 5 days: 16 of 300 today\. It finishes /)
    const asked = await ann.send(page, 'now')
    assert.match(words(asked.text), /Sending takes 5 days: 16 of 300 today\. It finishes .* Start anyway\?/)
    assert.equal((await kit.show(id))['status'], 'draft')
    // The confirmation only covers this duration. A longer one must be confirmed again.
    await kit.fill(
      list,
      Array.from({ length: 600 }, (_, n) => `slower${n}@fresh.test`),
    )
    const longer = await ann.send(asked, 'now')
    assert.match(words(longer.text), /Sending takes 6 days: 16 of 900 today/)
    assert.equal((await kit.show(id))['status'], 'draft')
    assert.match((await ann.send(longer, 'now')).text, /Started: 900 recipients\./)
    // Without a delay, no duration is shown and no confirmation is required.
    postrider.config.warmup.enabled = false
    const second = await kit.draft(list)
    const open = await ann.open(`/campaigns/${second}/send`)
    assert.doesNotMatch(open.text, /Sending time/)
    assert.match((await ann.send(open, 'now')).text, /Started: 900 recipients\./)
    postrider.config.warmup.enabled = true
    assert.equal((await postrider.api('DELETE', `/campaigns/${second}`)).status, 204)
  })

  test('reports an empty subject or text, and does not start', async () => {
    const { id } = await draft(['ann'])
    const whole = await ann.open(`/campaigns/${id}/send`)
    assert.match(words(whole.text), /The subject is set\..*The email has content\..*The placeholder text is replaced/)
    const full = { subject: 'Hello', body_html: '<p>Hello</p>' }
    const framed = bodyOf({ design: 'newsletter', look: PLAIN_LOOK, preview: 'Inboxes', text: '<p> </p><p></p>' })
    for (const [attributes, why] of [
      [{ subject: '' }, 'The subject is empty.'],
      [{ subject: '  ' }, 'The subject is empty.'],
      [{ body_html: '<p>&nbsp;</p><p><br></p>' }, 'The content is empty.'],
      [{ body_html: framed }, 'The content is empty.'],
      [{ subject: '', body_html: framed }, 'The subject is empty. The content is empty.'],
    ] as const) {
      await kit.patch(id, { ...full, ...attributes })
      const page = await ann.open(`/campaigns/${id}/send`)
      assert.ok(words(page.text).includes(`${why} Fix this before you send the campaign.`), why)
      assert.doesNotMatch(page.text, /Send now|Schedule…/)
      // An outdated page does not start the campaign either.
      for (const action of ['now', 'later']) {
        const refused = await ann.send(whole, action, { at: '2040-01-15T14:00' })
        assert.ok(words(refused.text).includes(why), why)
      }
      assert.equal((await kit.show(id))['status'], 'draft')
    }
    // An email that is a single image, and one that is plain text, are complete.
    for (const attributes of [
      { body_html: '<img src="https://here.test/a.png" alt="">' },
      { body_html: '', body_text: 'Hi' },
    ]) {
      assert.equal((await kit.patch(id, { ...full, ...attributes })).status, 200)
      assert.match((await ann.open(`/campaigns/${id}/send`)).text, /Send now/)
    }
  })

  test('warns about placeholder text and links of the design', async () => {
    const { id } = await draft(['ann'])
    const asked = async (body_html: string): Promise<string> => {
      await kit.patch(id, { body_html })
      const { text } = await ann.open(`/campaigns/${id}/send`)
      assert.match(text, /Send now/)
      return /name="question" value="([^"]*)"/.exec(text)?.[1] ?? ''
    }
    const first = (design: keyof typeof FIRST_TEXT): string => {
      const given = { colour: PLAIN_LOOK.colour, link: 'https://here.test/' }
      return bodyOf({ design, look: PLAIN_LOOK, preview: '', text: FIRST_TEXT[design](given) })
    }
    const newsletter = await asked(first('newsletter'))
    assert.match(
      newsletter,
      /“The headline of this issue”, “here is our news, in two or three sentences\.”, “A shorter story/,
    )
    assert.match(newsletter, /The button “Read more” still links to the placeholder https:\/\/here\.test\//)
    const notice = await asked(first('notice'))
    assert.match(notice, /“Your announcement in one line”.*The button “View details” still links to/s)
    assert.match(await asked(first('letter')), /The content is only the placeholder greeting of the design\./)
    assert.doesNotMatch(
      await asked('<p>Mine</p><p data-button=""><a href="https://here.test/a">Read more</a></p>'),
      /design/,
    )
  })

  test('counts missing values of a small audience, and estimates them from a sample of a larger one', async () => {
    const { id, list } = await draft(
      Array.from({ length: 60 }, (_, n) => `p${n}`),
      { body_html: '<p>{{city}}</p>' },
    )
    await store().write((tx) => tx.run(raw(`update contacts set custom_fields = '{"city":"Rome"}' where key % 5 <> 0`)))
    assert.match(words((await ann.open(`/campaigns/${id}/send`)).text), /12 of 60 contacts have no value for {{city}}/)
    await kit.fill(
      list,
      Array.from({ length: 235 }, (_, n) => `q${n}@there.test`),
    )
    await store().write((tx) =>
      tx.run(raw(`update contacts set custom_fields = iif(key % 5 = 0, null, '{"city":"Rome"}')`)),
    )
    const said = words((await ann.open(`/campaigns/${id}/send`)).text)
    assert.match(said, /About 20% of the contacts have no value for {{city}} and will see a blank/)
    assert.doesNotMatch(said, /of 100/)
  })

  test('shows that a campaign has no recipients, without a start button', async () => {
    const { id } = await draft([])
    const page = await ann.open(`/campaigns/${id}/send`)
    assert.match(page.text, /This campaign has no recipients, so it cannot be sent\./)
    assert.doesNotMatch(page.text, /Send now/)
  })

  test('a read-only user cannot start it, and another account cannot see it', async () => {
    const { id } = await draft(['ann'])
    const bob = new Guest(postrider)
    await bob.signIn(postrider.other.email, PASSWORD)
    for (const part of ['', '/send', '/recipients', '/content', '/settings', '/figures.csv', '/recipients.csv'])
      assert.equal((await bob.open(`/campaigns/${id}${part}`)).status, 404, part)
    await makeMember(postrider, { user: postrider.other, account: postrider.user, role: 'reader' })
    assert.equal((await bob.open(`/campaigns/${id}`)).status, 200)
    assert.equal((await bob.open(`/campaigns/${id}/send`)).status, 403)
    assert.doesNotMatch((await bob.open(`/campaigns/${id}`)).text, /Review and send/)
    await makeMember(postrider, { user: postrider.other, account: postrider.other, role: 'owner' })
  })
})

describe('confirmations', () => {
  test('confirms pause, resume, cancel, copy and delete with name and numbers', async () => {
    const { id } = await draft(
      Array.from({ length: 40 }, (_, n) => `p${n}`),
      { name: 'November & friends' },
    )
    exchanger.script.answer = (command) => (command.startsWith('RCPT') ? '451 4.2.1 Later' : undefined)
    await kit.patch(id, { status: 'scheduled' })
    await until(async () => (await kit.show(id))['recipients'] === 40, 'the count')
    const finishing = await until(async () => {
      const { text } = await ann.open(`/campaigns/${id}`)
      return text.includes('finishing (40 queued)') ? text : undefined
    }, 'finishing')
    assert.match(words(finishing), /0 of 40 completed\. The remaining emails were deferred/)
    assert.match((await ann.open('/campaigns')).text, /finishing \(40 queued\)/)
    const paused = await ann.send(await ann.open(`/campaigns/${id}`), 'pause')
    assert.match(paused.text, /role="status">Paused\. 40 of 40 still to send\.</)
    const resumed = await ann.send(paused, 'resume')
    assert.match(resumed.text, /role="status">Resumed\. 40 of 40 still to send\.</)
    const once = await ann.open(resumed.path)
    assert.doesNotMatch(once.text, /Resumed/, 'a reload says nothing')
    await ann.send(await ann.open(`/campaigns/${id}`), 'pause')
    const settings = await ann.open(`/campaigns/${id}/settings`)
    const cancelled = await ann.send(settings, 'cancel')
    assert.match(cancelled.text, /role="status">Cancelled\. \d+ of 40 were sent\.</)
    const copied = await ann.send(await ann.open(`/campaigns/${id}`), 'copy')
    assert.match(copied.text, /role="status">Copied “November &amp; friends” as a new draft\.</)
    const removed = await ann.send(await ann.open(`${copied.path.split('?')[0]}/settings`), 'remove')
    assert.match(removed.text, /role="status">Deleted “Copy of November &amp; friends”\.</)
    assert.match(removed.path, /^\/campaigns\?said=/)
  })
})

describe('after the start', () => {
  const track = (on: boolean) =>
    postrider.api('PATCH', `/domains/${domain.id}`, {
      data: { type: 'domains', id: domain.id, attributes: { open_tracking_enabled: on, click_tracking_enabled: on } },
    })

  test('a report omits links without click tracking', async () => {
    await track(false)
    const { id } = await draft(['untracked'], { name: 'Without tracking' })
    await kit.send(id)
    const said = words((await ann.open(`/campaigns/${id}`)).text)
    assert.match(said, /Clicked ?– ?not tracked/)
    assert.doesNotMatch(said, /Links|No clicks/)
  })

  test('shows a report next to that of the previous campaign, and exports all numbers', async () => {
    await track(true)
    const { id: former, list } = await draft(['r1', 'r2', 'r3', 'r4'], { name: 'October' })
    exchanger.script.answer = refuse('r4')
    await kit.send(former)
    postrider.clock.leap(HOUR)
    await kit.fill(list, ['r5@there.test'])
    const id = await kit.draft(list, { name: '=November “Newsletter” / Ünï' })
    await kit.send(id)
    const [mail] = (await postrider.api('GET', `/outbound-emails?filter[campaign]=${id}`)).body.data
    const tell = (type: string, data: object) =>
      store().write((tx) =>
        tx.run(
          raw(
            `insert into events (id, type, user_key, domain_key, email_key, campaign_key, data, created_at)
             select ?, ?, user_key, domain_key, key, campaign_key, ?, ? from outbound_emails where id = ?`,
            [
              newId(postrider.clock.now()),
              type,
              JSON.stringify({ delivery: 1, machine: false, ...data }),
              postrider.clock.now(),
              mail.id,
            ],
          ),
        ),
      )
    await tell('email.opened', {})
    await tell('email.clicked', { url: 'https://shop.test/a' })
    const { text } = await ann.open(`/campaigns/${id}`)
    const said = words(text)
    assert.match(said, /Delivered ?4 ?100\.0% · previous 75\.0%/)
    assert.match(said, /Opened ?1 ?25\.0% · previous 0\.0%/)
    assert.match(said, /Bounced ?0 ?0\.0% · previous 25\.0%/)
    assert.match(said, /Opens and clicks per hour, first 12 hours/)
    assert.match(said, /https:\/\/shop\.test\/a ?1 ?100\.0%/)
    assert.ok(text.includes(`href="/campaigns/${id}/recipients?status=bounced"`))
    const file = await ann.open(`/campaigns/${id}/figures.csv`)
    assert.match(file.headers.get('content-disposition')!, /filename="november-newsletter-uni-report\.csv"/)
    const lines = file.text.trim().split('\r\n')
    for (const line of [
      'total,recipients,4,',
      'total,deliveries,4,100.0%',
      'clicks by link,https://shop.test/a,1,100.0%',
    ])
      assert.ok(lines.includes(line), `${line} in ${file.text}`)
    assert.ok(lines.some((line) => /^opens by hour,[\dT:.-]+Z,1,$/.test(line)))
    // The list shows the same as shares, and the right word for the time.
    const row = words((await ann.open('/campaigns?status=sent')).text)
    assert.match(row, /=November “Newsletter” \/ Ünï ?sent ?4 · Readers ?25\.0% ?25\.0% ?0\.0% ?Sent \d/)
  })

  test('exports bounced recipients in a file named after the campaign, with separate code and reply', async () => {
    const { id } = await draft(['fine', 'nobody', 'full'], { name: 'November newsletter' })
    exchanger.script.answer = (command) =>
      refuse('nobody')(command) ?? (command.startsWith('RCPT TO:<full@') ? '554 Too much, really' : undefined)
    await kit.send(id)
    // A report that came later begins with its codes.
    await store().write((tx) =>
      tx.run(
        raw(
          `update deliveries set smtp_code = null, enhanced_code = null, response = '550 5.1.1 Nobody, as said'
           where address = 'nobody@there.test' and response like '%Nobody here%'`,
        ),
      ),
    )
    const { headers, text } = await ann.open(`/campaigns/${id}/recipients.csv?status=bounced`)
    assert.match(headers.get('content-disposition')!, /filename="november-newsletter-bounced\.csv"/)
    const ends = text
      .trim()
      .split('\r\n')
      .map((line) => line.split(',').slice(9).join(','))
    assert.equal(ends[0], 'smtp_code,enhanced_code,response')
    assert.ok(ends.includes('550,5.1.1,"Nobody, as said"'), text)
    assert.ok(
      ends.some((end) => /^554,[\d.]*,"Too much, really"$/.test(end)),
      text,
    )
    const page = words((await ann.open(`/campaigns/${id}/recipients?status=bounced`)).text)
    assert.match(page, /All ?Queued ?Delivered ?Bounced/)
    assert.match(page, /Export bounced/)
    assert.doesNotMatch(page, /fine@there\.test/)
  })

  test('filters the list by status with counts, and keeps the filter during a search', async () => {
    const { id, list } = await draft(['ann'], { name: 'Needle' })
    await kit.draft(list, { name: 'Hay' })
    await kit.patch(id, { status: 'scheduled', scheduled_at: new Date(postrider.clock.now() + HOUR).toISOString() })
    const { text } = await ann.open('/campaigns?status=scheduled&q=needle')
    assert.match(words(text), /Scheduled \d \D*\d*.*Needle ?scheduled ?Readers ?– ?– ?– ?Starts \d/)
    assert.match(text, /name="status" value="scheduled"/)
    assert.match(text, /href="\/campaigns\?status=draft&amp;q=needle"/)
    assert.doesNotMatch(words((await ann.open('/campaigns?status=sent')).text), /Needle/)
    assert.match(words((await ann.open('/campaigns?status=nonsense')).text), /Needle/)
  })

  test('escapes hostile names on every page and in file names', async () => {
    for (const name of HOSTILE_NAMES.filter((each) => each.trim() !== '' && !hidesInName(each))) {
      const list = await kit.audience(domain, name)
      await kit.fill(list, ['ann@there.test'])
      const id = await kit.draft(list, { name, subject: name })
      for (const path of ['/campaigns', ...['', '/send', '/settings'].map((part) => `/campaigns/${id}${part}`)]) {
        const { status, text } = await ann.open(path)
        assert.equal(status, 200, path)
        assert.doesNotMatch(text, /<script>|<img src=x|onerror=[^&]*alert/i, path)
      }
      const disposition = (await ann.open(`/campaigns/${id}/figures.csv`)).headers.get('content-disposition')!
      assert.match(disposition, /^attachment; filename="[a-z0-9-]+\.csv"$/)
    }
  })
})
