// A reload repeats nothing: whatever form of the console succeeds, in every place that has one, answers with a redirect
// (RFC 9110 §15.4.4), and the page that it leads to changes nothing, however often it is asked for.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TOTP } from 'otpauth'
import { createConsole } from '../../src/console/app.ts'
import { apiInside } from '../../src/http/server.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { Guest, type Shown } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { fieldsOf } from '../kit/page.ts'
import { givePassword } from '../kit/person.ts'
import { receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { addPair } from '../../src/warmup/pairs.ts'
import { newPicture } from '../images/pictures.ts'

const PASSWORD = 'a long enough password'
/** Forms outside places: the sign-in and its kin, and what a script sends as JSON. */
const OUTSIDE = /^\/(?:sign-in|sign-out|join|look|account\/passkeys)(?:\/|$)/
/** What a second form must not make again. */
const MADE = [
  'tokens',
  'webhooks',
  'outbound_webhooks',
  'campaigns',
  'audiences',
  'contacts',
  'list_imports',
  'inboxes',
  'suppressions',
  'domains',
  'known_sources',
  'users',
  'invitations',
  'recovery_codes',
  'images',
  'outbound_emails',
  'privacy_requests',
]

const exchanger = testExchanger({
  answer: (command) => (command.startsWith('RCPT TO:<busy') ? '451 4.2.1 mailbox busy' : undefined),
})
const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'], exchanger, routes: ['there.test'] }))
const kit = campaignKit(() => postrider)
/** What was sent to each path, by the status of its answer. */
const answered: { path: string; status: number }[] = []
let ann: Guest

setUp(async () => {
  await givePassword(postrider, postrider.user.email, PASSWORD)
  ann = new Guest({
    page: async (path, init) => {
      const response = await postrider.page(path, init)
      if (init?.method === 'POST') answered.push({ path, status: response.status })
      return response
    },
  })
  await ann.signIn(postrider.user.email, PASSWORD)
})

const made = async (path: string, type: string, attributes: object, domain?: string): Promise<string> => {
  const more = domain === undefined ? {} : { relationships: { domain: { data: { type: 'domains', id: domain } } } }
  const { body, status } = await postrider.api('POST', path, document(type, { ...attributes }, more))
  assert.ok(status < 300, `${path}: ${JSON.stringify(body)}`)
  return body.data.id
}
const firstOf = async (path: string): Promise<string> => (await postrider.api('GET', path)).body.data[0].id
const counted = (): Record<string, number> =>
  Object.fromEntries(
    MADE.map((table) => [
      table,
      postrider.appliance.deps.store.one(raw<{ n: number }>(`select count(*) as n from ${table}`)).n,
    ]),
  )

type Fields = Record<string, string | string[]>

/** Sends a form with what it holds already and `fields`; it must succeed by a redirect that can be reloaded. */
async function does(from: string, action: string, fields: Fields = {}): Promise<Shown> {
  const page = await ann.open(from)
  assert.equal(page.status, 200, from)
  const held = fieldsOf(page.text, action)
  const shown = await ann.send(page, action, { ...held, ...fields })
  const said = / role="alert">([^]*?)<\/div>/.exec(shown.text)?.[1]?.replaceAll(/<[^>]*>|\s+/g, ' ')
  assert.equal(answered.at(-1)!.status, 303, `${action} at ${from} is not answered by a redirect: ${said}`)
  assert.equal(shown.status, 200, `${action} at ${from} leads to ${shown.path}`)
  const before = counted()
  for (let at = 0; at < 2; at++) assert.equal((await ann.open(shown.path)).status, 200, shown.path)
  assert.deepEqual(counted(), before, `${shown.path} makes something when it is loaded again`)
  return shown
}

/** A file is sent as a browser sends it. */
async function uploads(): Promise<void> {
  const { text } = await ann.open('/pictures')
  const form = new FormData()
  form.set('proof', /name="action" value="upload"/.exec(text) ? /name="proof" value="([^"]+)"/.exec(text)![1]! : '')
  form.set('action', 'upload')
  form.append('file', new File([new Uint8Array(newPicture(30, 1))], 'logo.png'))
  const whole = new Response(form)
  const headers = { 'content-type': whole.headers.get('content-type')! }
  await ann.open('/pictures', { method: 'POST', body: await whole.arrayBuffer(), headers })
  assert.equal(answered.at(-1)!.status, 303)
}

test('whatever form succeeds is answered by a redirect, in every place that has one; a reload makes nothing again', async () => {
  const domain = await firstOf('/domains')

  await does('/tokens/new', 'make', { name: 'WordPress', scopes: ['emails:send'], duration: '12_months' })
  await does('/tokens', 'revoke')
  await does('/suppressions/new', 'add', { domain, emails: 'gone@there.test', reason: 'manual' })
  await does('/suppressions', 'remove')
  await does('/domains/new', 'add', { name: 'new.test', purpose: 'both' })
  for (const action of ['check', 'set', 'rotate']) await does('/domains/here.test', action)
  await does('/domains/new.test', 'remove')
  const reports = '/domains/here.test/reports'
  await does(reports, 'name', { network: '192.0.2.0/24', name: 'newsletter service' })
  await does(reports, 'forget', { id: await firstOf(`/domains/${domain}/known-sources`), network: '192.0.2.0/24' })

  await does('/webhooks/new', 'add', { name: 'Hook', url: 'https://hook.test/', domain, events: ['email.sent'] })
  const hook = `/webhooks/${await firstOf('/webhooks')}`
  for (const action of ['test', 'rotate', 'active', 'active']) await does(hook, action)
  await does(hook, 'remove')

  await does('/inboxes/new', 'add', { name: 'Box', address: 'box@here.test' })
  const inbox = await firstOf('/inboxes')
  const { id: message } = await receive(postrider, { to: 'box@here.test' })
  const mail = `/inboxes/${inbox}/mail/${message}`
  await does(`${mail}/reply`, 'send', { to: 'ada@there.test', subject: 'Re: Hi', text: 'Yes' })
  await does(`${mail}/forward`, 'send', { to: 'bob@there.test', subject: 'Fwd: Hi', text: 'See below' })
  await does(mail, 'unseen')
  await does(mail, 'remove')
  await does(`/inboxes/${inbox}`, 'remove')

  await uploads()
  await does('/pictures', 'delete')
  await does('/', 'test')
  await does('/privacy', 'forget', { forgotten: 'bob@there.test' })
})

test('nor a second mail, import, campaign or test of a campaign', async () => {
  const domain = await firstOf('/domains')
  const sent = { from: 'ann@here.test', subject: 'Hi', html: '<p>Hi</p>' }
  const mail = await made('/outbound-emails', 'outbound-emails', { ...sent, to: 'busy@there.test' })
  await until(async () => {
    const { body } = await postrider.api('GET', `/outbound-emails/${mail}`)
    return body.data.attributes.recipients[0].response !== null
  }, 'a mail that waits')
  for (const action of ['retry', 'hold', 'release', 'drop']) await does('/queue', action, { lane: 'there.test' })
  const { deps } = postrider.appliance
  const pair = await deps.store.write((tx) =>
    addPair(tx, { source: '192.0.2.1', receiver: 'there.test' }, deps.clock.now()),
  )
  for (const action of ['skip', 'release', 'restart']) await does(`/server/warmup/${pair.id}`, action)
  await does(`/server/warmup/${pair.id}`, 'fix', { allowance: '500' })
  await does(`/mail/${mail}`, 'again', { to: 'ada@there.test' })
  await does(`/mail/${mail}`, 'remove')
  await made('/outbound-emails', 'outbound-emails', { ...sent, to: 'ada@there.test', agent_id: 'helper' })
  await does('/agents', 'pause')
  await does('/agents', 'resume')

  await does('/audiences/new', 'add', { name: 'Readers', domain })
  const audience = `/audiences/${await firstOf('/audiences')}`
  await does(`${audience}/add`, 'add', { email: 'one@there.test', name: 'One' })
  // The first two steps of an import only look; the last is what counts.
  const columns = await ann.send(await ann.open(`${audience}/import`), 'columns', { pasted: 'two@there.test' })
  const preview = await ann.send(columns, 'check', fieldsOf(columns.text, 'check')!)
  const result = await ann.send(preview, 'import', fieldsOf(preview.text, 'import')!)
  assert.equal(answered.at(-1)!.status, 303)
  const before = counted()
  assert.equal((await ann.open(result.path)).status, 200)
  assert.deepEqual(counted(), before)

  const contact = await firstOf(`${audience}/contacts`)
  await does(`${audience}/contacts/${contact}`, 'save', { name: 'Uno' })
  await does(`${audience}/contacts/${contact}`, 'remove')

  const begun = await does('/campaigns/new', 'save', { name: 'May', subject: 'May', audience: audience.slice(11) })
  const campaign = begun.path.replace(/\/edit.*/, '')
  await does(`${campaign}/edit`, 'save', { subject: 'May 2' })
  await does(`${campaign}/send`, 'test', { email: 'ada@there.test' })
  await does(`${campaign}/send`, 'later', { at: '2099-01-01T10:00' })
  await does(`${campaign}/send`, 'reschedule', { at: '2099-01-02T10:00' })
  await does(campaign, 'unschedule')
  await does(`${campaign}/settings`, 'remove')
  const held = await kit.draft(audience.slice(11))
  await does(`/campaigns/${held}/send`, 'now')
  await until(async () => ['sent', 'failed'].includes((await kit.show(held))['status']), 'the end of the campaign')
  await does(`/campaigns/${held}`, 'copy')
  await does(audience, 'remove')
})

test('nor a second invitation or second recovery codes', async () => {
  const invited = await does('/people/new', 'add', { email: 'new@elsewhere.test', name: 'New', role: 'own' })
  const person = invited.path.replace(/\?.*/, '')
  await does(person, 'invite')
  await does(person, 'remove')
  await does('/people', 'open')
  await does('/people', 'leave')

  const { text } = await ann.open('/account')
  const secret = /name="secret" value="([^"]+)"/.exec(text)![1]!
  const code = (): string => new TOTP({ secret }).generate({ timestamp: postrider.clock.now() })
  await does('/account', 'factor', { code: code(), secret })
  postrider.clock.advance(60_000)
  await does('/account', 'codes', { old: PASSWORD })
  await does('/account', 'password', { old: PASSWORD, new: `${PASSWORD}, newer` })
})

test('every place with a form was tried', () => {
  const { deps } = postrider.appliance
  const pages = createConsole(deps, apiInside(deps))
  const missing = pages.app.routes
    .filter(({ method, path }) => method === 'POST' && !OUTSIDE.test(path))
    .filter(({ path }) => {
      const fits = new RegExp(`^${path.replaceAll(/:\w+/g, '[^/]+')}$`)
      return !answered.some((each) => each.status === 303 && fits.test(each.path))
    })
    .map(({ path }) => path)
  pages.close()
  assert.deepEqual(missing, [])
})
