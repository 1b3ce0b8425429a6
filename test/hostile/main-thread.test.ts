// Every route and page of an account with the largest and most hostile texts: a request must not block the main thread,
// which all accounts share. The longest turn of the event loop is measured in CPU time of the thread. POSTRIDER_TABLE=1
// prints each route with its time.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { threadSlowness } from '../kit/cost.ts'
import { startTestExchanger } from '../kit/exchanger.ts'
import { Guest } from '../kit/guest.ts'
import { givePassword } from '../kit/person.ts'
import { deliver } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { holdLane } from '../../src/delivery/queue/waiting.ts'
import { raw } from '../../src/store/query.ts'

const PASSWORD = 'a long enough password'
/**
 * The most CPU time (ms) of one turn, on a machine of the speed that kit/cost.ts names. The longest that were measured
 * are /docs, which is made once (100 to 166 ms on a busy machine), and a page of 100 contacts of 64 KB, about 90 ms.
 */
const LIMIT = 300
/** A request to the API has at most 1 MB, but for emails and imports. */
const SIZE = 800_000
const fill = (piece: string, size = SIZE): string => piece.repeat(Math.floor(size / JSON.stringify(piece).length))

const TEXTS: Record<string, string> = {
  links: fill('<a href=https://there.test/a>a</a>\n'),
  tags: fill('{{a}} '),
  words: fill('<p>Gr\u00f6\u00dfe and things</p>\n'),
  braces: fill('{{'),
  images: fill('<img src=x>'),
  unclosed: fill('<a '),
  deep: fill('<b>'),
  comments: fill('<!--'),
  attributes: `<a ${fill('x=1 ')}>`,
  styles: fill('<style>a{'),
  entities: fill('&amp;'),
}

/** Measures the longest turn of this thread, in ms of CPU time. */
class Turns {
  #longest = 0
  #before = process.threadCpuUsage()
  #over = false

  constructor() {
    this.#turn()
  }

  async of(work: () => Promise<unknown>): Promise<number> {
    await new Promise((resolve) => setImmediate(resolve))
    this.#longest = 0
    await work()
    await new Promise((resolve) => setImmediate(resolve))
    return this.#longest
  }

  end(): void {
    this.#over = true
  }

  #turn(): void {
    const { system, user } = process.threadCpuUsage(this.#before)
    this.#longest = Math.max(this.#longest, (system + user) / 1000)
    this.#before = process.threadCpuUsage()
    if (!this.#over) setImmediate(() => this.#turn())
  }
}

type Row = [route: string, status: number, ms: number]

/** The account: its texts are as large as its limits allow. */
async function fillAccount(postrider: TestAppliance): Promise<void> {
  const domain = await postrider.activeDomain('here.test')
  const kit = campaignKit(() => postrider)
  const list = await kit.audience(domain)
  const large = { custom_fields: { a: 'x"\u00e9'.repeat(8000), b: 'y'.repeat(20_000) } }
  for (let from = 0; from < 100; from += 10)
    await kit.fill(
      list,
      Array.from({ length: 10 }, (_, n) => ({ email: `r${from + n}@there.test`, name: 'x'.repeat(200), ...large })),
    )
  for (const body_html of Object.values(TEXTS))
    await kit.draft(list, { subject: '{{a}}', body_html, require_unsubscribe_link: true })
  for (const html of Object.values(TEXTS)) await postrider.api('POST', '/outbound-emails', mailOf(html))
  const inbox = { data: { type: 'inboxes', attributes: { name: 'Box', address: 'box@here.test' } } }
  await postrider.api('POST', '/inboxes', inbox)
  for (const html of Object.values(TEXTS))
    await deliver(postrider.appliance.smtp[0]!, {
      to: 'box@here.test',
      message: `Subject: ${'words '.repeat(150)}\r\nContent-Type: text/html\r\n\r\n${html.replaceAll(/(.{900})/g, '$1\r\n')}\r\n`,
    })
  const { store } = postrider.appliance.deps
  const count = Object.keys(TEXTS).length
  await until(() => store.all(raw('select 1 from inbound_bodies')).length >= count || undefined, 'the messages')
}

const mailOf = (html: string) => ({
  data: { type: 'outbound-emails', attributes: { from: 'ann@here.test', to: 'bob@there.test', subject: 's', html } },
})

interface Operation {
  operationId: string
  requestBody?: { content: Record<string, { schema: { properties?: Record<string, any> } }> } // oxlint-disable-line typescript/no-explicit-any
}

/** The ids of an account's resources, by the name of the parameter in a path. */
async function idsOf(postrider: TestAppliance): Promise<Record<string, string[]>> {
  const ids = async (path: string): Promise<string[]> =>
    ((await postrider.api('GET', path)).body?.data ?? []).map(({ id }: { id: string }) => id)
  const audience = await ids('/audiences')
  return {
    audience,
    campaign: await ids('/campaigns?page%5Bsize%5D=100'),
    outboundEmail: await ids('/outbound-emails?page%5Bsize%5D=100'),
    inboundEmail: await ids('/inbound-emails?page%5Bsize%5D=100'),
    inbox: await ids('/inboxes'),
    domain: await ids('/domains'),
    contact: (await ids(`/audiences/${audience[0]}/contacts`)).slice(0, 1),
  }
}

async function routes(postrider: TestAppliance, turns: Turns): Promise<Row[]> {
  const { body: document } = await postrider.raw('/api/v1/openapi.json')
  const known = await idsOf(postrider)
  const rows: Row[] = []
  const ask = async (method: string, path: string, shown: string, body?: unknown): Promise<void> => {
    let status = 0
    const ms = await turns.of(async () => void ({ status } = await postrider.api(method, path, body)))
    rows.push([`${method} ${shown}`, status, ms])
  }
  for (const [path, operations] of Object.entries(document.paths as Record<string, Record<string, Operation>>))
    for (const [method, operation] of Object.entries(operations)) {
      if (!['get', 'post', 'patch'].includes(method) || path.includes('oauth')) continue
      const below = path.replace(/^\/api\/v1/, '')
      const [, parameter = ''] = /\{(\w+)\}/.exec(below) ?? []
      for (const id of parameter === '' ? ['-'] : (known[parameter] ?? ['019bc186-de00-76ab-a5f8-4517e930c3f6']))
        if (method === 'get') await ask('GET', below.replace(/\{\w+\}/, id), below)
        else await ask(method.toUpperCase(), below.replace(/\{\w+\}/, id), below, hostileBody(operation, id))
    }
  const [list] = known['audience']!
  for (const [name, body_html] of Object.entries(TEXTS)) {
    const relationships = { audience: { data: { type: 'audiences', id: list } } }
    const attributes = { name, subject: '{{b}} {{a}}', body_html, require_unsubscribe_link: true }
    await ask('POST', '/campaigns', `/campaigns (${name})`, { data: { type: 'campaigns', attributes, relationships } })
    await ask('POST', '/outbound-emails', `/outbound-emails (${name})`, mailOf(body_html))
    await ask('POST', '/outbound-emails', `/outbound-emails (5 MB of ${name})`, mailOf(body_html.repeat(6)))
  }
  await holdLane(postrider.appliance.deps, 'there.test', true)
  for (const id of known['campaign']!) {
    const tested = { data: { type: 'campaign-tests', attributes: { email: 'me@there.test' } } }
    await ask('POST', `/campaigns/${id}/test`, '/campaigns/{campaign}/test', tested)
    const started = { data: { type: 'campaigns', id, attributes: { status: 'scheduled' } } }
    await ask('PATCH', `/campaigns/${id}`, '/campaigns/{campaign} (start)', started)
  }
  return rows
}

/** A document of nearly 1 MB: each attribute that takes text has a part of it. */
function hostileBody({ requestBody }: Operation, id: string): unknown {
  const schema = Object.values(requestBody?.content ?? {})[0]?.schema
  const data = schema?.properties?.['data']?.properties
  const names = Object.keys(data?.attributes?.properties ?? {})
  const text = fill('a\u00e9 <b>{{a}}', SIZE / Math.max(1, names.length))
  return {
    data: {
      type: data?.type?.const ?? data?.type?.enum?.[0] ?? 'x',
      id,
      attributes: Object.fromEntries(names.map((name) => [name, text])),
    },
  }
}

/** Opens the console's pages that are linked from each other, three of each kind, and the campaigns' pages. */
async function pages(postrider: TestAppliance, turns: Turns): Promise<Row[]> {
  await givePassword(postrider, postrider.user.email, PASSWORD)
  const ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  const { campaign = [] } = await idsOf(postrider)
  const open = campaign.flatMap((id) =>
    ['', '/edit', '/send', '/send?look=closer', '/preview?head=yes', '/preview?as=plain', '/content', '/copy'].map(
      (page) => `/campaigns/${id}${page}`,
    ),
  )
  open.unshift('/')
  const seen = new Set(open)
  const kinds = new Map<string, number>()
  const rows: Row[] = []
  for (let path = open.shift(); path !== undefined; path = open.shift()) {
    const kind = path.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, ':id').replace(/(page|filter|cursor)[^&]*/g, '$1')
    const asked: string = path
    let shown: Awaited<ReturnType<Guest['open']>> | undefined
    const ms = await turns.of(async () => void (shown = await ann.open(asked)))
    rows.push([`page ${kind}`, shown!.status, ms])
    for (const [, link = ''] of shown!.text.slice(0, 500_000).matchAll(/href="(\/[^"#]*)"/g)) {
      const next = link.replaceAll('&amp;', '&')
      const like = next.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, ':id').replace(/(page|filter|cursor)[^&]*/g, '$1')
      if (seen.has(next) || /^\/(?:assets|sign-out)/.test(next) || (kinds.get(like) ?? 0) >= 12) continue
      kinds.set(like, (kinds.get(like) ?? 0) + 1)
      seen.add(next)
      open.push(next)
    }
  }
  for (const id of campaign.slice(0, Object.keys(TEXTS).length)) {
    const page = await ann.open(`/campaigns/${id}/edit`)
    if (page.path.endsWith('/edit'))
      for (const action of ['autosave', 'save'])
        rows.push([
          `form /campaigns/:id/edit ${action}`,
          200,
          await turns.of(() => ann.send(page, 'save', { action }).catch(() => undefined)),
        ])
  }
  return rows
}

test('API routes and pages never block the main thread, with any data in an account', async () => {
  await using exchanger = await startTestExchanger()
  await using postrider = await startTestAppliance({
    config: { delivery: { port: exchanger.port }, api: { rate_limit: 0 } },
    routes: ['there.test'],
  })
  await fillAccount(postrider)
  const turns = new Turns()
  const most = new Map<string, Row>()
  for (const run of [pages, routes])
    for (const row of await run(postrider, turns)) if ((most.get(row[0])?.[2] ?? -1) < row[2]) most.set(row[0], row)
  turns.end()
  const sorted = [...most.values()].sort((one, other) => other[2] - one[2])
  if (process.env['POSTRIDER_TABLE'])
    for (const [route, status, ms] of sorted)
      process.stdout.write(`${ms.toFixed(0).padStart(6)} ms  ${status}  ${route}\n`)
  const limit = LIMIT * Math.max(1, threadSlowness())
  assert.deepEqual(
    sorted.filter(([, , ms]) => ms > limit).map(([route, , ms]) => `${route}: ${Math.round(ms)} ms`),
    [],
    `of ${Math.round(limit)} ms`,
  )
})
