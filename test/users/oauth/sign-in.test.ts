// Tests the pages on which a user signs in and allows an application, and attacks on them.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { HOUR, MINUTE } from '../../../src/base/clock.ts'
import { addClient } from '../../../src/users/oauth/clients.ts'
import { addUser, checkPassword, hashPassword, NOBODY, setPassword } from '../../../src/users/users.ts'
import { startTestAppliance } from '../../kit/appliance.ts'
import { raw } from '../../../src/store/query.ts'
import { ofFile, setUp } from '../../kit/of-file.ts'
import { until } from '../../kit/until.ts'
import { givePassword, Person, type Page } from '../../kit/person.ts'

let clientId: string
const REDIRECT = 'http://127.0.0.1:1234/callback?kept=1'
const PASSWORD = 'a long enough password'
const CHALLENGE = createHash('sha256').update('v'.repeat(43)).digest('base64url')

const postrider = ofFile(() => startTestAppliance({ open: true }))

setUp(async () => {
  clientId = await clientNamed('Test')
  for (const { email } of [postrider.user, postrider.other]) await givePassword(postrider, email, PASSWORD)
})

const clientNamed = async (name: string): Promise<string> =>
  (await addClient(postrider.appliance.deps, { name, redirectUris: [REDIRECT] }))!.id

const asking = (more: Record<string, string> = {}): string =>
  `/oauth/authorize?${new URLSearchParams({
    client_id: clientId,
    redirect_uri: REDIRECT,
    response_type: 'code',
    code_challenge: CHALLENGE,
    code_challenge_method: 'S256',
    state: 'a state & more',
    ...more,
  }).toString()}`

const sessionSeenAt = (): number | undefined =>
  postrider.appliance.deps.store.first<{ at: number }>(raw('select max(seen_at) as at from sessions'))?.at
const isSignIn = ({ text }: Page): boolean => text.includes('name="password"')
const isConsent = ({ text }: Page): boolean => text.includes('value="allow"')

test('a user signs in, sees the application and its redirect host, and allows the access', async () => {
  const person = new Person(postrider.url)
  const first = await person.open(asking())
  assert.ok(isSignIn(first) && !isConsent(first))
  for (const page of [first, await person.signIn(asking(), postrider.user.email, PASSWORD)]) {
    assert.equal(page.status, 200)
    assert.equal(page.headers.get('cache-control'), 'no-store')
    assert.match(page.headers.get('referrer-policy')!, /^(?:no-referrer|same-origin)$/)
    assert.equal(page.headers.get('x-frame-options'), 'DENY')
    assert.match(page.headers.get('content-security-policy')!, /default-src 'none';.*frame-ancestors 'none'/)
    assert.match(page.text, /Test/)
  }
  const consent = await person.open(asking())
  assert.ok(isConsent(consent))
  assert.match(consent.text, /127\.0\.0\.1:1234/)
  assert.match(consent.text, new RegExp(postrider.user.email))
  const back = await person.press(consent, 'allow')
  assert.equal(back.status, 303)
  assert.equal(back.headers.get('referrer-policy'), 'no-referrer')
  const to = new URL(back.headers.get('location')!)
  assert.equal(to.origin + to.pathname, 'http://127.0.0.1:1234/callback')
  assert.deepEqual([...to.searchParams.keys()], ['kept', 'code', 'state', 'iss'])
  assert.equal(to.searchParams.get('state'), 'a state & more')
  assert.equal(to.searchParams.get('iss'), postrider.url)
  assert.ok(isConsent(await person.open(asking())), 'asked again each time')
  const denied = await person.press(consent, 'deny')
  assert.match(denied.headers.get('location')!, /error=access_denied/)
  await person.press(consent, 'sign-out')
  assert.ok(isSignIn(await person.open(asking())))
})

test('cookies are HttpOnly and SameSite, and over https have the prefix __Host-', async () => {
  const person = new Person(postrider.url)
  await person.signIn(asking(), postrider.user.email, PASSWORD)
  assert.equal(person.set.length, 2)
  for (const line of person.set) {
    assert.match(line, /; HttpOnly/i)
    assert.match(line, /; SameSite=Lax/i)
    assert.match(line, /; Path=\/(?:;|$)/i)
    assert.doesNotMatch(line, /Secure/i)
  }
  postrider.config.http.public_url = 'https://mail.example'
  try {
    const secure = new Person(postrider.url)
    await secure.signIn(asking(), postrider.user.email, PASSWORD)
    assert.equal(secure.set.length, 2)
    for (const line of secure.set) {
      assert.match(line, /^__Host-/)
      assert.match(line, /; Secure/i)
      assert.match(line, /; Path=\/(?:;|$)/i)
      assert.doesNotMatch(line, /Domain=/i)
    }
  } finally {
    postrider.config.http.public_url = postrider.url
  }
})

test('rejects a session cookie that was altered, has expired or is older than the password', async () => {
  const { clock } = postrider
  const person = new Person(postrider.url)
  await person.signIn(asking(), postrider.user.email, PASSWORD)
  const good = person.cookies.get('postrider_session')!
  const shows = async (cookie: string): Promise<boolean> => {
    person.cookies.set('postrider_session', cookie)
    return isConsent(await person.open(asking()))
  }
  assert.ok(await shows(good))
  for (let i = 0; i < good.length; i++)
    for (const other of [good[i] === 'A' ? 'B' : 'A', '', '.'])
      if (other !== good[i])
        assert.ok(!(await shows(good.slice(0, i) + other + good.slice(i + 1))), `at ${i}: ${other}`)
  assert.ok(await shows(good))
  clock.leap(12 * HOUR - 1)
  assert.ok(await shows(good))
  await until(() => sessionSeenAt() === clock.now(), 'the use is noted')
  clock.leap(12 * HOUR)
  assert.ok(!(await shows(good)), 'twelve hours without a request')
  const again = new Person(postrider.url)
  await again.signIn(asking(), postrider.other.email, PASSWORD)
  assert.ok(isConsent(await again.open(asking())))
  await setPassword(postrider.appliance.deps, postrider.other.email, `${PASSWORD} `)
  assert.ok(isSignIn(await again.open(asking())))
  await givePassword(postrider, postrider.other.email, PASSWORD)
})

test('rejects forms of another browser, user, request or page', async () => {
  const [victim, attacker] = [new Person(postrider.url), new Person(postrider.url)]
  const theirs = await attacker.open(asking())
  await victim.open(asking())
  // Login CSRF: the attacker's form, with the attacker's account, sent by the victim's browser.
  const typed = { email: postrider.other.email, password: PASSWORD }
  const signedIn = await victim.press(theirs, 'password', typed)
  assert.equal(signedIn.status, 403)
  assert.equal(victim.cookies.get('postrider_session'), undefined)
  assert.equal(
    (await new Person(postrider.url).press(theirs, 'password', typed)).status,
    403,
    'a browser that was never here',
  )

  const consent = await victim.signIn(asking(), postrider.user.email, PASSWORD)
  const strange = await attacker.signIn(asking(), postrider.other.email, PASSWORD)
  assert.ok(isConsent(consent) && isConsent(strange))
  for (const [what, page] of [
    ['of another person', strange],
    ['of the page of sign-in', theirs],
    ['for another state', await attacker.open(asking({ state: 'x' }))],
    [
      'without a proof',
      { ...consent, text: consent.text.replace(/name="proof" value="[^"]*"/, 'name="proof" value=""') },
    ],
    ['of another request', { ...consent, text: consent.text.replace('state=a', 'state=b') }],
  ] as const) {
    const answer = await victim.press(page, 'allow')
    assert.equal(answer.status, 403, what)
    assert.equal(answer.headers.get('location'), null, what)
    assert.equal(answer.headers.get('set-cookie'), null, what)
  }
  for (const headers of [{ origin: 'http://evil.test' }, { origin: 'null', 'sec-fetch-site': 'cross-site' }])
    assert.equal((await victim.press(consent, 'allow', {}, headers)).status, 403, 'sent by another site')
  assert.equal((await victim.press(consent, 'allow')).status, 303, 'and the true one does')
})

test('shows markup in a client name or state as text', async () => {
  const name = '</title><script>alert(1)</script>"\'><img src=x onerror=alert(1)>&amp;'
  const person = new Person(postrider.url)
  const at = asking({ client_id: await clientNamed(name), state: '"><script>alert(2)</script>' })
  const pages = [await person.open(at), await person.signIn(at, postrider.user.email, PASSWORD)]
  const wrong = await new Person(postrider.url).open(at)
  pages.push(
    await new Person(postrider.url).press(wrong, 'password'),
    await person.open(asking({ client_id: '<script>' })),
  )
  const typed = new Person(postrider.url)
  pages.push(
    await typed.press(await typed.open(at), 'password', { email: '"><script>alert(3)</script>', password: 'x' }),
  )
  for (const { text } of pages) {
    assert.doesNotMatch(text, /<script(?! type="module" src="\/assets\/)|<img/)
    assert.equal(text.match(/<form/g)?.length ?? 0, text.includes('name="proof"') ? 1 : 0)
  }
  assert.match(pages[1]!.text, /&lt;script&gt;alert\(1\)/)
})

test('slows down guesses, then blocks them for minutes, without revealing whether a user exists', async () => {
  const { clock } = postrider
  clock.leap(60 * MINUTE)
  await addUser(postrider.appliance.deps, { email: 'without@password.test' })
  const guess = async (email: string, times: number): Promise<string[]> => {
    clock.leap(60 * MINUTE)
    const person = new Person(postrider.url)
    const page = await person.open(asking())
    const said: string[] = []
    for (let i = 0; i < times; i++) {
      const { headers, status, text } = await person.press(page, 'password', { email, password: `guess ${i}` })
      const wait = headers.get('retry-after')
      said.push(`${status} ${/role="alert">([^<]*)/.exec(text)![1]} ${wait}`)
      if (status === 429 && Number(wait) < 600) clock.advance(Number(wait) * 1000)
    }
    return said
  }
  const nobody = await guess('nobody@owner.test', 17)
  assert.deepEqual(nobody.slice(0, 5), [
    ...Array<string>(4).fill('403 The email address or password is wrong. null'),
    '429 Too many attempts. Try again in 2 seconds. 2',
  ])
  assert.equal(nobody.at(-1), '429 Too many attempts. Try again in 15 minutes. 900')
  assert.deepEqual(await guess('without@password.test', 5), nobody.slice(0, 5))
  assert.deepEqual(await guess(postrider.user.email, 17), nobody)
  // Blocked, even with the right password.
  const right = { email: postrider.user.email, password: PASSWORD }
  const person = new Person(postrider.url)
  const page = await person.open(asking())
  assert.equal((await person.press(page, 'password', right)).status, 429)
  clock.leap(15 * MINUTE)
  assert.equal((await person.press(page, 'password', right)).status, 303)
})

test('guesses from many addresses slow an account down but never lock it', async () => {
  const { clock } = postrider
  clock.leap(60 * MINUTE)
  postrider.config.http.trusted_proxies = ['127.0.0.1']
  try {
    const from = (n: number) => ({ 'x-forwarded-for': `198.51.100.${n}` })
    const attacker = new Person(postrider.url)
    const page = await attacker.open(asking())
    const email = postrider.other.email
    for (let n = 1; n <= 5; n++) {
      await attacker.press(page, 'password', { email, password: 'guess' }, from(n))
      clock.advance(2000)
    }
    await attacker.press(page, 'password', { email, password: 'guess' }, from(6))
    const person = new Person(postrider.url)
    const own = await person.open(asking())
    const soon = await person.press(own, 'password', { email, password: PASSWORD }, from(200))
    assert.deepEqual([soon.status, soon.headers.get('retry-after')], [429, '2'])
    clock.advance(2000)
    assert.equal((await person.press(own, 'password', { email, password: PASSWORD }, from(200))).status, 303)
    // Few passwords are checked at once. Requests above the limit wait a second and are not counted.
    clock.leap(60 * MINUTE)
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        attacker.press(page, 'password', { email: `n${n}@nowhere.test`, password: 'x' }, from(n + 20)),
      ),
    )
    const waits = answers.filter(({ status }) => status === 429)
    assert.ok(waits.length > 0 && waits.length <= 4, String(waits.length))
    assert.deepEqual(new Set(waits.map(({ headers }) => headers.get('retry-after'))), new Set(['1']))
  } finally {
    postrider.config.http.trusted_proxies = []
  }
})

test('counts each client behind a trusted proxy separately', async () => {
  postrider.clock.leap(60 * MINUTE)
  postrider.config.http.public_url = 'https://mail.example'
  try {
    const attacker = new Person(postrider.url)
    const page = await attacker.open(asking())
    for (let n = 0; n < 5; n++)
      await attacker.press(
        page,
        'password',
        { email: `n${n}@nowhere.test`, password: 'x' },
        { 'x-forwarded-for': '192.0.2.9' },
      )
    const right = { email: postrider.user.email, password: PASSWORD }
    assert.equal((await attacker.press(page, 'password', right, { 'x-forwarded-for': '192.0.2.9' })).status, 429)
    assert.equal((await attacker.press(page, 'password', right, { 'x-forwarded-for': '192.0.2.10' })).status, 303)
  } finally {
    postrider.config.http.public_url = postrider.url
  }
})

test('of two sign-in pages opened at once, the second works as well', async () => {
  const person = new Person(postrider.url)
  const [first, second] = [await person.open(asking()), await person.open(asking({ state: 'second' }))]
  const typed = { email: postrider.user.email, password: PASSWORD }
  assert.equal((await person.press(first, 'password', typed)).status, 303)
  const answer = await person.press(second, 'password', typed)
  assert.deepEqual(
    [answer.status, new URL(answer.headers.get('location')!, postrider.url).searchParams.get('state')],
    [303, 'second'],
  )
})

test('accepts an address in its own script and a password of any length', async () => {
  const email = 'carol@bücher.example'
  await addUser(postrider.appliance.deps, { email })
  await givePassword(postrider, 'carol@xn--bcher-kva.example', 'long '.repeat(400))
  for (const typed of [email, 'Carol@xn--bcher-kva.example', ' carol@BÜCHER.example ']) {
    const person = new Person(postrider.url)
    const page = await person.open(asking())
    assert.equal(
      (await person.press(page, 'password', { email: typed, password: 'long '.repeat(400) })).status,
      303,
      typed,
    )
  }
})

test('keeps the query of a redirect URI, and omits empty parameters', async () => {
  const own = 'http://127.0.0.1:9/cb?a&b=%7e%20(x)&c=1/2'
  const { id } = (await addClient(postrider.appliance.deps, { name: 'Own', redirectUris: [own] }))!
  const at = `${asking({ client_id: id, redirect_uri: own })}&resource=&scope=`
  const person = new Person(postrider.url)
  const back = await person.press(await person.signIn(at, postrider.user.email, PASSWORD), 'allow')
  assert.ok(back.headers.get('location')!.startsWith(`${own}&code=`), back.headers.get('location')!)
  const empty = new URL((await person.open(asking({ response_type: '', state: '' }))).headers.get('location')!)
  assert.deepEqual([empty.searchParams.get('error'), empty.searchParams.get('state')], ['invalid_request', null])
  assert.equal((await person.open('/oauth/authorize', { method: 'PUT' })).status, 405)
})

test('takes the same work for unknown users as for known ones', async () => {
  assert.equal(await checkPassword('', NOBODY), false)
  const cost = (hash: string): string => hash.split('$').slice(0, 4).join('$')
  assert.equal(cost(NOBODY), cost(await hashPassword(PASSWORD)))
  const lengths = (hash: string): number[] => hash.split('$').map(({ length }) => length)
  assert.deepEqual(lengths(NOBODY), lengths(await hashPassword(PASSWORD)))
})

test('rejects over-long input before it processes it', async () => {
  const person = new Person(postrider.url)
  const page = await person.open(asking())
  const email = postrider.user.email
  assert.equal((await person.press(page, 'password', { email, password: 'x'.repeat(70_000) })).status, 403)
  const many = asking({ state: '(' }).replace('%28', '('.repeat(7000))
  assert.equal((await person.press(await person.open(many), 'password', { password: 'x' })).status, 403)
  assert.equal((await person.open(asking({ state: 'x'.repeat(8000) }))).status, 400)
  const twice = await person.open(`${asking()}&state=b`)
  assert.match(twice.headers.get('location')!, /error=invalid_request/)
})
