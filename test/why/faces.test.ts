// Access to explanations: the API, the command, the MCP tool and the page return the same result. Other accounts see no
// foreign data, hostile replies are escaped, and an explanation uses indexes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { belongTo } from '../../src/base/named-instance.ts'
import { raw } from '../../src/store/query.ts'
import type { Reader } from '../../src/store/database.ts'
import { explain } from '../../src/why/explain.ts'
import { explanationText } from '../../src/why/text.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import type { Guest } from '../kit/guest.ts'
import { letIn } from '../kit/oauth-client.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'
import { mailsOf } from '../mail/mails.ts'

const MISSING = '01985c7e-7c1a-7000-8000-000000000001'
/** A hostile reply: HTML, terminal escapes, a change of text direction, and an address of another domain. */
const HOSTILE =
  '550 5.7.1 <script>alert(1)</script>\u001b]0;owned\u0007\u001b[2J \u202egnp.exe\u2066 spam eve@secret.test"><img src=x>'
const replies = new Map([
  ['bob@there.test', '550 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org'],
  ['bob@harms.test', HOSTILE],
])
const exchanger = testExchanger({
  answer: (command) => replies.get(/^RCPT TO:<([^>]+)>/i.exec(command)?.[1] ?? ''),
})
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    config: { oauth: { redirect_origins: ['http://localhost', 'https://app.test'] } },
    domains: ['here.test'],
    otherDomains: ['other.test'],
    routes: ['there.test', 'harms.test'],
    open: true,
  }),
)
const { become, post } = mailsOf(() => postrider)
const kit = campaignKit(() => postrider)
let ann: Guest
let refused: string
let hostile: string

setUp(async () => {
  ann = await signedIn(postrider)
  refused = await post()
  await become(refused, 'bounced')
  hostile = await post({ to: 'bob@harms.test' })
  await become(hostile, 'bounced')
})

const asked = (subject: string): string => `/explanations?filter[subject]=${encodeURIComponent(subject)}`

test('API, command and MCP return the same explanation', async () => {
  const { body, status } = await postrider.api('GET', asked(refused))
  assert.equal(status, 200)
  const { attributes, id, type } = body.data
  assert.deepEqual([type, id, attributes.kind, attributes.causes[0].cause], ['explanations', refused, 'email', 'block'])
  const { access_token } = await letIn(postrider, postrider.user)
  const client = new Client({ name: 'test', version: '1' })
  const requestInit = { headers: { authorization: `Bearer ${access_token}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(`${postrider.url}/mcp`), { requestInit }))
  const { tools } = await client.listTools()
  assert.equal(tools.find(({ name }) => name === 'explain_delivery')?.annotations?.readOnlyHint, true)
  const answer = await client.callTool({ name: 'explain_delivery', arguments: { subject: refused } })
  // An application's token has no operator access, so the sources of the whole server are left out.
  const ofServer = new Set(['watch'])
  assert.deepEqual((answer.structuredContent as typeof body).data.attributes, {
    ...attributes,
    sources: attributes.sources.filter(({ source }: { source: string }) => !ofServer.has(source)),
  })
  const missing = await client.callTool({ name: 'explain_delivery', arguments: { subject: MISSING } })
  assert.equal(missing.isError, true)
  await client.close()
  // The command runs next to the server, so it does not see the problems of its process.
  // Its clock is that of the machine, and the email is old.
  const printed = await postrider.commands.json('why', refused)
  assert.deepEqual(printed.causes[0], attributes.causes[0])
  assert.deepEqual(
    printed.sources
      .filter(({ state }: { state: string }) => state === 'unavailable')
      .map(({ source }: { source: string }) => source),
    ['local trouble', 'watch'],
  )
  const { stdout } = await postrider.commands.run(['why', refused])
  assert.equal(stdout, `${explanationText(printed)}\n`)
  assert.match(stdout, /1\. The IP address of this server is on a Spamhaus blocklist\.\n/)
  assert.doesNotMatch(stdout, /no results|Not available/, 'only --verbose lists what was checked')
  const { stdout: verbose } = await postrider.commands.run(['--verbose', 'why', refused])
  assert.equal(verbose, `${explanationText(printed, { verbose: true })}\n`)
  assert.match(verbose, /a Spamhaus blocklist\. \(block\)\n[^]*Checked, no results: .*\nNot available: /)
  for (const since of ['2030-01-01', '2030-01-01T00:00:00Z'])
    assert.deepEqual((await postrider.commands.json('why', refused, '--since', since)).causes, [])
  assert.match(await postrider.commands.fails('why', MISSING), /There is no email, campaign, domain or receiver/)
  assert.match(await postrider.commands.fails('why', refused, '--since', 'soon'), /is not a time/)
})

test('requires a subject, which must belong to the account', async () => {
  for (const query of ['', '?filter[subject]=', '?filter[subject]=a,b']) {
    const { body, status } = await postrider.api('GET', `/explanations${query}`)
    assert.equal(status, 400, query)
    assert.match(JSON.stringify(body), /filter\[subject\]/)
  }
  assert.equal((await postrider.api('GET', `${asked(refused)}&filter[since]=soon`)).status, 400)
  const theirs = await kit.audience(await postrider.activeDomain('mine.test'))
  const campaign = await kit.draft(theirs)
  const draft = (await postrider.api('GET', asked(campaign))).body.data.attributes
  assert.deepEqual([draft.kind, draft.causes], ['email', []])
  assert.equal(draft.summary, 'The campaign has not started. No evidence of a problem was found.')
  for (const subject of [refused, campaign, 'here.test', 'there.test']) {
    assert.equal((await postrider.api('GET', asked(subject))).status, 200, subject)
    assert.equal((await postrider.asOther('GET', asked(subject))).status, 404, subject)
  }
  for (const subject of [MISSING, 'nobody.test', 'Google', '%', 'constructor', 'x'.repeat(5000)])
    assert.ok([400, 404].includes((await postrider.api('GET', asked(subject))).status), subject)
})

test('an operator can explain a provider for all accounts, but no other subject of other accounts', async () => {
  const { appliance, other } = postrider
  const operator = (on: number): Promise<unknown> =>
    appliance.deps.store.write((tx) => {
      tx.run(raw('update users set operator = ? where key = ?', [on, other.key]))
      tx.run(raw('update tokens set operator = ? where user_key = ?', [on, other.key]))
    })
  await operator(1)
  try {
    const { body, status } = await postrider.asOther('GET', asked('there.test'))
    assert.equal(status, 200)
    assert.equal(body.data.attributes.causes[0].cause, 'block')
    assert.doesNotMatch(JSON.stringify(body), /bob@|ann@/)
    for (const subject of [refused, 'here.test'])
      assert.equal((await postrider.asOther('GET', asked(subject))).status, 404, subject)
  } finally {
    await operator(0)
  }
})

test('the command requires the account if several have the domain', async () => {
  await postrider.activeDomain('shared.test')
  await postrider.activeDomain('shared.test', postrider.other)
  assert.match(await postrider.commands.fails('why', 'shared.test'), /registered 2 times/)
  const { kind, subject } = await postrider.commands.json('why', 'shared.test', '--user', postrider.other.email)
  assert.deepEqual([kind, subject], ['domain', 'shared.test'])
  assert.match(await postrider.commands.fails('why', refused, '--user', postrider.other.email), /There is no email/)
})

test('cleans hostile replies in evidence, on a terminal and on pages', async () => {
  const { body } = await postrider.api('GET', asked(hostile))
  const rows = JSON.stringify(body.data.attributes)
  // oxlint-disable-next-line no-control-regex
  assert.doesNotMatch(rows, /[\u0000-\u001f\u007f\u202a-\u202e\u2066-\u2069]|\\u00/)
  assert.match(rows, /spam/)
  const { stdout } = await postrider.commands.run(['why', hostile])
  // oxlint-disable-next-line no-control-regex
  assert.doesNotMatch(stdout, /[\u0000-\u0009\u000b-\u001f\u202a-\u202e]/)
  const { text } = await ann.open(`/why/${hostile}`)
  assert.match(text, /&lt;script&gt;alert/)
  assert.doesNotMatch(text, /<script>alert|<img src=x/)
  // Of the receiver, no address is shown at all.
  assert.doesNotMatch(JSON.stringify((await postrider.api('GET', asked('harms.test'))).body), /eve@secret|bob@harms/)
})

test('the pages of an email, a campaign, a provider and a domain link to the explanation', async () => {
  const audience = await kit.audience(await postrider.activeDomain('letters.test'))
  await kit.fill(audience, ['ann@there.test'])
  const campaign = await kit.draft(audience)
  await kit.send(campaign)
  for (const [path, subject, above] of [
    [`/mail/${refused}`, refused, `/mail/${refused}`],
    [`/campaigns/${campaign}`, campaign, `/campaigns/${campaign}`],
    ['/receivers/there.test', 'there.test', '/receivers/there.test'],
    ['/domains/here.test', 'here.test', '/domains/here.test'],
    ['/domains/here.test/reports', 'here.test', '/domains/here.test'],
  ] as const) {
    assert.match((await ann.open(path)).text, new RegExp(`href="/why/${subject}"\\s*>Why\\?</a>`), path)
    const { status, text } = await ann.open(`/why/${subject}`)
    assert.equal(status, 200, subject)
    assert.ok(text.includes(`<a href="${above}">`), subject)
    assert.match(text, /Sources checked/)
  }
  const { text } = await ann.open(`/why/${refused}`)
  assert.match(text, /<h2>The IP address of this server is on a Spamhaus blocklist\.<\/h2>/)
  assert.match(text, /Look it up at check\.spamhaus\.org/)
  assert.match(text, /blocked using zen\.spamhaus\.org/)
  assert.equal((await ann.open(`/why/${MISSING}`)).status, 404)
})

test('an explanation uses indexes: no statement scans a table that grows with email', async () => {
  const { appliance, clock, user } = postrider
  const { config, keyring, store } = appliance.deps
  const statements = new Map<string, readonly unknown[]>()
  const noting = (query: { compile(): { sql: string; parameters: readonly unknown[] } }): void => {
    const { parameters, sql } = query.compile()
    statements.set(sql, parameters)
  }
  const reader = new Proxy(store, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown
      if (typeof value !== 'function') return value
      return (...given: unknown[]): unknown => {
        if (name === 'all' || name === 'first' || name === 'one') noting(given[0] as never)
        return (value as (...all: unknown[]) => unknown).apply(target, given)
      }
    },
  }) as Reader
  const campaign = await kit.draft(await kit.audience(await postrider.activeDomain('plans.test')))
  // The tables of Microsoft and Google are read only for their receivers.
  const providers = ['Google', 'Microsoft consumer']
  for (const receiver of providers)
    await store.write((tx) =>
      tx.run(
        raw(
          `insert into receiver_tallies (user_key, receiver, hour, delivered, deferred, refused, within_5s, within_1m, within_10m, within_1h)
           values (?, ?, ?, 1, 0, 0, 1, 0, 0, 0)`,
          [user.key, receiver, Math.floor(clock.now() / 3_600_000)],
        ),
      ),
    )
  for (const name of [refused, campaign, 'here.test', 'there.test', ...providers])
    for (const everywhere of [false, true])
      explain(
        { store: reader, keyring, config },
        { name, account: user.key, everywhere, operator: everywhere, now: clock.now() },
      )
  for (const table of ['warmups', 'watches', 'receiver_alarms', 'dmarc_figures'])
    assert.ok(
      [...statements.keys()].some((sql) => sql.includes(table)),
      table,
    )
  for (const [sql, parameters] of statements) {
    const plan = store.all(raw<{ detail: string }>(`explain query plan ${sql}`, [...parameters] as never[]))
    // Email queued for warm-up is counted by an index of only these rows.
    const scans = plan.filter(({ detail }) =>
      /^SCAN (?!deliveries USING INDEX deliveries_held_by_warmup|json_each|value|days|users|lane_holds|learned_lanes|\(subquery|e\b|waiting\b)/.test(
        detail,
      ),
    )
    assert.deepEqual(scans, [], sql)
  }
})

test('the fixes of an instance name its commands', async () => {
  const { store } = postrider.appliance.deps
  await store.write((tx) => tx.run(raw('insert into lane_holds values (?, ?)', ['held.test', postrider.clock.now()])))
  const id = await post({ to: 'bob@held.test' })
  belongTo('shop')
  try {
    const { body } = await postrider.api('GET', asked(id))
    assert.match(JSON.stringify(body), /postrider --instance shop queue release --lane DOMAIN/)
  } finally {
    belongTo(undefined)
    await store.write((tx) => tx.run(raw('delete from lane_holds')))
  }
})

test('the page of a recipient domain at another host links only to pages that exist', async () => {
  postrider.dns.set('friend.test', 'MX', ['10 mx.hoster.test'])
  postrider.dns.set('mx.hoster.test', 'A', ['127.0.0.1'])
  await become(await post({ to: 'bob@friend.test' }), 'delivered')
  const { status, text } = await ann.open('/why/friend.test')
  assert.equal(status, 200)
  assert.match(text, /Why\? Email to friend\.test/)
  assert.doesNotMatch(text, /href="\/receivers\/friend\.test"/)
})
