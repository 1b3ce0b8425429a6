// Tests that the console shows data to the right users only: streams, secrets, the log, forms of other origins,
// webhooks and ports.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTransport } from 'nodemailer'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { asPerson, givePassword } from '../kit/person.ts'
import { until } from '../kit/until.ts'

const PASSWORD = 'a long enough password'
let ann: Guest
let bob: Guest

const postrider = ofFile(() =>
  startTestAppliance({
    config: { submission: { listen: ['127.0.0.1:0'], tls_listen: ['127.0.0.1:0'] } },
    logged: { level: 'info', lines: [] },
    domains: ['here.test'],
    otherDomains: ['other.test'],
  }),
)

setUp(async () => {
  for (const { email } of [postrider.user, postrider.other]) await givePassword(postrider, email, PASSWORD)
  ann = await signedIn(postrider.user.email)
  bob = await signedIn(postrider.other.email)
})

async function signedIn(email: string): Promise<Guest> {
  const guest = new Guest(postrider)
  await guest.signIn(email, PASSWORD)
  return guest
}

const cookieOf = ({ cookies }: Guest): string => [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
const follow = (guest: Guest): Promise<Response> => postrider.page('/live', { headers: { cookie: cookieOf(guest) } })

const hereId = async (): Promise<string> =>
  (await postrider.api('GET', '/domains?filter[name]=here.test')).body.data[0].id

/** Reads a stream in the background: the received text, and whether it has ended. */
function readInBackground(response: Response): { text: string; ended: boolean; close(): Promise<void> } {
  const reader = response.body!.getReader()
  const heard = { text: '', ended: false, close: () => reader.cancel() }
  void (async () => {
    for (let part = await reader.read(); !part.done; part = await reader.read())
      heard.text += Buffer.from(part.value).toString()
    heard.ended = true
  })()
  return heard
}

/** Causes changes in an account: a domain is checked, and an event is written. */
const causeChanges = (userKey: number): Promise<void> =>
  postrider.appliance.deps.store.write((tx) => tx.signal('events', userKey))

test('limits each user to ten of the two hundred streams (D76)', async () => {
  const mine = await Promise.all(Array.from({ length: 10 }, () => follow(bob)))
  assert.deepEqual([...new Set(mine.map(({ status }) => status))], [200])
  assert.equal((await follow(bob)).status, 503)
  const other = await follow(ann)
  assert.equal(other.status, 200)
  await Promise.all([...mine, other].map(({ body }) => body!.cancel()))
})

test('closes a stream when its session is signed out or revoked (D76)', async () => {
  const guest = await signedIn(postrider.other.email)
  const heard = readInBackground(await follow(guest))
  const [, proof] = /action="\/sign-out"[^]*?name="proof" value="([^"]+)"/.exec((await guest.open('/account')).text)!
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  await guest.open('/sign-out', { method: 'POST', headers, body: new URLSearchParams({ proof: proof! }).toString() })
  await until(() => heard.ended, 'the end of the stream')
})

test('a stream has the events of its own account, and those of all accounts for operators (D76)', async () => {
  const [own, all] = [readInBackground(await follow(bob)), readInBackground(await follow(ann))]
  await causeChanges(postrider.user.key)
  await until(() => {
    postrider.clock.advance(1000)
    return all.text.includes('changed')
  }, 'the stream of the operator')
  for (let at = 0; at < 5; at++) postrider.clock.advance(1000)
  assert.doesNotMatch(own.text, /changed/)
  await causeChanges(postrider.other.key)
  await until(() => {
    postrider.clock.advance(1000)
    return own.text.includes('changed')
  }, 'the stream of the account')
  await Promise.all([own.close(), all.close()])
})

test('an erased recipient is removed from the log page (D56)', async () => {
  const { log } = postrider.appliance.deps
  log.info('delivery_attempted', { to: 'gone@there.test', said: ['<Gone@There.test> is unknown'] })
  const mail = { from: 'a@here.test', to: 'gone@there.test', subject: 's', html: 'x' }
  await postrider.api('POST', '/outbound-emails', { data: { type: 'outbound-emails', attributes: mail } })
  assert.equal((await postrider.api('DELETE', '/recipients/gone%40there.test/forget')).status, 202)
  const lines = async () =>
    JSON.stringify((await asPerson(postrider, postrider.user, '/server/log?page[size]=100')).body.data)
  await until(async () => {
    postrider.clock.advance(1000)
    return (await lines()).includes('privacy_request_completed')
  }, 'the erasure')
  assert.doesNotMatch(await lines(), /gone@there\.test/i)
})

test('rejects a form sent from http to https on the same host (D76)', async () => {
  const before = postrider.config.http.public_url
  const { host } = new URL(before)
  postrider.config.http.public_url = 'https://mail.here.test'
  try {
    const guest = await signedIn(postrider.user.email)
    const page = await guest.open('/suppressions/new')
    const domain = await hereId()
    // The names by which requests of this test reach the server.
    const sent = (origin: string) =>
      guest.send(page, 'add', { domain, emails: 'origin@there.test', reason: 'manual' }, { headers: { origin } })
    for (const origin of ['http://mail.here.test', `http://${host}`, 'http://localhost'])
      assert.equal((await sent(origin)).status, 403, origin)
    assert.equal((await sent('https://mail.here.test')).status, 200)
  } finally {
    postrider.config.http.public_url = before
  }
})

test('suppressions have the source manual if added by a user, and import if added by an application (D36)', async () => {
  const page = await ann.open('/suppressions/new')
  const domain = await hereId()
  await ann.send(page, 'add', { domain, emails: 'hand@there.test', reason: 'manual' })
  const brought = {
    type: 'suppression-imports',
    attributes: { suppressions: [{ email: 'brought@there.test' }] },
    relationships: { domain: { data: { type: 'domains', id: domain } } },
  }
  assert.equal((await postrider.api('POST', '/suppression-imports', { data: brought })).status, 201)
  const { body } = await postrider.api('GET', '/suppressions')
  const sources = Object.fromEntries(
    body.data.map(({ attributes }: { attributes: Record<string, string> }) => [
      attributes['email'],
      attributes['source'],
    ]),
  )
  assert.equal(sources['hand@there.test'], 'manual')
  assert.equal(sources['brought@there.test'], 'import')
})

test('a reload creates no second token, and the secret is shown once, in its session', async () => {
  const path = async (): Promise<string> => {
    const page = await ann.open('/tokens/new')
    const made = await ann.send(page, 'add', { name: 'reloaded', duration: '1_month', scopes: 'emails:send' })
    assert.match(made.text, /pr_[\w-]{43}/)
    assert.match(made.path, /^\/tokens\?made=[\w-]+&secret=/)
    return made.path
  }
  const count = async (): Promise<number> => ((await ann.open('/tokens')).text.match(/reloaded/g) ?? []).length
  const shown = await path()
  const once = await count()
  assert.doesNotMatch((await ann.open(shown)).text, /pr_[\w-]{43}/)
  assert.equal(await count(), once)
})

test('the secret of a webhook is shown once, after a redirect', async () => {
  const url = 'https://hook.there.test/x'
  const made = await ann.send(await ann.open('/webhooks/new'), 'add', { name: 'Shop', url, domain: await hereId() })
  assert.match(made.text, /whsec_/)
  assert.match(made.path, /\?secret=/)
  assert.doesNotMatch((await ann.open(made.path)).text, /whsec_/)
  const page = await ann.open(made.path.split('?')[0]!)
  const rotated = await ann.send(page, 'rotate')
  assert.match(rotated.text, /whsec_/)
  assert.doesNotMatch((await ann.open(rotated.path)).text, /whsec_/)
})

test('the list, the page and the overview show a failing webhook, and the reason why one is disabled (D54)', async () => {
  const { store } = postrider.appliance.deps
  const set = (sql: string) => store.write((tx) => tx.run(raw(`update webhooks set ${sql}`, [])))
  const named = { name: 'Failing', url: 'https://hook.there.test/y', domain: await hereId() }
  const page = (await ann.send(await ann.open('/webhooks/new'), 'add', named)).path.split('?')[0]!
  await set('consecutive_failures = 4')
  for (const path of ['/webhooks', page]) assert.match((await ann.open(path)).text, /failing[^]*4 failures/, path)
  assert.match((await ann.open('/')).text, /The webhook[^]*is failing/)
  assert.match((await ann.open('/mail')).text, /title="failing"\s*>\d+</)
  await set(`status = 'disabled', disabled_reason = 'failures'`)
  assert.match((await ann.open(page)).text, /Reason[^]*too many attempts failed/)
  await set(`status = 'active', disabled_reason = null, consecutive_failures = 0`)
  assert.doesNotMatch((await ann.open('/webhooks')).text, /failing/)
})

test('shows the submission ports that are open', async () => {
  const { submission, submissions } = postrider.appliance
  const { text } = await ann.open('/tokens')
  assert.doesNotMatch(text, /ports 465 and 587/)
  assert.match(text, new RegExp(`port ${submissions[0]!.port} with TLS or port ${submission[0]!.port} with STARTTLS`))
})

test('the Tokens pages do not offer SMTP while submission is off', async () => {
  await using closed = await startTestAppliance()
  await givePassword(closed, closed.user.email, PASSWORD)
  const user = new Guest(closed)
  await user.signIn(closed.user.email, PASSWORD)
  const { text } = await user.open('/tokens')
  assert.match(text, /SMTP submission is off on this server/)
  assert.doesNotMatch(`${text.replace('SMTP submission is off', '')}${(await user.open('/tokens/new')).text}`, /SMTP/)
})

test('keeps the chosen look in cookies, and ignores invalid cookies (D138)', async () => {
  const guest = new Guest(postrider)
  await guest.signIn(postrider.user.email, PASSWORD)
  const page = await guest.open('/domains')
  const proof = /name="proof" value="([^"]+)"/.exec(page.text)![1]!
  const choose = (fields: Record<string, string>) =>
    guest.open('/look', {
      method: 'POST',
      body: new URLSearchParams(fields).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    })
  const chosen = await choose({ proof, theme: 'dark', back: '/domains' })
  assert.equal(chosen.path, '/domains')
  assert.match(chosen.text, /<html lang="en" data-theme="dark"/)
  assert.match((await guest.open('/mail')).text, /<html lang="en" data-theme="dark"/)
  // Without a form token the request changes no setting and does not redirect to another site.
  await choose({ proof: 'x', theme: 'light', back: '/domains' })
  assert.match((await guest.open('/mail')).text, /data-theme="dark"/)
  assert.equal((await choose({ proof, theme: 'dark', back: '//evil.test/' })).path, '/')
  await choose({ proof, theme: '', back: '/' })
  assert.doesNotMatch((await guest.open('/mail')).text, /data-theme/)
  assert.match((await choose({ proof, rows: 'dense', back: '/' })).text, /<html lang="en" data-rows="dense"/)
  assert.match(
    (await choose({ proof, times: 'utc', back: '/' })).text,
    /<html lang="en" data-rows="dense" data-times="utc"/,
  )
  for (const rubbish of ['"><script>', 'sepia', 'x'.repeat(3000)]) {
    for (const name of ['theme', 'rows', 'times']) guest.cookies.set(name, encodeURIComponent(rubbish))
    guest.cookies.set('tz', encodeURIComponent(rubbish))
    const shown = await guest.open('/')
    assert.equal(shown.status, 200)
    assert.doesNotMatch(shown.text, /data-(?:theme|rows|times)|<script>/)
  }
})

test('charts use the time zone of the user and have one bar per day (D138)', async () => {
  const guest = new Guest(postrider)
  await guest.signIn(postrider.user.email, PASSWORD)
  const mail = { from: 'ann@here.test', to: 'chart@there.test', subject: 'Chart', html: '<p>x</p>' }
  await postrider.api('POST', '/outbound-emails', { data: { type: 'outbound-emails', attributes: mail } })
  await until(async () => {
    postrider.clock.advance(1000)
    return /class="chart"/.test((await guest.open('/')).text)
  }, 'the chart')
  const hours = async (zone: string): Promise<string> => {
    guest.cookies.set('tz', encodeURIComponent(zone))
    return [...(await guest.open('/')).text.matchAll(/data-tip="([^\n]+)\n/g)].map(([, at]) => at).join()
  }
  const [here, there] = [await hours('UTC'), await hours('Asia/Tokyo')]
  assert.notEqual(here, there)
  assert.equal(await hours('Nowhere/Land'), here)
  // Lists show times in the zone of the charts, even if no script rewrites them.
  const times = async (zone: string): Promise<string[]> => {
    guest.cookies.set('tz', encodeURIComponent(zone))
    const { text } = await guest.open('/mail')
    assert.match(text, new RegExp(`Times are in ${zone === 'Nowhere/Land' ? 'UTC' : zone}\\.`))
    return [...text.matchAll(/<time datetime="([^"]+)"[^>]*>([^<]+)</g)].flatMap(([, iso, shown]) => [iso!, shown!])
  }
  const [iso] = await times('UTC')
  const [, hour] = /T(\d\d):/.exec(iso!)!
  assert.match((await times('UTC'))[1]!, new RegExp(` ${hour}:\\d\\d$`))
  assert.match((await times('Nowhere/Land'))[1]!, new RegExp(` ${hour}:\\d\\d$`))
  const tokyo = String((Number(hour) + 9) % 24).padStart(2, '0')
  assert.match((await times('Asia/Tokyo'))[1]!, new RegExp(` ${tokyo}:\\d\\d$`))
  assert.equal((await times('Asia/Tokyo'))[0], iso)
  const days = (await guest.open('/?period=7d')).text
  assert.equal([...days.matchAll(/data-tip="/g)].length, 7)
})

test('the page of a new token shows host, ports, settings and samples, and detects its first use', async () => {
  const made = await ann.send(await ann.open('/tokens/new'), 'add', {
    name: 'shop',
    duration: '1_month',
    preset: 'send',
  })
  const [, token] = /id="secret">(pr_\w+)</.exec(made.text)!
  const { submission, submissions } = postrider.appliance
  const facts = new Map(
    [...made.text.matchAll(/<dt>([^<]+)<\/dt>\s*<dd>\s*<code[^>]*>([^<]*)<\/code>/g)].map(([, name, value]) => [
      name,
      value,
    ]),
  )
  assert.match(made.text, new RegExp(`id="smtp-tls">${submissions[0]!.port}<`))
  assert.match(made.text, new RegExp(`id="smtp-starttls">${submission[0]!.port}<`))
  assert.equal(facts.get('Password'), token)
  assert.equal(facts.get('SMTP Port'), String(submissions[0]!.port))
  assert.equal(facts.get('Sender'), 'hello@here.test')
  assert.match(made.text, new RegExp(`id="sample-token">export POSTRIDER_TOKEN=[^<]*${token}`))
  for (const language of ['curl', 'node', 'php', 'python'])
    assert.match(made.text, new RegExp(`id="sample-${language}">[^]*?POSTRIDER_TOKEN[^]*?hello@here\\.test`), language)
  assert.match(made.text, /Waiting for the first request/)
  // The token has exactly the scopes of the chosen option.
  const { data } = (await asPerson(postrider, postrider.user, '/personal-access-tokens')).body
  const shop = data.find(({ attributes: { name } }: { attributes: { name: string } }) => name === 'shop')
  assert.deepEqual(shop.attributes.scopes, ['emails:send'])
  const mail = { from: 'ann@here.test', to: 'first@there.test', subject: 'First', html: '<p>x</p>' }
  const answer = await postrider.raw('/api/v1/outbound-emails', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/vnd.api+json' },
    body: JSON.stringify({ data: { type: 'outbound-emails', attributes: mail } }),
  })
  assert.equal(answer.status, 201)
  const again = await ann.open(made.path)
  assert.doesNotMatch(again.text, new RegExp(token!))
  assert.match(again.text, /The token works/)
  // Values that are not secret stay: host, port, user.
  assert.match(again.text, new RegExp(`id="smtp-tls">${submissions[0]!.port}<`))
  assert.match(again.text, /id="smtp-user">postrider</)
  assert.match(again.text, /shown once, when it was created/)
})

test('the page of a new token detects its first email by SMTP', async () => {
  const made = await ann.send(await ann.open('/tokens/new'), 'add', {
    name: 'smtp',
    duration: '1_month',
    preset: 'send',
  })
  const [, token] = /id="secret">(pr_\w+)</.exec(made.text)!
  assert.match(made.text, /Waiting for the first request/)
  const stream = await follow(ann)
  const program = createTransport({
    host: '127.0.0.1',
    port: postrider.appliance.submissions[0]!.port,
    secure: true,
    auth: { user: 'postrider', pass: token! },
    tls: { rejectUnauthorized: false },
  })
  await program.sendMail({ from: 'ann@here.test', to: 'first@there.test', subject: 'First', text: 'x' })
  program.close()
  const reader = stream.body!.getReader()
  const text = new TextDecoder()
  for (let heard = ''; !heard.includes('event: changed');) heard += text.decode((await reader.read()).value)
  await reader.cancel()
  assert.match((await ann.open(made.path)).text, /The token works/)
})
