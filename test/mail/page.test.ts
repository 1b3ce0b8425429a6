// The email pages of the console: filters that edit search terms, counts, the export, the reason why an email is
// queued, and the page of an email.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import type { Guest, Shown } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'
import { raw } from '../../src/store/query.ts'
import { dayAfter, dayOf, dayWord, withWords, wordIn } from '../../src/mail/page-words.ts'

const LONG = `${'l'.repeat(64)}@${'d'.repeat(61)}.${'d'.repeat(61)}.${'d'.repeat(60)}.test`
const exchanger = testExchanger({
  answer: (command) =>
    command.startsWith('RCPT TO:<busy')
      ? '451 4.2.1 mailbox busy'
      : command.startsWith('RCPT TO:<gone')
        ? '550 5.1.1 No such user, see "help", =1+1'
        : undefined,
})
const postrider = ofFile(() => startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test'] }))
let ann: Guest

setUp(async () => void (ann = await signedIn(postrider)))

const post = async (to: string, more: object = {}): Promise<string> => {
  const attributes = { from: 'ann@here.test', to, subject: `For ${to}`, html: '<p>Hello</p>', text: 'Hello', ...more }
  const { body, status } = await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))
  assert.equal(status, 201, JSON.stringify(body))
  return body.data.id
}
const statusOf = async (id: string): Promise<string> =>
  (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes.status
/** The addresses of the links with these words. */
const linksTo = ({ text }: Shown, words: RegExp): string[] =>
  [...text.matchAll(/<a\s+href="([^"]*)"[^>]*>([^]*?)<\/a/g)].flatMap(([, to = '', inner = '']) =>
    words.test(inner.replaceAll(/<[^>]*>/g, '')) ? [decodeURIComponent(to.replaceAll('&amp;', '&'))] : [],
  )

test('a filter replaces its own term and keeps the others as typed', () => {
  assert.equal(
    withWords('order status:queued "two words" x', { status: 'bounced' }),
    'order "two words" x status:bounced',
  )
  assert.equal(withWords('STATUS:queued order', { status: '' }), 'order')
  assert.equal(withWords('order', { campaign: 'November "news"' }), 'order campaign:"November news"')
  assert.equal(wordIn('a campaign:"November news" b', 'campaign'), 'November news')
  assert.equal(wordIn('a:b', 'campaign'), '')
  assert.equal(dayWord('2026-11-25', 'UTC'), '2026-11-25')
  assert.equal(dayWord('2026-11-25', 'America/Los_Angeles'), '2026-11-25T00:00-08:00')
  assert.equal(dayWord('2026-13-45', 'UTC'), '')
  assert.equal(dayOf(dayWord('2026-11-25', 'Asia/Kolkata')), '2026-11-25')
  assert.equal(dayOf('2026-11-25T12:00Z'), '')
  assert.equal(dayAfter('2026-12-31', 1), '2027-01-01')
})

test('filters with counts edit the search terms, and the server’s reply is shown below the email', async () => {
  const busy = await post('busy@there.test')
  const gone = await post('gone@there.test')
  const ada = await post('Ada <ada@there.test>', { agent_id: 'shop' })
  await until(async () => (await statusOf(ada)) === 'delivered' && (await statusOf(gone)) === 'bounced', 'two ends')
  await until(
    async () =>
      (await postrider.api('GET', `/outbound-emails/${busy}`)).body.data.attributes.recipients[0].response !== null,
    'the deferral',
  )
  const all = await ann.open('/mail')
  assert.equal([...all.text.matchAll(/type="search"/g)].length, 1)
  assert.match(all.text, /451 4\.2\.1 mailbox busy<\/span\s*><span>· next attempt\s+<time datetime="2026/)
  assert.match(all.text, /title="550 5\.1\.1 No such user, see &quot;help&quot;, =1\+1"/)
  assert.match(all.text, /<span class="soft">1–3 of 3<\/span>/)
  assert.deepEqual(linksTo(all, /^Delivered 1$/), ['/mail?q=status:delivered'])
  assert.deepEqual(linksTo(all, /^Queued 1$/), ['/mail?q=status:queued'])
  assert.deepEqual(linksTo(all, /^All 3$/), ['/mail'])
  const bounced = await ann.open('/mail?q=receiver:there.test%20status:bounced')
  assert.match(bounced.text, /id="find"[^>]*value="receiver:there\.test status:bounced"/)
  assert.match(bounced.text, /1–1 of 1</)
  assert.deepEqual(linksTo(bounced, /^All 3$/), ['/mail?q=receiver:there.test'])
  // The form of the choices redirects to the search terms.
  const chosen = await ann.open('/mail?set=yes&q=ada&domain=here.test&campaign=no&after=2026-01-15&before=2026-01-15')
  assert.equal(
    decodeURIComponent(chosen.path),
    '/mail?q=ada domain:here.test campaign:no after:2026-01-15 before:2026-01-16',
  )
  assert.match(chosen.text, new RegExp(ada))
  assert.doesNotMatch(chosen.text, new RegExp(busy))
  assert.match(chosen.text, /name="before" value="2026-01-15"/)
  assert.equal((await ann.open('/mail?set=yes&q=agent:shop&agent=')).path, '/mail')
  const unknown = await ann.open('/mail?q=foo:bar')
  assert.match(unknown.text, /&quot;foo:&quot; is not a search term\. Use to:, from:/)
})

test('the export has every row of the filter with full replies and no formulas', async () => {
  await post('gone2@there.test', { subject: '=cmd', cc: 'eve@there.test' })
  await until(async () => {
    const { body } = await postrider.api('GET', '/outbound-emails?filter[search]=status:bounced')
    return body.data.length === 2
  }, 'two bounces')
  const { headers, text } = await ann.open('/mail.csv?q=status%3Abounced')
  assert.match(headers.get('content-disposition')!, /filename="mail-2026-\d\d-\d\d\.csv"/)
  const [titles, ...rows] = text.trimEnd().split('\r\n')
  assert.equal(
    titles,
    'accepted_at,from,recipient,role,status,subject,campaign,agent,smtp_code,enhanced_code,response,server,attempts,next_attempt_at,delivered_at,message_id,id',
  )
  assert.equal(rows.length, 3)
  assert.match(
    rows[0]!,
    /,ann@here\.test,gone2@there\.test,to,bounced,'=cmd,,,550,5\.1\.1,"No such user, see ""help"", =1\+1",/,
  )
  assert.match(rows[1]!, /,eve@there\.test,cc,delivered,'=cmd,/)
  assert.match((await ann.open('/mail.csv?q=foo%3Abar')).text, /is not a search term/)
})

test('an email’s page shows its headers and source and offers a download', async () => {
  const id = await post('ben@there.test', { headers: { 'X-Order': '4711 <script>' } })
  const headers = (await ann.open(`/mail/${id}?show=headers`)).text
  assert.match(headers, /<dt>X-Order<\/dt>\s*<dd>4711 &lt;script&gt;<\/dd>/)
  assert.match(headers, /<dt>Message-ID<\/dt>/)
  const source = (await ann.open(`/mail/${id}?show=source`)).text
  assert.match(source, /<pre[^>]*>From: ann@here\.test\r?\nTo: ben@there\.test/)
  assert.doesNotMatch(source, /<script>/)
  assert.match((await ann.open(`/mail/${id}?show=text`)).text, /<pre tabindex="0">Hello<\/pre>/)
  const file = await ann.open(`/mail/${id}/raw`)
  assert.equal(file.headers.get('content-type'), 'message/rfc822')
  assert.match(file.text, /\r\nX-Order: 4711 <script>\r\n/)
  const large = await post('large@there.test', { html: `<p>${'"word" '.repeat(20_000)}</p>` })
  const shown = await ann.open(`/mail/${large}?show=source`)
  assert.ok(shown.text.length < 100_000, `${shown.text.length}`)
  assert.match(shown.text, /Showing the first \d+\.0 KB of \d+/)
})

test('the frame of an email has the page’s origin only inside a page, and no other permission', async () => {
  const id = await post('frame@there.test')
  assert.match((await ann.open(`/mail/${id}`)).text, /<iframe\s+id="looks"\s+sandbox="allow-same-origin"/)
  const policy = async (dest?: string) =>
    (await ann.open(`/mail/${id}/html`, dest ? { headers: { 'sec-fetch-dest': dest } } : {})).headers.get(
      'content-security-policy',
    )!
  assert.match(await policy('iframe'), /default-src 'none';.*sandbox allow-same-origin$/)
  for (const dest of [undefined, 'document', 'embed', 'object'])
    assert.match(await policy(dest), /sandbox allow-popups allow-popups-to-escape-sandbox$/)
})

test('confirms each action by name, and separates destructive actions', async () => {
  const id = await post('busy@there.test', { subject: 'Waits' })
  const page = await ann.open(`/mail/${id}`)
  assert.match(page.text, /class="dangers"[^]*Fail now[^]*Delete email/)
  assert.match(
    (await ann.send(page, 'again', { to: 'zoe@there.test' })).text,
    /role="status">Resent to zoe@there\.test\./,
  )
  await until(
    async () => (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes.recipients[0].attempts > 0,
  )
  await until(async () => (await ann.send(await ann.open(`/mail/${id}`), 'hold')).text.includes('Held: delivery to '))
  assert.match((await ann.send(await ann.open(`/mail/${id}`), 'drop')).text, /Marked 1 recipient of “Waits” as failed/)
  assert.match((await ann.send(await ann.open(`/mail/${id}`), 'remove')).text, /Deleted “Waits” to busy@there\.test\./)
})

test('an email of a paused campaign shows the pause and offers no release', async () => {
  const kit = campaignKit(() => postrider)
  const audience = await kit.audience({ id: (await postrider.api('GET', '/domains')).body.data[0].id })
  await kit.fill(audience, ['reader@held.test'])
  const campaign = await kit.draft(audience)
  assert.equal((await postrider.api('POST', '/lanes/held.test/hold')).status, 202)
  await kit.patch(campaign, { status: 'scheduled' })
  const id: string = await until(
    async () => (await postrider.api('GET', '/outbound-emails?filter[search]=reader@held.test')).body.data[0]?.id,
    'the mail',
  )
  await kit.patch(campaign, { status: 'paused' })
  const { text } = await ann.open(`/mail/${id}`)
  assert.match(text, new RegExp(`Held by the campaign <a href="/campaigns/${campaign}">Spring</a> \\(paused\\)`))
  assert.doesNotMatch(text, />Release<|>Retry now</)
  await postrider.api('POST', '/lanes/held.test/release')
})

test('a search understands the words for queued email, and explains "domain:"', async () => {
  for (const lane of ['words.test', 'later.test']) await postrider.api('POST', `/lanes/${lane}/hold`)
  const held = await post('ada@words.test')
  const limited = await post('ada@later.test')
  const busy = await post('busy@there.test', { subject: 'Words' })
  const { store } = postrider.appliance.deps
  await store.write((tx) =>
    tx.run(
      raw(
        `update deliveries set response = 'warm-up: the limit for later.test is reached for today; sending resumes at 2026-01-16T00:00:00Z' where lane = 'later.test'`,
        [],
      ),
    ),
  )
  await store.write((tx) => tx.run(raw(`delete from lane_holds where lane = 'later.test'`, [])))
  const found = async (q: string): Promise<string[]> => {
    const { text } = await ann.open(`/mail?q=${encodeURIComponent(q)}`)
    assert.match(text, /aria-current="true"\s*>Queued/, q)
    return [held, limited, busy].filter((id) => text.includes(id))
  }
  await until(async () => (await found('status:deferred')).includes(busy), 'the deferral')
  assert.deepEqual(await found('status:waiting'), [held, limited, busy])
  assert.deepEqual(await found('status:deferred'), [busy])
  assert.deepEqual(await found('status:held'), [held])
  assert.deepEqual(await found('status:Warm-up receiver:later.test'), [limited])
  const { text } = await ann.open('/mail?q=domain%3Ayahoo.example+status%3Abounced')
  assert.match(text, /<code>domain:<\/code> is a domain that you send from, and yahoo\.example is not one of yours/)
  assert.match(text, /<a href="\/mail\?q=status%3Abounced%20receiver%3Ayahoo\.example">/)
  assert.doesNotMatch((await ann.open('/mail?q=domain%3Ahere.test+before%3A2000-01-01')).text, /is not one of yours/)
  await postrider.api('POST', '/lanes/words.test/release')
})

test('the page of an email says that its address is suppressed before it is resent', async () => {
  const id = await post('gone3@there.test', { subject: 'Once more' })
  await until(async () => (await statusOf(id)) === 'bounced', 'the bounce')
  const page = await ann.open(`/mail/${id}`)
  assert.match(
    page.text,
    /gone3@there\.test is suppressed:\s+a receiving server reported that it does not exist\.\s+<a href="\/suppressions\?q=gone3%40there\.test">View the suppression<\/a>/,
  )
  assert.doesNotMatch((await ann.open(`/mail/${await post('ada@there.test')}`)).text, /is suppressed:/)
  // The error of the API has the same words, and the form keeps the address.
  const refused = await ann.send(page, 'again', { to: 'gone3@there.test' })
  assert.match(
    refused.text,
    /gone3@there\.test is suppressed on here\.test: a receiving server reported that it does not exist\./,
  )
  assert.doesNotMatch(refused.text, /hard_bounce/)
  assert.match(refused.text, /name="to"[^>]*value="gone3@there\.test"/)
})

test('the queue page finds lanes by domain and reason, and acts on one of them', async () => {
  for (const name of ['one.test', 'two.test']) await postrider.api('POST', `/lanes/${name}/hold`)
  await post('a@one.test')
  const found = async (search: string): Promise<string[]> =>
    (await postrider.api('GET', `/lanes?filter[search]=${encodeURIComponent(search)}`)).body.data.map(
      ({ id }: { id: string }) => id,
    )
  await post('busy@there.test')
  await until(async () => (await found('Mailbox BUSY')).includes('there.test'), 'the reason')
  assert.deepEqual(await found('two.'), ['two.test'])
  assert.deepEqual(await found('nothing such'), [])
  const page = await ann.open('/queue?q=.test')
  assert.match(page.text, /popovertarget="lane-0" aria-label="Actions for /)
  assert.ok(linksTo(page, /^one\.test$/).includes('/mail?q=status:queued receiver:one.test'))
  const done = await ann.send(page, 'release', { lane: 'two.test' })
  assert.match(done.text, /Released: delivery to two\.test resumes\./)
  assert.ok(!(await found('two.')).includes('two.test'))
})

test('accepts an address of 254 characters and wraps it on the page', async () => {
  assert.equal(LONG.length, 254)
  const id = await post(LONG)
  assert.match((await ann.open(`/mail/${id}`)).text, new RegExp(`<dd>${LONG}</dd>`))
})
