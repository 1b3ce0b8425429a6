// What is told, and to whom (specification "Event types", "Delivery format"; D50, D51): every type has its line
// in the catalogue, every payload its shape, every webhook the events of its own domain.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR, MINUTE, SECOND } from '../../src/base/clock.ts'
import type { Domain } from '../../src/domains/find.ts'
import { openStore } from '../../src/store/open.ts'
import { EVENT_TYPES, EXTENSION_EVENTS } from '../../src/states/events.ts'
import { appendEvent } from '../../src/store/events.ts'
import { raw } from '../../src/store/query.ts'
import { CATALOGUE } from '../../src/webhooks/catalogue.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { verify, testReceiver } from '../kit/receiver.ts'
import { until } from '../kit/until.ts'
import { happen, makeHook, rest, type Hook } from './hooks.ts'

const exchanger = testExchanger()
const receiver = testReceiver()
const postrider = ofFile(() => startTestAppliance({ exchanger, receiver, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const hook = ofFile(() => makeHook(postrider, receiver, domain))

// oxlint-disable-next-line typescript/no-explicit-any
type Payload = { type: (typeof EVENT_TYPES)[number]; timestamp: string; data: any }

/** What a hook heard, each checked against the catalogue and the rules for every payload. */
function heard(of: Hook): Payload[] {
  return of.requests().map((request) => {
    verify(request, of.secret, Number(request.headers['webhook-timestamp']) * SECOND)
    assert.ok(Buffer.byteLength(request.body) < 20_000)
    const payload = JSON.parse(request.body) as Payload
    assert.deepEqual(Object.keys(payload).toSorted(), ['data', 'timestamp', 'type'])
    assert.match(payload.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)$/)
    assert.doesNotThrow(() => CATALOGUE[payload.type].data.parse(payload.data), request.body)
    return payload
  })
}

/** Waits for an event of a type that `of` heard; the latest one. */
const next = (type: string, of = hook, fits: (payload: Payload) => boolean = () => true): Promise<Payload> =>
  until(() => heard(of).findLast((payload) => payload.type === type && fits(payload)), type)

/** D50: what every email event tells. */
const COMMON = [
  'email_id',
  'message_id',
  'domain_id',
  'from',
  'recipient',
  'recipient_role',
  'subject',
  'agent_id',
  'campaign_id',
  'contact_id',
]

async function mail(more: Record<string, unknown> = {}): Promise<{ id: string; message_id: string }> {
  const { body, status } = await postrider.api(
    'POST',
    '/outbound-emails',
    document('outbound-emails', {
      from: 'Ann <ann@here.test>',
      to: 'bob@there.test',
      subject: 'Hello ✓',
      html: '<p><a href="https://example.com/a?b=c&amp;d=e">link</a></p>',
      ...more,
    }),
  )
  assert.equal(status, 201, JSON.stringify(body))
  return { id: body.data.id, message_id: body.data.attributes.message_id }
}

function emailEvent({ data, type }: Payload, id: string, aspect?: string): void {
  assert.deepEqual(Object.keys(data).toSorted(), [...COMMON, ...(aspect ? [aspect] : [])].toSorted(), type)
  assert.equal(data.email_id, id)
  assert.equal(data.domain_id, domain.id)
  assert.equal(data.subject, 'Hello ✓')
  assert.match(data.from, /ann@here\.test/)
}

test('the catalogue has one line for each event type of the specification', () => {
  assert.equal(EVENT_TYPES.length, 28 + EXTENSION_EVENTS.length)
  assert.deepEqual(Object.keys(CATALOGUE).toSorted(), [...EVENT_TYPES].toSorted())
  for (const [type, { about, to }] of Object.entries(CATALOGUE)) {
    assert.match(about, /^[A-Z0-9].*[.…]$/, type)
    assert.equal(to, /^(usage|subscription|agent)\./.test(type) ? 'user' : 'domain', type)
  }
  assert.equal(new Set(Object.values(CATALOGUE).map(({ about }) => about)).size, EVENT_TYPES.length)
})

test('sent, delivered, opened and clicked', async () => {
  const on = document('domains', { open_tracking_enabled: true, click_tracking_enabled: true }, { id: domain.id })
  assert.equal((await postrider.api('PATCH', `/domains/${domain.id}`, on)).status, 200)
  const { id, message_id } = await mail({ agent_id: 'agent-7' })
  const delivered = await next('email.delivered', hook, ({ data }) => data.email_id === id)
  emailEvent(delivered, id, 'delivery')
  assert.deepEqual(
    [delivered.data.recipient, delivered.data.recipient_role, delivered.data.agent_id, delivered.data.message_id],
    ['bob@there.test', 'to', 'agent-7', message_id],
  )
  assert.deepEqual([delivered.data.campaign_id, delivered.data.contact_id], [null, null])
  assert.equal(delivered.data.delivery.smtp_code, 250)
  assert.match(delivered.data.delivery.remote_mta, /mx\.there\.test/)
  emailEvent(await next('email.sent'), id)
  const text = (await until(() => exchanger.heard.at(-1), 'mail')).message
    .replaceAll(/=\r\n/g, '')
    .replaceAll('=3D', '=')
  const pixel = /\/t\/o\/[\w.~-]+\.gif/.exec(text)![0]
  const link = /\/t\/c\/[\w.~-]+/.exec(text)![0]
  postrider.clock.leap(5 * MINUTE)
  const browser = { headers: { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0' } }
  assert.equal((await postrider.raw(pixel, browser)).status, 200)
  const opened = await next('email.opened')
  emailEvent(opened, id, 'open')
  assert.deepEqual(opened.data.open, { machine: false })
  await postrider.raw(link, browser)
  const clicked = await next('email.clicked')
  emailEvent(clicked, id, 'click')
  assert.deepEqual(clicked.data.click, { machine: false, url: 'https://example.com/a?b=c&d=e' })
})

test('each recipient has events of its own, with its role', async () => {
  const { id } = await mail({ cc: ['c1@there.test'], bcc: ['b1@there.test'] })
  const roles = await until(() => {
    const all = heard(hook).filter(({ data, type }) => type === 'email.delivered' && data.email_id === id)
    return all.length === 3 ? all.map(({ data }) => [data.recipient, data.recipient_role]) : undefined
  }, 'three deliveries')
  assert.deepEqual(
    roles.toSorted((a, b) => String(a).localeCompare(String(b))),
    [
      ['b1@there.test', 'bcc'],
      ['bob@there.test', 'to'],
      ['c1@there.test', 'cc'],
    ],
  )
})

test('bounced, delayed and given up; a reply without end is cut', async () => {
  const long = 'x'.repeat(450)
  exchanger.script.answer = (command) => (command.startsWith('RCPT') ? `550 5.1.1 no such user ${long}` : undefined)
  const bounced = await mail()
  const event = await next('email.bounced')
  emailEvent(event, bounced.id, 'bounce')
  const { bounce } = event.data
  assert.deepEqual(
    [bounce.kind, bounce.class, bounce.smtp_code, bounce.enhanced_code],
    ['bounced', 'hard', 550, '5.1.1'],
  )
  assert.match(bounce.response, /no such user/)
  exchanger.script.answer = (command) => (command.startsWith('RCPT') ? '451 4.3.0 later' : undefined)
  const late = await mail({ to: 'late@there.test' })
  const delayed = await next('email.delayed')
  emailEvent(delayed, late.id, 'delay')
  const { delay } = delayed.data
  assert.deepEqual([delay.attempts, delay.smtp_code, delay.enhanced_code], [1, 451, '4.3.0'])
  assert.ok(Date.parse(delay.next_attempt_at) > postrider.clock.now())
  for (let hours = 0; hours < 6 * 24; hours += 6) {
    postrider.clock.leap(6 * HOUR)
    await rest(postrider)
  }
  const failed = await next('email.bounced', hook, ({ data }) => data.email_id === late.id)
  emailEvent(failed, late.id, 'bounce')
  assert.equal(failed.data.bounce.kind, 'failed')
  delete exchanger.script.answer
})

test('domain events tell the state before and after', async () => {
  const made = await postrider.api('POST', '/domains', document('domains', { name: 'new.test', purpose: 'both' }))
  const { id } = made.body.data
  const fresh = { ...domain, id, key: 0 }
  const [row] = postrider.appliance.deps.store.all(raw<Domain>('select * from domains where id = ?', [id])) as [Domain]
  Object.assign(fresh, row)
  const own = await makeHook(postrider, receiver, fresh)
  postrider.publish(fresh)
  postrider.appliance.deps.bells.domains()
  const verified = await until(async () => {
    postrider.clock.leap(MINUTE)
    await rest(postrider)
    return heard(own).find(({ type }) => type === 'domain.verified')
  }, 'domain.verified')
  assert.deepEqual(verified.data, { domain_id: id, name: 'new.test', status: 'active', previous_status: 'verifying' })

  const beside = openStore(postrider.dataDir)
  try {
    await beside.write((tx) =>
      tx.run(
        raw(`create trigger stuck before update of deleted_at on domains when new.deleted_at is not null and new.name = 'new.test'
          begin select raise(abort, 'stuck'); end`),
      ),
    )
    assert.equal((await postrider.api('DELETE', `/domains/${id}`)).status, 502)
    const suspended = await next('domain.suspended', own)
    const { name, previous_status, status } = suspended.data
    assert.deepEqual([suspended.data.domain_id, name, status, previous_status], [id, 'new.test', 'suspended', 'active'])
  } finally {
    await beside.write((tx) => tx.run(raw('drop trigger stuck')))
    beside.close()
  }

  const lame = await postrider.api('POST', '/domains', document('domains', { name: 'lame.test', purpose: 'both' }))
  const [lameRow] = postrider.appliance.deps.store.all(
    raw<Domain>('select * from domains where id = ?', [lame.body.data.id]),
  ) as [Domain]
  const lameHook = await makeHook(postrider, receiver, lameRow)
  let once = false
  postrider.publish(lameRow, () => (once ? false : (once = true)))
  for (let hours = 0; hours < 90; hours += 6) {
    postrider.clock.leap(6 * HOUR)
    await rest(postrider)
  }
  const failed = await next('domain.verification_failed', lameHook)
  assert.deepEqual(
    [failed.data.name, failed.data.status, failed.data.previous_status],
    ['lame.test', 'failed', 'verifying'],
  )
})

test('events of a domain go to its webhooks alone, those of the account to all of the user’s, none to another user’s', async () => {
  const second = await postrider.activeDomain('second.test')
  const foreign = await postrider.activeDomain('bobs.test', postrider.other)
  const [here, there] = [await makeHook(postrider, receiver, domain), await makeHook(postrider, receiver, second)]
  const bobs = await makeHook({ api: (...given) => postrider.asOther(...given) }, receiver, foreign)
  const picky = await makeHook(postrider, receiver, domain, ['usage.limit_reached', 'domain.reputation_warning'])
  const ofDomain = EVENT_TYPES.filter(
    (type) => CATALOGUE[type].to === 'domain' && !/^(email|inbound_email|campaign)\./.test(type),
  )
  const ofUser = EVENT_TYPES.filter((type) => CATALOGUE[type].to === 'user')
  for (const type of ofDomain) await happen(postrider, domain, type)
  for (const type of ofUser) await happen(postrider, { user_key: postrider.user.key }, type)
  await here.arrived(ofDomain.length + ofUser.length)
  await there.arrived(ofUser.length)
  await picky.arrived(2)
  await rest(postrider)
  const types = (of: Hook): string[] =>
    heard(of)
      .map(({ type }) => type)
      .toSorted()
  assert.deepEqual(types(here), [...ofDomain, ...ofUser].toSorted())
  assert.deepEqual(types(there), ofUser.toSorted())
  assert.deepEqual(types(picky), ['domain.reputation_warning', 'usage.limit_reached'])
  assert.deepEqual(types(bobs), [])
  // One event, two endpoints: two deliveries with ids of their own.
  const ids = receiver.requests.map(({ headers }) => headers['webhook-id'])
  assert.equal(new Set(ids).size, ids.length)
})

test('what happened before a webhook was made is not told to it', async () => {
  const other = await postrider.activeDomain('later.test')
  await happen(postrider, other, 'domain.reputation_warning')
  await rest(postrider)
  postrider.clock.advance(SECOND)
  const late = await makeHook(postrider, receiver, other)
  await happen(postrider, other, 'domain.reputation_recovered')
  await late.arrived(1)
  assert.deepEqual(
    heard(late).map(({ type }) => type),
    ['domain.reputation_recovered'],
  )
})

test('the largest payloads stay under 20 KB and are well-formed', async () => {
  const { id } = await mail({ to: 'big@there.test' })
  await next('email.delivered', hook, ({ data }) => data.email_id === id)
  const [row] = postrider.appliance.deps.store.all(
    raw<{ email: number; delivery: number }>(
      'select e.key as email, d.key as delivery from outbound_emails e join deliveries d on d.email_key = e.key where e.id = ?',
      [id],
    ),
  ) as [{ email: number; delivery: number }]
  const { store } = postrider.appliance.deps
  // Surrogate pairs that any cut at an even or odd place would split.
  for (const url of [`https://example.com/${'😀'.repeat(8000)}`, `https://example.com/a${'😀'.repeat(8000)}`])
    await store.write((tx) =>
      appendEvent(tx, {
        type: 'email.clicked',
        user_key: domain.user_key,
        domain_key: domain.key,
        email_key: row.email,
        data: { delivery: row.delivery, machine: true, url },
        at: postrider.clock.now(),
      }),
    )
  await until(() => heard(hook).filter(({ data }) => data.click?.machine).length === 2, 'both clicks')
  for (const { data } of heard(hook).filter(({ data }) => data.click?.machine)) assert.ok(data.click.url.isWellFormed())
})

test('an event that is damaged in the database is told to nobody, holds up no other, and is found by verify', async () => {
  const { deps } = postrider.appliance
  await deps.store.write((tx) =>
    tx.run(
      raw(
        `insert into events (id, user_key, domain_key, type, data, created_at) values ('damaged', ?, ?, 'domain.verified', '{"from"', ?)`,
        [postrider.user.key, domain.key, deps.clock.now()],
      ),
    ),
  )
  const { id } = await mail({ to: 'after@there.test' })
  await next('email.delivered', hook, ({ data }) => data.email_id === id)
  assert.match(deps.store.verify().join(), /data in events is not JSON/)
  await deps.store.write((tx) => tx.run(raw(`delete from events where id = 'damaged'`)))
  assert.deepEqual(deps.store.verify(), [])
})
