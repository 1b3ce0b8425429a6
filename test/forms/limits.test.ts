// The limits of forms: clients, forms, pausing, what waits for a paused form, and an attack on many addresses.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, HOUR, MINUTE, SECOND } from '../../src/base/clock.ts'
import { ClientLimits, clientHash, FormTimes, limitsOf, Slots } from '../../src/forms/limits.ts'
import { Keyring } from '../../src/base/keyring.ts'
import { raw } from '../../src/store/query.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { formKit } from '../kit/forms.ts'
import { SITE, signupKit } from '../kit/signups.ts'
import { until } from '../kit/until.ts'

type Signup = Partial<Record<'per_client' | 'per_client_day' | 'per_form' | 'per_address', number>> & {
  check_mx?: boolean
}

/** A server with an open form. */
async function stage(signup: Signup, more: Parameters<typeof startTestAppliance>[0] = {}) {
  const postrider = await startTestAppliance({ routes: ['there.test'], ...more, config: { signup, ...more.config } })
  const domain = await postrider.activeDomain('here.test')
  const forms = formKit(() => postrider)
  const audience = await campaignKit(() => postrider).audience(domain)
  const form = await forms.open({ audience }, { origins: [SITE] })
  return { postrider, domain, forms, audience, form, visitor: signupKit(() => postrider) }
}
const MANY = { per_client: 10_000, per_client_day: 10_000 }
const rows = <T>({ appliance }: TestAppliance, sql: string) => appliance.deps.store.all(raw<T>(sql))
const notices = (postrider: TestAppliance) =>
  rows<{ subject: string; text: string; recipient: string | null }>(
    postrider,
    `select subject, text, recipient from notices where subject like 'The form%'`,
  )
const metric = async ({ url }: TestAppliance, name: string): Promise<string> =>
  (await (await fetch(`${url}/metrics`)).text())
    .split('\n')
    .filter((line) => line.startsWith(name))
    .join('\n')

test('a form counts up to its own limit, however high that is, and keeps no more times than that (AU39, AU46)', () => {
  const times = new FormTimes()
  for (let at = 0; at < 30_000; at++) times.add(1, at, 20_000)
  assert.equal(times.since(1, 0), 20_000)
  assert.equal(times.since(1, 29_000), 1000)
  assert.equal(times.since(1, 0), 1000, 'earlier times are forgotten')
  assert.equal(times.since(2, 0), 0)
})

test('a client has its requests in 10 minutes and in a day, and is told when the next one is possible (AU38)', () => {
  const limits = new ClientLimits()
  const take = (now: number, client = 'a') => limits.take(client, { per_client: 3, per_client_day: 5 }, now)
  assert.deepEqual(
    [0, SECOND, 2 * SECOND].map((now) => take(now)),
    [0, 0, 0],
  )
  assert.equal(take(MINUTE), 9 * MINUTE)
  assert.equal(take(MINUTE, 'b'), 0)
  assert.equal(take(10 * MINUTE), 0)
  assert.equal(take(20 * MINUTE), 0)
  assert.equal(take(40 * MINUTE), DAY - 40 * MINUTE)
  assert.equal(take(DAY), 0)
})

test('a client with too many requests gets 429 with Retry-After, found behind trusted proxies alone (AU38)', async () => {
  const { form, postrider } = await stage({ per_client: 2 }, { config: { http: { trusted_proxies: ['127.0.0.1'] } } })
  await using _ = postrider
  const send = (client: string, email: string) =>
    fetch(`${postrider.url}/f/${form.slug}`, {
      method: 'POST',
      body: new URLSearchParams({ email, version: '1' }),
      headers: { origin: SITE, 'x-forwarded-for': client },
    })
  const statuses: number[] = []
  for (const each of ['a', 'b', 'c']) statuses.push((await send('192.0.2.1', `${each}@there.test`)).status)
  assert.deepEqual(statuses, [200, 200, 429])
  const refused = await send('198.51.100.9, 192.0.2.1', 'd@there.test')
  assert.equal(refused.status, 429)
  assert.equal(refused.headers.get('retry-after'), '600')
  assert.match(await refused.text(), /Please try again after .*12:10.*UTC/)
  assert.equal((await send('192.0.2.2', 'e@there.test')).status, 200)
  const ipv6 = await Promise.all(['1', '2', '3'].map((host) => send(`2001:db8::${host}`, `f${host}@there.test`)))
  assert.equal(ipv6.filter(({ status }) => status === 429).length, 1)
  const [consent] = rows<{ request_client: string }>(
    postrider,
    'select request_client from consents where request_client is not null order by key limit 1',
  )
  assert.equal(consent?.request_client, clientHash(postrider.appliance.deps.keyring, '192.0.2.1'))
})

test('the hash of a client is keyed, and covers the address or the /64 (AU30)', () => {
  const [one, two] = [1, 2].map((byte) => new Keyring(Buffer.alloc(32, byte)))
  assert.match(clientHash(one!, '192.0.2.1'), /^[0-9a-f]{64}$/)
  assert.notEqual(clientHash(one!, '192.0.2.1'), clientHash(two!, '192.0.2.1'))
  assert.equal(clientHash(one!, '2001:db8::1'), clientHash(one!, '2001:db8::ffff'))
  assert.notEqual(clientHash(one!, '2001:db8::1'), clientHash(one!, '2001:db8:0:1::1'))
})

test('with too many requests at once the answer is 503, and later ones are served (AU46)', async () => {
  const slots = new Slots(2)
  const held = Promise.withResolvers<string>()
  const [one, two] = [slots.run(() => held.promise), slots.run(() => held.promise)]
  assert.equal(await slots.run(() => Promise.resolve('x')), undefined)
  held.resolve('done')
  assert.deepEqual(await Promise.all([one, two]), ['done', 'done'])
  assert.equal(await slots.run(() => Promise.resolve('x')), 'x')
  const { form, postrider, visitor } = await stage(MANY)
  await using _ = postrider
  const busy = Promise.withResolvers<void>()
  const all = Array.from({ length: 500 }, () => limitsOf(postrider.appliance.deps.store).slots.run(() => busy.promise))
  const answer = await visitor.send(form.slug, { email: 'busy@there.test' })
  assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '60'])
  assert.equal((await visitor.press('/c/x', 'confirm')).status, 404)
  busy.resolve()
  await Promise.all(all)
  assert.equal((await visitor.send(form.slug, { email: 'busy@there.test' })).status, 200)
})

test('every kind of address counts towards both limits of a form, and the pause does not show which (AU39, AU42, AU45)', async () => {
  const { audience, domain, forms, postrider, visitor } = await stage({ ...MANY, per_form: 4 })
  await using _ = postrider
  const kinds = ['new', 'pending', 'subscribed', 'left', 'suppressed', 'erased']
  await campaignKit(() => postrider).fill(audience, ['subscribed@there.test', 'left@there.test', 'erased@there.test'])
  const { id } = await visitor.contact(audience, 'left@there.test')
  await postrider.api('PATCH', `/contacts/${id}`, document('contacts', { status: 'unsubscribed' }, { id }))
  const entry = { user_key: domain.user_key, domain_key: domain.key, address: 'suppressed@there.test' }
  await postrider.appliance.deps.store.write((tx) =>
    suppress(tx, { ...entry, source: 'manual', reason: 'manual', scope: 'all' }, postrider.clock.now()),
  )
  await postrider.api('DELETE', '/recipients/erased@there.test/forget')
  await until(async () => !(await visitor.contact(audience, 'erased@there.test')), 'the erasure')
  await visitor.signUp((await forms.open({ audience }, { origins: [SITE] })).slug, 'pending@there.test')
  const seen: unknown[] = []
  for (const kind of kinds) {
    const form = await forms.open({ audience }, { origins: [SITE] })
    const email = `${kind}@there.test`
    for (const _ of [1, 2]) await visitor.signUp(form.slug, email)
    const pages: string[] = []
    for (const _ of [3, 4, 5]) {
      const asked = await (await visitor.send(form.slug, { email })).text()
      const check = /name="check" value="([^"]+)"/.exec(asked)?.[1] ?? assert.fail(`no check page for ${kind}`)
      pages.push((await (await visitor.send(form.slug, { email, check })).text()).replaceAll(email, 'ADDRESS'))
      pages.push((await forms.show(form.id))['status'])
    }
    const [{ text } = assert.fail(`no notice for ${kind}`)] = notices(postrider).filter(({ text }) =>
      text.includes(form.id),
    )
    seen.push({ pages, text: text.replace(form.id, 'FORM'), reason: (await forms.show(form.id))['paused_reason'] })
    assert.deepEqual([pages[1], pages[3], pages[5]], ['open', 'open', 'paused'], kind)
  }
  for (const each of seen) assert.deepEqual(each, seen[0])
})

test('errors of typing are free for a client, and those that DNS finds are not (AU38)', async () => {
  const { form, postrider, visitor } = await stage(
    { per_client: 2 },
    { config: { http: { trusted_proxies: ['127.0.0.1'] } } },
  )
  await using _ = postrider
  const statuses: number[] = []
  const send = async (email: string) => {
    const answer = await fetch(`${postrider.url}/f/${form.slug}`, {
      method: 'POST',
      body: new URLSearchParams({ email, version: '1' }),
      headers: { origin: SITE, 'x-forwarded-for': '192.0.2.1' },
    })
    statuses.push(answer.status)
  }
  for (const each of ['typo', '', 'a@b@c', 'a@missing-domain.test', 'a@there.test', 'b@there.test']) await send(each)
  assert.deepEqual(statuses, [422, 422, 422, 422, 200, 429])
  assert.deepEqual(await visitor.tags('b@there.test'), [])
})

test('the addresses of one mailbox share the limit of an address, and stay as they were typed (AU37)', async () => {
  const { audience, form, postrider, visitor } = await stage({ ...MANY, check_mx: false, per_address: 2 })
  await using _ = postrider
  const sent: number[] = []
  const gmail = ['ann.lee@gmail.com', 'annlee+1@gmail.com', 'a.n.n.l.e.e+2@googlemail.com']
  for (const email of [...gmail, 'a.b+1@there.test', 'a.b+2@there.test', 'a.b@there.test', 'ab@there.test']) {
    await visitor.signUp(form.slug, email)
    sent.push((await visitor.tags(email)).length)
    postrider.clock.leap(6 * MINUTE)
  }
  assert.deepEqual(sent, [1, 1, 0, 1, 1, 0, 1])
  assert.equal((await visitor.contact(audience, 'annlee+1@gmail.com'))?.status, 'pending')
})

test('a form over half of its limit asks once more, and over it is paused; what waits is sent when it opens (AU39, AU45)', async () => {
  const { audience, form, forms, postrider, visitor } = await stage({ ...MANY, per_form: 6 })
  await using _ = postrider
  for (const each of [1, 2, 3]) await visitor.signUp(form.slug, `a${each}@there.test`)
  const checked = await visitor.send(form.slug, { email: 'a4@there.test' })
  const page = await checked.text()
  assert.match(page, /One more step/)
  const [, check] = /name="check" value="([^"]+)"/.exec(page)!
  assert.ok(check)
  const push = async (email: string) => {
    const asked = await (await visitor.send(form.slug, { email })).text()
    const [, token] = /name="check" value="([^"]+)"/.exec(asked)!
    return (await visitor.send(form.slug, { email, check: token! })).text()
  }
  for (const each of [4, 5, 6]) assert.match(await push(`a${each}@there.test`), /Check your inbox/)
  assert.equal((await forms.show(form.id))['status'], 'open')
  assert.match(await push('a7@there.test'), /Check your inbox/)
  const paused = await forms.show(form.id)
  assert.equal(paused['status'], 'paused')
  assert.match(paused['paused_reason'], /more than 6 sign-ups in an hour/)
  const [notice, ...others] = notices(postrider)
  assert.equal(others.length, 0)
  assert.equal(notice?.subject, 'The form Website is paused')
  assert.match(notice!.text, new RegExp(`/forms/${form.id}`))
  assert.match(await metric(postrider, 'postrider_forms_paused'), /postrider_forms_paused 1/)
  const events = rows<{ data: string }>(postrider, `select data from events where type = 'form.paused'`)
  assert.equal(events.length, 1)
  assert.match(await push('a8@there.test'), /Check your inbox/)
  assert.match(await push('a8@there.test'), /Check your inbox/)
  assert.deepEqual(await visitor.tags('a7@there.test'), [])
  assert.equal((await visitor.contact(audience, 'a8@there.test'))?.status, 'pending')
  assert.equal(rows(postrider, `select key from signups where state = 'waiting'`).length, 2)
  postrider.clock.leap(HOUR)
  assert.equal((await forms.patch(form.id, { status: 'open' })).status, 200)
  postrider.clock.leap(10 * SECOND)
  for (const each of ['a7@there.test', 'a8@there.test'])
    await until(async () => (await visitor.tags(each)).length === 1, `the email to ${each}`)
  assert.match(await (await visitor.press(visitor.link('a7@there.test'), 'confirm')).text(), /You are subscribed/)
})

test('what waits for more than 24 hours, or for a form that is closed, expires without an email (AU45)', async () => {
  const { audience, form, forms, postrider, visitor } = await stage(MANY)
  await using _ = postrider
  await forms.patch(form.id, { status: 'paused' })
  await visitor.signUp(form.slug, 'old@there.test')
  postrider.clock.leap(23 * HOUR)
  await visitor.signUp(form.slug, 'new@there.test')
  postrider.clock.leap(2 * HOUR)
  await until(async () => (await visitor.contact(audience, 'old@there.test')) === undefined, 'the end of the old one')
  assert.equal((await visitor.contact(audience, 'new@there.test'))?.status, 'pending')
  await forms.patch(form.id, { status: 'closed' })
  postrider.clock.leap(10 * SECOND)
  await until(async () => (await visitor.contact(audience, 'new@there.test')) === undefined, 'the end of the new one')
  assert.equal((await forms.show(form.id))['counts'].expired, 2)
  assert.deepEqual([...(await visitor.tags('old@there.test')), ...(await visitor.tags('new@there.test'))], [])
})

test('a form whose confirmation emails bounce is paused, with the numbers as the reason (AU45)', async () => {
  const exchanger = testExchanger({
    answer: (command) => (/^RCPT TO:<bounce/i.test(command) ? '550 5.1.1 No such user' : undefined),
  })
  const { form, forms, postrider, visitor } = await stage(MANY, { exchanger })
  await using _ = postrider
  for (let each = 0; each < 36; each++)
    await visitor.signUp(form.slug, each < 30 ? `ok${each}@there.test` : `bounce${each}@there.test`)
  const shown = await until(async () => {
    const now = await forms.show(form.id)
    return now['status'] === 'paused' ? now : undefined
  }, 'the pause')
  assert.match(shown['paused_reason'], /^\d of 3\d confirmation emails in the last hour were rejected/)
  assert.equal(notices(postrider).length, 1)
})

test('a form is paused when 3 recipients of at least 30 refuse (AU45)', async () => {
  const { form, forms, postrider, visitor } = await stage(MANY)
  await using _ = postrider
  for (let each = 0; each < 30; each++) await visitor.signUp(form.slug, `to${each}@there.test`)
  for (const each of [1, 2, 3]) {
    assert.equal((await forms.show(form.id))['status'], 'open')
    await visitor.press(visitor.link(`to${each}@there.test`), 'refuse')
  }
  assert.match((await forms.show(form.id))['paused_reason'], /^3 recipients of 30 confirmation emails/)
})

test('the work for a sign-up does not grow with the number of earlier ones (AU112)', async () => {
  const { form, postrider, visitor } = await stage(MANY)
  await using _ = postrider
  const { store } = postrider.appliance.deps
  const read = new Set<string>()
  store.watch((sql) => void (/\bfrom (?:signups|consents)\b/.test(sql) && read.add(sql)))
  await visitor.signUp(form.slug, 'a@there.test')
  await until(() => [...read].some((sql) => sql.includes('min(expires_at)')), 'the loop of the sign-ups')
  await visitor.press(visitor.link('a@there.test'), 'refuse')
  store.watch(() => {})
  assert.ok(
    [...read].some((sql) => sql.includes(`state = 'bounced'`)),
    'the results of the form are counted',
  )
  for (const sql of read) {
    const marks = Array<null>(sql.split('?').length - 1).fill(null)
    const plan = store.all(raw<{ detail: string }>(`explain query plan ${sql}`, marks))
    // The index of the sign-ups that wait contains no others.
    const all = /^SCAN (?:signups|consents)\b(?!.* signups_waiting)|consents_of_form \(form_key=\?\)/
    assert.deepEqual(
      plan.map(({ detail }) => detail).filter((detail) => all.test(detail)),
      [],
      sql,
    )
  }
})

test('a domain that cannot send leaves sign-ups waiting, and they are sent when it can (AU14)', async () => {
  const { domain, form, postrider, visitor } = await stage(MANY)
  await using _ = postrider
  const set = (status: string) =>
    postrider.appliance.deps.store.write((tx) =>
      tx.run(raw('update domains set status = ? where key = ?', [status, domain.key])),
    )
  await set('suspended')
  await visitor.signUp(form.slug, 'later@there.test')
  assert.deepEqual(await visitor.tags('later@there.test'), [])
  const findings = JSON.stringify((await postrider.api('GET', '/findings')).body.data)
  assert.match(findings, /Sign-ups of the form Website wait, for at most 24 hours: the domain here\.test is suspended/)
  await set('active')
  postrider.clock.leap(10 * SECOND)
  await until(async () => (await visitor.tags('later@there.test')).length === 1, 'the confirmation email')
})

test('2,000 sign-ups of 400 addresses by 100 clients send each address at most its emails, pause the form and notify once', async () => {
  const { audience, form, forms, postrider } = await stage(
    { per_form: 200, check_mx: false },
    { config: { http: { trusted_proxies: ['127.0.0.1'] } } },
  )
  await using _ = postrider
  const send = async (client: number, email: string, check?: string): Promise<number> => {
    const answer = await fetch(`${postrider.url}/f/${form.slug}`, {
      method: 'POST',
      body: new URLSearchParams({ email, version: '1', lang: 'en', ...(check === undefined ? {} : { check }) }),
      headers: { origin: SITE, 'x-forwarded-for': `192.0.2.${client}` },
    })
    const [, token] = /name="check" value="([^"]+)"/.exec(await answer.text()) ?? []
    return token === undefined || check !== undefined ? answer.status : send(client, email, token)
  }
  const statuses = new Map<number, number>()
  for (let round = 0; round < 20; round++) {
    const sent = Array.from({ length: 100 }, (_, client) => send(client, `v${(round * 100 + client) % 400}@there.test`))
    for (const status of await Promise.all(sent)) statuses.set(status, (statuses.get(status) ?? 0) + 1)
    postrider.clock.leap(30 * SECOND)
  }
  assert.deepEqual(new Set(statuses.keys()), new Set([200, 429]))
  const most = rows<{ count: number }>(
    postrider,
    `select count(*) as count from outbound_emails group by "to" order by 1 desc limit 1`,
  )[0]
  assert.ok(most && most.count <= 3, String(most?.count))
  const [emails] = rows<{ count: number }>(postrider, 'select count(*) as count from outbound_emails')
  assert.ok(emails && emails.count <= 200, String(emails?.count))
  assert.equal((await forms.show(form.id))['status'], 'paused')
  assert.equal(notices(postrider).length, 1)
  const [unsubscribed] = rows<{ count: number }>(
    postrider,
    `select count(*) as count from contacts where status <> 'pending'`,
  )
  assert.equal(unsubscribed?.count, 0)
  assert.ok(audience)
})
