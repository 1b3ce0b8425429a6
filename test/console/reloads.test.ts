// Tests that a reload repeats no action: every form that succeeds answers with a redirect (RFC 9110 §15.4.4), and the
// page behind the redirect changes no data, however often it is loaded.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { TOTP } from 'otpauth'
import { createConsole } from '../../src/console/app.ts'
import { apiInside } from '../../src/http/server.ts'
import { raw } from '../../src/store/query.ts'
import { insertMember } from '../../src/users/users.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { Guest, type Shown } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { fieldsOf } from '../kit/page.ts'
import { givePassword } from '../kit/person.ts'
import { receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { pairIn } from '../../src/warmup/pairs.ts'
import { newPicture } from '../images/pictures.ts'

const PASSWORD = 'a long enough password'
/** Forms without a page of their own: the sign-in and related ones, and JSON that a script sends. */
const OUTSIDE = /^\/(?:sign-in|sign-out|join|look|account\/passkeys)(?:\/|$)/
/** Resources that a second form must not create again. */
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
  'segments',
  'forms',
]

const exchanger = testExchanger({
  answer: (command) => (command.startsWith('RCPT TO:<busy') ? '451 4.2.1 mailbox busy' : undefined),
})
const file = join(temporaryDirectory('reloads'), 'postrider.toml')
writeFileSync(file, 'hostname = "mx.here.example"\n')
const postrider = ofFile(() =>
  startTestAppliance({ domains: ['here.test'], exchanger, routes: ['there.test'], source: { file, environment: {} } }),
)
const kit = campaignKit(() => postrider)
/** The status of each answered form, with its path. */
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

/** Sends a form with its present values and `fields`. It must succeed with a redirect that can be reloaded. */
async function submits(from: string, action: string, fields: Fields = {}): Promise<Shown> {
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

test('every form redirects on success, and a reload does not repeat the action', async () => {
  const domain = await firstOf('/domains')

  await submits('/tokens/new', 'add', { name: 'WordPress', scopes: ['emails:send'], duration: '12_months' })
  await submits('/tokens', 'revoke')
  await submits('/suppressions/new', 'add', { domain, emails: 'gone@there.test', reason: 'manual' })
  await submits('/suppressions', 'remove')
  await submits('/domains/new', 'add', { name: 'new.test', purpose: 'both' })
  for (const action of ['check', 'open-on', 'open-off', 'rotate']) await submits('/domains/here.test', action)
  await submits('/domains/new.test', 'remove')
  const reports = '/domains/here.test/reports'
  await submits(reports, 'name', { network: '192.0.2.0/24', name: 'newsletter service' })
  await submits(reports, 'forget', { id: await firstOf(`/domains/${domain}/known-sources`), network: '192.0.2.0/24' })

  await submits('/webhooks/new', 'add', { name: 'Hook', url: 'https://hook.test/', domain, events: ['email.sent'] })
  const hook = `/webhooks/${await firstOf('/webhooks')}`
  for (const action of ['test', 'rotate', 'pause', 'resume']) await submits(hook, action)
  await submits(hook, 'remove')

  await submits('/inboxes/new', 'add', { name: 'Box', address: 'box@here.test' })
  const inbox = await firstOf('/inboxes')
  const { id: message } = await receive(postrider, { to: 'box@here.test' })
  const mail = `/inboxes/${inbox}/mail/${message}`
  await submits(`${mail}/reply`, 'send', { to: 'ada@there.test', subject: 'Re: Hi', text: 'Yes' })
  await submits(`${mail}/forward`, 'send', { to: 'bob@there.test', subject: 'Fwd: Hi', text: 'See below' })
  await submits(mail, 'unseen')
  await submits(mail, 'remove')
  await submits(`/inboxes/${inbox}`, 'remove')

  await uploads()
  await submits('/pictures', 'delete')
  await submits('/', 'test')
  await submits('/brand', 'save', { sender_name: 'Here' })
  await submits('/privacy?q=bob@there.test', 'forget')
})

test('a reload repeats no email, import, campaign or test email', async () => {
  const domain = await firstOf('/domains')
  const sent = { from: 'ann@here.test', subject: 'Hi', html: '<p>Hi</p>' }
  const mail = await made('/outbound-emails', 'outbound-emails', { ...sent, to: 'busy@there.test' })
  await until(async () => {
    const { body } = await postrider.api('GET', `/outbound-emails/${mail}`)
    return body.data.attributes.recipients[0].response !== null
  }, 'a mail that waits')
  await submits('/mail', 'bulk', { bulk: 'retry', row: `${mail} busy@there.test` })
  await until(async () => /Retry \d+ now/.test((await ann.open('/queue')).text), 'the email to be queued again')
  for (const action of ['retry', 'hold', 'release', 'drop']) await submits('/queue', action, { lane: 'there.test' })
  const { deps } = postrider.appliance
  const pair = await deps.store.write((tx) =>
    pairIn(tx, { source: '192.0.2.1', receiver: 'there.test' }, deps.clock.now()),
  )
  for (const action of ['skip', 'release', 'restart']) await submits(`/server/warmup/${pair.id}`, action)
  await submits(`/server/warmup/${pair.id}`, 'fix', { daily_limit: '500' })
  await submits(`/mail/${mail}`, 'again', { to: 'ada@there.test' })
  await submits(`/mail/${mail}`, 'remove')
  await made('/outbound-emails', 'outbound-emails', { ...sent, to: 'ada@there.test', agent_id: 'helper' })
  await submits('/agents', 'pause')
  await submits('/agents', 'resume')

  await submits('/audiences/new', 'add', { name: 'Readers', domain })
  const audience = `/audiences/${await firstOf('/audiences')}`
  await submits(audience, 'rename', { name: 'Subscribers', title: 'News' })
  await submits(`${audience}/add`, 'add', { email: 'one@there.test', name: 'One' })
  // The first two steps of an import only read. The last one writes.
  const columns = await ann.send(await ann.open(`${audience}/import`), 'columns', { pasted: 'two@there.test' })
  const preview = await ann.send(columns, 'check', fieldsOf(columns.text, 'check')!)
  const result = await ann.send(preview, 'import', fieldsOf(preview.text, 'import')!)
  assert.equal(answered.at(-1)!.status, 303)
  const before = counted()
  assert.equal((await ann.open(result.path)).status, 200)
  assert.deepEqual(counted(), before)

  const contact = await firstOf(`${audience}/contacts`)
  await submits(`${audience}/contacts/${contact}`, 'save', { name: 'Uno' })
  await submits(`${audience}/contacts/${contact}`, 'remove')

  const begun = await submits('/campaigns/new', 'save', { name: 'May', subject: 'May', audience: audience.slice(11) })
  const campaign = begun.path.replace(/\/edit.*/, '')
  await submits(`${campaign}/edit`, 'save', { subject: 'May 2' })
  await submits(`${campaign}/send`, 'test', { email: 'ada@there.test' })
  await submits(`${campaign}/send`, 'later', { at: '2099-01-01T10:00' })
  await submits(`${campaign}/send`, 'reschedule', { at: '2099-01-02T10:00' })
  await submits(campaign, 'unschedule')
  await submits(`${campaign}/settings`, 'remove')
  const unwanted = await kit.draft(audience.slice(11))
  await submits('/campaigns', 'bulk', { bulk: 'remove', sure: 'yes', row: `${unwanted} May` })
  const held = await kit.draft(audience.slice(11))
  await submits(`/campaigns/${held}/send`, 'now')
  await until(async () => ['sent', 'failed'].includes((await kit.show(held))['status']), 'the end of the campaign')
  await submits(`/campaigns/${held}`, 'copy')
  await submits(audience, 'remove')
})

test('a reload repeats no segment and no form', async () => {
  const audience = await kit.audience({ id: await firstOf('/domains') })
  const rows = Object.fromEntries(
    Array.from({ length: 50 }, (_, at) => [
      [`what-${at}`, at === 0 ? 'field:name' : ''],
      [`op-${at}`, at === 0 ? 'is' : ''],
      [`value-${at}`, at === 0 ? 'Ann' : ''],
      [`campaign-${at}`, ''],
    ]).flat(),
  ) as Record<string, string>
  const segment = { name: 'Anns', step: 'save', ...rows }
  const { path } = await submits(`/audiences/${audience}/segments/new`, 'save', segment)
  await submits(path.replace(/\?.*/, ''), 'save', { ...segment, name: 'Ann' })
  const form = await submits('/forms/new', 'add', { name: 'Footer', audience, inbox: '', title: 'News' })
  await submits(form.path.replace(/\?.*/, ''), 'save')
})

test('a reload repeats no invitation and no recovery codes', async () => {
  const invited = await submits('/people/new', 'add', { email: 'new@elsewhere.test', name: 'New', access: 'owner' })
  const person = invited.path.replace(/\?.*/, '')
  await submits(person, 'invite')
  await submits(person, 'remove')
  const member = (await submits('/members/new', 'add', { email: 'member@elsewhere.test', name: '', role: 'reader' }))
    .path
  await submits(member.replace(/\?.*/, ''), 'role', { role: 'marketer' })
  const { store } = postrider.appliance.deps
  const [invitation] = await store.write((tx) => {
    const given = { account: postrider.other.key, user: postrider.user.key, role: 'reader' as const, joined: false }
    return [insertMember(tx, given, postrider.clock.now())]
  })
  await submits('/accounts', 'accept', { id: invitation!.id })
  await submits('/accounts', 'leave', { id: invitation!.id })
  await submits('/people', 'open')
  await submits('/people', 'leave')

  const { text } = await ann.open('/account')
  const secret = /name="secret" value="([^"]+)"/.exec(text)![1]!
  const code = (): string => new TOTP({ secret }).generate({ timestamp: postrider.clock.now() })
  await submits('/account', 'factor', { code: code(), secret })
  postrider.clock.advance(60_000)
  await submits('/account', 'codes', { old: PASSWORD })
  await submits('/account', 'password', { old: PASSWORD, new: `${PASSWORD}, newer` })
  // Last, because the server then has the settings of the file.
  await submits('/server/settings', 'hostname', { hostname: 'mx.new.example' })
})

test('every page with a form was tested', () => {
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
