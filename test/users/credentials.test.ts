// Tests sign-in methods: passkeys with each algorithm, changes of credentials, sign-in links, and requests from other
// sites.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { TOTP } from 'otpauth'
import { HOUR, MINUTE } from '../../src/base/clock.ts'
import { passkeysWork } from '../../src/users/passkeys.ts'
import { makeLink } from '../../src/users/sign-in-links.ts'
import { addUser, type User } from '../../src/users/users.ts'
import { db } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { Authenticator } from '../kit/authenticator.ts'
import { Guest, type Shown } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { givePassword } from '../kit/person.ts'

const PASSWORD = 'a long enough password'

let people = 0
const postrider = ofFile(() => startTestAppliance())
// Passkeys require a host name.
setUp(() => {
  const { http } = postrider.appliance.deps.config
  http.public_url = http.public_url.replace('127.0.0.1', 'localhost')
})

const origin = (): string => new URL(postrider.appliance.deps.config.http.public_url).origin
/** A user with a password who has just signed in. */
async function newUser(): Promise<{ guest: Guest; user: User }> {
  const user = await addUser(postrider.appliance.deps, { email: `person${people++}@owner.test` })
  await givePassword(postrider, user.email, PASSWORD)
  const guest = new Guest(postrider)
  await guest.signIn(user.email, PASSWORD)
  return { guest, user }
}
const isSignIn = ({ text }: Shown): boolean => text.includes('name="password"')
const isIn = async (guest: Guest): Promise<boolean> => !isSignIn(await guest.open('/'))

interface Said {
  status: number
  body: Record<string, string> & { challenge: string }
}
async function json(guest: Guest, path: string, body: object): Promise<Said> {
  const headers = { 'content-type': 'application/json' }
  const { status, text } = await guest.open(path, { method: 'POST', body: JSON.stringify(body), headers })
  return { status, body: JSON.parse(text) as Said['body'] }
}
const proofOf = async (guest: Guest): Promise<string> =>
  /data-proof="([^"]+)"/.exec((await guest.open('/account')).text)![1]!
async function register(guest: Guest, device: Authenticator, old = ''): Promise<Said> {
  const proof = await proofOf(guest)
  const asked = await json(guest, '/account/passkeys', { proof, old })
  if (asked.status !== 200) return asked
  return json(guest, '/account/passkeys', { proof, name: 'key', response: device.make(asked.body) })
}
async function enter(guest: Guest, device: Authenticator): Promise<Said> {
  const { body } = await json(guest, '/sign-in/passkey', {})
  return json(guest, '/sign-in/passkey', { response: device.prove(body) })
}

describe('passkeys', () => {
  for (const algorithm of ['ES256', 'EdDSA', 'RS256'] as const)
    test(`registers a passkey with ${algorithm} and signs in with it`, async () => {
      const { guest } = await newUser()
      const device = new Authenticator(origin(), algorithm)
      assert.equal((await register(guest, device)).status, 200)
      const visitor = new Guest(postrider)
      const said = await enter(visitor, device)
      assert.deepEqual(said, { status: 200, body: { next: '/' } })
      assert.ok(await isIn(visitor))
    })

  test('rejects passkeys without user verification', async () => {
    const { guest } = await newUser()
    const device = new Authenticator(origin())
    device.verifies = false
    assert.equal((await register(guest, device)).status, 400)
    device.verifies = true
    assert.equal((await register(guest, device)).status, 200)
    device.verifies = false
    assert.equal((await enter(new Guest(postrider), device)).status, 403)
  })

  test('rejects passkeys that are used in a frame of another origin', async () => {
    const { guest } = await newUser()
    const device = new Authenticator(origin())
    device.framed = true
    assert.equal((await register(guest, device)).status, 400)
    device.framed = false
    assert.equal((await register(guest, device)).status, 200)
    device.framed = true
    assert.equal((await enter(new Guest(postrider), device)).status, 403)
  })

  test('rejects a passkey with the user handle of another user', async () => {
    const [{ guest, user }, { user: other }] = [await newUser(), await newUser()]
    const device = new Authenticator(origin())
    assert.equal((await register(guest, device)).status, 200)
    for (const [id, status] of [
      [other.id, 403],
      [user.id, 200],
    ] as const) {
      device.userHandle = Buffer.from(id).toString('base64url')
      assert.equal((await enter(new Guest(postrider), device)).status, status)
    }
  })

  test('a challenge works once, in one browser or session, for five minutes', async () => {
    const { guest } = await newUser()
    const device = new Authenticator(origin())
    const proof = await proofOf(guest)
    const { body } = await json((await newUser()).guest, '/sign-in/passkey', {})
    const foreign = await json(guest, '/account/passkeys', { proof, name: 'key', response: device.make(body) })
    assert.equal(foreign.status, 400, 'of another session')
    assert.equal((await register(guest, device)).status, 200)

    const [one, other] = [new Guest(postrider), new Guest(postrider)]
    const asked = await json(one, '/sign-in/passkey', {})
    const response = device.prove(asked.body)
    assert.equal((await json(other, '/sign-in/passkey', { response })).status, 403, 'of another browser')
    assert.equal((await json(one, '/sign-in/passkey', { response })).status, 200)
    assert.equal((await json(one, '/sign-in/passkey', { response })).status, 403, 'once more')
    const late = await json(one, '/sign-in/passkey', {})
    postrider.clock.leap(5 * MINUTE)
    assert.equal((await json(one, '/sign-in/passkey', { response: device.prove(late.body) })).status, 403)
  })

  test('rejects a passkey that is already registered', async () => {
    const device = new Authenticator(origin())
    assert.equal((await register((await newUser()).guest, device)).status, 200)
    const said = await register((await newUser()).guest, device)
    assert.equal(said.status, 409)
    assert.match(said.body['error']!, /already registered/)
  })
})

describe('a change of a sign-in method requires a proof in addition to the session (D114)', () => {
  const secretIn = ({ text }: Shown): string => /name="secret" value="([A-Z2-7]+)"/.exec(text)![1]!
  const codeOf = (secret: string): string => new TOTP({ secret }).generate({ timestamp: postrider.clock.now() })

  test('requires the password to replace the second factor', async () => {
    const { guest } = await newUser()
    const account = await guest.open('/account')
    const secret = secretIn(account)
    assert.equal((await guest.send(account, 'factor', { code: codeOf(secret) })).status, 200)
    postrider.clock.leap(MINUTE)
    const mine = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
    const replaced = { secret: mine, code: codeOf(mine) }
    const refused = await guest.send(account, 'factor', replaced)
    assert.equal(refused.status, 422)
    assert.match(refused.text, /Enter your current password/)
    postrider.clock.leap(MINUTE)
    const again = new Guest(postrider)
    const step = await again.signIn((await newUser()).user.email, PASSWORD)
    assert.doesNotMatch(step.text, /six digits/)
    assert.equal((await guest.send(account, 'factor', { ...replaced, code: codeOf(mine), old: PASSWORD })).status, 200)
  })

  test('answers a key that is not base32 as a wrong code, and shows the offered key', async () => {
    const { guest } = await newUser()
    const account = await guest.open('/account')
    for (const secret of ['!!!!', 'ABCDEFGH1', '']) {
      const answer = await guest.send(account, 'factor', { secret, code: '123456' })
      assert.equal(answer.status, 422, secret)
      assert.match(answer.text, /The code is wrong or has expired/)
      assert.equal(secretIn(answer), secretIn(account))
    }
  })

  test('requires the password for additions ten minutes after the sign-in', async () => {
    const { guest } = await newUser()
    postrider.clock.leap(10 * MINUTE)
    const account = await guest.open('/account')
    const secret = secretIn(account)
    assert.equal((await guest.send(account, 'factor', { code: codeOf(secret) })).status, 422)
    assert.equal((await register(guest, new Authenticator(origin()))).status, 403)
    postrider.clock.leap(MINUTE)
    assert.equal((await register(guest, new Authenticator(origin()), PASSWORD)).status, 200)
    const shown = await guest.open('/account')
    const [, id] = /<option value="([\w-]{20,})"/.exec(shown.text)!
    const removed = async (old: string): Promise<number> =>
      (await guest.send(shown, 'remove-passkey', { id: id!, old })).status
    assert.equal(await removed('a wrong password'), 422)
    postrider.clock.leap(MINUTE)
    assert.equal(await removed(PASSWORD), 200)
    assert.doesNotMatch((await guest.open('/account')).text, new RegExp(id!))
  })

  test('throttles wrong passwords as at the sign-in', async () => {
    const { guest } = await newUser()
    const account = await guest.open('/account')
    const said: string[] = []
    for (let tries = 0; tries < 8; tries++)
      said.push((await guest.send(account, 'password', { old: `wrong ${tries}`, new: `${PASSWORD} 2` })).text)
    assert.match(said.at(-1)!, /Too many attempts/)
    const right = await guest.send(account, 'password', { old: PASSWORD, new: `${PASSWORD} 2` })
    assert.equal(right.status, 422, 'the right one waits too')
  })

  const linked = async (email: string): Promise<Guest> => {
    const { clock, store } = postrider.appliance.deps
    const user = await addUser(postrider.appliance.deps, { email })
    const guest = new Guest(postrider)
    const token = await store.write((tx) => makeLink(tx, user, clock.now()))
    await guest.send(await guest.open(`/sign-in?link=${token}`), 'use-link')
    return guest
  }

  test('a user without a credential sets the first password or passkey long after the sign-in', async () => {
    const [guest, other] = [await linked('first@owner.test'), await linked('first-passkey@owner.test')]
    postrider.clock.leap(2 * HOUR)
    const account = await guest.open('/account')
    assert.equal((await guest.send(account, 'password', { new: PASSWORD })).status, 200)
    const again = await guest.send(await guest.open('/account'), 'password', { new: `${PASSWORD} 2` })
    assert.equal(again.status, 422, 'the second password needs the first one')
    assert.equal((await register(other, new Authenticator(origin()))).status, 200)
  })

  test('a user with only a passkey must sign in again to set a password', async () => {
    const guest = await linked('linked@owner.test')
    assert.equal((await register(guest, new Authenticator(origin()))).status, 200)
    const account = await guest.open('/account')
    postrider.clock.leap(10 * MINUTE)
    const late = await guest.send(account, 'password', { new: PASSWORD })
    assert.equal(late.status, 422)
    assert.match(late.text, /sign in again/)
    assert.equal((await register(guest, new Authenticator(origin()))).status, 403, 'the session may be stolen')
  })
})

describe('links', () => {
  test('link requests by others send at most five emails and do not block the owner', async () => {
    const { store } = postrider.appliance.deps
    const user = await addUser(postrider.appliance.deps, { email: 'flooded@owner.test' })
    const links = (): string[] =>
      store
        .all(db.selectFrom('notices').select('text').where('user_key', '=', user.key).orderBy('key'))
        .map(({ text }) => /\/sign-in\?link=\S+/.exec(text)![0])
    for (let asked = 0; asked < 9; asked++) {
      const guest = new Guest(postrider)
      await guest.send(await guest.open('/sign-in'), 'link', { email: user.email })
      // The rate limit of the one address from which all requests of this test come.
      postrider.clock.leap(MINUTE)
    }
    assert.equal(links().length, 5)
    const owner = new Guest(postrider)
    await owner.send(await owner.open(links()[0]!), 'use-link')
    assert.ok(await isIn(owner), 'the first link still works')
    const later = new Guest(postrider)
    await later.send(await later.open(links()[1]!), 'use-link')
    assert.ok(!(await isIn(later)), 'one sign-in uses up all')
  })

  test('an address whose email is delivered here is not promised a link, with or without an account', async () => {
    await postrider.activeDomain('read-here.test')
    const inbox = { type: 'inboxes', attributes: { name: 'Both', address: 'known@read-here.test' } }
    assert.equal((await postrider.api('POST', '/inboxes', { data: inbox })).status, 201)
    const asked = async (email: string): Promise<string> => {
      const guest = new Guest(postrider)
      postrider.clock.leap(HOUR)
      return (await guest.send(await guest.open('/sign-in'), 'link', { email })).text
    }
    const before = await asked('Known@read-here.test')
    assert.match(before, /Sign-in link not sent/)
    await addUser(postrider.appliance.deps, { email: 'known@read-here.test' })
    assert.equal(await asked('Known@read-here.test'), before, 'the same answer for an account')
    assert.match(
      await asked('nobody@elsewhere.test'),
      /If there is an account for this address, a sign-in link was sent/,
    )
  })

  test('another site cannot sign a user into another account', async () => {
    const { clock, store } = postrider.appliance.deps
    const user = await addUser(postrider.appliance.deps, { email: 'evil@owner.test' })
    const link = async (): Promise<string> =>
      `/sign-in?link=${await store.write((tx) => makeLink(tx, user, clock.now()))}&now=1`
    for (const site of ['cross-site', 'same-site']) {
      const guest = new Guest(postrider)
      const shown = await guest.open(await link(), { headers: { 'sec-fetch-site': site } })
      assert.match(shown.text, /signs you in as[\s\S]*evil@owner\.test/)
      assert.ok(!(await isIn(guest)))
    }
    for (const headers of [{ 'sec-fetch-site': 'none' }, undefined]) {
      const guest = new Guest(postrider)
      await guest.open(await link(), headers ? { headers } : {})
      assert.ok(await isIn(guest), 'opened by hand')
    }
  })
})

describe('input at the end of a session (D115)', () => {
  test('keeps input only from forms of this server', async () => {
    const { guest } = await newUser()
    const page = await guest.open('/domains/new')
    const fields = { name: 'Their words' }
    const foreign: [string, RequestInit, Record<string, string>][] = [
      ['another origin', { headers: { origin: 'https://evil.test' } }, fields],
      ['no proof', {}, { ...fields, proof: '' }],
      ['a proof of another user', {}, { ...fields, proof: await proofOf((await newUser()).guest) }],
    ]
    guest.cookies.delete('postrider_session')
    for (const [what, more, given] of foreign) {
      const asked = await guest.send(page, 'add', given, more)
      assert.equal(asked.status, 401, what)
      assert.doesNotMatch(asked.text, /Their words/, what)
    }
    assert.match((await guest.send(page, 'add', fields)).text, /Their words/)
  })

  test('keeps input if the session expired and the browser was closed', async () => {
    const { guest } = await newUser()
    for (const name of guest.cookies.keys()) if (name.endsWith('postrider_browser')) guest.cookies.delete(name)
    const page = await guest.open('/domains/new')
    postrider.clock.leap(13 * 60 * MINUTE)
    await newUser()
    const asked = await guest.send(page, 'add', { name: 'My words' })
    assert.equal(asked.status, 401)
    assert.match(asked.text, /My words/)
  })
})

describe('fields and forms', () => {
  const fieldIn = ({ text }: Shown, id: string): string =>
    new RegExp(`<input[^>]*id="${id}"[^>]*>`).exec(text)?.[0] ?? ''

  test('fields have autocomplete attributes for password managers and phones (WCAG 1.3.5)', async () => {
    const { guest, user } = await newUser()
    const account = await guest.open('/account')
    for (const [id, autocomplete] of [
      ['old', 'current-password'],
      ['new', 'new-password'],
      ['code', 'one-time-code'],
    ] as const)
      assert.ok(fieldIn(account, id).includes(`autocomplete="${autocomplete}"`), id)
    assert.match(fieldIn(account, 'code'), /inputmode="numeric"/)
    const [, secret = ''] = /name="secret" value="([A-Z2-7]+)"/.exec(account.text)!
    const code = (): string => new TOTP({ secret }).generate({ timestamp: postrider.clock.now() })
    const codes = await guest.send(account, 'factor', { code: code() })
    const [, recovery = ''] = /id="codes">(\S+)/.exec(codes.text)!
    postrider.clock.leap(MINUTE)
    const again = new Guest(postrider)
    const step = await again.signIn(user.email, PASSWORD)
    assert.match(fieldIn(step, 'code'), /autocomplete="one-time-code"\s+inputmode="numeric"/)
    assert.doesNotMatch(fieldIn(step, 'code-recovery'), /inputmode/, 'a recovery code has letters')
    await again.send(step, 'code', { code: '', recovery })
    assert.ok(await isIn(again), 'the field for a recovery code counts')
  })

  test('lists sessions with browser names, even for odd User-Agent headers', async () => {
    const { user } = await newUser()
    const guest = new Guest(postrider)
    const page = await guest.open('/sign-in')
    const agents = ['Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/131.0 Safari/537.36', '<b>"evil"</b>']
    for (const agent of agents)
      await new Guest(postrider).send(
        { ...page, text: (await guest.open('/sign-in')).text },
        'password',
        { email: user.email, password: PASSWORD },
        { headers: { 'user-agent': agent, cookie: [...guest.cookies].map((each) => each.join('=')).join('; ') } },
      )
    await guest.signIn(user.email, PASSWORD)
    const { text } = await guest.open('/account')
    assert.match(text, />Chrome on Linux</)
    assert.match(text, />Unknown browser</)
    assert.doesNotMatch(text, /<b>"evil"/)
  })

  test('replaces passkey forms with an explanation if the console has no hostname', async () => {
    const { config } = postrider.appliance.deps
    const { guest } = await newUser()
    const { public_url } = config.http
    const works: [string, boolean][] = [
      ['http://localhost:8025', true],
      ['https://mail.owner.test', true],
      ['http://mail.owner.test', false],
      ['http://127.0.0.1:8025', false],
      ['https://192.0.2.7', false],
      ['https://[2001:db8::1]', false],
    ]
    try {
      for (const [url, does] of works) {
        assert.equal(passkeysWork({ public_url: url }), does, url)
        if (url.startsWith('https')) continue
        config.http.public_url = url
        const account = (await guest.open('/account')).text
        assert.equal(account.includes('data-passkey'), does, url)
        assert.equal(account.includes('Passkeys require HTTPS and a hostname'), !does, url)
        assert.equal((await new Guest(postrider).open('/sign-in')).text.includes('data-passkey'), does, url)
      }
    } finally {
      config.http.public_url = public_url
    }
  })

  test('the 404 page offers the search, and the sign-in page names the server', async () => {
    const { guest } = await newUser()
    const lost = await guest.open('/nonsense', { headers: { accept: 'text/html' } })
    assert.equal(lost.status, 404)
    assert.match(lost.text, /<form class="search" method="get" action="\/mail"/)
    assert.match((await new Guest(postrider).open('/sign-in')).text, /<small>localhost(?::\d+)?<\/small>/)
  })
})
