// Tests the audit log (D237): who changed what, when and from where.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, MINUTE } from '../../src/base/clock.ts'
import { addEntry, forgetEntries } from '../../src/jsonapi/audit.ts'
import { removeUser } from '../../src/users/operators.ts'
import { addUser } from '../../src/users/users.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { parse } from '../kit/page.ts'
import { PASSWORD, signedIn } from '../kit/signed-in.ts'

const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'] }))
let ann: Guest
setUp(async () => {
  ann = await signedIn(postrider)
})

interface Shown {
  actor: string
  via: string
  address: string | null
  action: string
  subject: string | null
}
const entries = async (query = ''): Promise<Shown[]> =>
  (await postrider.api('GET', `/audit-entries?sort=-created_at${query}`)).body.data.map(
    ({ attributes }: { attributes: Shown }) => attributes,
  )
const audience = async (name: string): Promise<string> => {
  const [{ id }] = (await postrider.api('GET', '/domains')).body.data
  const relationships = { domain: { data: { type: 'domains', id } } }
  return (await postrider.api('POST', '/audiences', document('audiences', { name }, { relationships }))).body.data.id
}

test('names the user in the console, the token, and the command that changed something', async () => {
  await audience('By token')
  const [byToken] = await entries()
  assert.partialDeepStrictEqual(byToken, { actor: 'test', via: 'api', action: 'audiences.create', subject: 'By token' })

  postrider.clock.advance(1)
  await ann.send(await ann.open('/tokens/new'), 'add', { name: 'Shop', duration: '1_month', scopes: 'emails:read' })
  const [inConsole] = await entries()
  assert.partialDeepStrictEqual(inConsole, {
    actor: 'ann@owner.test',
    via: 'console',
    action: 'tokens.create',
    subject: 'Shop',
  })

  const { commands } = postrider
  await commands.json('user', 'add', 'carl@owner.test')
  const [command] = await commands.json<Shown[]>('audit', '--limit', '1')
  assert.partialDeepStrictEqual(command, {
    via: 'command',
    address: null,
    action: 'user add',
    subject: 'carl@owner.test',
  })
  const before = (await commands.json<Shown[]>('audit')).length
  await commands.json('user', 'list')
  assert.equal((await commands.json<Shown[]>('audit')).length, before, 'a command that only reads is not logged')
})

test('has one entry for a row of equal changes of a campaign, and none for refused requests, emails and contacts of applications', async () => {
  const to = { audience: { data: { type: 'audiences', id: await audience('Readers') } } }
  const draft = document('campaigns', { name: 'June', subject: 'Hi', body_html: '<p>Hi</p>' }, { relationships: to })
  const { id } = (await postrider.api('POST', '/campaigns', draft)).body.data
  const rename = (name: string) =>
    postrider.api('PATCH', `/campaigns/${id}`, { data: { type: 'campaigns', id, attributes: { name } } })
  const count = async (): Promise<number> => (await entries(`&filter[subject_id]=${id}`)).length
  for (let at = 0; at < 5; at++) await rename('Renamed')
  assert.equal(await count(), 2)
  postrider.clock.advance(11 * MINUTE)
  await rename('Renamed')
  assert.equal(await count(), 3)
  assert.equal((await rename('')).status, 422)
  assert.equal(await count(), 3)
  const all = (await entries('&page[size]=100')).length
  const contacts = `/audiences/${to.audience.data.id}/contacts`
  await postrider.api('POST', contacts, document('contacts', { email: 'ada@there.test' }))
  const mail = { from: 'shop@here.test', to: 'ada@there.test', subject: 'Hi', html: '<p>Hi</p>' }
  assert.equal((await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))).status, 201)
  assert.equal((await entries('&page[size]=100')).length, all)
})

test('has an entry for each change of a role, with the new role', async () => {
  await ann.send(await ann.open('/members/new'), 'add', { email: 'eve@team.test', name: '', role: 'reader' })
  const [, path] = /href="(\/members\/[^"]+)"[^>]*>\s*eve@team\.test/.exec((await ann.open('/members')).text)!
  for (const role of ['marketer', 'owner', 'reader', 'owner']) await ann.send(await ann.open(path!), 'role', { role })
  const { commands } = postrider
  await commands.json('user', 'role', 'eve@team.test', 'developer', '--account', 'ann@owner.test')
  const found = (await entries('&filter[search]=eve@team.test')) as (Shown & { role: string })[]
  assert.deepEqual(
    found.map(({ action, role }) => [action, role]),
    [
      ['user role', 'developer'],
      ['members.update', 'owner'],
      ['members.update', 'reader'],
      ['members.update', 'owner'],
      ['members.update', 'marketer'],
      ['members.create', 'reader'],
    ],
  )
  assert.match((await ann.open('/audit?q=eve')).text, /eve@team\.test\s*<span class="soft">owner<\/span>/)
})

test('shows hostile names as text, can be searched, and shows nothing of another account', async () => {
  const name = '<script>alert(1)</script>'
  await audience(name)
  const page = (await ann.open('/audit?q=script')).text
  assert.match(page, /&lt;script&gt;alert\(1\)/)
  assert.doesNotMatch(page, /<script>alert/)
  assert.deepEqual((await entries('&filter[search]=nothing-like-this')).length, 0)
  assert.deepEqual((await entries('&filter[via]=mcp')).length, 0)
  assert.equal((await postrider.api('GET', '/audit-entries?sort=actor')).status, 400)
  const other = await postrider.raw('/api/v1/audit-entries', {
    headers: { authorization: `Bearer ${postrider.otherToken}` },
  })
  assert.deepEqual(other.body.data, [])
})

test('logs a new password, sign-in methods, and members who join and leave', async () => {
  const { email } = postrider.other
  const bob = await signedIn(postrider, email)
  await bob.send(await bob.open('/account'), 'password', { old: 'wrong', new: 'another long password' })
  await bob.send(await bob.open('/account'), 'password', { old: PASSWORD, new: 'another long password' })
  const own = await postrider.raw('/api/v1/audit-entries', {
    headers: { authorization: `Bearer ${postrider.otherToken}` },
  })
  assert.deepEqual(
    own.body.data.map(({ attributes: { action, actor, via } }: { attributes: Shown }) => [action, actor, via]),
    [['users.set_password', email, 'console']],
  )
  await ann.send(await ann.open('/members/new'), 'add', { email, name: '', role: 'developer' })
  postrider.clock.advance(1)
  const accounts = await bob.open('/accounts')
  const membership = parse(accounts.text).find(({ hidden }) => hidden['action'] === 'accept')!.hidden['id']!
  await bob.send(accounts, 'accept')
  postrider.clock.advance(1)
  await bob.send(await bob.open('/account'), 'password', { old: 'another long password', new: PASSWORD })
  postrider.clock.advance(1)
  await bob.send(await bob.open('/accounts'), 'leave', { id: membership })
  const shown = (await entries('&filter[via]=console')).slice(0, 4)
  assert.deepEqual(
    shown.map(({ action, subject }) => [action, subject]),
    [
      ['members.leave', email],
      ['users.set_password', email],
      ['members.accept', email],
      ['members.create', email],
    ],
  )
})

test('names a user who is removed with a hash, in the entry of the removal as well', async () => {
  const invite = async (address: string): Promise<Shown> => {
    postrider.clock.advance(1)
    await ann.send(await ann.open('/members/new'), 'add', { email: address, name: '', role: 'reader' })
    return (await entries('&filter[via]=console'))[0]!
  }
  const isHidden = /^erased-[0-9a-f]{12}@erased\.invalid$/
  assert.equal((await invite('mia@team.test')).subject, 'mia@team.test')
  const shown = await ann.open('/members')
  const [, path] = /href="(\/members\/[^"]+)">\s*mia@team\.test/.exec(shown.text)!
  postrider.clock.advance(1)
  await ann.send(await ann.open(path!), 'remove')
  const [removed, invited] = await entries('&filter[via]=console')
  assert.equal(removed!.action, 'members.delete')
  assert.match(removed!.subject!, isHidden)
  assert.equal(invited!.subject, removed!.subject)

  const { commands } = postrider
  await commands.json('user', 'add', 'tim@team.test')
  await commands.json('user', 'remove', 'tim@team.test', '--yes')
  const [byCommand, added] = await commands.json<Shown[]>('audit', '--limit', '2')
  assert.equal(byCommand!.action, 'user remove')
  assert.match(byCommand!.subject!, isHidden)
  assert.equal(added!.subject, byCommand!.subject)
})

test('keeps entries for 13 months, and a hash in place of a removed user', async () => {
  const { deps } = postrider.appliance
  const { clock, store } = deps
  const user = await addUser(deps, { email: 'gone@owner.test' })
  const entry = {
    user_key: postrider.user.key,
    actor: user.email,
    via: 'console' as const,
    address: '127.0.0.1',
    action: 'webhooks.create',
    subject_type: 'webhooks',
    subject_id: null,
    subject: user.email,
    role: null,
  }
  await store.write((tx) => addEntry(tx, entry, clock.now()))
  await removeUser(deps, user.email)
  const [shown] = await entries('&filter[search]=webhooks.create')
  assert.match(shown!.actor, /^erased-[0-9a-f]{12}@erased\.invalid$/)
  assert.equal(shown!.subject, shown!.actor)
  await forgetEntries(store, clock.now() + 390 * DAY)
  assert.ok((await entries()).length > 0)
  await forgetEntries(store, clock.now() + 397 * DAY)
  // The command of another test has the time of the machine.
  assert.deepEqual(
    (await entries()).filter(({ via }) => via !== 'command'),
    [],
  )
})
