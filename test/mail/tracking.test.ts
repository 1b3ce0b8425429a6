// Open and click tracking and its statistics: "Outbound email statistics", track_opens and track_clicks of the
// specification, D24, D37, D38.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simpleParser } from 'mailparser'
import { appendEvent } from '../../src/store/events.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { costing } from '../kit/cost.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { judgeAll } from '../delivery/captured.ts'
import { mail, mailsOf, MINUTE } from './mails.ts'

const BASE = 'http://127.0.0.1:8025'
const PERSON = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Thunderbird/140.0'

const ids: Record<string, string> = {}
const { become, events, post, receiver, show, tryPost } = mailsOf(() => postrider)

/** A domain of the first user with the given tracking. */
async function domain(name: string, opens: boolean, clicks: boolean): Promise<void> {
  ids[name] = (await postrider.activeDomain(name)).id
  const change = { open_tracking_enabled: opens, click_tracking_enabled: clicks }
  const { status } = await patch(name, change)
  assert.equal(status, 200)
}
const patch = (name: string, change: Record<string, unknown>) =>
  postrider.api('PATCH', `/domains/${ids[name]}`, document('domains', change, { id: ids[name]! }))

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, config: { plans: { growth: { branded_tracking: true }, starter: {} } } }),
)

setUp(async () => {
  for (const name of ['there.test', 'else.test']) receiver(name)
  await Promise.all([
    domain('both.test', true, true),
    domain('opens.test', true, false),
    domain('clicks.test', false, true),
    domain('none.test', false, false),
  ])
})

const LINK = 'https://shop.test/a?b=1&c=%20#d'
const PAGE = `<html><body><p><a href="https://shop.test/a?b=1&amp;c=%20#d">shop</a></p></body></html>`

/** Sends a page from a domain. Returns it as it arrived, with the paths of its pixel and its tracked links. */
async function send(attributes: Record<string, unknown> = {}, to = 'bob@there.test') {
  const id = await post({ from: 'ann@both.test', html: PAGE, ...attributes })
  const shown = await become(id, 'delivered')
  const heard = exchanger.heard.find((each) => each.message.includes(shown['message_id']!) && each.to.includes(to))!
  const html = String((await simpleParser(heard.message, { skipHtmlToText: true })).html)
  const pixel = [...html.matchAll(/<img[^>]*src="([^"]*\/t\/o\/[^"]*)"/g)].map(([, src]) => src!)
  const links = [...html.matchAll(/href\s*=\s*"([^"]*\/t\/c\/[^"]*)"/gi)].map(([, href]) => href!)
  return {
    id,
    html,
    shown,
    heard,
    pixel: pixel[0]?.slice(BASE.length) ?? '',
    links: links.map((link) => link.slice(BASE.length)),
  }
}
const visit = (path: string, agent: string = PERSON, method = 'GET') =>
  postrider.raw(path, { method, headers: { 'user-agent': agent, 'x-forwarded-for': '203.0.113.7' } })
const stats = async (id: string) => {
  const { status, body } = await postrider.api('GET', `/outbound-emails/${id}/stats`)
  assert.equal(status, 200, JSON.stringify(body))
  assert.equal(body.data.type, 'outbound-email-stats')
  assert.equal(body.data.id, id)
  return body.data.attributes as Record<string, number | null>
}
/** Long enough after the delivery for a person to have opened it. */
const wait = (): void => postrider.clock.leap(MINUTE)

test('tracking follows the domain if null or absent, is off if false, and requires the domain setting if true', async () => {
  for (const name of ['both.test', 'opens.test', 'clicks.test', 'none.test'])
    for (const track_opens of [undefined, null, false, true])
      for (const track_clicks of [undefined, null, false, true]) {
        const enabled = { opens: /both|opens/.test(name), clicks: /both|clicks/.test(name) }
        const attributes = { from: `ann@${name}`, track_opens, track_clicks }
        const at = JSON.stringify(attributes)
        const wrong = [
          ...(track_opens && !enabled.opens ? ['/data/attributes/track_opens'] : []),
          ...(track_clicks && !enabled.clicks ? ['/data/attributes/track_clicks'] : []),
        ]
        if (wrong.length > 0) {
          const { status, body } = await tryPost(attributes)
          assert.equal(status, 422, at)
          assert.deepEqual(
            body.errors.map(({ source }: { source: { pointer: string } }) => source.pointer),
            wrong,
            at,
          )
          for (const { code } of body.errors) assert.equal(code, 'tracking_disabled')
          continue
        }
        const { links, pixel, shown, id } = await send(attributes)
        assert.equal(pixel !== '', track_opens ?? enabled.opens, at)
        assert.equal(links.length > 0, track_clicks ?? enabled.clicks, at)
        assert.equal(shown['track_opens'], track_opens ?? null)
        const { opens, clicks } = await stats(id)
        assert.deepEqual([opens, clicks], [pixel === '' ? null : 0, links.length === 0 ? null : 0], at)
      }
})

test('rewrites web links and leaves everything else unchanged', async () => {
  const web = [
    ['<a href="https://a.test/">x</a>', 'https://a.test/'],
    ["<a class='b' href='http://a.test/p?q=1&amp;r=2'>x</a>", 'http://a.test/p?q=1&r=2'],
    ['<A HREF=https://a.test/unquoted>x</A>', 'https://a.test/unquoted'],
    ['<a\n  data-x="1"\n  href = "HTTPS://A.test/Case"\n>x</a>', 'HTTPS://A.test/Case'],
    ['<a href=" https://a.test/space ">x</a>', 'https://a.test/space'],
    ['<a title=">" href="https://a.test/after">x</a>', 'https://a.test/after'],
    ['<a href="https://a.test/#part">x</a>', 'https://a.test/#part'],
    ['<a href="https://a.test/ü?ß=€">x</a>', 'https://a.test/ü?ß=€'],
    ['<a href="https://bücher.test/ü">x</a>', 'https://bücher.test/ü'],
  ] as const
  const other = [
    '<a href="mailto:a@b.test?subject=https://a.test">x</a>',
    '<a href="tel:+123">x</a>',
    '<a href="cid:logo">x</a>',
    '<a href="#part">x</a>',
    '<a href="">x</a>',
    '<a>x</a>',
    '<a name="https://a.test/">x</a>',
    '<a href="/relative">x</a>',
    '<a href="javascript:void(0)">x</a>',
    '<a href="ftp://a.test/">x</a>',
    '<img src="https://a.test/i.png">',
    '<link href="https://a.test/s.css">',
    '<abbr href="https://a.test/">x</abbr>',
    '<p>https://a.test/ href="https://a.test/"</p>',
    '<a data-postrider-track="off" href="https://a.test/own">x</a>',
  ]
  const { html, links } = await send({ html: `${web.map(([tag]) => tag).join('\n')}\n${other.join('\n')}` })
  for (const tag of other) assert.ok(html.includes(tag), tag)
  assert.equal(links.length, web.length)
  for (const [index, [tag, target]] of web.entries()) {
    const { status, headers } = await visit(links[index]!)
    assert.ok(status === 302 || status === 303, tag)
    // Characters that a header cannot contain are percent-encoded, without a change of the target.
    assert.equal(new URL(headers.get('location')!).href, new URL(target).href, tag)
    assert.match(headers.get('cache-control') ?? '', /no-store/)
  }
})

test('adds one uncached pixel at the end of the html body and leaves the text part unchanged', async () => {
  const { html, heard, pixel } = await send({ text: `read ${LINK}` })
  assert.match(html, /<img[^>]*\/t\/o\/[\w-]+\.gif"[^>]*><\/body><\/html>\s*$/)
  assert.equal(html.match(/\/t\/o\//g)!.length, 1)
  const { status, headers } = await visit(pixel)
  assert.equal(status, 200)
  assert.equal(headers.get('content-type'), 'image/gif')
  assert.match(headers.get('cache-control')!, /no-store/)
  assert.equal(headers.get('set-cookie'), null)
  assert.equal((await simpleParser(heard.message)).text?.trimEnd(), `read ${LINK}`)
  // A page without a body has it too.
  assert.notEqual((await send({ html: '<p>Hello' })).pixel, '')
})

test('stores the sender’s html without tracking', async () => {
  const { shown } = await send()
  assert.equal(shown['html'], PAGE)
})

test('records opens and clicks as events, first times and statistics, without IP address or user agent', async () => {
  const { id, links, pixel } = await send()
  const before = await show(id)
  assert.deepEqual([before['first_opened_at'], before['first_clicked_at']], [null, null])
  wait()
  const opened = new Date(postrider.clock.now()).toISOString()
  await visit(pixel)
  wait()
  await visit(pixel)
  const clicked = new Date(postrider.clock.now()).toISOString()
  assert.equal((await visit(links[0]!)).headers.get('location'), LINK)
  wait()
  await visit(links[0]!)
  await visit(links[0]!)
  const shown = await show(id)
  assert.equal(shown['first_opened_at'], opened)
  assert.equal(shown['first_clicked_at'], clicked)
  assert.deepEqual(await stats(id), {
    deliveries: 1,
    opens: 2,
    clicks: 3,
    bounces: 0,
    complaints: 0,
    unique_opens: 1,
    unique_clicks: 1,
    machine_opens: 0,
    machine_clicks: 0,
  })
  const told = events(id).slice(-5)
  assert.deepEqual(
    told.map(({ type }) => type),
    ['email.opened', 'email.opened', 'email.clicked', 'email.clicked', 'email.clicked'],
  )
  assert.equal(told[2]!.data['url'], LINK)
  assert.doesNotMatch(JSON.stringify(told), /203\.0\.113|Thunderbird|Mozilla/)
  // Opens and clicks do not change the status.
  assert.equal(shown.status, 'delivered')
})

test('counts machines separately: HEAD, known proxies, scanners and opens within seconds of delivery', async () => {
  const machines = [
    'Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)',
    'YahooMailProxy; https://help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html',
    // The complete user agent of Apple’s proxy.
    'Mozilla/5.0',
    'Googlebot/2.1 (+http://www.google.com/bot.html)',
    'Barracuda Sentinel (EE)',
    'python-requests/2.32.0',
    'curl/8.9.0',
    'Mozilla/5.0 (compatible; bingbot/2.0)',
  ]
  const soon = await send()
  await visit(soon.pixel)
  await visit(soon.links[0]!)
  const first = await stats(soon.id)
  assert.deepEqual([first['opens'], first['clicks'], first['machine_opens'], first['machine_clicks']], [0, 0, 1, 1])

  const { id, links, pixel } = await send()
  wait()
  for (const agent of machines) {
    assert.equal((await visit(pixel, agent)).status, 200, agent)
    assert.equal((await visit(links[0]!, agent)).headers.get('location'), LINK, agent)
  }
  assert.equal((await visit(pixel, PERSON, 'HEAD')).status, 200)
  const head = await visit(links[0]!, PERSON, 'HEAD')
  assert.equal(head.headers.get('location'), LINK)
  const figures = await stats(id)
  const count = machines.length + 1
  assert.deepEqual(
    [figures['opens'], figures['clicks'], figures['unique_opens'], figures['unique_clicks']],
    [0, 0, 0, 0],
  )
  assert.deepEqual([figures['machine_opens'], figures['machine_clicks']], [count, count])
  const shown = await show(id)
  assert.deepEqual([shown['first_opened_at'], shown['first_clicked_at']], [null, null])
  // A person after all of them counts.
  await visit(pixel)
  assert.equal((await stats(id))['opens'], 1)
})

test('rejects tokens that this server did not sign and does not count them', async () => {
  const { id, links, pixel } = await send()
  const second = await send({ html: '<a href="https://other.test/">x</a>' })
  wait()
  const before = events(id).length
  const turn = (token: string, index: number): string =>
    token.slice(0, index) + (token[index] === 'A' ? 'B' : 'A') + token.slice(index + 1)
  const [link, open] = [links[0]!.slice('/t/c/'.length), pixel.slice('/t/o/'.length, -'.gif'.length)]
  const same = (a: string, b: string) => Buffer.from(a, 'base64url').equals(Buffer.from(b, 'base64url'))
  const other = second.links[0]!.slice('/t/c/'.length)
  const bad = [
    ...Array.from(link, (_, index) => turn(link, index))
      .filter((token) => !same(token, link))
      .map((token) => `/t/c/${token}`),
    ...Array.from(open, (_, index) => turn(open, index))
      .filter((token) => !same(token, open))
      .map((token) => `/t/o/${token}.gif`),
    // Truncated, joined, of the other kind, empty.
    ...[link.slice(0, -4), link.slice(4), link + link, open, '', 'x', link.slice(0, 16) + other.slice(16)].map(
      (t) => `/t/c/${t}`,
    ),
    ...[open.slice(0, -4), link, '', 'x', `${open}${open}`].map((token) => `/t/o/${token}.gif`),
    `/t/o/${open}`,
    `/t/c/https://evil.test/`,
    `/t/c/${encodeURIComponent('https://evil.test/')}`,
    `/t/c/${Buffer.from('[1,"https://evil.test/"]').toString('base64url')}`,
    `/t/c/${'A'.repeat(20_000)}`,
    '/t/c/%00',
    '/t/x',
  ]
  assert.ok(bad.length > 100)
  for (const path of bad) {
    const { status, headers, body } = await visit(path)
    assert.equal(status, 404, path.slice(0, 300))
    assert.equal(headers.get('location'), null)
    assert.doesNotMatch(String(JSON.stringify(body)), /evil\.test/)
  }
  assert.equal(events(id).length, before)
  // A parameter does not change where a good one leads.
  for (const query of ['?url=https://evil.test', '?u=https://evil.test&redirect=https://evil.test'])
    assert.equal((await visit(links[0]! + query)).headers.get('location'), LINK)
  // Other methods have no effect.
  for (const method of ['POST', 'PUT', 'DELETE']) assert.notEqual((await visit(links[0]!, PERSON, method)).status, 302)
})

test('gives each transaction its own tokens and counts unique events per recipient', async () => {
  const attributes = { cc: ['carl@else.test'] }
  const id = await post({ from: 'ann@both.test', html: PAGE, ...attributes })
  const { message_id } = await become(id, 'delivered')
  await until(() => exchanger.heard.filter(({ message }) => message.includes(message_id!)).length === 2)
  await until(async () => (await stats(id))['deliveries'] === 2, 'both delivered')
  wait()
  for (const { message } of exchanger.heard.filter((each) => each.message.includes(message_id!))) {
    const html = String((await simpleParser(message, { skipHtmlToText: true })).html)
    const pixel = /src="([^"]*\/t\/o\/[^"]*)"/.exec(html)![1]!.slice(BASE.length)
    await visit(pixel)
    await visit(pixel)
  }
  const { opens, unique_opens, clicks } = await stats(id)
  assert.deepEqual([opens, unique_opens, clicks], [4, 2, 0])
})

test('stats have exactly the attributes of D37, null without tracking, and count bounces and complaints', async () => {
  const NAMES = [
    'deliveries',
    'opens',
    'clicks',
    'bounces',
    'complaints',
    'unique_opens',
    'unique_clicks',
    'machine_opens',
    'machine_clicks',
  ]
  const off = await send({ from: 'ann@none.test' })
  const figures = await stats(off.id)
  assert.deepEqual(Object.keys(figures).toSorted(), NAMES.toSorted())
  assert.deepEqual(figures, {
    deliveries: 1,
    bounces: 0,
    complaints: 0,
    opens: null,
    clicks: null,
    unique_opens: null,
    unique_clicks: null,
    machine_opens: null,
    machine_clicks: null,
  })
  const half = await stats((await send({ from: 'ann@opens.test' })).id)
  assert.deepEqual([half['opens'], half['machine_opens'], half['clicks'], half['unique_clicks']], [0, 0, null, null])

  exchanger.script.answer = (command) => (command.startsWith('RCPT TO:<gone') ? '550 5.1.1 No such user' : undefined)
  const id = await post({ from: 'ann@none.test', to: 'gone@there.test', cc: ['carl@there.test'] })
  await become(id, 'bounced')
  await until(async () => (await stats(id))['deliveries'] === 1)
  assert.equal((await stats(id))['bounces'], 1)
  delete exchanger.script.answer
  // A complaint arrives as a report. Its result is an event.
  const { store, clock } = postrider.appliance.deps
  const keys = store.first<{ key: number; user_key: number; domain_key: number }>(
    raw('select key, user_key, domain_key from outbound_emails where id = ?', [off.id]),
  )!
  await store.write((tx) =>
    appendEvent(tx, {
      type: 'email.complained',
      user_key: keys.user_key,
      domain_key: keys.domain_key,
      email_key: keys.key,
      data: {},
      at: clock.now(),
    }),
  )
  assert.equal((await stats(off.id))['complaints'], 1)
})

test('stats accept no parameters, require emails:read, and return 404 for unknown and foreign emails', async () => {
  const { id } = await send()
  const path = `/outbound-emails/${id}/stats`
  for (const query of ['include=domain', 'fields[outbound-email-stats]=opens', 'page[size]=1', 'x=1']) {
    const { status } = await postrider.api('GET', `${path}?${query}`)
    assert.equal(status, query.startsWith('fields') || query.startsWith('include') ? status : 400, query)
  }
  assert.equal((await postrider.api('GET', `${path}?x=1`)).status, 400)
  assert.equal((await postrider.asOther('GET', path)).status, 404)
  assert.equal((await postrider.api('GET', `/outbound-emails/${id.slice(0, -1)}x/stats`)).status, 404)
  assert.equal((await postrider.api('POST', path, mail())).status, 405)
})

test('branded links require a plan that includes them', async () => {
  const { store } = postrider.appliance.deps
  const plan = (name: string) =>
    store.write((tx) => tx.run(raw('update users set plan = ? where key = ?', [name, postrider.user.key])))
  ids['brand.test'] = (await postrider.activeDomain('brand.test')).id
  await plan('starter')
  const refused = await patch('brand.test', { tracking_redirect_mode: 'branded' })
  assert.equal(refused.status, 422)
  assert.equal(refused.body.errors[0].code, 'plan_required')
  assert.equal(refused.body.errors[0].source.pointer, '/data/attributes/tracking_redirect_mode')
  assert.equal((await patch('brand.test', { tracking_redirect_mode: 'nobody' })).status, 422)
  await plan('growth')
  const taken = await patch('brand.test', { tracking_redirect_mode: 'branded' })
  assert.equal(taken.status, 200, JSON.stringify(taken.body))
  await plan('unlimited')
})

test('links of a deleted email still redirect but are not counted', async () => {
  const { id, links, pixel } = await send()
  wait()
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${id}`)).status, 204)
  const count = () => postrider.appliance.deps.store.first(raw<{ n: number }>('select count(*) as n from events'))!.n
  const before = count()
  assert.equal((await visit(links[0]!)).headers.get('location'), LINK)
  assert.equal((await visit(pixel)).status, 200)
  assert.equal(count(), before)
  assert.equal((await postrider.api('GET', `/outbound-emails/${id}/stats`)).status, 404)
})

test('rewriting links is fast for any input', async () => {
  const hostile = [
    '<a '.repeat(100_000),
    `<a ${'x="'.repeat(100_000)}`,
    '<a href="https://'.repeat(30_000),
    `<a ${' '.repeat(300_000)}`,
  ]
  for (const html of hostile) await costing(5000, () => send({ html }))
})

test('every email of this file is signed after rewriting and valid for every parser', async () => {
  const html = '<p><a href="https://there.test/">There</a></p>'
  await become(await post({ from: 'ann@both.test', html }), 'delivered')
  await judgeAll(postrider, exchanger.heard)
})
