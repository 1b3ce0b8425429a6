// What the console keeps to whom it concerns: streams, secrets, the log, forms of other origins; and what it says of
// webhooks, held mail and ports.
import assert from 'node:assert/strict'
import { test } from 'node:test'
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

/** Reads a stream in the background: what was heard, and whether it has ended. */
function hearing(response: Response): { text: string; ended: boolean; close(): Promise<void> } {
  const reader = response.body!.getReader()
  const heard = { text: '', ended: false, close: () => reader.cancel() }
  void (async () => {
    for (let part = await reader.read(); !part.done; part = await reader.read())
      heard.text += Buffer.from(part.value).toString()
    heard.ended = true
  })()
  return heard
}

/** Something happens in an account: a domain is checked, and an event is written. */
const happens = (userKey: number): Promise<void> =>
  postrider.appliance.deps.store.write((tx) => tx.signal('events', userKey))

test('one person has ten streams of the two hundred; others get theirs (D76)', async () => {
  const mine = await Promise.all(Array.from({ length: 10 }, () => follow(bob)))
  assert.deepEqual([...new Set(mine.map(({ status }) => status))], [200])
  assert.equal((await follow(bob)).status, 503)
  const other = await follow(ann)
  assert.equal(other.status, 200)
  await Promise.all([...mine, other].map(({ body }) => body!.cancel()))
})

test('a stream ends when its session does, by signing out or by being ended elsewhere (D76)', async () => {
  const guest = await signedIn(postrider.other.email)
  const heard = hearing(await follow(guest))
  const [, proof] = /action="\/sign-out"[^]*?name="proof" value="([^"]+)"/.exec((await guest.open('/account')).text)!
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  await guest.open('/sign-out', { method: 'POST', headers, body: new URLSearchParams({ proof: proof! }).toString() })
  await until(() => heard.ended, 'the end of the stream')
})

test('a stream tells of the own account alone; an operator hears of all (D76)', async () => {
  const [own, all] = [hearing(await follow(bob)), hearing(await follow(ann))]
  await happens(postrider.user.key)
  await until(() => {
    postrider.clock.advance(1000)
    return all.text.includes('changed')
  }, 'the stream of the operator')
  for (let at = 0; at < 5; at++) postrider.clock.advance(1000)
  assert.doesNotMatch(own.text, /changed/)
  await happens(postrider.other.key)
  await until(() => {
    postrider.clock.advance(1000)
    return own.text.includes('changed')
  }, 'the stream of the account')
  await Promise.all([own.close(), all.close()])
})

test('the log that operators read forgets an erased recipient (D56)', async () => {
  const { log } = postrider.appliance.deps
  log.info('delivery', { to: 'gone@there.test', said: ['<Gone@There.test> is unknown'] })
  const mail = { from: 'a@here.test', to: 'gone@there.test', subject: 's', html: 'x' }
  await postrider.api('POST', '/outbound-emails', { data: { type: 'outbound-emails', attributes: mail } })
  assert.equal((await postrider.api('DELETE', '/recipients/gone%40there.test/forget')).status, 202)
  const lines = async () =>
    JSON.stringify((await asPerson(postrider, postrider.user, '/server/log?page[size]=100')).body.data)
  await until(async () => {
    postrider.clock.advance(1000)
    return (await lines()).includes('privacy request done')
  }, 'the erasure')
  assert.doesNotMatch(await lines(), /gone@there\.test/i)
})

test('a form from http is not obeyed over https, though its host is the same (D76)', async () => {
  const before = postrider.config.http.public_url
  const { host } = new URL(before)
  postrider.config.http.public_url = 'https://mail.here.test'
  try {
    const guest = await signedIn(postrider.user.email)
    const page = await guest.open('/suppressions')
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

test('what a person adds by hand has the source manual, what a program brings in has import (D36)', async () => {
  const page = await ann.open('/suppressions')
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

test('a reload makes no second token; its secret is shown once, to its session', async () => {
  const path = async (): Promise<string> => {
    const page = await ann.open('/tokens')
    const made = await ann.send(page, 'make', { name: 'reloaded', duration: '1_month', scopes: 'emails:send' })
    assert.match(made.text, /pr_[\w-]{43}/)
    assert.match(made.path, /^\/tokens\?secret=/)
    return made.path
  }
  const count = async (): Promise<number> => ((await ann.open('/tokens')).text.match(/reloaded/g) ?? []).length
  const shown = await path()
  const once = await count()
  assert.doesNotMatch((await ann.open(shown)).text, /pr_[\w-]{43}/)
  assert.equal(await count(), once)
})

test('a webhook and its new secret: each is the answer to a redirect, and shown once', async () => {
  const url = 'https://hook.there.test/x'
  const made = await ann.send(await ann.open('/webhooks'), 'add', { name: 'Shop', url, domain: await hereId() })
  assert.match(made.text, /whsec_/)
  assert.match(made.path, /\?secret=/)
  assert.doesNotMatch((await ann.open(made.path)).text, /whsec_/)
  const page = await ann.open(made.path.split('?')[0]!)
  const rotated = await ann.send(page, 'rotate')
  assert.match(rotated.text, /whsec_/)
  assert.doesNotMatch((await ann.open(rotated.path)).text, /whsec_/)
})

test('a webhook that fails looks so in the list, on its page and on the overview; disabled, it says why (D54)', async () => {
  const { store } = postrider.appliance.deps
  const set = (sql: string) => store.write((tx) => tx.run(raw(`update webhooks set ${sql}`, [])))
  const named = { name: 'Failing', url: 'https://hook.there.test/y', domain: await hereId() }
  const page = (await ann.send(await ann.open('/webhooks'), 'add', named)).path.split('?')[0]!
  await set('consecutive_failures = 4')
  for (const path of ['/webhooks', page])
    assert.match((await ann.open(path)).text, /failing[^]*4 attempts in a row/, path)
  assert.match((await ann.open('/')).text, /The webhook[^]*is failing/)
  await set(`status = 'disabled', disabled_reason = 'failures'`)
  assert.match((await ann.open(page)).text, /Disabled because[^]*Too many attempts failed/)
  await set(`status = 'active', disabled_reason = null, consecutive_failures = 0`)
  assert.doesNotMatch((await ann.open('/webhooks')).text, /failing/)
})

test('the ports of submission are those that are open', async () => {
  const { submission, submissions } = postrider.appliance
  const { text } = await ann.open('/tokens')
  assert.doesNotMatch(text, /ports 465 and 587/)
  assert.match(text, new RegExp(`port ${submissions[0]!.port} with TLS or port ${submission[0]!.port} with STARTTLS`))
})
