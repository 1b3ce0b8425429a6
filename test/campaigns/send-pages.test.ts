// The pages of campaigns in the console: what is reviewed before a start, the start and its schedule, the list, the
// report, and the files of recipients and figures (D144).
import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { bodyOf } from '../../src/campaigns/body-parts.ts'
import { FIRST_TEXT, PLAIN_LOOK } from '../../src/campaigns/designs.ts'
import { newId } from '../../src/base/ids.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { givePassword } from '../kit/person.ts'
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
  test('who gets it and who does not, each number with its list; then it is sent', async () => {
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
    assert.match(words(page.text), /Get it 2 .* Left out 2 1 bounced ?, 1 suppressed/)
    assert.ok(page.text.includes(`href="/audiences/${list}?status=bounced"`))
    const bounced = await ann.open(`/audiences/${list}?status=bounced`)
    assert.match(bounced.text, /gone@there\.test/)
    assert.match((await ann.open(`/audiences/${list}/suppressed`)).text, /away@there\.test/)
    assert.match(page.text, /name="question" value="[^"]*2 get it; 2 left out: 1 bounced, 1 suppressed\./)
    assert.match((await ann.open(`/campaigns/${id}`)).text, new RegExp(`href="/campaigns/${id}/send"`))
    assert.match((await ann.open('/campaigns/new')).text, /Readers \(2 get it\)/)
    const started = await ann.send(page, 'now')
    assert.match(started.text, /role="status">Started: 2 get it\.</)
    await until(async () => (await kit.show(id))['status'] === 'sent', 'the end')
    assert.equal(exchanger.heard.length, 2)
    const again = await ann.open(`/campaigns/${id}/send`)
    assert.equal(again.path, `/campaigns/${id}`, 'what has begun is not started again')
  })

  test('without a script the question stands on a page of its own', async () => {
    const { id } = await draft(['ann'])
    const page = await ann.open(`/campaigns/${id}/send`)
    const asked = await ann.send(page, 'later', { at: '2040-01-15T14:00', sure: '' })
    assert.match(words(asked.text), /Are you sure\?.*1 gets it.*It starts on 2040-01-15 14:00 UTC\./)
    assert.equal((await kit.show(id))['status'], 'draft')
  })

  test('a time is said in the zone of the person; a past one starts nothing', async () => {
    const { id } = await draft(['ann'])
    for (const at of ['2020-01-01T10:00', '', 'soon']) {
      const answered = await ann.send(await ann.open(`/campaigns/${id}/send`), 'later', { at })
      assert.match(answered.text, /That time is past, so that nothing was started/)
      assert.equal((await kit.show(id))['status'], 'draft')
    }
    const said = await ann.send(await ann.open(`/campaigns/${id}/send`), 'later', { at: '2040-01-15T14:00' })
    assert.match(said.text, /role="status">Scheduled for 15 Jan 2040 09:00\.</)
    assert.equal((await kit.show(id))['scheduled_at'], '2040-01-15T14:00:00.000Z')
    assert.match(words(said.text), /If it started now: 1 gets it\./)

    const review = await ann.open(`/campaigns/${id}/send`)
    assert.match(review.text, /value="2040-01-15T14:00"/)
    const moved = await ann.send(review, 'reschedule', { at: '2041-01-15T14:00' })
    assert.match(moved.text, /role="status">Scheduled for 15 Jan 2041 09:00\.</)
    assert.equal((await kit.show(id))['scheduled_at'], '2041-01-15T14:00:00.000Z')
    const back = await ann.send(moved, 'unschedule')
    assert.match(back.text, /role="status">“Spring” is a draft again, and does not start\.</)
    assert.equal((await kit.show(id))['status'], 'draft')
    // A page that was left open says what is the case.
    assert.match((await ann.send(moved, 'unschedule')).text, /The campaign is draft: only one that is scheduled/)
    // "Send now" means now, whatever was scheduled before.
    await ann.send(await ann.open(`/campaigns/${id}/send`), 'now')
    await until(async () => (await kit.show(id))['status'] === 'sent', 'the end')
  })

  test('above 1,000 the number is typed, and the server looks', async () => {
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
    assert.match(page.text, /Type 1,234: a start to more than 1,000/)
    for (const action of ['now', 'later'])
      for (const typed of ['', 'yes', '1000', '12340']) {
        const refused = await ann.send(page, action, { typed, at: '2040-01-15T14:00' })
        assert.match(refused.text, /1,234 get it: type this number\./, `${action} ${typed}`)
      }
    assert.equal((await kit.show(id))['status'], 'draft')
    // Nobody is asked about days: the exchanger of these tests is not public, and has no warm-up.
    const scheduled = await ann.send(page, 'later', { typed: '1,234', at: '2040-01-15T14:00' })
    assert.match(scheduled.text, /Scheduled for/)
  })

  test('how long it takes stands on the page, and more than three days are asked for once more (DV12)', async () => {
    const { id, list } = await draft([])
    // Nothing was sent to this domain yet, so that its receiver is not known.
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
    assert.match(words(page.text), /How long it takes It takes 5 days: 16 of 300 today\. It ends /)
    const asked = await ann.send(page, 'now')
    assert.match(words(asked.text), /It takes 5 days: 16 of 300 today\. It ends .* Start it all the same\?/)
    assert.equal((await kit.show(id))['status'], 'draft')
    // What was agreed to holds for just that: a longer one is asked for again.
    await kit.fill(
      list,
      Array.from({ length: 600 }, (_, n) => `slower${n}@fresh.test`),
    )
    const longer = await ann.send(asked, 'now')
    assert.match(words(longer.text), /It takes 6 days: 16 of 900 today/)
    assert.equal((await kit.show(id))['status'], 'draft')
    assert.match((await ann.send(longer, 'now')).text, /Started: 900 get it\./)
    // Where nothing is held back, nothing is said and nobody is asked.
    postrider.config.warmup.enabled = false
    const second = await kit.draft(list)
    const open = await ann.open(`/campaigns/${second}/send`)
    assert.doesNotMatch(open.text, /How long it takes/)
    assert.match((await ann.send(open, 'now')).text, /Started: 900 get it\./)
    postrider.config.warmup.enabled = true
    await until(async () => (await kit.show(second))['status'] === 'sent', 'the end')
  })

  test('an empty subject or text is said, and nothing starts it', async () => {
    const { id } = await draft(['ann'])
    const whole = await ann.open(`/campaigns/${id}/send`)
    assert.match(words(whole.text), /It has a subject\..*It has a text\..*The words of the design are replaced/)
    const full = { subject: 'Hello', body_html: '<p>Hello</p>' }
    const framed = bodyOf({ design: 'newsletter', look: PLAIN_LOOK, preview: 'Inboxes', text: '<p> </p><p></p>' })
    for (const [attributes, why] of [
      [{ subject: '' }, 'The subject is empty.'],
      [{ subject: '  ' }, 'The subject is empty.'],
      [{ body_html: '<p>&nbsp;</p><p><br></p>' }, 'The text is empty.'],
      [{ body_html: framed }, 'The text is empty.'],
      [{ subject: '', body_html: framed }, 'The subject is empty. The text is empty.'],
    ] as const) {
      await kit.patch(id, { ...full, ...attributes })
      const page = await ann.open(`/campaigns/${id}/send`)
      assert.ok(words(page.text).includes(`${why} The campaign cannot be sent like this.`), why)
      assert.doesNotMatch(page.text, /Send now|Schedule…/)
      // A page that was left open starts nothing either.
      for (const action of ['now', 'later']) {
        const refused = await ann.send(whole, action, { at: '2040-01-15T14:00' })
        assert.ok(words(refused.text).includes(why), why)
      }
      assert.equal((await kit.show(id))['status'], 'draft')
    }
    // A mail that is one picture, and one that is plain text, are whole.
    for (const attributes of [
      { body_html: '<img src="https://here.test/a.png" alt="">' },
      { body_html: '', body_text: 'Hi' },
    ]) {
      assert.equal((await kit.patch(id, { ...full, ...attributes })).status, 200)
      assert.match((await ann.open(`/campaigns/${id}/send`)).text, /Send now/)
    }
  })

  test('words and the link of a design that are still in the text are asked about', async () => {
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
      /“The headline of this issue”, “what is new, in two or three sentences\.”, “A shorter piece/,
    )
    assert.match(newsletter, /The button “Read more” leads to https:\/\/here\.test\/, as the design began\./)
    const notice = await asked(first('notice'))
    assert.match(notice, /“What has happened, in one line”.*The button “See the details” leads to/s)
    assert.match(await asked(first('letter')), /The text is only the greeting that the design begins with\./)
    assert.doesNotMatch(
      await asked('<p>Mine</p><p data-button=""><a href="https://here.test/a">Read more</a></p>'),
      /design/,
    )
  })

  test('nobody to send to: it is said, and no button starts it', async () => {
    const { id } = await draft([])
    const page = await ann.open(`/campaigns/${id}/send`)
    assert.match(page.text, /Nobody gets it, so it is not sent\./)
    assert.doesNotMatch(page.text, /Send now/)
  })

  test('who may only read has no way to start, and another account sees nothing', async () => {
    const { id } = await draft(['ann'])
    const bob = new Guest(postrider)
    await bob.signIn(postrider.other.email, PASSWORD)
    for (const part of ['', '/send', '/recipients', '/content', '/settings', '/figures.csv', '/recipients.csv'])
      assert.equal((await bob.open(`/campaigns/${id}${part}`)).status, 404, part)
    await store().write((tx) =>
      tx.run(raw('update users set reads_for = ? where key = ?', [postrider.user.key, postrider.other.key])),
    )
    assert.equal((await bob.open(`/campaigns/${id}`)).status, 200)
    assert.equal((await bob.open(`/campaigns/${id}/send`)).status, 403)
    assert.doesNotMatch((await bob.open(`/campaigns/${id}`)).text, /Review and send/)
    await store().write((tx) => tx.run(raw('update users set reads_for = null where key = ?', [postrider.other.key])))
  })
})

describe('what was done is said', () => {
  test('paused, resumed, cancelled, copied, removed: each by its name and figures', async () => {
    const { id } = await draft(
      Array.from({ length: 40 }, (_, n) => `p${n}`),
      { name: 'November & friends' },
    )
    exchanger.script.answer = (command) => (command.startsWith('RCPT') ? '451 4.2.1 Later' : undefined)
    await kit.patch(id, { status: 'scheduled' })
    await until(async () => (await kit.show(id))['recipients'] === 40, 'the count')
    const finishing = await until(async () => {
      const { text } = await ann.open(`/campaigns/${id}`)
      return text.includes('finishing (40 waiting)') ? text : undefined
    }, 'finishing')
    assert.match(words(finishing), /0 of 40 finished\. Their receivers put the last ones off/)
    assert.match((await ann.open('/campaigns')).text, /finishing \(40 waiting\)/)
    const paused = await ann.send(await ann.open(`/campaigns/${id}`), 'pause')
    assert.match(paused.text, /role="status">Paused\. 40 of 40 not sent yet\.</)
    const resumed = await ann.send(paused, 'resume')
    assert.match(resumed.text, /role="status">Resumed\. 40 of 40 not sent yet\.</)
    const once = await ann.open(resumed.path)
    assert.doesNotMatch(once.text, /Resumed/, 'a reload says nothing')
    await ann.send(await ann.open(`/campaigns/${id}`), 'pause')
    const settings = await ann.open(`/campaigns/${id}/settings`)
    const cancelled = await ann.send(settings, 'cancel')
    assert.match(cancelled.text, /role="status">Cancelled\. \d+ of 40 were sent\.</)
    const copied = await ann.send(await ann.open(`/campaigns/${id}`), 'copy')
    assert.match(copied.text, /role="status">This is a copy of “November &amp; friends”, a draft\.</)
    const removed = await ann.send(await ann.open(`${copied.path.split('?')[0]}/settings`), 'remove')
    assert.match(removed.text, /role="status">“Copy of November &amp; friends” is removed\.</)
    assert.match(removed.path, /^\/campaigns\?said=/)
  })
})

describe('after the start', () => {
  const track = (on: boolean) =>
    postrider.api('PATCH', `/domains/${domain.id}`, {
      data: { type: 'domains', id: domain.id, attributes: { open_tracking_enabled: on, click_tracking_enabled: on } },
    })

  test('a report says nothing of links where clicks are not tracked', async () => {
    await track(false)
    const { id } = await draft(['untracked'], { name: 'Without tracking' })
    await kit.send(id)
    const said = words((await ann.open(`/campaigns/${id}`)).text)
    assert.match(said, /Clicked ?– ?not tracked/)
    assert.doesNotMatch(said, /Links|No link was followed/)
  })

  test('a report beside that of the campaign before, and every figure in a file', async () => {
    await track(true)
    const { id: former, list } = await draft(['r1', 'r2', 'r3', 'r4'], { name: 'October' })
    exchanger.script.answer = refuse('r4')
    await kit.send(former)
    postrider.clock.advance(HOUR)
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
    assert.match(said, /Delivered ?4 ?100\.0% · before 75\.0%/)
    assert.match(said, /Opened ?1 ?25\.0% · before 0\.0%/)
    assert.match(said, /Bounced ?0 ?0\.0% · before 25\.0%/)
    assert.match(said, /Opens and clicks in the first 48 hours/)
    assert.match(said, /https:\/\/shop\.test\/a ?1 ?100\.0%/)
    assert.ok(text.includes(`href="/campaigns/${id}/recipients?status=bounced"`))
    const file = await ann.open(`/campaigns/${id}/figures.csv`)
    assert.match(file.headers.get('content-disposition')!, /filename="november-newsletter-uni-figures\.csv"/)
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

  test('the bounced ones in a file named after the campaign, with code and words apart', async () => {
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
    assert.match(page, /All ?Waiting ?Delivered ?Bounced/)
    assert.match(page, /Export bounced/)
    assert.doesNotMatch(page, /fine@there\.test/)
  })

  test('the list is filtered by status, with counts; a search keeps the filter', async () => {
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

  test('hostile names are shown, not run, on every page and in the names of files', async () => {
    for (const name of HOSTILE_NAMES.filter((each) => each.trim() !== '')) {
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
