// Tests members of accounts and their roles (D236): what each role can do over the API, the console and MCP, how
// members join and leave, and that rights end at once.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { apiInside } from '../../src/http/server.ts'
import { ROLE_NAMES, rightsOf, type RoleName } from '../../src/jsonapi/roles.ts'
import { SCOPES } from '../../src/jsonapi/scopes.ts'
import { addClient } from '../../src/users/oauth/clients.ts'
import { lockOut } from '../../src/users/operators.ts'
import { findUser, type User } from '../../src/users/users.ts'
import { db, raw } from '../../src/store/query.ts'
import { document, startTestAppliance, type Answer } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { Guest, type Shown } from '../kit/guest.ts'
import { letIn } from '../kit/oauth-client.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { parse } from '../kit/page.ts'
import { givePassword } from '../kit/person.ts'

const PASSWORD = 'a long enough password'
const SECRET = 'Reset your password'
const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test'] }))
const kit = campaignKit(() => postrider)
let ann: Guest
let campaign: string
let secret: string

setUp(async () => {
  const { notices } = postrider.appliance.deps.config
  notices.from = 'postrider@here.test'
  await givePassword(postrider, postrider.user.email, PASSWORD)
  ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  const [domain] = (await postrider.api('GET', '/domains')).body.data
  const audience = await kit.audience(domain)
  await kit.fill(audience, ['reader@there.test', 'second@there.test'])
  campaign = await kit.draft(audience)
  assert.equal(await kit.send(campaign), 'sent')
  const mail = { from: 'shop@here.test', to: 'customer@there.test', subject: SECRET, html: '<p>The link</p>' }
  secret = (await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))).body.data.id
  const suppress = (scope: string, email: string) =>
    raw(
      `insert into suppressions (id, user_key, domain_key, email, reason, source, scope, strikes, created_at, updated_at)
       select ?, user_key, key, ?, 'manual', 'manual', ?, 0, created_at, created_at from domains limit 1`,
      [`${scope}-${email}`, email, scope],
    )
  await store().write((tx) => {
    tx.run(suppress('marketing', 'unsubscribed@there.test'))
    tx.run(suppress('all', 'private@there.test'))
  })
})

const store = () => postrider.appliance.deps.store
const user = (email: string): User => findUser(store(), email)!
const mailsTo = (email: string): { subject: string; text: string }[] =>
  store().all(
    db.selectFrom('notices').select(['subject', 'text']).where('user_key', '=', user(email).key).orderBy('key'),
  )
const said = (shown: Shown): string => /role="status">([^<]*)</.exec(shown.text)?.[1]?.trim() ?? ''
const isIn = async (guest: Guest): Promise<boolean> => !(await guest.open('/account')).text.includes('name="password"')

let added = 0
/** Invites a new user to the first account, who signs in with a password. */
async function member(role: RoleName): Promise<{ email: string; guest: Guest; path: string }> {
  const email = `member${added++}@team.test`
  const shown = await ann.send(await ann.open('/members/new'), 'add', { email, name: 'Dora', role })
  const guest = new Guest(postrider)
  const [link] = /\/join\?link=\S+/.exec(mailsTo(email).at(-1)!.text)!
  await guest.send(await guest.open(link), 'password', { password: PASSWORD })
  return { email, guest, path: shown.path.split('?')[0]! }
}

/** The status and the error code of a request to the API by a signed-in user with a role. */
async function asRole(
  role: RoleName,
  method: string,
  path: string,
): Promise<Pick<Answer, 'status' | 'body'> & { code: string }> {
  const { id, key } = postrider.user
  const caller = {
    userKey: key,
    userId: id,
    tokenId: 'session',
    via: 'console' as const,
    ...rightsOf(role),
    operator: false,
    person: { key, email: 'somebody@team.test' },
  }
  const headers = { 'content-type': 'application/vnd.api+json' }
  const asked = new Request(`http://inside${path}`, { method, headers, ...(method === 'GET' ? {} : { body: '{}' }) })
  const response = await apiInside(postrider.appliance.deps)(caller, asked)
  const text = await response.text()
  const body = text.startsWith('{') ? JSON.parse(text) : {}
  return { status: response.status, code: body.errors?.[0]?.code ?? '', body }
}

describe('a role', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/roles.md'), 'utf8')
  const rows = [...page.matchAll(/^\| `(\w+) (\S+)`( \*)? \| (.+) \|$/gm)].map(([, method, path, person, cells]) => ({
    method: method!,
    path: path!,
    person: person !== undefined,
    cells: cells!.split(' | '),
  }))

  test('may do exactly what docs/roles.md says, request by request', async () => {
    assert.ok(rows.length > 90)
    const nobody = '019bc186-0000-7000-8000-000000000000'
    for (const { cells, method, path } of rows)
      for (const [index, role] of ROLE_NAMES.entries()) {
        const { code, status } = await asRole(role, method, path.replaceAll(/\{\w+\}/g, nobody))
        const refused = status === 403 && code === 'insufficient_scope'
        assert.equal(refused, cells[index] === '–', `${role}: ${method} ${path} (${status} ${code})`)
      }
  })

  test('needs a signed-in user for members, not a token with all scopes', async () => {
    for (const { method, path } of rows.filter(({ person }) => person)) {
      const asked = await postrider.api(method, path.replace(/\{\w+\}/, 'none'), method === 'GET' ? undefined : {})
      assert.equal(asked.status, 404, `${method} ${path}`)
    }
  })

  test('of a marketer shows only emails of campaigns and marketing suppressions', async () => {
    const { body } = await asRole('marketer', 'GET', '/outbound-emails')
    assert.equal(body.data.length, 2)
    assert.ok(body.data.every((each: { attributes: { subject: string } }) => each.attributes.subject !== SECRET))
    for (const part of ['', '/raw', '/stats', '/attempts'])
      assert.equal((await asRole('marketer', 'GET', `/outbound-emails/${secret}${part}`)).status, 404, part)
    assert.equal((await asRole('reader', 'GET', `/outbound-emails/${secret}`)).status, 200)
    assert.equal((await asRole('marketer', 'GET', `/outbound-emails/${body.data[0].id}/attempts`)).status, 200)
    const suppressed = (await asRole('marketer', 'GET', '/suppressions')).body.data
    assert.deepEqual(
      suppressed.map(({ attributes }: { attributes: { email: string } }) => attributes.email),
      ['unsubscribed@there.test'],
    )
    assert.equal((await asRole('marketer', 'DELETE', '/suppressions/all-private@there.test')).status, 404)
    const found = await asRole('marketer', 'GET', '/outbound-emails?filter[search]=password')
    assert.deepEqual(found.body.data, [])
    assert.equal((await asRole('marketer', 'GET', '/outbound-emails?include=domain')).status, 403)
  })

  for (const role of ROLE_NAMES)
    test(`of a ${role} opens the pages of the lists that it may request, and no others`, async () => {
      const { guest } = await member(role)
      const compared: string[] = []
      for (const { cells, method, path } of rows) {
        if (method !== 'GET' || path.includes('{')) continue
        const { status } = await guest.open(path)
        // The console has no page of this path.
        if (status === 404) continue
        compared.push(path)
        assert.equal(status, cells[ROLE_NAMES.indexOf(role)] === '–' ? 403 : 200, path)
      }
      assert.ok(compared.length > 7, compared.join(' '))
      const brand = await guest.open('/brand')
      assert.equal(/<button>Save/.test(brand.text), role !== 'reader')
      const [proof] = parse((await guest.open('/account')).text).map(({ hidden }) => hidden['proof'])
      const sent = new URLSearchParams({ proof: proof!, action: 'save', sender_name: role, colour: '#1d5bd8' })
      const saved = await guest.open('/brand', { method: 'POST', body: sent })
      assert.equal(saved.status, role === 'reader' ? 422 : 200)
      assert.match(saved.text, role === 'reader' ? /does not allow this/ : /Saved\. New campaigns/)
    })

  for (const role of ROLE_NAMES)
    test(`of a ${role}: every page that a menu or a link leads to opens`, async () => {
      const { guest } = await member(role)
      const seen = new Set<string>()
      const closed: string[] = []
      const from = new Map<string, string>()
      const open = ['/', `/campaigns/${campaign}`]
      for (let at = open.shift(); at !== undefined && seen.size < 100; at = open.shift()) {
        const path = at.replaceAll('&amp;', '&').split('#')[0]!
        // One page of each kind is enough.
        const kind = path.split('?')[0]!.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'ID')
        if (seen.has(kind) || kind.startsWith('/docs') || kind === '/picture') continue
        seen.add(kind)
        const shown = await guest.open(path)
        if (shown.status !== 200) closed.push(`${shown.status} ${path} from ${from.get(at) ?? ''}`)
        if (role === 'marketer') assert.ok(!shown.text.includes(SECRET), path)
        for (const [, to] of shown.text.matchAll(/<a\b[^>]*\shref="(\/[^"/][^"]*|\/)"/g)) {
          if (!from.has(to!)) from.set(to!, path)
          open.push(to!)
        }
      }
      assert.deepEqual(closed, [])
      assert.ok(seen.size > 10, [...seen].join(' '))
    })

  test('of a marketer adds suppressions for campaigns only', async () => {
    const { guest } = await member('marketer')
    const page = await guest.open('/suppressions/new')
    assert.match(page.text, /no longer sends campaigns to these addresses/)
    const { id } = (await postrider.api('GET', '/domains')).body.data[0]
    const added = await guest.send(page, 'add', { domain: id, emails: 'asked@there.test', reason: 'complaint' })
    assert.equal(said(added), '1 address suppressed.')
    const { data } = (await postrider.api('GET', '/suppressions?filter[email]=asked@there.test')).body
    assert.partialDeepStrictEqual(data[0].attributes, { reason: 'complaint', scope: 'marketing' })
    assert.match(
      (await guest.open('/suppressions')).text,
      /asked@there\.test[^]*Add addresses|Add addresses[^]*asked@there\.test/,
    )
  })

  test('of a marketer names the owner where a domain is missing', async () => {
    const { email, guest } = await member('marketer')
    await postrider.commands.json('user', 'add', 'empty@owner.test')
    await postrider.commands.json('user', 'role', email, 'marketer', '--account', 'empty@owner.test')
    await guest.send(await guest.open('/accounts'), 'switch')
    const { text } = await guest.open('/audiences')
    assert.match(text, /Ask an owner of the account to add a domain first/)
    assert.doesNotMatch(text, /domains\/new/)
  })

  test('of a marketer refuses pages and forms of domains, tokens, webhooks and members, and names nothing', async () => {
    const { guest } = await member('marketer')
    const [proof] = parse((await guest.open('/account')).text).map(({ hidden }) => hidden['proof'])
    const forms = ['/domains/new', '/tokens/new', '/webhooks/new', '/members/new']
    const posted = { method: 'POST', body: new URLSearchParams({ proof: proof!, action: 'add', name: 'x' }) }
    for (const [path, init] of [
      ...['/domains', '/tokens', '/webhooks', '/inboxes', '/members', '/privacy', '/audit', ...forms].map(
        (path) => [path, {}] as const,
      ),
      ...forms.map((path) => [path, posted] as const),
    ]) {
      const refused = await guest.open(path, init)
      assert.equal(refused.status, 403, path)
      assert.match(refused.text, /Your role in the account of ann@owner\.test \(Marketer\) does not allow this/)
      assert.doesNotMatch(refused.text, /here\.test/)
    }
    assert.equal((await guest.open('/people')).status, 404)
    assert.equal((await guest.open(`/mail/${secret}`)).status, 404)
    assert.equal((await guest.open(`/mail/${secret}/html`)).status, 404)
  })

  test('of a marketer applies to MCP, and ends with the membership', async () => {
    const { email, path } = await member('marketer')
    const { access_token } = await letIn(postrider, user(email), postrider.user)
    const call = async (name: string, args: object): Promise<{ status: number; text: string }> => {
      const response = await postrider.page('/mcp', {
        method: 'POST',
        headers: {
          authorization: `Bearer ${access_token}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } }),
      })
      return { status: response.status, text: await response.text() }
    }
    const tools = readFileSync(join(import.meta.dirname, '../../src/mcp/tools.ts'), 'utf8')
    const [list] = /name: 'list_[a-z_]*emails'/.exec(tools)!
    const emails = await call(list.slice(7, -1), {})
    assert.match(emails.text, /reader@there\.test/)
    assert.ok(!emails.text.includes(SECRET))
    assert.match((await call('list_domains', {})).text, /insufficient_scope/)
    await postrider.commands.json('user', 'add', `other-${email}`)
    await postrider.commands.json('user', 'role', email, 'reader', '--account', `other-${email}`)
    await ann.send(await ann.open(path), 'remove')
    assert.equal((await call('list_domains', {})).status, 401)
    // The grant does not come back with a new membership.
    await postrider.commands.json('user', 'role', email, 'developer', '--account', postrider.user.email)
    assert.equal((await call('list_domains', {})).status, 401)
  })

  test('of a developer creates no token with more rights: no privacy requests, and no operator', async () => {
    const { guest } = await member('developer')
    const create = (scopes: string[]): Promise<Shown> =>
      guest
        .open('/tokens/new')
        .then((page) => guest.send(page, 'add', { name: 'Shop', duration: '1_month', preset: '', scopes }))
    const form = await guest.open('/tokens/new')
    assert.doesNotMatch(form.text, /compliance:write/)
    const full = await guest.send(form, 'add', { name: 'All', duration: '1_month', preset: 'all' })
    assert.match(full.text, /pr_\w{43}/)
    const refused = await create(['compliance:write'])
    assert.doesNotMatch(refused.text, /pr_\w{43}/)
    const [token] = /pr_\w{43}/.exec((await create(['emails:read', 'emails:write'])).text)!
    const asks = async (path: string, bearer: string): Promise<number> =>
      (await postrider.raw(`/api/v1${path}`, { headers: { authorization: `Bearer ${bearer}` } })).status
    assert.equal(await asks('/outbound-emails', token!), 200)
    assert.equal(await asks('/lanes', token!), 404, 'the account is that of an operator, the developer is none')
    assert.equal(await asks('/lanes', postrider.token), 200)
  })
})

describe('an invitation to an account', () => {
  test('names account and role, and a new user joins with its link', async () => {
    const { email, guest } = await member('marketer')
    assert.match(mailsTo(email)[0]!.text, /Your role: Marketer of ann@owner\.test\./)
    assert.match((await guest.open('/account')).text, /Marketer of ann@owner\.test/)
    const list = (await ann.open('/members')).text
    assert.match(list, new RegExp(email))
  })

  test('of a present user is accepted on their page, and by nobody else', async () => {
    const { email } = postrider.other
    await givePassword(postrider, email, PASSWORD)
    const bob = new Guest(postrider)
    await bob.signIn(email, PASSWORD)
    await ann.send(await ann.open('/members/new'), 'add', { email, name: '', role: 'developer' })
    assert.match(mailsTo(email).at(-1)!.text, /Your role: Developer\.[^]*\/accounts/)
    assert.doesNotMatch((await bob.open('/mail')).text, new RegExp(SECRET))
    const { guest } = await member('reader')
    const id = store().one(
      db
        .selectFrom('members')
        .select('id')
        .where('member_key', '=', postrider.other.key)
        .where('joined_at', 'is', null),
    ).id
    const foreign = await guest.send(await guest.open('/accounts'), 'leave', { id })
    assert.equal(foreign.status, 404)
    const accounts = await bob.open('/accounts')
    assert.equal(
      said(await bob.send(accounts, 'accept')),
      'You are working in the account of ann@owner.test as Developer.',
    )
    assert.match((await bob.open('/mail')).text, new RegExp(SECRET))
    const own = store().one(db.selectFrom('members').select('id').where('user_key', '=', postrider.other.key)).id
    await bob.send(await bob.open('/accounts'), 'switch', { id: own })
    assert.doesNotMatch((await bob.open('/mail')).text, new RegExp(SECRET))
    const again = await ann.send(await ann.open('/members/new'), 'add', { email, name: '', role: 'reader' })
    assert.equal(again.status, 422)
    assert.match(again.text, /is a member of the account, or invited already/)
    const left = await bob.send(await bob.open('/accounts'), 'leave', { id })
    assert.equal(said(left), 'You left the account of ann@owner.test.')
    assert.ok(await isIn(bob))
  })
})

describe('a member', () => {
  test('with a new role is refused a form that was opened before', async () => {
    const { email, guest, path } = await member('marketer')
    const form = await guest.open('/audiences/new')
    assert.equal(said(await ann.send(await ann.open(path), 'role', { role: 'reader' })), `${email} is now Reader.`)
    const refused = await guest.send(form, 'add', {
      name: 'Late',
      domain: (await postrider.api('GET', '/domains')).body.data[0].id,
    })
    assert.deepEqual(
      (await postrider.api('GET', '/audiences')).body.data.filter(
        ({ attributes }: { attributes: { name: string } }) => attributes.name === 'Late',
      ),
      [],
    )
    assert.match(refused.text, /\(Reader\) does not allow this/)
  })

  test('who is removed loses session, live stream, sign-in and invitation at once', async () => {
    const { email, guest, path } = await member('developer')
    const cookie = [...guest.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const stream = await postrider.page('/live', { headers: { cookie } })
    assert.equal(stream.status, 200)
    const open = await member('reader')
    assert.equal(said(await ann.send(await ann.open(path), 'remove')), `${email} is no longer a member.`)
    assert.ok(!(await isIn(guest)))
    // This ends only with the stream.
    await stream.text()
    assert.equal(findUser(store(), email), undefined, 'nothing is left that could sign in')
    assert.ok(await isIn(open.guest))
  })

  test('cannot leave or be demoted as the last owner, not even by two owners at the same time', async () => {
    const bob = new Guest(postrider)
    await givePassword(postrider, postrider.other.email, PASSWORD)
    await bob.signIn(postrider.other.email, PASSWORD)
    const [own] = store().all(db.selectFrom('members').select('id').where('user_key', '=', postrider.other.key))
    const left = await bob.send(await bob.open('/accounts'), 'leave', { id: own!.id })
    assert.equal(left.status, 422)
    assert.match(left.text, /An account needs an owner/)
    const { email, guest } = await member('owner')
    const isOther = raw(`delete from members where role = 'owner' and user_key = ? and member_key not in (?, ?)`, [
      postrider.user.key,
      postrider.user.key,
      user(email).key,
    ])
    await store().write((tx) => tx.run(isOther))
    const idOf = (key: number): string =>
      store().one(
        db.selectFrom('members').select('id').where('member_key', '=', key).where('user_key', '=', postrider.user.key),
      ).id
    const [byAnn, byOther] = [
      await ann.open(`/members/${idOf(user(email).key)}`),
      await guest.open(`/members/${idOf(postrider.user.key)}`),
    ]
    const both = await Promise.all([
      ann.send(byAnn, 'role', { role: 'reader' }),
      guest.send(byOther, 'role', { role: 'reader' }),
    ])
    assert.equal(
      both.filter(
        ({ text }) => text.includes('An account needs an owner') || text.includes('Ask an owner of the account'),
      ).length >= 1,
      true,
    )
    const owners = store().all(
      db.selectFrom('members').select('key').where('user_key', '=', postrider.user.key).where('role', '=', 'owner'),
    )
    assert.equal(owners.length, 1)
    // The operator is owner again for the other tests.
    await store().write((tx) =>
      tx.run(
        db
          .updateTable('members')
          .set({ role: 'owner' })
          .where('user_key', '=', postrider.user.key)
          .where('member_key', '=', postrider.user.key),
      ),
    )
  })

  test('who is locked out by the operator cannot be let in again by an owner', async () => {
    const { email, path } = await member('reader')
    await lockOut(postrider.appliance.deps, email)
    const page = await ann.open(path)
    const [proof] = parse(page.text).map(({ hidden }) => hidden['proof'])
    const body = new URLSearchParams({ proof: proof!, action: 'invite' })
    const refused = await ann.open(path, { method: 'POST', body })
    assert.match(refused.text, /cannot be invited again/)
    assert.ok(user(email).locked_at !== null)
  })

  test('of another account is 404 over the API', async () => {
    const bob = new Guest(postrider)
    await givePassword(postrider, postrider.other.email, PASSWORD)
    await bob.signIn(postrider.other.email, PASSWORD)
    const { path } = await member('reader')
    assert.equal((await bob.open(path)).status, 404)
  })
})

test('API tokens keep all their scopes', async () => {
  const { body } = await postrider.api('GET', '/personal-access-tokens')
  assert.deepEqual(
    body.data.find((each: { attributes: { name: string } }) => each.attributes.name === 'test').attributes.scopes,
    [...SCOPES],
  )
})

test('a form of one account has no effect after a switch to another account, or after the removal from it', async () => {
  const { email, guest, path } = await member('owner')
  await postrider.commands.json('user', 'add', 'second@owner.test')
  await postrider.commands.json('user', 'role', email, 'owner', '--account', 'second@owner.test')
  const second = user('second@owner.test')
  const shown = async (): Promise<string> =>
    /<a href="\/accounts">[^]*?(\S+@\S+) · /.exec((await guest.open('/account')).text)![1]!
  await guest.send(await guest.open('/accounts'), 'switch', { id: idOf(postrider.user.key, email) })
  assert.equal(await shown(), 'ann@owner.test')
  const [stale, brand] = [await guest.open('/members/new'), await guest.open('/brand')]
  const redirect_uri = 'http://127.0.0.1:1/callback'
  const client = await addClient(postrider.appliance.deps, { name: 'Agent', redirectUris: [redirect_uri] })
  const asked = { client_id: client!.id, redirect_uri, response_type: 'code', code_challenge: 'c'.repeat(43) }
  const consent = await guest.open(
    `/oauth/authorize?${new URLSearchParams({ ...asked, code_challenge_method: 'S256' }).toString()}`,
  )
  assert.match(consent.text, /ann@owner\.test/)
  await guest.send(await guest.open('/accounts'), 'switch', { id: idOf(second.key, email) })
  assert.equal(await shown(), 'second@owner.test')
  const members = () => store().all(db.selectFrom('members').select('key').where('user_key', '=', second.key)).length
  const before = members()
  const sent = await guest.send(stale, 'add', { email: 'stale@friend.test', name: '', role: 'owner' })
  assert.equal(sent.status, 403)
  assert.match(sent.text, /for another account or browser\. You are now in the account of\s+second@owner\.test/)
  assert.equal((await guest.send(brand, 'save', { sender_name: 'Stale' })).status, 403)
  assert.equal(members(), before)
  assert.notEqual((await guest.send(consent, 'allow')).status, 303)
  assert.equal(
    store().all(db.selectFrom('oauth_grants').select('key').where('user_key', '=', user(email).key)).length,
    0,
  )

  await guest.send(await guest.open('/accounts'), 'switch', { id: idOf(postrider.user.key, email) })
  const open = await guest.open('/members/new')
  await ann.send(await ann.open(path), 'remove')
  assert.equal((await guest.send(open, 'add', { email: 'stale@friend.test', name: '', role: 'owner' })).status, 403)
  assert.equal(members(), before)
  // The menu works in every account.
  const [menu] = parse(open.text)
  await guest.open('/sign-out', { method: 'POST', body: new URLSearchParams({ proof: menu!.hidden['proof']! }) })
  assert.equal(await isIn(guest), false)
})

const idOf = (account: number, email: string): string =>
  store().one(
    db.selectFrom('members').select('id').where('user_key', '=', account).where('member_key', '=', user(email).key),
  ).id

test('a removal does not take an account from other members, or the last owner from an account', async () => {
  const { commands } = postrider
  for (const name of ['jon', 'kim', 'gus']) await commands.json('user', 'add', `${name}@owner.test`)
  await commands.json('user', 'role', 'kim@owner.test', 'owner', '--account', 'jon@owner.test')
  assert.match(
    await commands.fails('user', 'remove', 'jon@owner.test', '--yes'),
    /^1 other owner works in the account of jon@owner\.test, so it cannot be removed; lock the user instead/,
  )
  await commands.json('user', 'role', 'jon@owner.test', 'developer', '--account', 'jon@owner.test')
  assert.match(
    await commands.fails('user', 'remove', 'kim@owner.test', '--yes'),
    /^kim@owner\.test is the only owner of the account of jon@owner\.test; make another member an owner first/,
  )
  // An owner who is locked out does not count.
  await commands.json('user', 'role', 'gus@owner.test', 'owner', '--account', 'jon@owner.test')
  await commands.json('user', 'lock', 'gus@owner.test', '--yes')
  assert.match(
    await commands.fails('user', 'role', 'kim@owner.test', 'reader', '--account', 'jon@owner.test'),
    /An account needs an owner/,
  )
})
