// Tests users (D142): invitations by email and how their links become invalid, roles, removal, locking, and the reset
// of the second factor.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { TOTP } from 'otpauth'
import { DAY, MINUTE } from '../../src/base/clock.ts'
import { lockOut } from '../../src/users/operators.ts'
import { openSession } from '../../src/users/sessions.ts'
import { makeLink } from '../../src/users/sign-in-links.ts'
import { addUser, findUser, type User } from '../../src/users/users.ts'
import { db, raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { Authenticator } from '../kit/authenticator.ts'
import { Guest, type Shown } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { givePassword } from '../kit/person.ts'

const PASSWORD = 'a long enough password'
let added = 0
const logged = { level: 'info' as const, lines: [] as string[] }
const postrider = ofFile(() => startTestAppliance({ logged, domains: ['here.test'] }))
let ann: Guest

setUp(async () => {
  const { http, notices } = postrider.appliance.deps.config
  // Passkeys require a host name, and email a sending address.
  http.public_url = http.public_url.replace('127.0.0.1', 'localhost')
  notices.from = 'postrider@here.test'
  await givePassword(postrider, postrider.user.email, PASSWORD)
  ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
})

const newAddress = (): string => `colleague${added++}@owner.test`
const user = (email: string): User => findUser(postrider.appliance.deps.store, email)!
const pathOf = (email: string): string => `/people/${user(email).id}`
const invite = async (email = newAddress(), more: Record<string, string> = { access: 'owner' }): Promise<Shown> =>
  ann.send(await ann.open('/people/new'), 'add', { email, name: '', ...more })
const mailsTo = (email: string): { subject: string; text: string; mailed: number }[] =>
  postrider.appliance.deps.store.all(
    db
      .selectFrom('notices')
      .select(['subject', 'text', 'mailed'])
      .where('user_key', '=', user(email).key)
      .orderBy('key'),
  )
/** The path of the link in the newest email to a user. */
const linkTo = (email: string): string => /\/join\?link=\S+/.exec(mailsTo(email).at(-1)!.text)![0]
const isIn = async (guest: Guest): Promise<boolean> => !(await guest.open('/')).text.includes('name="password"')
/** Invites a user, who signs in with a password. */
async function invitedUser(more?: Record<string, string>): Promise<{ email: string; guest: Guest }> {
  const email = newAddress()
  await invite(email, more)
  const guest = new Guest(postrider)
  await guest.send(await guest.open(linkTo(email)), 'password', { password: PASSWORD })
  return { email, guest }
}
const said = (shown: Shown): string => /role="status">([^<]*)</.exec(shown.text)?.[1]?.trim() ?? ''

describe('an invitation', () => {
  test('is emailed with a link to choose a password and sign in', async () => {
    const email = newAddress()
    const shown = await invite(email)
    assert.equal(said(shown), `${email} was invited. The invitation email is queued.`)
    const [mail] = mailsTo(email)
    assert.match(mail!.subject, /^You are invited to Postrider at localhost/)
    assert.match(mail!.text, /^ann@owner\.test invited you[^]*7 days/)
    const list = (await ann.open('/people')).text
    assert.match(list, /Pending invitations/)
    assert.ok(list.includes(linkTo(email)), 'the link to copy is that of the mail')

    const guest = new Guest(postrider)
    const page = await guest.open(linkTo(email))
    assert.match(page.text, /name="password"[^>]*\s+type="password"[^>]*\s+autocomplete="new-password"/)
    const short = await guest.send(page, 'password', { password: 'short' })
    assert.equal(short.status, 422)
    assert.match(short.text, /at least 10 characters/)
    assert.equal((await guest.send(page, 'password', { password: PASSWORD })).path, '/')
    assert.ok(await isIn(guest))
    const again = new Guest(postrider)
    await again.signIn(email, PASSWORD)
    assert.ok(await isIn(again), 'the password signs in')
    assert.doesNotMatch((await ann.open(pathOf(email))).text, /Pending invitation/)
  })

  test('survives HEAD and GET requests of mail scanners', async () => {
    const email = newAddress()
    await invite(email)
    for (const method of ['HEAD', 'GET', 'GET'])
      assert.equal((await new Guest(postrider).open(linkTo(email), { method })).status, 200, method)
    const guest = new Guest(postrider)
    await guest.send(await guest.open(linkTo(email)), 'password', { password: PASSWORD })
    assert.ok(await isIn(guest))
  })

  const ends: [string, (email: string, link: string) => Promise<unknown>, RegExp][] = [
    [
      'used',
      async (_email, link) => {
        const guest = new Guest(postrider)
        await guest.send(await guest.open(link), 'password', { password: PASSWORD })
      },
      /This invitation was already used/,
    ],
    ['expired', async () => postrider.clock.leap(7 * DAY), /This invitation has expired/],
    ['replaced', async (email) => ann.send(await ann.open(pathOf(email)), 'invite'), /There is a newer invitation/],
    ['withdrawn', async (email) => ann.send(await ann.open(pathOf(email)), 'remove'), /This invitation was withdrawn/],
  ]
  for (const [state, end, sentence] of ends)
    test(`that was ${state} is rejected with the reason, even from a page that was already open`, async () => {
      const email = newAddress()
      await invite(email)
      const link = linkTo(email)
      const guest = new Guest(postrider)
      const page = await guest.open(link)
      await end(email, link)
      for (const shown of [
        await guest.open(link),
        await guest.send(page, 'password', { password: 'another long password' }),
      ]) {
        assert.equal(shown.status, 410)
        assert.match(shown.text, sentence)
      }
      assert.ok(!(await isIn(guest)))
      if (state === 'expired') {
        await ann.signIn(postrider.user.email, PASSWORD)
        assert.match((await ann.open('/people')).text, />expired</)
      }
      if (state === 'withdrawn') assert.equal(findUser(postrider.appliance.deps.store, email), undefined)
      if (state === 'replaced') {
        await guest.send(await guest.open(linkTo(email)), 'password', { password: PASSWORD })
        assert.ok(await isIn(guest), 'the new link leads in')
      }
    })

  test('with an incomplete or forged token is invalid', async () => {
    const [one, other] = [newAddress(), newAddress()]
    for (const email of [one, other]) await invite(email)
    const [, id] = /link=([^.]+)/.exec(linkTo(one))!
    const [, mac] = /\.([\w-]+)$/.exec(linkTo(other))!
    for (const token of ['', 'x', id!, `${id}.`, `${id}.${mac}`, `${id}.${'A'.repeat(5000)}`]) {
      const { status, text } = await new Guest(postrider).open(`/join?link=${token}`)
      assert.equal(status, 410, token)
      assert.match(text, /Invalid invitation link/, token)
    }
  })

  test('requires a signed-in user to sign out first', async () => {
    const email = newAddress()
    await invite(email)
    const other = await invitedUser()
    const page = await other.guest.open(linkTo(email))
    assert.match(page.text, new RegExp(`signed in as <strong>${other.email}</strong>`))
    assert.doesNotMatch(page.text, /name="password"/)
    const body = new URLSearchParams({
      proof: /name="proof" value="([^"]+)"/.exec(page.text)![1]!,
      link: /link=(.*)/.exec(linkTo(email))![1]!,
      action: 'password',
      password: PASSWORD,
    }).toString()
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    const forced = await other.guest.open('/join', { method: 'POST', body, headers })
    assert.match(forced.text, /signed in as another user/)
    const left = await other.guest.send(page, 'leave')
    assert.match(left.text, /name="password"/)
    await other.guest.send(left, 'password', { password: PASSWORD })
    assert.match((await other.guest.open('/account')).text, new RegExp(`<dd>${email}`))
  })

  test('cannot be accepted by a form of another site', async () => {
    const email = newAddress()
    await invite(email)
    const guest = new Guest(postrider)
    const page = await guest.open(linkTo(email))
    const sent = await guest.send(
      page,
      'password',
      { password: PASSWORD },
      { headers: { origin: 'https://evil.test' } },
    )
    assert.equal(sent.status, 403)
    assert.ok(!(await isIn(guest)))
  })

  test('is void after any other sign-in of its user', async () => {
    const { clock, store } = postrider.appliance.deps
    const email = newAddress()
    await invite(email)
    const link = linkTo(email)
    const token = await store.write((tx) => makeLink(tx, user(email), clock.now()))
    const guest = new Guest(postrider)
    await guest.send(await guest.open(`/sign-in?link=${token}`), 'use-link')
    assert.match((await new Guest(postrider).open(link)).text, /This invitation was already used/)
  })

  test('is accepted with a passkey once', async () => {
    const email = newAddress()
    await invite(email)
    const { http } = postrider.appliance.deps.config
    const device = new Authenticator(new URL(http.public_url).origin)
    const guest = new Guest(postrider)
    const page = (await guest.open(linkTo(email))).text
    const link = /data-link="([^"]+)"/.exec(page)![1]!
    const proof = /data-proof="([^"]+)"/.exec(page)![1]!
    const ask = async (body: object, whose = guest): Promise<{ status: number; body: never }> => {
      const headers = { 'content-type': 'application/json' }
      const { status, text } = await whose.open('/join/passkey', {
        method: 'POST',
        body: JSON.stringify(body),
        headers,
      })
      return { status, body: JSON.parse(text) as never }
    }
    assert.equal((await ask({ link, proof: 'no' })).status, 403)
    assert.equal((await ask({ link, proof }, new Guest(postrider))).status, 403, 'of another browser')
    const response = device.make((await ask({ link, proof })).body)
    assert.deepEqual(await ask({ link, proof, response }), { status: 200, body: { next: '/' } })
    assert.ok(await isIn(guest))
    assert.equal(user(email).password_hash, null)
    assert.match((await new Guest(postrider).open(linkTo(email))).text, /This invitation was already used/)
  })

  test('that cannot be emailed shows its link and the reason', async () => {
    const { config } = postrider.appliance.deps
    const { from } = config.notices
    config.notices.from = ''
    try {
      const email = newAddress()
      const shown = await invite(email)
      assert.match(shown.text, /No email was sent\. This server has no verified domain/)
      assert.match(shown.text, /id="invitation">http[^<]+\/join\?link=[^<]+</)
      assert.deepEqual(mailsTo(email), [])
    } finally {
      config.notices.from = from
    }
  })

  test('is sent to a user from the command line without a sign-in', async () => {
    const email = newAddress()
    await postrider.commands.json('user', 'add', email)
    const page = await ann.open(pathOf(email))
    assert.match(page.text, />Send invitation</)
    await ann.send(page, 'invite')
    assert.equal((await new Guest(postrider).open(linkTo(email))).status, 200)
  })

  test('of an existing user is rejected without mentioning a shell command', async () => {
    const shown = await invite('BOB@other.test')
    assert.equal(shown.status, 422)
    assert.match(shown.text, /a user with the address bob@other\.test already exists/i)
    assert.doesNotMatch(shown.text, /postrider user/)
  })
})

describe('a user', () => {
  test('becomes an operator, and is signed out when losing that right', async () => {
    const { email, guest } = await invitedUser({ access: 'operator' })
    assert.equal((await guest.open('/people')).status, 200)
    const change = async (): Promise<string> => said(await ann.send(await ann.open(pathOf(email)), 'operator'))
    assert.equal(await change(), `New role of ${email}: Account owner.`)
    assert.ok(!(await isIn(guest)), 'signed out')
    await guest.signIn(email, PASSWORD)
    assert.equal((await guest.open('/people')).status, 404)
    assert.equal(await change(), `New role of ${email}: Operator.`)
    assert.ok(await isIn(guest), 'who gains a right stays')
    await ann.send(await ann.open(pathOf(email)), 'remove')
  })

  test('cannot change themselves, and one operator always remains', async () => {
    const own = `/people/${postrider.user.id}`
    const shown = await ann.open(own)
    assert.match(shown.text, /This is you/)
    for (const action of ['"operator"', '"remove"', '"lock"', '"open"'])
      assert.ok(!shown.text.includes(`value=${action}`), action)
    assert.doesNotMatch((await ann.open('/people')).text, new RegExp(`value="${postrider.user.id}"`))
    const proof = /name="proof" value="([^"]+)"/.exec(shown.text)![1]!
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    for (const action of ['operator', 'remove', 'lock', 'reset']) {
      const body = new URLSearchParams({ proof, action, role: 'owner', old: PASSWORD }).toString()
      const refused = await ann.open(own, { method: 'POST', body, headers })
      assert.equal(refused.status, 422, action)
      assert.match(refused.text, /Another operator can/, action)
    }
    // An invited user who never signed in does not count as another operator.
    const { commands } = postrider
    const invited = newAddress()
    await invite(invited, { access: 'operator' })
    for (const command of [
      ['user', 'set', postrider.user.email, '--operator', 'no'],
      ['user', 'lock', postrider.user.email, '--yes'],
    ])
      await assert.rejects(commands.json(...command), /is the only operator/, command.join(' '))
    await ann.send(await ann.open(pathOf(invited)), 'remove')
  })

  test('is removed with sessions, tokens and members immediately', async () => {
    const { email, guest } = await invitedUser()
    const reader = await invitedUser({ access: 'member', role: 'reader', account: email })
    const made = await guest.send(await guest.open('/tokens/new'), 'add', {
      name: 'Shop',
      duration: '1_month',
      scopes: 'emails:read',
    })
    const [token] = /pr_\w{43}/.exec(made.text)!
    const asks = async (): Promise<number> =>
      (await postrider.raw('/api/v1/outbound-emails', { headers: { authorization: `Bearer ${token}` } })).status
    assert.equal(await asks(), 200)
    const page = await ann.open(pathOf(email))
    assert.match(page.text, new RegExp(`its 1 token[^]*Its members are removed too: ${reader.email}`))
    assert.equal(said(await ann.send(page, 'remove')), `${email} was removed.`)
    assert.ok(!(await isIn(guest)) && !(await isIn(reader.guest)))
    assert.equal(await asks(), 401)
    assert.ok(
      logged.lines.some((line) => line.includes('"user_changed"') && line.includes(email) && line.includes('removed')),
    )
  })

  test('cannot become an operator or finish a started sign-in while locked', async () => {
    const { deps } = postrider.appliance
    const { email } = await invitedUser()
    const before = user(email)
    const page = await ann.open(pathOf(email))
    await lockOut(deps, email)
    await assert.rejects(openSession(deps, before, ''), /This account cannot sign in/)
    const shown = await ann.send(page, 'operator')
    assert.equal(shown.status, 422)
    assert.match(shown.text, /is locked; send a new invitation first/)
    assert.equal(user(email).operator, 0)
  })

  test('with a domain is locked instead of removed: tokens work, and sign-in requires a new invitation', async () => {
    const { clock, store } = postrider.appliance.deps
    const { email, guest } = await invitedUser()
    await guest.send(await guest.open('/domains/new'), 'add', { name: 'theirs.test', purpose: 'both' })
    const key = { user_key: user(email).key, name: 'key', public_key: Buffer.of(), counter: 0, transports: '[]' }
    await store.write((tx) => tx.run(db.insertInto('passkeys').values({ id: 'theirs', ...key, created_at: 0 })))
    const program = { id: 'program', name: 'Assistant', redirect_uris: '[]', created_at: 0, last_used_at: 0 }
    const client_key = (await store.write((tx) => tx.run(db.insertInto('oauth_clients').values(program)))).key
    const grant = { id: 'grant', client_key, redirect_uri: '', challenge: '', resource: '', created_at: clock.now() }
    await store.write((tx) => tx.run(db.insertInto('oauth_grants').values({ ...grant, user_key: user(email).key })))
    const link = await store.write((tx) => makeLink(tx, user(email), clock.now()))
    const page = await ann.open(pathOf(email))
    assert.match(page.text, /This account has the email of theirs\.test, which is kept/)
    assert.doesNotMatch(page.text, />Remove user</)
    assert.equal(said(await ann.send(page, 'lock')), `${email} is locked out.`)
    assert.ok(!(await isIn(guest)), 'signed out')
    const visitor = new Guest(postrider)
    await visitor.signIn(email, PASSWORD)
    await visitor.send(await visitor.open(`/sign-in?link=${link}`), 'use-link')
    const before = mailsTo(email).length
    await visitor.send(await visitor.open('/sign-in'), 'link', { email })
    assert.equal(mailsTo(email).length, before, 'no link is mailed')
    assert.ok(!(await isIn(visitor)))
    assert.equal(store.all(raw('select 1 from passkeys where user_key = ?', [user(email).key])).length, 0)
    const ends = store.all(db.selectFrom('oauth_grants').select('revoked_at').where('id', '=', 'grant'))
    assert.ok(ends[0]!.revoked_at! > 0, 'programs that were let in end')
    assert.match((await ann.open('/people')).text, />locked out</)

    const refused = await postrider.commands.json('user', 'remove', email, '--yes').catch(String)
    assert.match(String(refused), /lock the user instead/)
    await ann.send(await ann.open(pathOf(email)), 'invite')
    const withdrawn = linkTo(email)
    const gone = await ann.send(await ann.open(pathOf(email)), 'lock')
    assert.equal(said(gone), `The invitation of ${email} was withdrawn.`)
    assert.match((await visitor.open(withdrawn)).text, /This invitation was withdrawn/)
    await ann.send(await ann.open(pathOf(email)), 'invite')
    await visitor.send(await visitor.open(linkTo(email)), 'password', { password: PASSWORD })
    assert.ok(await isIn(visitor), 'back in')
  })

  test('without their second factor is reset by an operator with a password, signed out and notified', async () => {
    const { email, guest } = await invitedUser()
    const account = await guest.open('/account')
    const secret = /name="secret" value="([A-Z2-7]+)"/.exec(account.text)![1]!
    const code = new TOTP({ secret }).generate({ timestamp: postrider.clock.now() })
    await guest.send(account, 'factor', { code })
    const page = await ann.open(pathOf(email))
    for (const old of ['', 'a wrong password']) {
      const refused = await ann.send(page, 'reset', { old })
      assert.equal(refused.status, 422)
      assert.match(refused.text, /Enter your current password|The password is wrong|Too many attempts/)
      postrider.clock.leap(MINUTE)
    }
    assert.ok(await isIn(guest), 'nothing was done')
    assert.match(said(await ann.send(page, 'reset', { old: PASSWORD })), /was reset/)
    assert.ok(!(await isIn(guest)))
    assert.match(mailsTo(email).at(-1)!.text, /ann@owner\.test removed two-factor authentication from your account/)
    const again = new Guest(postrider)
    await again.signIn(email, PASSWORD)
    assert.ok(await isIn(again), 'the password is enough')
    assert.match((await ann.open(pathOf(email))).text, /Two-factor<\/dt>\s*<dd>Off/)
  })

  test('has a last-seen time, updated at most every 15 minutes', async () => {
    const { email, guest } = await invitedUser()
    const first = user(email).seen_at!
    const seen = async (minutes: number): Promise<number> => {
      postrider.clock.leap(minutes * MINUTE)
      await guest.open('/')
      // The write of the request is committed before this one.
      await postrider.appliance.deps.store.write(() => {})
      return user(email).seen_at! - first
    }
    assert.equal(await seen(2), 0)
    assert.equal(await seen(12), 0)
    assert.equal(await seen(2), 16 * MINUTE)
    assert.match((await ann.open(pathOf(email))).text, /Last seen<\/dt>\s*<dd><time/)
  })

  test('is listed on pages of limited size', async () => {
    await using many = await startTestAppliance()
    await givePassword(many, many.user.email, PASSWORD)
    const guest = new Guest(many)
    await guest.signIn(many.user.email, PASSWORD)
    for (let n = 0; n < 120; n++) await addUser(many.appliance.deps, { email: `person${n}@crowd.test` })
    const first = await guest.open('/people')
    assert.ok(first.text.length < 100_000, `${first.text.length} bytes`)
    assert.match(first.text, /person47@crowd\.test/)
    assert.doesNotMatch(first.text, /person48@crowd\.test/)
    const last = await guest.open('/people?from=100')
    assert.match(last.text, /person119@crowd\.test/)
    assert.doesNotMatch(last.text, />After</)
    assert.equal((await guest.open('/people?from=-1x')).status, 200)
  })

  test('cannot be viewed by tokens or by users who are not operators', async () => {
    const { id } = postrider.other
    const paths: [string, string][] = [
      ['GET', `/people/${id}`],
      ['PATCH', `/people/${id}`],
      ['DELETE', `/people/${id}`],
      ...['invite', 'lock', 'reset-second-factor'].map((what): [string, string] => ['POST', `/people/${id}/${what}`]),
    ]
    for (const [method, path] of paths) {
      const body = method === 'PATCH' ? { data: { type: 'people', id, attributes: { operator: true } } } : undefined
      assert.equal((await postrider.api(method, path, body)).status, 404, `${method} ${path}`)
    }
    const { guest } = await invitedUser()
    assert.equal((await guest.open(`/people/${id}`)).status, 404)
    assert.equal((await ann.open('/people/nobody')).status, 404)
  })
})

describe('postrider user', () => {
  test('sends and resends invitations, and prints the link if no email can be sent', async () => {
    const { commands } = postrider
    const email = newAddress()
    const added = await commands.json('user', 'add', email, '--invite')
    assert.match(String(added['invitation_link']), /\/join\?link=/)
    const again = await commands.json('user', 'invite', email)
    assert.notEqual(again['invitation_link'], added['invitation_link'])
    const path = (link: unknown): string => new URL(String(link)).pathname + new URL(String(link)).search
    assert.match((await new Guest(postrider).open(path(added['invitation_link']))).text, /There is a newer invitation/)
    const guest = new Guest(postrider)
    await guest.send(await guest.open(path(again['invitation_link'])), 'password', { password: PASSWORD })
    assert.ok(await isIn(guest))
    await assert.rejects(commands.json('user', 'invite', email), /has signed in before/)
    await assert.rejects(commands.json('user', 'reset-mfa', email), /has no second factor/)
    await commands.json('user', 'lock', email, '--yes')
    assert.ok(!(await isIn(guest)))
    await commands.json('user', 'remove', email, '--yes')
  })
})
