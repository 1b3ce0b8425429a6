// Tests users who found an account and no longer own it: notifications and exports go to its present owners, and they
// can be invited again.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY } from '../../src/base/clock.ts'
import { raw } from '../../src/store/query.ts'
import { membersOf } from '../../src/users/members.ts'
import { addNotice, endAttempt, listNotices } from '../../src/users/notices.ts'
import { operatorOf } from '../../src/users/operator-notices.ts'
import { addUser, findUser, setPassword, type User } from '../../src/users/users.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { PASSWORD, signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

const postrider = ofFile(() => startTestAppliance())
const store = () => postrider.appliance.deps.store
const user = (email: string): User => findUser(store(), email)!
const run = (...words: string[]): Promise<unknown> => postrider.commands.json(...words)
/** The subjects and recipients of notifications, newest first. */
const notices = (subject: RegExp) => listNotices(store()).filter((each) => subject.test(each.subject))

const FOUNDER = 'bob@other.test'
const SECOND = 'gus@team.test'
let gus: Guest

// Bob founded the account, Gus and Zoe joined it as owners, and Gus removed Bob.
setUp(async () => {
  assert.equal(postrider.other.email, FOUNDER)
  postrider.appliance.deps.config.notices.from = 'postrider@theirs.test'
  await postrider.activeDomain('theirs.test', postrider.other)
  const mail = { from: 'me@theirs.test', to: 'ada@there.test', subject: 'Hello', html: '<p>Hello</p>' }
  assert.equal((await postrider.asOther('POST', '/outbound-emails', document('outbound-emails', mail))).status, 201)
  for (const email of [SECOND, 'zoe@team.test']) {
    await addUser(postrider.appliance.deps, { email, password: PASSWORD })
    await run('user', 'role', email, 'owner', '--account', FOUNDER)
    postrider.clock.advance(1)
  }
  const bob = await signedIn(postrider, FOUNDER)
  gus = await signedIn(postrider, SECOND)
  await switchTo(gus)
  await remove()
  assert.notEqual((await bob.open('/accounts')).path, '/accounts')
})

/** Shows the account of the founder. */
async function switchTo(guest: Guest): Promise<void> {
  const { text } = await guest.open('/accounts')
  const [row] = /<tr(?:(?!<\/tr>)[^])*bob@other\.test[^]*?<\/tr>/.exec(text)!
  const [, id] = /name="id"\s+value="([^"]+)"/.exec(row)!
  if (row.includes('Switch')) await guest.send(await guest.open('/accounts'), 'switch', { id: id! })
}

async function remove(): Promise<void> {
  const { text } = await gus.open('/members')
  const [, path] = /href="(\/members\/[^"]+)"[^>]*>\s*bob@other\.test/.exec(text)!
  await gus.send(await gus.open(path!), 'remove')
  assert.ok(user(FOUNDER).locked_at !== null)
}

test('receive no notification of the account, which goes to the owner who joined first', async () => {
  const notice = { user_key: postrider.other.key, domain_key: null, subject: 'Webhook disabled', text: 'It failed.' }
  await store().write((tx) => addNotice(tx, notice, postrider.clock.now()))
  assert.equal(notices(/Webhook/)[0]!.email, SECOND)
  await run('user', 'role', SECOND, 'reader', '--account', FOUNDER)
  assert.equal(notices(/Webhook/)[0]!.email, 'zoe@team.test')
  await run('user', 'role', SECOND, 'owner', '--account', FOUNDER)
  await run('user', 'role', FOUNDER, 'owner', '--account', FOUNDER)
  assert.equal(notices(/Webhook/)[0]!.email, SECOND, 'the founder is locked out')
  await setPassword(postrider.appliance.deps, FOUNDER, PASSWORD)
  assert.equal(notices(/Webhook/)[0]!.email, FOUNDER)
  const sent = { result: 'mailed', response: '250 OK' } as const
  await store().write((tx) => endAttempt(tx, notices(/Webhook/)[0]!, sent, postrider.clock.now()))
  await run('user', 'role', FOUNDER, 'reader', '--account', FOUNDER)
  assert.equal(notices(/Webhook/)[0]!.email, FOUNDER, 'the list names who received it')
  await remove()
})

test('receive no data export: it goes to the user who asked, or for a token to the owner', async () => {
  const exports = () => notices(/data export/).map(({ email }) => email)
  await gus.send(await gus.open('/privacy?q=ada@there.test'), 'export')
  await until(() => exports().length === 1, 'the export of the user')
  assert.deepEqual(exports(), [SECOND])
  await run('user', 'role', SECOND, 'reader', '--account', FOUNDER)
  assert.equal((await postrider.asOther('GET', '/recipients/ada@there.test/data')).status, 202)
  await until(() => exports().length === 2, 'the export of the token')
  assert.deepEqual(exports(), ['zoe@team.test', SECOND])
  await run('user', 'role', SECOND, 'owner', '--account', FOUNDER)
})

test('alerts about the server go to an operator, not to the first user who is one no longer', async () => {
  const recipient = () => operatorOf(store(), postrider.config)?.recipient
  assert.equal(recipient(), postrider.user.email)
  await run('user', 'set', SECOND, '--operator', 'yes')
  await run('user', 'set', postrider.user.email, '--operator', 'no')
  assert.equal(recipient(), SECOND)
  await run('user', 'set', postrider.user.email, '--operator', 'yes')
  await run('user', 'set', SECOND, '--operator', 'no')
  gus = await signedIn(postrider, SECOND)
  await switchTo(gus)
})

/** The link of the newest invitation to an address. */
const linkTo = (email: string): string =>
  /\/join\?link=\S+/.exec(notices(/invited/).find((each) => each.email === email)!.text)![0]
const inviteTo = async (email: string, role = 'developer'): Promise<{ status: number; text: string; path: string }> =>
  gus.send(await gus.open('/members/new'), 'add', { email, name: '', role })

test('an invited user is only an address to the owners of the account until they accept', async () => {
  const email = 'private@far.test'
  await addUser(postrider.appliance.deps, { email, name: 'Private Name', password: PASSWORD })
  const shown = await inviteTo(email)
  assert.match(shown.text, /private@far\.test/)
  assert.doesNotMatch(shown.text, /Two-factor/)
  assert.doesNotMatch((await gus.open('/members')).text, /Private Name/)
  const guest = new Guest(postrider)
  await guest.signIn(email, PASSWORD)
  await guest.send(await guest.open('/accounts'), 'accept')
  assert.match((await gus.open('/members')).text, /Private Name/)
  assert.match((await gus.open(shown.path)).text, /Two-factor/)
})

test('can be invited again: a link leads into the account, with the role of the invitation', async () => {
  assert.equal((await inviteTo(FOUNDER)).status, 200)
  assert.equal(user(FOUNDER).locked_at, null)
  const bob = new Guest(postrider)
  const joining = await bob.open(linkTo(FOUNDER))
  assert.match(joining.text, /Your role: Developer of bob@other\.test/)
  await bob.send(joining, 'password', { password: PASSWORD })
  assert.match((await bob.open('/account')).text, /Developer of bob@other\.test/)
  await remove()
})

test('without an account are told so at sign-in, and join with it if they were invited', async () => {
  await setPassword(postrider.appliance.deps, FOUNDER, PASSWORD)
  const bob = new Guest(postrider)
  const refused = await bob.signIn(FOUNDER, PASSWORD)
  assert.equal(refused.status, 403)
  assert.match(refused.text, /not a member of an account/)
  await run('user', 'role', FOUNDER, 'reader', '--account', 'ann@owner.test')
  assert.equal((await inviteTo(FOUNDER, 'marketer')).status, 200)
  const shown = ((await run('user', 'list')) as { email: string; accounts: unknown[] }[]).find(
    ({ email }) => email === FOUNDER,
  )
  assert.deepEqual(shown!.accounts, [
    { account: FOUNDER, role: 'marketer', invited: true },
    { account: 'ann@owner.test', role: 'reader', invited: false },
  ])
  assert.match(
    (await postrider.commands.run(['user', 'list'])).stdout,
    /marketer \(invited\), reader of ann@owner\.test/,
  )
  await run('user', 'role', FOUNDER, 'none', '--account', 'ann@owner.test')
  await bob.signIn(FOUNDER, PASSWORD)
  assert.match((await bob.open('/accounts')).text, /Marketer/)
  await remove()
  await setPassword(postrider.appliance.deps, FOUNDER, PASSWORD)
  await run('user', 'invite', FOUNDER)
})

test('invitations are limited per address and account, even if they are withdrawn', async () => {
  const invite = async (): Promise<number> => {
    const shown = await inviteTo('outside@far.test')
    if (shown.status === 200) await gus.send(await gus.open(shown.path.split('?')[0]!), 'remove')
    else assert.match(shown.text, /3 invitations per day to an address[^]*Try again after 20/)
    return shown.status
  }
  assert.deepEqual([await invite(), await invite(), await invite(), await invite()], [200, 200, 200, 422])
  assert.equal(findUser(store(), 'outside@far.test'), undefined, 'the refused invitation left no user')
  await store().write((tx) => tx.run(raw('update invitation_mails set sent_at = sent_at - ?', [DAY])))
  assert.equal(await invite(), 200)
})

test('requests at the same time do not exceed the members of an account', async () => {
  const now = postrider.clock.now()
  await store().write((tx) => {
    for (let at = 0; at < 95; at++) {
      tx.run(
        raw(
          `insert into users (id, email, name, plan, subscription_state, summary, operator, created_at, updated_at)
           values (?, ?, 'x', 'unlimited', 'active', 'none', 0, ?, ?)`,
          [`many-${at}`, `many${at}@far.test`, now, now],
        ),
      )
      tx.run(
        raw(
          `insert into members (id, user_key, member_key, role, created_at, updated_at)
           select 'many-' || key, ?, key, 'reader', ?, ? from users where id = ?`,
          [postrider.other.key, now, now, `many-${at}`],
        ),
      )
    }
  })
  const count = (): number => membersOf(store(), postrider.other.key).length
  assert.equal(count(), 98)
  const form = await gus.open('/members/new')
  const all = await Promise.all(
    ['a', 'b', 'c', 'd'].map((name) => gus.send(form, 'add', { email: `${name}@late.test`, name: '', role: 'reader' })),
  )
  assert.deepEqual(
    all.map(({ status }) => status).toSorted((one, other) => one - other),
    [200, 200, 422, 422],
  )
  assert.equal(count(), 100)
})
