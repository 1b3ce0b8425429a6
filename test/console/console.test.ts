// Tests the console through its pages: sign-in, forms, each page, and requests by unauthenticated clients.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { TOTP } from 'otpauth'
import { HOUR, MINUTE } from '../../src/base/clock.ts'
import { makeLink } from '../../src/users/sign-in-links.ts'
import { addUser } from '../../src/users/users.ts'
import { newId } from '../../src/base/ids.ts'
import { db, raw } from '../../src/store/query.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { Guest, type Shown } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { fieldsOf, parse } from '../kit/page.ts'
import { asPerson, givePassword } from '../kit/person.ts'
import { testReceiver } from '../kit/receiver.ts'
import { until } from '../kit/until.ts'
import { makeHook } from '../webhooks/hooks.ts'

const PASSWORD = 'a long enough password'
/** All pages without an id in their path. */
const PLACES = [
  '/',
  '/mail',
  '/receivers',
  '/queue',
  '/campaigns',
  '/campaigns/new',
  '/audiences',
  '/inboxes',
  '/suppressions',
  '/domains',
  '/webhooks',
  '/tokens',
  '/agents',
  '/find',
  '/keys',
  '/privacy',
  '/server',
  '/server/load',
  '/server/log',
  '/server/watch',
  '/people',
  '/people/new',
  '/account',
]

let ann: Guest
let bob: Guest
/** The reply of the receiving server to a recipient. Undefined: it accepts. */
let answer: (to: string) => string | undefined = () => undefined

const exchanger = testExchanger({
  answer: (command) => {
    const [, to] = /^RCPT TO:<([^>]+)>/i.exec(command) ?? []
    return to === undefined ? undefined : answer(to)
  },
})

/** A foreign web server for webhooks and images. */
const receiver = testReceiver()
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    receiver,
    // The console shows the last lines of the log.
    logged: { level: 'info', lines: [] },
    domains: ['here.test'],
    routes: ['there.test'],
  }),
)

setUp(async () => {
  for (const { email } of [postrider.user, postrider.other]) await givePassword(postrider, email, PASSWORD)
  ann = new Guest(postrider)
  bob = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  await bob.signIn(postrider.other.email, PASSWORD)
})

const isSignIn = ({ text }: Shown): boolean => text.includes('name="password"')
const post = async (more: Record<string, unknown> = {}): Promise<string> => {
  const attributes = {
    from: 'ann@here.test',
    to: 'ada@there.test',
    subject: 'A receipt',
    html: '<p>Thanks</p>',
    ...more,
  }
  return (await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))).body.data.id
}
const domainId = async (): Promise<string> => (await postrider.api('GET', '/domains')).body.data[0].id
const audience = async (name = 'Readers'): Promise<string> => {
  const domain = { data: { type: 'domains', id: await domainId() } }
  return (await postrider.api('POST', '/audiences', document('audiences', { name }, { relationships: { domain } })))
    .body.data.id
}

describe('every page', () => {
  test('every page redirects visitors to the sign-in and back afterwards', async () => {
    for (const path of PLACES) {
      const shown = await new Guest(postrider).open(path)
      assert.ok(isSignIn(shown), path)
      assert.equal(shown.path, `/sign-in?next=${encodeURIComponent(path)}`)
    }
  })

  test('every page has a heading, loads only from this server and cannot be framed', async () => {
    for (const path of PLACES) {
      const { headers, status, text } = await ann.open(path)
      assert.equal(status, 200, path)
      const policy = headers.get('content-security-policy')!
      assert.match(policy, /default-src 'none'.*frame-ancestors 'none'/, path)
      assert.doesNotMatch(policy, /unsafe-inline/, path)
      assert.equal(headers.get('cache-control'), 'no-store', path)
      assert.match(text, /<h1>[^<]+<\/h1>/, path)
      assert.match(text, /aria-current="page"|Your account/, path)
      assert.doesNotMatch(text, /aria-current="(?!page"|true")|="&quot;/, path)
      assert.doesNotMatch(
        text,
        /\bpostrider (?:agent|contacts|domain|queue|suppression|token|usage|user)\b/,
        `${path} sends a person to a shell`,
      )
      assert.doesNotMatch(text, /\son\w+="|<style|style="|<script(?![^>]*src="\/assets\/)/i, path)
      assert.doesNotMatch(text, /(?:src|href)="(?:https?:)?\/\//i, path)
      assert.ok(text.length < 100_000, `${path} has ${text.length} bytes`)
    }
  })

  test('operator pages are 404 for other users', async () => {
    for (const path of ['/queue', '/server', '/people']) assert.equal((await bob.open(path)).status, 404, path)
    assert.doesNotMatch((await bob.open('/')).text, /href="\/people"/)
  })

  test('an unknown URL is answered with a page to browsers and one line to other clients', async () => {
    const accept = 'text/html,application/xhtml+xml'
    for (const guest of [ann, new Guest(postrider)]) {
      const { status, text } = await guest.open('/nonsense', { headers: { accept } })
      assert.equal(status, 404)
      assert.match(text, /<h1>Page not found<\/h1>[^]*href="\/">Back to the overview/)
    }
    const { status, text } = await ann.open('/nonsense')
    assert.deepEqual([status, text], [404, 'Not found.\n'])
  })

  test('ids of another account are 404', async () => {
    const mail = await post()
    const list = await audience('Private')
    for (const path of [
      `/mail/${mail}`,
      `/mail/${mail}/html`,
      `/audiences/${list}`,
      `/audiences/${list}/export.csv`,
      '/domains/here.test',
    ]) {
      assert.equal((await ann.open(path)).status, 200, path)
      assert.equal((await bob.open(path)).status, 404, path)
    }
  })

  test('scripts and styles are served compressed: under 250 KB in total, 60 KB without the editor', async () => {
    let sum = 0
    let editor = 0
    for (const name of ['console.js', 'editor.js', 'passkey.js', 'console.css', 'frame.css']) {
      const response = await postrider.page(`/assets/${name}`, { headers: { 'accept-encoding': 'br' } })
      assert.equal(response.status, 200, name)
      assert.equal(response.headers.get('content-encoding'), 'br')
      const size = (await response.arrayBuffer()).byteLength
      sum += size
      if (name === 'editor.js') editor = size
      const again = await postrider.page(`/assets/${name}`, {
        headers: { 'if-none-match': response.headers.get('etag')! },
      })
      assert.equal(again.status, 304)
    }
    assert.ok(sum < 250_000, `${sum} bytes`)
    assert.ok(sum - editor < 60_000, `${sum - editor} bytes without the editor`)
    assert.equal((await postrider.page('/assets/nothing.js')).status, 404)
    const docs = await postrider.page('/docs')
    assert.equal(docs.status, 200)
    assert.doesNotMatch(await docs.text(), /(?:src|href)="https?:/)
  })
})

describe('signing in', () => {
  test('a wrong password does not reveal whether the account exists, and repeated attempts are throttled', async () => {
    const guest = new Guest(postrider)
    const wrong = await guest.signIn(postrider.user.email, 'nonsense')
    assert.equal(wrong.status, 403)
    assert.equal(
      (await new Guest(postrider).signIn('nobody@there.test', 'nonsense')).text.includes(
        'The email address or password is wrong',
      ),
      true,
    )
    let last = wrong
    for (let n = 0; n < 8; n++) last = await guest.signIn(postrider.user.email, 'nonsense')
    assert.equal(last.status, 429)
    postrider.clock.leap(HOUR)
    assert.ok(!isSignIn(await guest.signIn(postrider.user.email, PASSWORD)))
  })

  test('a sign-in link works once within 15 minutes, and opening its page does not use it up', async () => {
    const { clock, store } = postrider.appliance.deps
    const make = () => store.write((tx) => makeLink(tx, postrider.user, clock.now()))
    const token = await make()
    const guest = new Guest(postrider)
    const opened = await guest.open(`/sign-in?link=${token}`)
    assert.ok(!isSignIn(await guest.send(opened, 'use-link')))
    assert.match((await guest.open('/')).text, /<h1>Overview/)
    const late = await new Guest(postrider).send(opened, 'use-link', {}).catch(() => undefined)
    assert.ok(late === undefined || isSignIn(late), 'once')
    const old = await make()
    postrider.clock.leap(15 * MINUTE)
    const other = new Guest(postrider)
    assert.ok(isSignIn(await other.send(await other.open(`/sign-in?link=${old}`), 'use-link')))
  })

  test('emails a sign-in link to existing users only, and shows the same page for all addresses', async () => {
    const { store } = postrider.appliance.deps
    const asked = async (email: string): Promise<string> => {
      const guest = new Guest(postrider)
      return (await guest.send(await guest.open('/sign-in'), 'link', { email })).text
    }
    const known = await asked(postrider.other.email)
    assert.equal(known, await asked('nobody@there.test'))
    const { text } = store.first(db.selectFrom('notices').select('text').where('subject', '=', 'Your sign-in link'))!
    const [link] = /\/sign-in\?link=\S+/.exec(text)!
    const guest = new Guest(postrider)
    assert.match((await guest.send(await guest.open(link), 'use-link')).text, /<h1>Overview/)
  })

  test('no sign-in link is sent to an inbox of this server, because others may read it', async () => {
    const { deps } = postrider.appliance
    await addUser(deps, { email: 'eve@here.test' })
    const inbox = await postrider.api(
      'POST',
      '/inboxes',
      document('inboxes', { name: 'Eve', address: 'eve@here.test' }),
    )
    assert.equal(inbox.status, 201)
    const notices = () => deps.store.all(db.selectFrom('notices').select('key')).length
    const before = notices()
    const guest = new Guest(postrider)
    const said = await guest.send(await guest.open('/sign-in'), 'link', { email: 'Eve@here.test' })
    assert.match(said.text, /Sign-in link not sent/)
    assert.equal(notices(), before)
    for (const email of ['eve+me@here.test', 'abuse@here.test']) {
      const added = await ann.send(await ann.open('/people/new'), 'add', { email, name: '', access: 'owner' })
      assert.ok(
        added.text.includes(`Email to ${email} is delivered to this server, where other users may be able to read it`),
        email,
      )
      assert.match(added.text, /id="invitation">http[^<]+\/join\?link=/)
    }
    assert.equal(notices(), before, 'an invitation is not mailed there either')
    await postrider.api('DELETE', `/inboxes/${inbox.body.data.id}`)
  })

  test('requires the second factor, and accepts each code once', async () => {
    const user = await addUser(postrider.appliance.deps, { email: 'carl@owner.test' })
    await givePassword(postrider, user.email, PASSWORD)
    const guest = new Guest(postrider)
    await guest.signIn(user.email, PASSWORD)
    const account = await guest.open('/account')
    const [, secret] = /name="secret" value="([A-Z2-7]+)"/.exec(account.text)!
    const code = (): string => new TOTP({ secret: secret! }).generate({ timestamp: postrider.clock.now() })
    assert.equal((await guest.send(account, 'factor', { code: '000000' })).status, 422)
    assert.equal((await guest.send(account, 'factor', { code: code() })).status, 200)
    const again = new Guest(postrider)
    const step = await again.signIn(user.email, PASSWORD)
    assert.match(step.text, /Six-digit code/)
    assert.equal((await again.open('/')).path, '/sign-in?next=%2F', 'not signed in by the password alone')
    assert.equal(
      (await again.send(step, 'code', { code: code() })).status,
      403,
      'the code that turned it on is used up',
    )
    postrider.clock.leap(MINUTE)
    assert.match((await again.send(step, 'code', { code: code() })).text, /<h1>Overview/)
    const { clock, store } = postrider.appliance.deps
    const linked = new Guest(postrider)
    const token = await store.write((tx) => makeLink(tx, user, clock.now()))
    const asked = await linked.send(await linked.open(`/sign-in?link=${token}`), 'use-link')
    assert.match(asked.text, /Six-digit code/, 'a link is one factor too')
    assert.ok(isSignIn(await linked.open('/')))
  })

  test('forms work after the browser was closed and lost its session cookies', async () => {
    const user = await addUser(postrider.appliance.deps, { email: 'fred@owner.test' })
    await givePassword(postrider, user.email, PASSWORD)
    const guest = new Guest(postrider)
    await guest.signIn(user.email, PASSWORD)
    for (const name of guest.cookies.keys()) if (name.endsWith('postrider_browser')) guest.cookies.delete(name)
    const [first, second] = [await guest.open('/account'), await guest.open('/account')]
    assert.deepEqual(first.headers.getSetCookie(), [])
    for (const page of [first, second])
      assert.equal(
        (await guest.send(page, 'factor', { code: '000000' })).status,
        422,
        'looked at, not refused as foreign',
      )
    const visitor = new Guest(postrider)
    const page = await visitor.open('/sign-in')
    assert.equal(page.headers.getSetCookie().length, 1, 'one cookie for all forms of a page')
    const signedIn = await visitor.send(page, 'password', { email: user.email, password: PASSWORD })
    assert.match(signedIn.text, /<h1>Overview/)
  })

  test('a user without a password turns off two-factor authentication with an app code', async () => {
    const user = await addUser(postrider.appliance.deps, { email: 'eric@owner.test' })
    const { clock, store } = postrider.appliance.deps
    const token = await store.write((tx) => makeLink(tx, user, clock.now()))
    const guest = new Guest(postrider)
    await guest.send(await guest.open(`/sign-in?link=${token}`), 'use-link')
    const account = await guest.open('/account')
    const [, secret] = /name="secret" value="([A-Z2-7]+)"/.exec(account.text)!
    const code = (): string => new TOTP({ secret: secret! }).generate({ timestamp: postrider.clock.now() })
    const on = await guest.send(account, 'factor', { code: code() })
    assert.equal((await guest.send(on, 'no-factor', { old: '' })).status, 422)
    assert.equal((await guest.send(on, 'no-factor', { old: code() })).status, 422, 'that code is used up')
    postrider.clock.leap(MINUTE)
    const off = await guest.send(on, 'no-factor', { old: code() })
    assert.match(off.text, /name="secret"/)
  })

  test('lists sessions, ends single ones, and ends all when the password changes', async () => {
    const other = new Guest(postrider)
    await other.signIn(postrider.user.email, PASSWORD)
    const account = await ann.open('/account')
    assert.match(account.text, /this session/)
    const ended = await ann.send(account, 'end-others')
    assert.match(ended.text, /role="status">Signed out of \d+ other sessions?\.</)
    assert.ok(isSignIn(await other.open('/')))
    await other.signIn(postrider.user.email, PASSWORD)
    const changed = await ann.send(await ann.open('/account'), 'password', { old: PASSWORD, new: `${PASSWORD} 2` })
    assert.equal(changed.status, 200)
    assert.ok(isSignIn(await other.open('/')), 'the others have ended')
    await givePassword(postrider, postrider.user.email, PASSWORD)
  })

  test('redirects never lead to another site', async () => {
    for (const next of ['https://evil.test/', '//evil.test/', '/\\evil.test', 'javascript:alert(1)']) {
      const guest = new Guest(postrider)
      const page = await guest.open(`/sign-in?next=${encodeURIComponent(next)}`)
      assert.doesNotMatch(page.text, /evil|javascript/, next)
    }
  })
})

describe('forms', () => {
  test('rejects forms from another site, from another browser or without a form token', async () => {
    const page = await ann.open('/audiences/new')
    const before = (await postrider.api('GET', '/audiences')).body.data.length
    const body = 'action=add&name=Stolen&proof=x'
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    assert.equal((await ann.open('/audiences/new', { method: 'POST', body, headers })).status, 403)
    const foreign = { headers: { origin: 'https://evil.test' } }
    assert.equal((await ann.send(page, 'add', { name: 'Stolen' }, foreign)).status, 403)
    assert.equal(
      (await bob.send({ ...page, path: '/audiences/new' }, 'add', { name: 'Stolen' })).status,
      403,
      'of another person',
    )
    assert.equal((await postrider.api('GET', '/audiences')).body.data.length, before)
  })

  test('input that was sent after the session expired is kept for after the sign-in', async () => {
    const guest = new Guest(postrider)
    await guest.signIn(postrider.user.email, PASSWORD)
    const page = await guest.open('/audiences/new')
    guest.cookies.delete('postrider_session')
    const asked = await guest.send(page, 'add', { name: 'Typed long' })
    assert.equal(asked.status, 401)
    const signedIn = await guest.send(asked, 'password', { email: postrider.user.email, password: PASSWORD })
    assert.match(signedIn.text, /Your input was kept/)
    const { action, hidden } = parse(signedIn.text)[0]!
    const shown = await guest.open(action!, {
      method: 'POST',
      body: new URLSearchParams(hidden).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    })
    assert.match(shown.text, /Typed long/)
  })

  test('shows the error of the API at the field and keeps the input', async () => {
    const shown = await ann.send(await ann.open('/inboxes/new'), 'add', { name: 'Help', address: 'help@foreign.test' })
    assert.match(shown.text, /aria-invalid="true"/)
    assert.match(shown.text, /value="help@foreign.test"/)
  })

  test('errors name the field by its label, and are shown once, at the field that has the focus', async () => {
    const token = await ann.send(await ann.open('/tokens/new'), 'add', {
      name: 'None',
      duration: '1_month',
      scopes: [],
    })
    assert.equal(token.text.split('&quot;Access&quot; must').length, 2)
    assert.match(token.text, /<fieldset id="scopes" aria-describedby="scopes-error" tabindex="-1" autofocus>/)
    assert.match(token.text, /<p class="bad" id="scopes-error">&quot;Access&quot; must/)
    const domain = await domainId()
    const hooks = await ann.open('/webhooks/new')
    const hook = await ann.send(hooks, 'add', { domain, name: 'Shop', url: 'http://shop.test/', events: [] })
    assert.match(hook.text, /id="url"[^>]*aria-invalid="true" autofocus/)
    assert.equal(hook.text.split('&quot;URL&quot; must').length, 2)
    assert.doesNotMatch(hook.text, /role="alert"/)
    const pasted = await ann.send(await ann.open('/domains/new'), 'add', {
      name: 'https://www.example.org/shop',
      purpose: 'both',
    })
    assert.equal(pasted.text.split('is an address. Use only its domain: example.org.').length, 2)
    assert.doesNotMatch(hook.text, /&quot;url&quot;/)
    const added = await ann.send(await ann.open('/suppressions/new'), 'add', {
      domain,
      emails: 'right@there.test\nwrong at there.test',
      reason: 'manual',
    })
    assert.match(added.text, /&quot;wrong at there\.test&quot; must be one email address/)
  })

  test('asks for confirmation without JavaScript', async () => {
    const list = await audience('Asked')
    const contacts = [{ email: 'asked@there.test' }]
    await postrider.api('POST', `/audiences/${list}/contacts/import`, document('contacts', { contacts }))
    const made = await ann.send(await ann.open('/campaigns/new'), 'save', {
      name: 'Asked',
      audience: list,
      subject: 'Asked',
      body_html: '<p>x</p>',
    })
    const path = made.path.split('?')[0]!
    const statusOf = async () => (await postrider.api('GET', path)).body.data.attributes.status
    const review = await ann.open(`${path}/send`)
    const later = await ann.send(review, 'later', { at: '2090-01-02T10:00', sure: '' })
    assert.match(later.text, /Sending starts on 2090-01-02 10:00 UTC\./)
    const asked = await ann.send(review, 'now', { sure: '' })
    assert.match(asked.text, /<h1>Are you sure\?<\/h1>[\s\S]*?<p>“Asked” will be sent to “Asked”\. 1 recipient\./)
    assert.equal(await statusOf(), 'draft')
    await ann.send(asked, 'now')
    assert.notEqual(await statusOf(), 'draft')
  })

  test('keeps the text for a new campaign if the campaign was deleted during editing', async () => {
    const list = await audience('Removed')
    const made = await ann.send(await ann.open('/campaigns/new'), 'save', {
      name: 'Removed',
      audience: list,
      subject: 'Removed',
      body_html: '<p>x</p>',
    })
    const path = made.path.split('?')[0]!
    const editing = await ann.open(`${path}/edit`)
    assert.equal((await postrider.api('DELETE', path)).status, 204)
    const fields = { name: 'Removed', subject: 'Kept', body_html: '<p>long work</p>' }
    const kept = await ann.send(editing, 'save', fields)
    assert.match(kept.text, /This campaign was deleted in the meantime/)
    assert.match(kept.text, /value="Kept"[^]*&lt;p&gt;long work/)
    const again = await ann.send(kept, 'save', { ...fields, audience: list })
    assert.match(again.path, /^\/campaigns\/[0-9a-f-]{36}\?said=/)
    assert.match(again.text, /role="status">Saved “Removed” as a draft\./)
  })

  test('saving a contact keeps line breaks, numbers and field names with colons', async () => {
    const list = await audience('Fields')
    const custom_fields = { note: 'two\nlines', 'a: b': 'x', age: 41, gone: 'y' }
    const { body } = await postrider.api(
      'POST',
      `/audiences/${list}/contacts`,
      document('contacts', { email: 'fields@there.test', custom_fields }),
    )
    const path = `/audiences/${list}/contacts/${body.data.id}`
    const fields = { 'field:note': 'two\r\nlines', 'field:a: b': 'x', 'field:age': '41', 'field:gone': '' }
    const stale = await ann.open(path)
    assert.match(stale.text, /Keep subscribed/)
    await ann.send(await ann.open(path), 'save', {
      name: '',
      status: '',
      ...fields,
      'new-name': 'city',
      'new-value': 'Bergen',
    })
    assert.deepEqual((await postrider.api('GET', `/contacts/${body.data.id}`)).body.data.attributes.custom_fields, {
      note: 'two\nlines',
      'a: b': 'x',
      age: 41,
      city: 'Bergen',
    })
    const late = await ann.send(stale, 'save', { name: 'Late', status: '', ...fields })
    assert.match(late.text, /This contact was changed after you opened it/)
    assert.equal((await postrider.api('GET', `/contacts/${body.data.id}`)).body.data.attributes.name, null)
    const half = { name: '', status: '', ...fields, 'new-value': 'x' }
    assert.match((await ann.send(await ann.open(path), 'save', half)).text, /A new field needs a name and a value/)
    // The history contains the reason why a contact gets no campaigns, and its evidence.
    const left = await ann.send(await ann.open(path), 'save', { name: '', ...fields, status: 'unsubscribed' })
    assert.match(
      left.text,
      /Keep unsubscribed[^]*Suppressed for campaigns: unsubscribed<\/td>[^]*added manually[^]*Added to the audience/,
    )
  })

  test('a webhook receives the chosen events, or all events if no event is chosen', async () => {
    for (const [chosen, events, words] of [
      [['email.bounced', 'email.complained'], ['email.bounced', 'email.complained'], 'email.bounced, email.complained'],
      [[], ['*'], 'all'],
    ] as const) {
      const url = `${receiver.url}/${chosen.length}`
      const made = await ann.send(await ann.open('/webhooks/new'), 'add', {
        domain: await domainId(),
        name: 'Some',
        url,
        events: [...chosen],
      })
      assert.match(made.text, new RegExp(`<dt>Events</dt>\\s*<dd>${words}</dd>`))
      const { data } = (await postrider.api('GET', '/webhooks')).body
      const hook = data.find(({ attributes }: { attributes: { url: string } }) => attributes.url === url)
      assert.deepEqual(hook.attributes.events, events)
      receiver.answer = 200
      const tested = await ann.send(await ann.open(`/webhooks/${hook.id}`), 'test')
      assert.match(tested.text, /A test event to http/)
      // A webhook for all events also receives those of other tests' emails.
      await until(() =>
        receiver.requests.find(
          ({ body, path }) =>
            path === `/${chosen.length}` && JSON.parse(body).type === (chosen[0] ?? 'email.delivered'),
        ),
      )
      const ended = async (outcome: string) => (await ann.open(`/webhooks/${hook.id}?outcome=${outcome}`)).text
      const link = await until(async () => /href="(\/webhooks\/deliveries\/[^"]+)"/.exec(await ended('delivered')))
      assert.match(await ended('failed'), /No deliveries with this status/)
      const delivery = (await ann.open(link[1]!)).text
      assert.match(delivery, /\n {2}&quot;type&quot;: &quot;/, 'JSON with an indent')
      assert.match(delivery, /<td class="k-figure px" data-title="Response">200<\/td>/)
      await ann.send(await ann.open(`/webhooks/${hook.id}`), 'pause')
      assert.doesNotMatch((await ann.open(`/webhooks/${hook.id}`)).text, /Send test event/)
      assert.equal((await postrider.api('POST', `/webhooks/${hook.id}/test`)).status, 422)
      await postrider.api('DELETE', `/webhooks/${hook.id}`)
    }
  })

  test('shows both versions to the second of two users who save one campaign', async () => {
    const list = await audience('Clash')
    const made = await ann.send(await ann.open('/campaigns/new'), 'save', {
      name: 'News',
      audience: list,
      subject: 'One',
      body_html: '<p>One</p>',
    })
    const edit = `${made.path.split('?')[0]}/edit`
    const [first, second] = [await ann.open(edit), await ann.open(edit)]
    const typed = { name: 'News', body_text: '', from_address: '', reply_to: '' }
    assert.equal((await ann.send(first, 'save', { ...typed, subject: 'Two', body_html: '<p>Two</p>' })).status, 200)
    const clash = await ann.send(second, 'save', { ...typed, subject: 'Three', body_html: '<p>Three</p>' })
    assert.equal(clash.status, 409)
    assert.match(clash.text, /&lt;p&gt;Two&lt;\/p&gt;/)
    assert.match(clash.text, /value="Three"/)
    assert.match(
      (await ann.send(clash, 'save', { ...typed, subject: 'Three', body_html: '<p>Three</p>' })).text,
      /Three/,
    )
  })
})

describe('mail', () => {
  test('finds emails by address and text, and shows the replies of each attempt', async () => {
    answer = (to) => (to.startsWith('refused') ? '550 5.1.1 No such user <script>alert(1)</script>' : undefined)
    const id = await post({ to: 'refused@there.test', subject: 'Invoice 7781 <b>' })
    await until(
      async () => (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes.status === 'bounced',
    )
    for (const q of [
      'refused@there.test',
      'to:refused',
      'invoice 7781',
      'subject:"Invoice 7781" status:bounced',
      'domain:here.test 7781',
    ])
      assert.match((await ann.open(`/mail?q=${encodeURIComponent(q)}`)).text, new RegExp(id), q)
    for (const q of ['nobody@there.test', 'status:delivered 7781', 'before:2000-01-01'])
      assert.doesNotMatch((await ann.open(`/mail?q=${encodeURIComponent(q)}`)).text, new RegExp(id), q)
    const found = await ann.open('/mail?from=anywhere&q=refused%40there.test')
    assert.equal(found.path, `/mail/${id}`, 'the search box of every page leads to the only mail that fits')
    assert.equal((await ann.open('/mail?from=anywhere&q=there.test')).path, '/mail?from=anywhere&q=there.test')
    assert.match((await ann.open('/mail?q=after:never')).text, /is not a time/)
    const unknown = (await ann.open('/mail?q=status:foo')).text
    assert.match(
      unknown,
      /foo&quot; is not an email status\. Use one of scheduled, queued, sent, delivered, bounced[^.]*, waiting, deferred, held, warm-up\./,
    )
    const { text } = await ann.open(`/mail/${id}`)
    assert.match(text, /550 5\.1\.1 No such user &lt;script&gt;/)
    assert.match(text, /RCPT TO:/)
    assert.doesNotMatch(text, /<script>alert|<b>/)
    answer = () => undefined
  })

  test('the timeline lists a deferral as an attempt', async () => {
    const began = postrider.clock.now()
    answer = (to) =>
      to.startsWith('later') && postrider.clock.now() < began + MINUTE ? '451 4.7.1 Try again later' : undefined
    const id = await post({ to: 'later@there.test' })
    const outcome = async () =>
      (await postrider.api('GET', `/outbound-emails/${id}/attempts`)).body.data[0]?.attributes.outcome
    await until(async () => (await outcome()) === 'deferred')
    postrider.clock.advance(HOUR)
    await until(
      async () => (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes.status === 'delivered',
    )
    const { body } = await postrider.api('GET', `/outbound-emails/${id}/attempts`)
    assert.deepEqual(
      body.data.map(({ attributes }: { attributes: { number: number; outcome: string; smtp_code: number } }) => [
        attributes.number,
        attributes.outcome,
        attributes.smtp_code,
      ]),
      [
        [1, 'deferred', 451],
        [2, 'delivered', 250],
      ],
    )
    assert.match((await ann.open(`/mail/${id}`)).text, /Try again later/)
    const receivers = (await ann.open('/receivers?period=24h')).text
    assert.match(receivers, /there\.test/)
    assert.match(receivers, /451 4\.7\.1 Try again later/)
    assert.equal((await postrider.api('DELETE', '/recipients/later@there.test/forget')).status, 202)
    await until(async () => {
      postrider.clock.advance(1000)
      return (await postrider.api('GET', '/privacy-requests?filter[status]=done')).body.data.length > 0
    }, 'the erasure')
    const left = (await postrider.api('GET', `/outbound-emails/${id}/attempts`)).body.data
    assert.deepEqual(
      left.filter(({ attributes: { outcome } }: { attributes: { outcome: string } }) => outcome === 'deferred'),
      [],
    )
    answer = () => undefined
  })

  test('the timeline and the API list the webhook deliveries of an email', async () => {
    const domain = (await postrider.api('GET', '/domains')).body.data[0]
    const hook = await makeHook(postrider, receiver, domain, ['email.sent', 'email.delivered'])
    const id = await post({ subject: 'Told' })
    await post({ subject: 'Another' })
    await hook.arrived(4)
    const path = `/outbound-emails/${id}/webhook-deliveries`
    const rows = async () => (await postrider.api('GET', path)).body.data
    await until(async () => {
      postrider.clock.advance(1000)
      return (await rows()).every((row: { attributes: { outcome: string } }) => row.attributes.outcome === 'delivered')
    }, 'both delivered')
    assert.deepEqual(
      (await rows()).map((row: { attributes: { event: string }; relationships: { webhook: { data: object } } }) => [
        row.attributes.event,
        row.relationships.webhook.data,
      ]),
      ['email.sent', 'email.delivered'].map((event) => [event, { type: 'webhooks', id: hook.id }]),
    )
    const shown = (await ann.open(`/mail/${id}`)).text
    assert.match(shown, new RegExp(`email\\.delivered</code> for\\s*<a href="/webhooks/${hook.id}"`))
    assert.match(shown, /HTTP 200/)
    assert.equal((await postrider.asOther('GET', path)).status, 404)
    const reader = await postrider.tokenFor(postrider.user, ['emails:read'])
    const headers = { authorization: `Bearer ${reader}` }
    assert.equal((await postrider.raw(`/api/v1${path}`, { headers })).status, 403)
  })

  test('remote images are shown on request and fetched by this server', async () => {
    const picture = Buffer.from('89504e470d0a1a0a', 'hex')
    // Webhooks of this account lead to the same receiver, at any time.
    const fetched = () => receiver.requests.filter(({ path }) => !path.startsWith('/hook'))
    const before = fetched().length
    receiver.answer = ({ path }, response) =>
      void response
        .writeHead(200, { 'content-type': path.startsWith('/ok') ? 'image/png' : 'image/svg+xml' })
        .end(picture)
    const html = `<img src="${receiver.url}/ok.png?a=1&amp;b=2"><img src="${receiver.url}/bad.svg"><img src="https://127.0.0.1:1/x">`
    const id = await post({ subject: 'Pictures', html })
    assert.match((await ann.open(`/mail/${id}`)).text, /href="\?pictures=yes#looks"/)
    assert.doesNotMatch((await ann.open(`/mail/${id}/html`)).text, /<img/)
    assert.match((await ann.open(`/mail/${id}?pictures=yes`)).text, /src="\/mail\/[^"]*\/html\?pictures=yes"/)
    const framed = (await ann.open(`/mail/${id}/html?pictures=yes`)).text
    const [ok, bad, inside] = [...framed.matchAll(/<img src="([^"]*)"/g)].map(([, src]) =>
      src!.replaceAll('&amp;', '&'),
    )
    assert.equal(fetched().length, before, 'nothing is fetched before a browser asks')
    // The frame has no cookies, so the signed URL is the proof.
    const answered = await postrider.page(ok!)
    assert.equal(answered.status, 200)
    assert.deepEqual(
      [answered.headers.get('content-type'), answered.headers.get('x-content-type-options')],
      ['image/png', 'nosniff'],
    )
    assert.deepEqual(Buffer.from(await answered.arrayBuffer()), picture)
    assert.equal(fetched().at(-1)!.path, '/ok.png?a=1&b=2')
    assert.deepEqual(
      ['cookie', 'referer'].filter((name) => name in fetched().at(-1)!.headers),
      [],
    )
    assert.equal((await postrider.page(bad!)).status, 404, 'SVG can hold programs')
    assert.equal((await postrider.page(inside!)).status, 404)
    for (const forged of [ok!.replace('ok.png', 'ok2.png'), ok!.replace(/t=\d/, 't=9'), '/picture'])
      assert.equal((await postrider.page(forged)).status, 404, forged)
    postrider.clock.leap(11 * MINUTE)
    assert.equal((await postrider.page(ok!)).status, 404, 'too old')
    receiver.answer = 200
  })

  test('sends an email again', async () => {
    const id = await post({ subject: 'Once more' })
    const again = await ann.send(await ann.open(`/mail/${id}`), 'again', { to: 'second@there.test' })
    assert.match(again.text, /second@there\.test/)
    assert.match(again.text, /Once more/)
  })
})

describe('campaigns', () => {
  test('a campaign is written, tested and started, and its recipients are exported as CSV', async () => {
    const list = await audience('Everybody')
    const contacts = ['ann', 'ben', '=cmd', 'dora'].map((name) => ({
      email: `${name.replace('=', 'x')}@there.test`,
      name,
    }))
    await postrider.api('POST', `/audiences/${list}/contacts/import`, document('contacts', { contacts }))
    const made = await ann.send(await ann.open('/campaigns/new'), 'save', {
      name: 'September',
      audience: list,
      subject: 'For {{name}}',
      body_html:
        '<p style="color:#a00;background:url(https://x.test)">Hello {{name}}, {{nothing}} {{nickname|a friend}}</p><img src="https://pictures.test/a.png" alt="A"><p>{{broken</p>',
    })
    const path = made.path.split('?')[0]!
    const review = await ann.open(`${path}/send`)
    assert.match(review.text, /No contact has a value for \{\{nothing\}\}/)
    assert.match(
      review.text,
      /name="question" value="[^"]*Everybody”\. 4 recipients\.[^"]*\nWarning: No contact has a value for \{\{nothing\}\}\./,
    )
    assert.match(review.text, /Not merge tags, sent as typed: \{\{broken/)
    assert.match(review.text, /From noreply@here\.test/)
    assert.match((await ann.open(`${path}/preview`)).text, /Hello (?:ann|ben|=cmd|dora)/)
    const shown = await ann.open(`${path}/preview`)
    assert.match(shown.text, /<style nonce="([^"]+)">\.s0\{color:#a00\}\n[^]*<\/style>[^]*<p class="s0">Hello/)
    assert.match(shown.headers.get('content-security-policy')!, /style-src 'self' 'nonce-/)
    assert.match(shown.text, /<img src="\/picture\?u=https%3A%2F%2Fpictures\.test%2Fa\.png&amp;t=/)
    assert.match((await ann.open(`/audiences/${list}`)).text, /will fail: &quot;September&quot; \(draft\)/)
    const before = exchanger.heard.length
    const tried = await ann.send(review, 'test', { email: 'me@there.test' })
    assert.match(tried.text, /Test email queued for me@there\.test\./)
    await until(() => exchanger.heard.length > before)
    const test = await until(() => exchanger.heard.find(({ message }) => message.includes('Subject: [Test]')))
    assert.match(test.message, /Subject: \[Test\] For (?:ann|ben|=cmd|dora)\r\n/)
    assert.match(test.message, /a friend/)
    // A token that cannot read contacts gets no contact data through a test email.
    const blind = await postrider.tokenFor(postrider.user, ['campaigns:write'])
    const asked = document('campaign-tests', { email: 'blind@there.test' })
    assert.equal((await postrider.api('POST', `${path}/test`, asked, { authorization: `Bearer ${blind}` })).status, 201)
    const unfilled = await until(() => exchanger.heard.find(({ message }) => message.includes('blind@there.test')))
    assert.match(unfilled.message, /Subject: \[Test\] For ?\r\n/)
    assert.equal(
      (await postrider.api('GET', `/campaigns${path.slice('/campaigns'.length)}`)).body.data.attributes.status,
      'draft',
    )
    assert.match((await ann.send(await ann.open(`${path}/send`), 'now')).text, /Started: 4 recipients\./)
    await until(async () => (await ann.open(path)).text.includes('>sent</span'))
    const reputation = `/domains/${await domainId()}/reputation`
    await until(
      async () => (await postrider.api('GET', reputation)).body.data.attributes.series.at(-1)?.deliveries >= 4,
    )
    assert.match((await ann.open('/domains/here.test')).text, /Reputation<\/h2>[^]*data-title="Delivered">\d+<\/td>/)
    assert.match((await ann.open(`${path}/content`)).text, /title="Desktop preview"/)
    // Opens and clicks are counted by hour and by link, without machines, and each event once.
    const { deps } = postrider.appliance
    const [mail] = (await postrider.api('GET', `/outbound-emails?filter[campaign]=${path.slice('/campaigns/'.length)}`))
      .body.data
    const visit = (kind: string, machine: boolean, url?: string) =>
      deps.store.write((tx) =>
        tx.run(
          raw(
            `insert into events (id, type, user_key, domain_key, email_key, campaign_key, data, created_at)
             select ?, ?, user_key, domain_key, key, campaign_key, ?, ? from outbound_emails where id = ?`,
            [
              newId(deps.clock.now()),
              `email.${kind}`,
              JSON.stringify({ delivery: 1, machine, url }),
              deps.clock.now(),
              mail.id,
            ],
          ),
        ),
      )
    const seen = async () => (await postrider.api('GET', `${path}/activity`)).body.data.attributes
    assert.deepEqual(await seen(), { series: [], links: [] })
    await visit('opened', false)
    await visit('opened', true)
    await visit('clicked', false, 'https://shop.test/a')
    await visit('clicked', false, 'https://shop.test/b')
    assert.equal((await seen()).links.length, 2)
    await visit('clicked', false, 'https://shop.test/b')
    const { links, series } = await seen()
    assert.deepEqual(links, [
      { url: 'https://shop.test/b', clicks: 2 },
      { url: 'https://shop.test/a', clicks: 1 },
    ])
    assert.deepEqual([series.length, series[0].opens, series[0].clicks], [1, 1, 3])
    const followed = (await ann.open(path)).text
    assert.match(followed, /https:\/\/shop\.test\/b<\/td>[^]*?>2<\/td>[^]*?>66\.7%<\/td>/)
    assert.match(followed, /<rect class="s-one"/, 'one busy hour is drawn')
    assert.match((await ann.open('/')).text, new RegExp(`Recent campaigns</h2>[^]*href="${path}"`))
    const { headers, text } = await ann.open(`${path}/recipients.csv`)
    assert.match(headers.get('content-disposition')!, /attachment; filename="september-recipients\.csv"/)
    const lines = text.trim().split('\r\n')
    assert.equal(
      lines[0],
      'email,name,status,sent_at,delivered_at,bounced_at,opened_at,clicked_at,unsubscribed_at,smtp_code,enhanced_code,response',
    )
    assert.equal(lines.length, 5)
    assert.match(text, /,'=cmd,/, 'a cell that a spreadsheet would run has an apostrophe')
    assert.equal((await ann.open(`${path}/recipients.csv?status=bounced`)).text.trim().split('\r\n').length, 1)

    // An email that bounced after its delivery has one final status.
    const { store } = postrider.appliance.deps
    const id = path.slice('/campaigns/'.length)
    await store.write((tx) => {
      tx.run(
        raw(
          `update outbound_emails set status = 'bounced', bounced_at = 1 where "to" = 'ann@there.test' and campaign_key = (select key from campaigns where id = ?)`,
          [id],
        ),
      )
      tx.run(raw(`update campaigns set status = 'paused' where id = ?`, [id]))
    })
    assert.match((await ann.open(path)).text, /\s4 of 4\s+completed/)
  })

  test('checks the links of a campaign on request', async () => {
    const list = await audience('Linked')
    const status: Record<string, number> = { '/well': 200, '/moved': 301, '/gone': 404, '/nohead': 405 }
    const methods: string[] = []
    receiver.answer = ({ path }, response, { method }) => {
      if (method !== 'POST') methods.push(`${method} ${path}`)
      const code = path === '/nohead' && method === 'GET' ? 200 : (status[path] ?? 500)
      response.writeHead(code, code === 301 ? { location: '/well' } : {}).end()
    }
    const paths = [...Object.keys(status), '/well']
    const body_html = `${paths.map((path) => `<a href="${receiver.url}${path}">x</a>`).join('')}<a href="https://127.0.0.1:1/">x</a><a href="{{link}}">x</a><a href="www.shop.test">x</a><img src="${receiver.url}/lost.png" alt="A"><img src="pictures/b.png" alt="B"><img src="{{picture}}" alt="C">`
    const made = await postrider.api('POST', '/campaigns', {
      data: {
        type: 'campaigns',
        attributes: { name: 'Links', subject: 'Links', body_html },
        relationships: { audience: { data: { type: 'audiences', id: list } } },
      },
    })
    const { id } = made.body.data
    const page = (await ann.open(`/campaigns/${id}/send`)).text
    assert.match(page, /href="\?look=closer"/)
    assert.match(page, /These images do not load because they have no https:\/\/ URL: pictures\/b\.png<\/li>/)
    assert.match(page, /These links do not work because they do not start with https:\/\/: www\.shop\.test<\/li>/)
    assert.equal(methods.length, 0)
    const { body } = await postrider.api('GET', `/campaigns/${id}/links`)
    assert.deepEqual(
      body.data.map(({ attributes }: { attributes: { url: string; ok: boolean; found: string } }) => [
        attributes.url.replace(receiver.url, ''),
        attributes.ok,
        attributes.found,
      ]),
      [
        ['/well', true, 'answers with status 200'],
        ['/moved', true, 'answers with status 200'],
        ['/gone', false, 'answers with status 404'],
        ['/nohead', true, 'answers with status 200'],
        ['https://127.0.0.1:1/', false, 'cannot be reached: the connection was refused'],
        ['/lost.png', false, 'answers with status 500'],
      ],
    )
    assert.equal(methods.filter((each) => each.endsWith('/well')).length, 2, 'once for itself, once for the redirect')
    const looked = (await ann.open(`/campaigns/${id}/send?look=closer`)).text
    assert.match(looked, /\/gone answers with status 404\./)
    assert.match(looked, /SpamAssassin score: 1\.5\./)
    const judged = await postrider.api('GET', `/campaigns/${id}/spam-verdict`)
    assert.deepEqual(judged.body.data.attributes, {
      judged: true,
      score: 1.5,
      required: 5,
      rules: ['HTML_MESSAGE', 'NO_RELAYS'],
      reason: null,
    })
    const { deps } = postrider.appliance
    const installed = deps.spamAssassin
    deps.spamAssassin = '/nowhere/spamassassin'
    assert.match((await ann.open(`/campaigns/${id}/send?look=closer`)).text, /SpamAssassin is not installed/)
    const unjudged = (await postrider.api('GET', `/campaigns/${id}/spam-verdict`)).body.data.attributes
    assert.deepEqual([unjudged.judged, unjudged.score], [false, null])
    deps.spamAssassin = installed
    assert.equal((await postrider.asOther('GET', `/campaigns/${id}/links`)).status, 404)
    receiver.answer = 200
  })

  test('previews a contact import, and does not subscribe contacts who unsubscribed', async () => {
    const list = await audience('Imported')
    const upload = async (csv: string): Promise<Shown> => {
      const page = await ann.open(`/audiences/${list}/import`)
      const proof = /name="proof" value="([^"]+)"/.exec(page.text)![1]!
      const body = new FormData()
      body.set('proof', proof)
      body.set('action', 'columns')
      body.set('file', new File([csv], 'list.csv', { type: 'text/csv' }))
      return ann.open(`/audiences/${list}/import`, { method: 'POST', body })
    }
    const next = (page: Shown, action: string): Promise<Shown> => ann.send(page, action, fieldsOf(page.text, action))
    const looked = await upload('E-Mail;Name;City\r\nada@there.test;Ada;Bergen\r\nnonsense;;\r\n')
    assert.match(looked.text, /2 rows/)
    assert.match(looked.text, /<option value="field:City" selected>Field “City”/)
    const tried = await next(looked, 'check')
    assert.match(tried.text, /Line 3: &quot;nonsense&quot; is not an email address/)
    const done = await next(tried, 'import')
    assert.match(done.text, /1 added\./)
    assert.match(done.text, /1 row was rejected/)
    assert.equal((await postrider.api('GET', `/audiences/${list}/fields`)).body.data[1].attributes.name, 'City')
    assert.match(
      (await next(await upload('email,status\nada@there.test,unsubscribed\n'), 'check')).text,
      />unsubscribed</,
    )

    const odd = await next(
      await upload('email,name,note\n"a@there.test",A,"two\nlines"\n\nwrong,B,x\nb@there.test,B,x,more\n'),
      'check',
    )
    assert.match(odd.text, /Line 5: &quot;wrong&quot; is not an email address/)
    assert.match(odd.text, /Line 6: has 4 columns, the first line has 3/)
    assert.match(odd.text, /Import 1 valid row\s*</)
    assert.match(
      (await upload('email\n"a"b@there.test\n')).text,
      /The file cannot be read as CSV: on line 2 the quotes/,
    )
    assert.match(
      (await upload('Name,City\nAda,Bergen\n')).text,
      /no column &quot;email&quot;\. Choose a use for every column\./,
    )
    assert.match((await upload('\n')).text, /The file is empty|Choose a file/)
  })
})

describe('other pages', () => {
  test('a hold stops queued and new email for a domain, and a release resumes delivery', async () => {
    await ann.open('/queue')
    assert.equal((await postrider.api('POST', '/lanes/there.test/hold')).status, 202)
    const id = await post({ to: 'held@there.test' })
    assert.match(
      (await ann.open('/queue')).text,
      /there\.test<\/a>\s*<span class="badge waits"\s*>on hold[\s\S]*Release/,
    )
    assert.match(
      (await ann.open('/queue')).text,
      /data-title="Queued">1<\/td>\s*<td class="k-figure px" data-title="Held">1<\/td>/,
    )
    assert.equal((await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes.status, 'queued')
    // A single email, on the same code as the commands.
    const mail = await ann.open(`/mail/${id}`)
    assert.doesNotMatch(mail.text, />Release</)
    const held = await ann.send(mail, 'hold')
    assert.doesNotMatch(held.text, />Retry now<|>Hold</)
    // The page that was open before still has the button.
    const refused = await ann.send(mail, 'retry')
    assert.match(refused.text, /No recipient of this email is in a status that allows &quot;retry&quot;/)
    await ann.send(held, 'release')
    await ann.send(await ann.open(`/mail/${id}`), 'retry')
    const dropped = await post({ to: 'dropped@there.test' })
    await ann.send(await ann.open(`/mail/${dropped}`), 'drop')
    assert.equal((await postrider.api('GET', `/outbound-emails/${dropped}`)).body.data.attributes.status, 'failed')
    assert.equal((await postrider.asOther('POST', `/outbound-emails/${id}/hold`)).status, 404)
    await ann.send(await ann.open('/queue'), 'release', { lane: 'there.test' })
    await until(
      async () => (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes.status === 'delivered',
    )
    assert.equal((await postrider.asOther('POST', '/lanes/there.test/hold')).status, 404)
  })

  test('confirms an action once, and names the resource', async () => {
    await post({ subject: 'From the shop', agent_id: 'shop<b>' })
    const said = await ann.send(await ann.open('/agents'), 'pause', { agent: 'shop<b>' })
    assert.match(said.text, /role="status">shop&lt;b&gt; was paused\.</)
    assert.doesNotMatch((await ann.open(said.path)).text, /is paused\./, 'a reload does not say it again')
    assert.doesNotMatch((await ann.open('/agents?said=anything')).text, /role="status"/)
    await ann.send(await ann.open('/agents'), 'resume', { agent: 'shop<b>' })
  })

  test('the page Agents leads to the emails of an agent, and explains its pool and its rate', async () => {
    await post({ subject: 'From the robot', agent_id: 'robot' })
    const { text } = await ann.open('/agents')
    const [, to = ''] = /href="(\/mail\?q=agent[^"]*)"[^>]*>robot</.exec(text) ?? []
    const found = (await ann.open(to.replaceAll('&amp;', '&'))).text
    assert.match(found, /From the robot/)
    assert.doesNotMatch(found, /From the shop/)
    assert.match(text, /<dt>probation<\/dt>\s*<dd>A new agent\.[^<]* Rate: 2 per second\.<\/dd>/)
  })

  test('shows a new token once, and the token works', async () => {
    const shown = await ann.send(await ann.open('/tokens/new'), 'add', {
      name: 'Shop',
      duration: '1_month',
      scopes: ['emails:send', 'emails:read'],
    })
    const [, token] = /<code class="secret" id="secret">(pr_\w+)<\/code>/.exec(shown.text)!
    assert.equal(
      (await postrider.raw('/api/v1/outbound-emails', { headers: { authorization: `Bearer ${token}` } })).status,
      200,
    )
    const list = (await ann.open('/tokens')).text
    assert.doesNotMatch(list, /pr_\w{43}/)
    assert.doesNotMatch(list, /No token yet/)
  })

  test('adds suppressions manually and exports them as CSV', async () => {
    const page = await ann.open('/suppressions/new')
    const [, domain] = /<option value="([^"]+)" ?>here\.test/.exec(page.text)!
    const added = await ann.send(page, 'add', {
      domain: domain!,
      emails: 'gone@there.test\nleft@there.test',
      reason: 'manual',
    })
    assert.match(added.text, /gone@there\.test/)
    assert.match((await ann.open('/suppressions/export.csv')).text, /gone@there\.test,manual,all/)
    assert.match((await ann.open('/suppressions?q=left')).text, /left@there\.test/)
    await ann.send(page, 'add', { domain: domain!, emails: 'hard@there.test', reason: 'hard_bounce' })
    const hard = (await ann.open('/suppressions?q=hard')).text
    assert.match(hard, /bounced<\/span/)
    assert.doesNotMatch(hard, /postrider suppression/)
    // An operator releases it, and sees the consequence.
    assert.match(hard, /The receiving server reported that the address does not exist\. Sending to/)
    const freed = await ann.send(await ann.open('/suppressions?q=hard'), 'release')
    assert.match(freed.text, /hard@there\.test can receive your email again\./)
    assert.match((await ann.open('/suppressions?q=hard')).text, /No addresses match/)
    assert.match(
      (await ann.send(page, 'add', { domain: domain!, emails: 'nonsense', reason: 'manual' })).text,
      /email address/,
    )
  })

  test('an operator adds users and views an account, which a banner and the log show', async () => {
    const added = await ann.send(await ann.open('/people/new'), 'add', {
      email: 'dora@owner.test',
      name: '',
      access: 'member',
      role: 'reader',
      account: postrider.user.email,
    })
    assert.match(added.text, /dora@owner\.test/)
    const page = await ann.open('/people')
    const { id } = postrider.other
    const opened = await ann.send(page, 'open', { id })
    assert.match(opened.text, /You are viewing the account of <strong>bob@other\.test/)
    assert.doesNotMatch((await ann.open('/mail')).text, /ada@there\.test/)
    assert.doesNotMatch((await ann.send(await ann.open('/people'), 'leave')).text, /You are viewing the account/)
  })

  test('a reader sees the account and cannot change it', async () => {
    const email = 'reader@owner.test'
    await ann.send(await ann.open('/people/new'), 'add', {
      email,
      name: '',
      access: 'member',
      role: 'reader',
      account: postrider.user.email,
    })
    await givePassword(postrider, email, PASSWORD)
    const dora = new Guest(postrider)
    await dora.signIn(email, PASSWORD)
    const id = await post()
    assert.equal((await dora.open(`/mail/${id}`)).status, 200)
    assert.match(
      (await dora.open('/')).text,
      new RegExp(`You are viewing the account of <strong>${postrider.user.email}`),
    )
    for (const path of ['/tokens', '/members', '/audit', '/privacy', '/campaigns/new', '/tokens/new', '/domains/new']) {
      const { status, text } = await dora.open(path)
      assert.equal(status, 403, path)
      assert.match(text, /Your role in the account of ann@owner\.test \(Reader\) does not allow this/, path)
    }
    const proof = /name="proof" value="([^"]+)"/.exec((await dora.open('/account')).text)![1]!
    const body = new URLSearchParams({
      proof,
      action: 'add',
      name: 'x',
      duration: '1_month',
      scopes: 'emails:send',
    }).toString()
    const tried = await dora.open('/tokens/new', {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    })
    assert.match(tried.text, /\(Reader\) does not allow this/)
    assert.doesNotMatch(tried.text, /pr_\w{43}/)
    assert.equal((await dora.open('/people')).status, 404)
  })

  test('only operators see the metrics of the last hour and the log', async () => {
    await post({ to: 'last.hour@there.test' })
    const asked = async (path: string) => (await asPerson(postrider, postrider.user, path)).body.data
    const samples = () => asked('/server/samples?page[size]=100')
    await until(async () => {
      postrider.clock.advance(1000)
      return (await samples()).some(({ attributes }: { attributes: { delivered: number } }) => attributes.delivered > 0)
    }, 'a step with a mail')
    const all: { attributes: { at: string; memory: number; busy: number } }[] = await samples()
    const times = all.map(({ attributes }) => Date.parse(attributes.at))
    assert.ok(times.slice(1).every((at, index) => times[index]! - at >= 10_000))
    assert.ok(all.every(({ attributes: { busy, memory } }) => memory > 1e6 && busy >= 0 && busy <= 1))
    const line = await until(async () => {
      const lines: { attributes: { event: string; fields: Record<string, unknown> } }[] =
        await asked('/server/log?page[size]=100')
      return lines.find(({ attributes }) => attributes.fields['to'] === 'last.hour@there.test')
    }, 'its line in the log')
    assert.equal(line.attributes.event, 'delivery_attempted')
    assert.match((await ann.open('/server/load')).text, /class="chart lines"/)
    assert.match((await ann.open('/server/log')).text, /last\.hour@there\.test/)
    assert.doesNotMatch((await ann.open('/server/log?level=error')).text, /last\.hour@there\.test/)
    for (const path of ['/server/log', '/server/samples'])
      assert.equal((await postrider.asOther('GET', path)).status, 404, path)
  })

  test('open pages receive events', async () => {
    const cookie = [...ann.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    assert.equal((await postrider.page('/live')).status, 401)
    const response = await postrider.page('/live', { headers: { cookie } })
    assert.equal(response.headers.get('content-type'), 'text/event-stream')
    const reader = response.body!.getReader()
    let heard = ''
    const hear = (async () => {
      while (!heard.includes('event: changed')) heard += Buffer.from((await reader.read()).value ?? []).toString()
    })()
    await post({ to: 'live@there.test' })
    await until(async () => {
      postrider.clock.advance(1000)
      return heard.includes('event: changed')
    }, 'the stream')
    await hear
    await reader.cancel()
  })

  test('the first user is an operator, later users are not', () => {
    const rows = postrider.appliance.deps.store.all<{ operator: number }>(
      raw('select operator from users order by key'),
    )
    assert.deepEqual(rows.map(({ operator }) => operator).slice(0, 2), [1, 0])
  })
})
