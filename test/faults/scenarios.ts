// The work of a server at the time of a failure.
import { cpSync, existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { control } from './layer.ts'
import { copyOf } from './kills.ts'
import { open, saying } from './demands.ts'
import { Stage, type Posted } from './stage.ts'
import { QUIET, TOLD } from './world.ts'
import { COMMANDS } from './commands.ts'
import { block, report } from '../inbound/home.ts'
import { DAY, dmarcReport, mailWith, signerOf } from '../reports/reporter.ts'

export interface Scenario<Ready = unknown> {
  name: string
  /** Only once, without a failure. */
  once?: true
  /** Its process is not the server's, so that a kill does not test the server. */
  unkilled?: true
  /** Before anything fails. */
  prepare?: (stage: Stage) => Promise<Ready>
  act: (stage: Stage, ready: Ready) => Promise<void>
  /** Further unfinished work. */
  open?: (stage: Stage, ready: Ready) => string[]
  /** Further problems at the end. */
  wrong?: (stage: Stage, ready: Ready) => string[] | Promise<string[]>
}

/** One that is kept in a list with others. */
const scenario = <Ready>(given: Scenario<Ready>): Scenario => given as Scenario

const LARGE = `<p>${'large '.repeat(50_000)}</p>`
const FILE = { filename: 'notes.txt', content: Buffer.from('notes '.repeat(1000)).toString('base64') }
let count = 0

const post = scenario({ name: 'post', act: async (stage) => void (await stage.post()) })

const postLarge = scenario({
  name: 'post large',
  act: async (stage) => void (await stage.post({ html: LARGE, attachments: [FILE] })),
})

const IN_BATCH = 3

/** All emails of a batch are stored, or none of them. */
const batch = scenario({
  name: 'batch',
  act: (stage) => stage.postBatch(LARGE, IN_BATCH),
  wrong: (stage) => {
    const addresses = JSON.stringify(stage.ledger.posted.map(({ to }) => to))
    const stored = stage.rows('select 1 from outbound_emails where "to" in (select value from json_each(?))', [
      addresses,
    ])
    return stored.length % IN_BATCH === 0 ? [] : [`${stored.length} of ${IN_BATCH} emails of a batch are stored`]
  },
})

const refused = scenario({
  name: 'refused',
  act: async (stage) => void (await stage.post({}, 'gone')),
  wrong: (stage) => {
    const [{ to } = { to: '' }] = stage.ledger.posted
    const rows = stage.rows<{ status: string }>('select status from deliveries where address = ?', [to])
    const entries = stage.rows('select key from suppressions where email = ?', [to])
    return rows.length > 0 && entries.length !== 1 ? [`a bounced address has ${entries.length} suppressions`] : []
  },
})

const told = scenario({
  name: 'told',
  act: async (stage) => void (await stage.post({ from: `me@${TOLD}` })),
  open: (stage) => {
    const [{ promised, to }] = stage.ledger.posted as [Posted]
    const arrived = eventsAbout(stage, to)
    return promised && (arrived.length < 2 || new Set(arrived.map(({ type }) => type)).size < 2)
      ? [`of sent and delivered the endpoint heard ${arrived.map(({ type }) => type).join(', ') || 'nothing'}`]
      : []
  },
  wrong: (stage) => {
    const [{ to }] = stage.ledger.posted as [Posted]
    const ids = Map.groupBy(eventsAbout(stage, to), ({ type }) => type)
    const said = [...ids].flatMap(([type, list]) =>
      new Set(list.map(({ id }) => id)).size > 1 ? [`${type} came under more than one webhook-id`] : [],
    )
    const ended = stage.rows<{ status: string; reason: string }>(
      `select status, reason from outbound_webhooks where status <> 'delivered'`,
    )
    const [hook] = stage.rows<{ status: string }>('select status from webhooks')
    if (hook!.status !== 'active') said.push(`the webhook is ${hook!.status}`)
    return [...said, ...ended.map(({ reason, status }) => `a webhook delivery is ${status}: ${reason}`)]
  },
})

const eventsAbout = (stage: Stage, to: string): { id: string; type: string }[] =>
  stage.world.receiver.requests
    .filter(({ body }) => body.includes(`"${to}"`))
    .map(({ body, headers }) => ({ id: headers['webhook-id']!, type: (JSON.parse(body) as { type: string }).type }))

const receive = scenario({ name: 'receive', act: async (stage) => void (await stage.receive()) })

const receiveLarge = scenario({
  name: 'receive large',
  act: async (stage) => void (await stage.receive(`${'large '.repeat(12)}\n`.repeat(5000))),
})

const returned = scenario({
  name: 'returned',
  prepare: async (stage) => {
    const { to } = await stage.post()
    await stage.settle(() => open(stage))
    stage.newLedger()
    return { to, path: stage.world.copies(to)[0]!.from }
  },
  async act(stage, { path, to }) {
    await stage.report(path, report(path, [block({ recipient: to })]))
  },
  open: (stage, { to }) =>
    stage.ledger.reported &&
    stage.rows(`select 1 from deliveries where address = ? and status = 'bounced'`, [to]).length === 0
      ? ['a report that was taken changed nothing']
      : [],
  wrong(stage, { to }) {
    const events = stage.rows(
      `select 1 from events e join outbound_emails m on m.key = e.email_key where m."to" = ? and e.type = 'email.bounced'`,
      [to],
    )
    const entries = stage.rows('select key from suppressions where email = ?', [to])
    return stage.ledger.reported && (events.length !== 1 || entries.length !== 1)
      ? [`a report made ${events.length} events and ${entries.length} suppressions`]
      : []
  },
})

/** Sources of a report, all of which are kept. */
const SOURCES = 150

/** An aggregate report counts once. */
const aggregate = scenario({
  name: 'aggregate',
  // DNS answers are cached, so each run has a separate provider.
  async prepare({ world }) {
    const id = `r${++count}.test`
    return { id, sign: await signerOf(world.dns, id) }
  },
  async act(stage, { id, sign }) {
    const [from, to] = [`noreply@${id}`, `dmarc-reports@bounce.${QUIET}`]
    // Each run of a chain has a separate day, because the rows of a day are bounded.
    const begin = Math.floor(stage.clock.now() / 86_400_000 - 1 - (count % 20)) * DAY
    const records = Array.from({ length: SOURCES }, (_, n) => ({ address: `10.0.${count % 250}.${n}`, count: 2 }))
    const content = gzipSync(dmarcReport({ begin, domain: QUIET, id, records }))
    await stage.report(to, await sign(mailWith(content, { from, to })), from)
  },
  open: (stage, { id }) =>
    stage.ledger.reported && listed(stage, id).length === 0 ? ['a report that was taken is not listed'] : [],
  wrong(stage, { id }) {
    const reports = listed(stage, id)
    const said = reports
      .filter(({ authenticated, why }) => why !== null || authenticated === 0)
      .map(({ why }) => `the report does not count: ${why ?? 'nobody proves it'}`)
    const [figures] = stage.rows<{ rows: number; messages: number }>(
      'select count(*) as rows, coalesce(sum(messages), 0) as messages from dmarc_figures where instr(reporters, ?) > 0',
      [` ${id} `],
    )
    if (reports.length > 1) said.push(`a report is listed ${reports.length} times`)
    if (figures!.rows !== reports.length * SOURCES || figures!.messages !== reports.length * SOURCES * 2)
      said.push(`${reports.length} reports made ${figures!.rows} rows of ${figures!.messages} messages`)
    return said
  },
})

const listed = (stage: Stage, id: string): { why: string | null; authenticated: number }[] =>
  stage.rows('select why, authenticated from aggregate_reports where report_id = ?', [id])

const campaign = scenario({
  name: 'campaign',
  async prepare(stage) {
    const relationships = { domain: { data: { type: 'domains', id: stage.world.domains.quiet } } }
    const made = await stage.api('POST', '/audiences', {
      data: { type: 'audiences', attributes: { name: 'Readers' }, relationships },
    })
    const { id } = made.body.data
    const contacts = Array.from({ length: 4 }, () => ({ email: `c${++count}@there.test`, name: 'Reader' }))
    await stage.api('POST', `/audiences/${id}/contacts/import`, {
      data: { type: 'contacts', attributes: { contacts } },
    })
    const attributes = { name: 'Spring', subject: 'Hello {{name}}', body_html: '<p>Hello {{name}}.</p>' }
    const draft = await stage.api('POST', '/campaigns', {
      data: { type: 'campaigns', attributes, relationships: { audience: { data: { type: 'audiences', id } } } },
    })
    return { id: draft.body.data.id as string, readers: contacts.map(({ email }) => email) }
  },
  async act(stage, { id, readers }) {
    for (const to of readers) stage.ledger.posted.push({ to, promised: false, refused: false })
    const { status } = await stage.api('PATCH', `/campaigns/${id}`, {
      data: { type: 'campaigns', id, attributes: { status: 'scheduled' } },
    })
    // A response with 200 accepts the whole request.
    if (status === 200) for (const posted of stage.ledger.posted) posted.promised = true
  },
  wrong(stage, { id }) {
    const [row] = stage.rows<{ status: string; failure: string; recipients: number }>(
      'select status, failure, recipients from campaigns where id = ?',
      [id],
    )
    if (!stage.ledger.posted[0]?.promised && row!.status === 'draft') return []
    return row!.status === 'sent' && row!.recipients === 4
      ? []
      : [`the campaign is ${row!.status}, to ${row!.recipients}: ${row!.failure}`]
  },
})

const forget = scenario({
  name: 'forget',
  async prepare(stage) {
    const { to } = await stage.post({ html: `<p>Hello</p>${LARGE}`, from: `me@${TOLD}` })
    await stage.receive(`Tell ${to} of it.\n${'large '.repeat(50_000).replace(/(.{60}) /g, '$1\n')}`)
    await stage.settle(() => open(stage))
    stage.newLedger()
    return { to }
  },
  async act(stage, { to }) {
    const { status } = await stage.api('DELETE', `/recipients/${encodeURIComponent(to)}/forget`)
    stage.ledger.asked = status === 202
  },
  open: (stage) =>
    stage.ledger.asked &&
    stage.rows(`select 1 from privacy_requests where kind = 'erasure' and status = 'done'`).length === 0
      ? ['an erasure that was promised is not done']
      : [],
  wrong(stage, { to }) {
    if (!stage.ledger.asked) return []
    return saying(stage.dataDir, to).map(
      (name) =>
        `the erasure is reported done, and ${/^[0-9a-f-]{30,}/.test(name) ? 'a file of the spool' : name} says the address`,
    )
  },
})

const exported = scenario({
  name: 'export',
  async prepare(stage) {
    const { to } = await stage.post({ html: LARGE })
    await stage.settle(() => open(stage))
    stage.newLedger()
    return { to }
  },
  async act(stage, { to }) {
    const { status } = await stage.api('GET', `/recipients/${encodeURIComponent(to)}/data`)
    stage.ledger.asked = status === 202
  },
  wrong(stage) {
    const rows = stage.rows<{ file: string | null; status: string }>(
      `select file, status from privacy_requests where kind = 'export' and status = 'done'`,
    )
    const folder = join(stage.dataDir, 'exports')
    const names = existsSync(folder) ? readdirSync(folder) : []
    const said = rows.flatMap(({ file }) =>
      file !== null && names.includes(file) ? [] : ['an export is done, and its file is missing'],
    )
    const notices = stage.rows(`select 1 from notices where subject like 'An export%'`)
    if (notices.length > rows.length) said.push(`${notices.length} notices of ${rows.length} exports`)
    return said
  },
})

/** It stops while mail is queued and arrives. The next server keeps all accepted mail. */
const stop = scenario({
  name: 'stop',
  async act(stage) {
    await stage.post({ html: LARGE })
    await stage.receive()
    // An error of the stop must not keep the process running.
    await stage.stop().catch(() => {})
  },
})

/** It starts after a kill: with claimed email and an unread message, both with files. */
const start = scenario({
  name: 'start',
  async prepare(stage) {
    await stage.stop()
    const { dir, ledger } = (left ??= await leave(stage))
    rmSync(stage.dataDir, { recursive: true })
    cpSync(dir, stage.dataDir, { recursive: true })
    stage.ledger = structuredClone(ledger)
    for (const { to } of ledger.posted) stage.world.heard.delete(to)
    return undefined
  },
  async act(stage) {
    await stage.tryStart()
  },
})

let left: { dir: string; ledger: Stage['ledger'] } | undefined

/** The disk just after mail was claimed. */
async function leave({ world }: Stage): Promise<NonNullable<typeof left>> {
  const stage = new Stage(world)
  await stage.start()
  let claimed = false
  let copy: typeof left
  control.onCall = (_, call) => {
    if (claimed && !copy && stage.ledger.posted.every(({ promised }) => promised))
      copy = { dir: copyOf(stage.dataDir), ledger: structuredClone(stage.ledger) }
    claimed ||= call === 'commit' && stage.rows(`select 1 from deliveries where status = 'active'`).length > 0
  }
  await stage.receive(`${'large '.repeat(12)}\n`.repeat(5000))
  await stage.post({ html: LARGE, attachments: [FILE] })
  await stage.settle(() => open(stage))
  control.onCall = undefined
  await stage.stop()
  if (!copy) throw new Error('no mail was claimed')
  return copy
}

export const SCENARIOS: readonly Scenario[] = [
  post,
  postLarge,
  batch,
  refused,
  told,
  receive,
  receiveLarge,
  returned,
  aggregate,
  campaign,
  forget,
  exported,
  start,
  stop,
  ...COMMANDS,
]

/** Lets it go on until it is done, or, once something has failed, for as long as the failure may last. */
export async function goOn(stage: Stage, done: () => boolean): Promise<void> {
  for (let round = 0, after = 0; round < 400 && after < 12; round++) {
    await stage.breathe(1)
    if (control.strikes > 0 || !stage.runs) {
      after++
      stage.turn(250)
    } else if (done()) return
    else if (round > 100) stage.turn(1000)
  }
}
