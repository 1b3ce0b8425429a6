// Suppressions: their causes, the email that they block, and how they are listed and removed. "Suppression" and
// "Suppressions" of the specification, rule 3 of POST /outbound-emails, D12, D13, D25, D35, D36.
import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { suppress, type NewSuppression } from '../../src/suppressions/suppressions.ts'
import { hasLeft, leave, rejoin } from '../../src/campaigns/unsubscribe.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { DAY, HOUR, mail, mailsOf } from '../mail/mails.ts'

const { attempted, become, events, post, show, tryPost, turnToNext } = mailsOf(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test', 'else.test'] }))
const here = ofFile(() => postrider.activeDomain('here.test'))
const second = ofFile(() => postrider.activeDomain('second.test'))
const theirs = ofFile(() => postrider.activeDomain('theirs.test', postrider.other))

test('a domain that is registered again keeps its suppressions', async () => {
  const { store, clock } = postrider.appliance.deps
  const first = await postrider.activeDomain('again.test')
  const entry = { user_key: first.user_key, domain_key: first.key, source: 'smtp' } as const
  await store.write((tx) => {
    suppress(tx, { ...entry, address: 'gone@there.test', reason: 'hard_bounce', scope: 'all' }, clock.now())
    suppress(tx, { ...entry, address: 'left@there.test', reason: 'unsubscribe', scope: 'marketing' }, clock.now())
  })
  assert.equal((await postrider.api('DELETE', `/domains/${first.id}`)).status, 204)
  const attributes = { name: 'again.test', purpose: 'both' }
  const made = await postrider.api('POST', '/domains', { data: { type: 'domains', attributes } })
  const { data } = (await postrider.api('GET', `/suppressions?filter[domain]=${made.body.data.id}&sort=created_at`))
    .body
  assert.deepEqual(
    data.map(({ attributes: one }: { attributes: Record<string, string> }) => [one['email'], one['reason']]),
    [
      ['gone@there.test', 'hard_bounce'],
      ['left@there.test', 'unsubscribe'],
    ],
  )
  // A link or a report that still names the old domain means the new one.
  const late = { ...entry, address: 'late@there.test', reason: 'complaint', scope: 'all' } as const
  await store.write((tx) => suppress(tx, late, clock.now()))
  const { data: now } = (await postrider.api('GET', `/suppressions?filter[domain]=${made.body.data.id}`)).body
  assert.equal(now.length, 3)
  const link = { delivery: 0, domain: first.key, audience: 0, email: 'leaves@there.test' }
  const { deps } = postrider.appliance
  assert.equal(hasLeft(deps, link), false)
  assert.equal(await leave(deps, link), true)
  assert.equal(hasLeft(deps, link), true)
  await rejoin(deps, link)
  assert.equal(hasLeft(deps, link), false)
  // It does not apply to another owner's domain of that name.
  const theirs = await postrider.asOther('POST', '/domains', { data: { type: 'domains', attributes } })
  const none = await postrider.asOther('GET', `/suppressions?filter[domain]=${theirs.body.data.id}`)
  assert.deepEqual(none.body.data, [])
})

beforeEach(async () => {
  delete exchanger.script.answer
  delete exchanger.script.final
  await postrider.appliance.deps.store.write((tx) => {
    tx.run(raw('delete from suppressions'))
    tx.run(raw('delete from soft_bounces'))
  })
})

/** An entry as the operator, a report or an import makes it. */
async function enter(address: string, more: Partial<NewSuppression> = {}): Promise<string> {
  const { store, clock } = postrider.appliance.deps
  const given = {
    user_key: here.user_key,
    domain_key: here.key,
    address,
    reason: 'manual',
    source: 'manual',
    scope: 'all',
    ...more,
  } as const
  return (await store.write((tx) => suppress(tx, given, clock.now()))).id
}
interface Entry {
  id: string
  attributes: Record<string, string | null>
  relationships: { domain: { data: { id: string } } }
}
const list = async (query = ''): Promise<Entry[]> => {
  const { status, body } = await postrider.api('GET', `/suppressions${query}`)
  assert.equal(status, 200, JSON.stringify(body))
  return body.data
}
const emails = async (query = ''): Promise<(string | null)[]> =>
  (await list(query)).map(({ attributes }) => attributes['email']!)

/** The request is refused because of these recipients, each named with its place. */
async function refused(attributes: Record<string, unknown>, ...expected: [address: string, pointer: string][]) {
  const { status, body } = await tryPost(attributes)
  const at = JSON.stringify(body)
  assert.equal(status, 422, at)
  const errors = body.errors as { code: string; detail: string; source: { pointer: string } }[]
  assert.deepEqual(
    errors.map(({ code, source }) => [code, source.pointer]),
    expected.map(([, pointer]) => ['recipient_suppressed', `/data/attributes/${pointer}`]),
    at,
  )
  for (const [index, [address]] of expected.entries()) assert.ok(errors[index]!.detail.includes(address), at)
}
/** Sends an email whose recipients the receiving server rejects with the reply, and waits for its final status. */
async function bounce(reply: string, to: string, attributes: Record<string, unknown> = {}) {
  exchanger.script.answer = (command) => (command.startsWith('RCPT') && command.includes(to) ? reply : undefined)
  const id = await post({ to, ...attributes })
  const shown = await attempted(id, 1)
  delete exchanger.script.answer
  return { id, shown }
}
const softNotes = (): number =>
  postrider.appliance.deps.store.first(raw<{ n: number }>('select count(*) as n from soft_bounces'))!.n

// ---- blocked email

test('errors name all suppressed recipients with their positions in to, cc or bcc', async () => {
  await enter('gone@there.test')
  await enter('lost@there.test', { reason: 'hard_bounce', source: 'smtp' })
  await enter('angry@else.test', { reason: 'complaint', source: 'arf' })
  await refused({ to: 'gone@there.test' }, ['gone@there.test', 'to'])
  await refused({ cc: ['a@there.test', 'b@there.test', 'c@there.test', 'lost@there.test'] }, [
    'lost@there.test',
    'cc/3',
  ])
  await refused({ cc: 'lost@there.test' }, ['lost@there.test', 'cc'])
  await refused({ bcc: 'angry@else.test' }, ['angry@else.test', 'bcc'])
  await refused({ bcc: ['a@there.test', 'Angry <angry@else.test>'] }, ['angry@else.test', 'bcc/1'])
  await refused(
    { to: 'gone@there.test', cc: ['x@there.test', 'lost@there.test'], bcc: ['angry@else.test'] },
    ['gone@there.test', 'to'],
    ['lost@there.test', 'cc/1'],
    ['angry@else.test', 'bcc/0'],
  )
  // A repeat that is dropped does not move the places of the others.
  await refused({ cc: ['bob@there.test', 'a@there.test', 'a@there.test', 'lost@there.test'] }, [
    'lost@there.test',
    'cc/3',
  ])
  // However it is written.
  for (const to of ['GONE@THERE.TEST', 'Gone <gone@There.test>', ' gone@there.test ', '"x" <gone@there.test>'])
    assert.equal((await tryPost({ to })).body.errors?.[0].code, 'recipient_suppressed', to)
  await post({ to: 'gone@else.test' })
})

test('every reason with scope all blocks an email, and scope marketing does not', async () => {
  const sources = {
    hard_bounce: 'dsn',
    complaint: 'arf',
    manual: 'manual',
    list_import: 'import',
    soft_bounce: 'smtp',
  } as const
  for (const [reason, source] of Object.entries(sources) as [keyof typeof sources, 'smtp'][]) {
    await enter(`${reason}@there.test`, { reason, source })
    await refused({ to: `${reason}@there.test` }, [`${reason}@there.test`, 'to'])
  }
  await enter('left@there.test', { reason: 'unsubscribe', source: 'unsubscribe_link', scope: 'marketing' })
  await become(await post({ to: 'left@there.test', cc: 'left@there.test' }), 'delivered')
  // Both at once: the wider one stops it.
  await enter('left@there.test')
  await refused({ to: 'left@there.test' }, ['left@there.test', 'to'])
})

test('an entry expires at its time, and not before', async () => {
  const now = postrider.clock.now()
  await enter('soft@there.test', { reason: 'soft_bounce', source: 'smtp', expires_at: now + HOUR })
  postrider.clock.leap(HOUR - 1)
  await refused({ to: 'soft@there.test' }, ['soft@there.test', 'to'])
  postrider.clock.advance(1)
  await become(await post({ to: 'soft@there.test' }), 'delivered')
})

test('a suppression applies only to its sending domain, not to other domains or users', async () => {
  await enter('gone@there.test')
  await become(await post({ from: 'ann@second.test', to: 'gone@there.test' }), 'delivered')
  const other = await postrider.asOther(
    'POST',
    '/outbound-emails',
    mail({ from: 'bob@theirs.test', to: 'gone@there.test' }),
  )
  assert.equal(other.status, 201)
  await refused({ to: 'gone@there.test' }, ['gone@there.test', 'to'])
})

// ---- Reading and taking back

test('the list has attributes, filters, sorts and include, for the user’s domains only', async () => {
  const now = postrider.clock.now()
  await enter('a@there.test', { reason: 'manual' })
  await enter('b@there.test', { reason: 'unsubscribe', source: 'unsubscribe_mail', scope: 'marketing' })
  await enter('c@there.test', { reason: 'soft_bounce', source: 'smtp', expires_at: now + DAY })
  await enter('d@there.test', { reason: 'hard_bounce', source: 'dsn', domain_key: second.key })
  await enter('e@there.test', { user_key: theirs.user_key, domain_key: theirs.key })
  const [newest] = await list('?filter[email]=c@there.test')
  const time = new Date(now).toISOString()
  assert.deepEqual(newest!.attributes, {
    email: 'c@there.test',
    reason: 'soft_bounce',
    source: 'smtp',
    scope: 'all',
    expires_at: new Date(now + DAY).toISOString(),
    created_at: time,
    updated_at: time,
  })
  assert.equal((await list('?filter[email]=a@there.test'))[0]!.attributes['expires_at'], null)
  for (const [query, wanted] of [
    ['', ['d', 'c', 'b', 'a']],
    ['?filter[scope]=all', ['d', 'c', 'a']],
    ['?filter[scope]=marketing', ['b']],
    ['?filter[scope]=all,marketing', ['d', 'c', 'b', 'a']],
    ['?filter[reason]=hard_bounce,manual', ['d', 'a']],
    ['?filter[reason]=complaint', []],
    ['?filter[email]=e@there.test', []],
    [`?filter[domain]=${second.id}`, ['d']],
    [`?filter[domain]=${theirs.id}`, []],
    ['?sort=email', ['a', 'b', 'c', 'd']],
    ['?sort=-email', ['d', 'c', 'b', 'a']],
    ['?sort=created_at', ['a', 'b', 'c', 'd']],
    ['?sort=-updated_at,email', ['a', 'b', 'c', 'd']],
    ['?page[size]=2', ['d', 'c']],
  ] as const)
    assert.deepEqual(
      await emails(query),
      wanted.map((name) => `${name}@there.test`),
      query,
    )
  const { body } = await postrider.api('GET', '/suppressions?include=domain')
  assert.deepEqual(body.included.map(({ id }: { id: string }) => id).toSorted(), [here.id, second.id].toSorted())
  assert.equal((await list('?filter[email]=d@there.test'))[0]!.relationships.domain.data.id, second.id)
  for (const bad of [
    'filter[source]=smtp',
    'filter[expires_at]=x',
    'sort=reason',
    'include=user',
    'fields[suppressions]=strikes',
  ])
    assert.equal((await postrider.api('GET', `/suppressions?${bad}`)).status, 400, bad)
  const others = await postrider.asOther('GET', '/suppressions')
  assert.deepEqual(
    others.body.data.map(({ attributes }: Entry) => attributes['email']),
    ['e@there.test'],
  )
})

test('hard_bounce and complaint cannot be removed, and other reasons can', async () => {
  for (const reason of ['manual', 'list_import', 'soft_bounce', 'unsubscribe', 'hard_bounce', 'complaint'] as const) {
    const address = `${reason}@there.test`
    const id = await enter(address, { reason, source: 'manual', scope: reason === 'unsubscribe' ? 'marketing' : 'all' })
    assert.equal((await postrider.asOther('DELETE', `/suppressions/${id}`)).status, 404, 'another user cannot')
    const { status, body } = await postrider.api('DELETE', `/suppressions/${id}`)
    if (reason === 'hard_bounce' || reason === 'complaint') {
      assert.equal(status, 422)
      assert.equal(body.errors[0].code, 'permanent_suppression')
      await refused({ to: address }, [address, 'to'])
      assert.deepEqual(await emails(`?filter[email]=${address}`), [address])
      continue
    }
    assert.equal(status, 204)
    await become(await post({ to: address }), 'delivered')
    assert.deepEqual(await emails(`?filter[email]=${address}`), [])
    assert.equal((await postrider.api('DELETE', `/suppressions/${id}`)).status, 404, 'once')
  }
  // The API cannot read or write a single one.
  const id = await enter('a@there.test')
  for (const method of ['PATCH', 'PUT', 'POST'])
    assert.notEqual(Math.floor((await postrider.api(method, `/suppressions/${id}`, { data: {} })).status / 100), 2)
  assert.equal(Math.floor((await postrider.api('POST', '/suppressions', { data: {} })).status / 100), 4)
})

test('suppressions:read permits lists, suppressions:write permits removals', async () => {
  const id = await enter('a@there.test')
  const reader = await postrider.tokenFor(postrider.user, ['suppressions:read'])
  const writer = await postrider.tokenFor(postrider.user, ['suppressions:write'])
  const as = (token: string, method: string, path: string) =>
    postrider.raw(`/api/v1${path}`, { method, headers: { authorization: `Bearer ${token}` } })
  assert.equal((await as(reader, 'DELETE', `/suppressions/${id}`)).status, 403)
  assert.equal((await as(writer, 'GET', '/suppressions')).status, 403)
  assert.equal((await as(reader, 'GET', '/suppressions')).status, 200)
  assert.equal((await as(writer, 'DELETE', `/suppressions/${id}`)).status, 204)
})

// ---- How they come about

test('a hard bounce suppresses permanently, and the next email is rejected', async () => {
  for (const [index, reply] of [
    '550 5.1.1 The email account that you tried to reach does not exist',
    '550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found',
    '550 5.1.1 <x>: Recipient address rejected: User unknown in virtual mailbox table',
    '550 No such user here',
    '550 Requested action not taken: mailbox unavailable',
    '554 5.1.6 Recipient no longer on server',
    '550 5.4.1 Recipient address rejected: Access denied',
    '554 delivery error: dd Not a valid recipient',
    '550 5.2.1 The email account that you tried to reach is disabled',
  ].entries()) {
    const to = `hard${index}@there.test`
    const { id, shown } = await bounce(reply, to)
    assert.equal(shown.status, 'bounced', reply)
    const [entry] = await list(`?filter[email]=${to}`)
    assert.ok(entry, reply)
    const { email, expires_at, reason, scope, source } = entry.attributes
    assert.deepEqual(
      { email, expires_at, reason, scope, source },
      { email: to, expires_at: null, reason: 'hard_bounce', scope: 'all', source: 'smtp' },
    )
    assert.equal(events(id).filter(({ type }) => type === 'email.bounced').length, 1)
    await refused({ to }, [to, 'to'])
  }
})

test('repeated policy, content and infrastructure rejections never suppress', async () => {
  for (const [index, reply] of [
    '550 5.7.26 This mail has been blocked because the sender is unauthenticated',
    '550 5.7.515 Access denied, sending domain does not meet the required authentication level',
    '550 5.7.1 Service unavailable, Client host [192.0.2.1] blocked using Spamhaus',
    '550 5.7.1 Message rejected due to policy: user unknown to us as a sender',
    '554 5.7.1 <x@there.test>: Relay access denied',
    '554 5.7.9 Message not accepted for policy reasons',
    '550 5.7.606 Access denied, banned sending IP',
    '552 5.3.4 Message size exceeds fixed maximum message size',
    '554 5.6.0 Message contained unsafe content',
    '554 5.4.6 Too many hops',
    '521 5.7.0 Blocked',
    '554 Transaction failed',
    '550 High probability of spam',
    '550 TLS required',
    '550 5.1.1 This IP has sent to too many recipients this hour',
    '550 ',
  ].entries()) {
    const to = `policy${index}@there.test`
    for (let times = 0; times < 4; times++) assert.equal((await bounce(reply, to)).shown.status, 'bounced', reply)
    assert.deepEqual(await emails(), [], reply)
    assert.equal(softNotes(), 0, reply)
  }
})

test('only replies to RCPT suppress recipients (D63)', async () => {
  const GONE = '550 5.1.1 User unknown'
  const before = softNotes()
  for (const [verb, reply] of [
    ['EHLO', GONE],
    ['MAIL', '550 Your host is not welcome here'],
    ['MAIL', '553 5.1.0 Sender address rejected: no such user'],
    ['MAIL', GONE],
    ['MAIL', FULL],
    ['DATA', GONE],
    ['DATA', FULL],
    ['.', '550 Message content rejected'],
    ['.', GONE],
    ['.', FULL],
  ] as const) {
    const to = `told${verb === '.' ? 'last' : verb.toLowerCase()}@there.test`
    // A rejection at EHLO affects one email. The others keep their attempts (D64).
    for (let times = 0; times < (verb === 'EHLO' ? 1 : 3); times++) {
      // A connection that is kept does not repeat EHLO.
      postrider.clock.leap(HOUR)
      if (verb === '.') exchanger.script.final = () => reply
      else
        exchanger.script.answer = (command) =>
          command.startsWith(verb) || (verb === 'EHLO' && command.startsWith('HELO')) ? reply : undefined
      await attempted(await post({ to }), 1)
      delete exchanger.script.final
      delete exchanger.script.answer
    }
  }
  assert.deepEqual(await emails(), [])
  assert.equal(softNotes(), before)
})

const FULL = '552 5.2.2 The email account that you tried to reach is over quota'

test('three soft bounces within 72 hours suppress for 7 days, and further ones for up to 30', async () => {
  const to = 'full@there.test'
  for (const days of [7, 14, 28, 30, 30]) {
    for (let times = 0; times < 3; times++) {
      assert.deepEqual(
        (await list()).filter(({ attributes }) => Date.parse(attributes['expires_at']!) > postrider.clock.now()),
        [],
      )
      assert.equal((await bounce(FULL, to)).shown.status, 'bounced')
    }
    const [entry, ...more] = await list()
    assert.equal(more.length, 0)
    const { email, expires_at, reason, scope } = entry!.attributes
    assert.deepEqual({ email, reason, scope }, { email: to, reason: 'soft_bounce', scope: 'all' })
    assert.equal(Date.parse(expires_at!) - postrider.clock.now(), days * DAY)
    await refused({ to }, [to, 'to'])
    postrider.clock.leap(days * DAY - 1)
    await refused({ to }, [to, 'to'])
    postrider.clock.leap(1)
    // The domain is checked again after such a time. Sending needs it active.
    await until(
      async () => (await postrider.api('GET', `/domains/${here.id}`)).body.data.attributes.status === 'active',
    )
  }
})

test('soft bounces count for 72 hours, per address and domain', async () => {
  await bounce(FULL, 'slow@there.test')
  await bounce(FULL, 'slow@there.test')
  await bounce(FULL, 'other@there.test')
  await bounce(FULL, 'slow@there.test', { from: 'ann@second.test' })
  assert.deepEqual(await emails(), [])
  postrider.clock.leap(72 * HOUR + 1)
  await bounce(FULL, 'slow@there.test')
  assert.deepEqual(await emails(), [], 'the first two are too old')
  await bounce(FULL, 'slow@there.test')
  postrider.clock.leap(72 * HOUR - 1)
  assert.deepEqual(await emails(), [])
  await bounce(FULL, 'slow@there.test')
  assert.deepEqual(await emails(), ['slow@there.test'], 'the last moment still counts')
})

test('a deferral that is delivered later is not a soft bounce', async () => {
  const to = 'grey@there.test'
  for (let times = 0; times < 4; times++) {
    const { id } = await bounce('451 4.7.1 Greylisting in action, please come back later', to)
    await turnToNext(id)
    await become(id, 'delivered')
  }
  assert.equal(softNotes(), 0)
  assert.deepEqual(await emails(), [])
})

test('does not send to an address that was suppressed after acceptance, and sets the status suppressed (D25)', async () => {
  const to = 'late@there.test'
  const { id } = await bounce('451 4.3.0 Try again later', to, { cc: ['carl@else.test'] })
  await enter(to)
  const before = exchanger.commands.filter((line) => line.includes(to)).length
  await turnToNext(id)
  const shown = await become(id, 'suppressed')
  assert.equal(shown.recipients[0]!.status, 'suppressed')
  assert.equal(shown.recipients[0]!.next_attempt_at, null)
  assert.equal(Date.parse(shown['suppressed_at']!), postrider.clock.now())
  assert.equal(shown['bounced_at'], null)
  assert.equal(exchanger.commands.filter((line) => line.includes(to)).length, before)
  assert.ok(!events(id).some(({ type }) => type === 'email.bounced'))
  // The others get theirs.
  await until(async () => (await show(id)).recipients[1]!.status === 'delivered')
  // A removed or expired entry does not block.
  const { id: free } = await bounce('451 4.3.0 Try again later', 'free@there.test')
  await enter('free@there.test', { reason: 'soft_bounce', expires_at: postrider.clock.now() + 1 })
  await turnToNext(free)
  await become(free, 'delivered')
})

test('suppressed copies do not stop the email to the primary recipient', async () => {
  const { id } = await bounce('451 4.3.0 Try again later', 'there.test', { to: 'bob@there.test', cc: 'cut@there.test' })
  await enter('cut@there.test')
  await turnToNext(id)
  const shown = await become(id, 'delivered')
  // Each recipient has its own jitter.
  postrider.clock.leap(HOUR)
  await until(async () => (await show(id)).recipients[1]!.status === 'suppressed')
  assert.equal((await show(id)).status, 'delivered')
  const heard = exchanger.heard.find(({ message }) => message.includes(shown['message_id']!))!
  assert.deepEqual(heard.to, ['bob@there.test'])
})

test('results of cc and bcc cause events and suppressions, but do not change the status', async () => {
  for (const role of ['cc', 'bcc'] as const) {
    const gone = `${role}@there.test`
    exchanger.script.answer = (command) => (command === `RCPT TO:<${gone}>` ? '550 5.1.1 No such user' : undefined)
    const id = await post({ [role]: gone })
    const shown = await become(id, 'delivered')
    await until(async () => (await show(id)).recipients[1]!.status === 'bounced')
    assert.equal((await show(id)).status, 'delivered')
    assert.equal(shown['bounced_at'], null)
    assert.deepEqual(await emails(`?filter[email]=${gone}`), [gone])
    assert.equal(events(id).filter(({ type }) => type === 'email.bounced').length, 1)
    assert.equal(events(id).filter(({ type }) => type === 'email.delivered').length, 1)
    await refused({ to: gone }, [gone, 'to'])
  }
  // The reverse: the primary one is rejected, and the copies are delivered.
  exchanger.script.answer = (command) =>
    command === 'RCPT TO:<main@there.test>' ? '550 5.1.1 No such user' : undefined
  const id = await post({ to: 'main@there.test', cc: 'carl@there.test', bcc: 'dora@else.test' })
  const shown = await become(id, 'bounced')
  assert.ok(shown['bounced_at'] && shown['delivered_at'] === null)
  await until(async () => {
    const { recipients } = await show(id)
    return recipients.map(({ status }) => status).join(' ') === 'bounced delivered delivered'
  })
  assert.equal((await show(id)).status, 'bounced')
  assert.equal(events(id).filter(({ type }) => type === 'email.delivered').length, 2)
})
