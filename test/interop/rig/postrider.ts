// Postrider as a child process with a configuration file, its HTTP port and its command line. The test loads no code of
// src/, and POSTRIDER_BIN selects another executable than the sources.

import { execFile } from 'node:child_process'
import { join, resolve } from 'node:path'
import type { TestDns } from '../../kit/zone.ts'
import { Sandbox, until } from './sandbox.ts'

const ROOT = join(import.meta.dirname, '../../..')

/** The program and the arguments that come before its own; POSTRIDER_BIN may be relative to the tree. */
export function executable(): { program: string; first: string[] } {
  const given = process.env['POSTRIDER_BIN']
  return given
    ? { program: resolve(ROOT, given), first: [] }
    : { program: process.execPath, first: [join(ROOT, 'bin/postrider.ts')] }
}

/** The attributes of one recipient in the API. */
export interface Recipient {
  address: string
  role: string
  status: string
  smtp_code: number | null
  enhanced_code: string | null
  response: string | null
  remote_mta: string | null
  attempts: number
  next_attempt_at: string | null
  /** Only the queue command tells these two. */
  tls?: string | null
  dialogue?: string | null
}

/** An outbound email's attributes, as far as tests look at them. */
export interface Mail {
  id: string
  message_id: string
  status: string
  recipients: Recipient[]
}

/** An inbound email's attributes, as far as tests look at them. */
export interface Received {
  id: string
  status: string
  reason: string | null
  sender: string
  recipients: string[]
  subject: string | null
  message_id: string | null
  attachments: { id: string; filename: string | null; content_type: string; size: number }[]
  authentication: { spf: string; dkim: string; dmarc: string; arc: string }
  size: number
}

export interface Output {
  code: number
  stdout: string
  stderr: string
}

export interface Answer {
  status: number
  // oxlint-disable-next-line typescript/no-explicit-any
  body: any
}

export interface RunningPostrider {
  /** Where it receives. */
  smtpPort: number
  /** Of the listeners that are on, in the order of the configuration. */
  ports: Record<'https' | 'submission' | 'submissions', number[]>
  /** Its HTTP origin. */
  origin: string
  /** An API token with all scopes. */
  token: string
  /** Its data directory. */
  dataDir: string
  /** SIGHUP, as "systemctl reload" sends it. */
  reload: () => void
  /** A download over a real socket; `path` is below /api/v1. Throws unless the answer is 200. */
  download: (path: string) => Promise<Buffer>
  /** Makes an inbox; its id. */
  inbox: (address: string) => Promise<string>
  /** All mail that came to an inbox, oldest first. */
  received: (inbox: string) => Promise<Received[]>
  /** A request over a real socket; `path` is below /api/v1. */
  api: (method: string, path: string, body?: unknown) => Promise<Answer>
  /** Posts a mail; throws unless it was accepted. */
  post: (attributes: Record<string, unknown>) => Promise<Mail>
  show: (id: string) => Promise<Mail>
  /** Waits until the mail's first recipient is as `wanted`. */
  settled: (id: string, wanted: (recipient: Recipient, mail: Mail) => boolean, timeoutMs?: number) => Promise<Mail>
  /** Runs a command next to the server, with its configuration. */
  command: (...args: string[]) => Promise<Output>
  /** A command with --json that must succeed: the document. */
  // oxlint-disable-next-line typescript/no-explicit-any
  json: (...args: string[]) => Promise<any>
  /** Registers a sending domain, publishes its records in the test's DNS, and verifies it. */
  sendingDomain: (name: string, ...options: string[]) => Promise<void>
  log: () => string
  /** SIGTERM, as a service manager does. Throws unless the server leaves with code 0 within its ten seconds. */
  stop: () => Promise<void>
}

const USER = 'owner@postrider.example'
const COMMAND_TIMEOUT = 30_000
const READY_TIMEOUT = 15_000

export interface PostriderOptions {
  dns: TestDns
  hostname: string
  /** The port of all receiving servers. */
  deliveryPort: number
  /** Where the virus scanner listens. */
  clamav?: string
  /** Further sections of the configuration. */
  more?: string
  /** Further keys of [http]. */
  http?: string
  /** Another executable, such as the built one. */
  program?: ReturnType<typeof executable>
}

export async function startPostrider(options: PostriderOptions): Promise<RunningPostrider> {
  const box = new Sandbox('serve')
  try {
    return await serve(box, options)
  } catch (error) {
    await box.close()
    throw error
  }
}

async function serve(
  box: Sandbox,
  {
    clamav = '',
    deliveryPort,
    dns,
    hostname,
    http: moreHttp = '',
    more = '',
    program: { program, first } = executable(),
  }: PostriderOptions,
): Promise<RunningPostrider> {
  const config = box.write(
    'postrider.toml',
    `hostname = "${hostname}"
data_dir = "${box.path('data')}"
[http]
listen = "127.0.0.1:0"
${moreHttp}
[smtp]
listen = ["127.0.0.1:0"]
[inbound]
clamav = "${clamav}"
[dns]
servers = ["127.0.0.1:${dns.port}"]
[delivery]
port = ${deliveryPort}
[network]
allow_private = ["127.0.0.0/8"]
[api]
rate_limit = 0
${more}
`,
  )
  const log = (): string => box.read('server.log')
  const command: RunningPostrider['command'] = (...args) =>
    new Promise((done) => {
      execFile(
        program,
        [...first, '--config', config, ...args],
        {
          cwd: box.dir,
          env: { PATH: process.env['PATH'] },
          timeout: COMMAND_TIMEOUT,
          killSignal: 'SIGKILL',
          maxBuffer: 1 << 24,
        },
        (error, stdout, stderr) => {
          const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
          done({ code, stdout, stderr })
        },
      )
    })
  const json: RunningPostrider['json'] = async (...args) => {
    const { code, stdout, stderr } = await command('--json', ...args)
    if (code !== 0) throw new Error(`postrider ${args.join(' ')} ended with ${code}: ${stderr}`)
    return JSON.parse(stdout)
  }

  const server = box.daemon(program, [...first, '--config', config, 'serve'], 'server.log')
  let http = ''
  let smtpPort = 0
  const ports: RunningPostrider['ports'] = { https: [], submission: [], submissions: [] }
  const ready = (): boolean => {
    if (!server.alive()) throw new Error(`the server ended at once: ${log()}`)
    const told = readyLine(log())
    http = told?.http ?? ''
    smtpPort = Number(told?.smtp[0]?.split(':').at(-1) ?? 0)
    for (const name of Object.keys(ports) as (keyof typeof ports)[])
      ports[name] = (told?.[name] ?? []).map((each) => Number(each.split(':').at(-1)))
    return told !== undefined
  }
  await until(ready, READY_TIMEOUT, () => `the server is not ready: ${log()}`)

  // Beside the running server, as an operator would.
  await json('user', 'add', USER)
  const made = ['token', 'create', '--user', USER, '--name', 'interop', '--scopes', 'all', '--duration', '1_month']
  const { token } = (await json(...made)) as { token: string }

  const api: RunningPostrider['api'] = async (method, path, body) => {
    const response = await fetch(`http://${http}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/vnd.api+json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(COMMAND_TIMEOUT),
    })
    const text = await response.text()
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
  }
  const download: RunningPostrider['download'] = async (path) => {
    const response = await fetch(`http://${http}/api/v1${path}`, {
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(COMMAND_TIMEOUT),
    })
    if (response.status !== 200) throw new Error(`GET ${path}: ${response.status} ${await response.text()}`)
    return Buffer.from(await response.arrayBuffer())
  }
  const show: RunningPostrider['show'] = async (id) => {
    const { status, body } = await api('GET', `/outbound-emails/${id}`)
    if (status !== 200) throw new Error(`GET ${id}: ${status} ${JSON.stringify(body)}`)
    return { id, ...body.data.attributes }
  }
  return {
    smtpPort,
    ports,
    origin: `http://${http}`,
    token,
    dataDir: box.path('data'),
    reload: () => void process.kill(server.pid, 'SIGHUP'),
    api,
    download,
    show,
    async inbox(address) {
      const attributes = { name: address, address }
      const { status, body } = await api('POST', '/inboxes', { data: { type: 'inboxes', attributes } })
      if (status !== 201) throw new Error(`POST /inboxes: ${status} ${JSON.stringify(body)}`)
      return body.data.id
    },
    async received(inbox) {
      const all: Received[] = []
      let cursor = ''
      do {
        const page = `page[size]=100${cursor && `&page[cursor]=${encodeURIComponent(cursor)}`}`
        const { status, body } = await api('GET', `/inboxes/${inbox}/inbound-emails?sort=created_at&${page}`)
        if (status !== 200) throw new Error(`GET inbound-emails: ${status} ${JSON.stringify(body)}`)
        for (const { id, attributes } of body.data) all.push({ id, ...attributes })
        cursor = body.meta.has_more ? body.meta.next_cursor : ''
      } while (cursor !== '')
      return all
    },
    command,
    json,
    log,
    async post(attributes) {
      const { status, body } = await api('POST', '/outbound-emails', { data: { type: 'outbound-emails', attributes } })
      if (status !== 201) throw new Error(`POST: ${status} ${JSON.stringify(body)}`)
      return { id: body.data.id, ...body.data.attributes }
    },
    async settled(id, wanted, timeoutMs = 20_000) {
      let mail = await show(id)
      const as = async () => wanted((mail = await show(id)).recipients[0]!, mail)
      await until(as, timeoutMs, () => `after ${timeoutMs} ms: ${JSON.stringify(mail, null, 1)}`)
      return mail
    },
    async sendingDomain(name, ...more) {
      await json('domain', 'add', name, '--user', USER, ...more)
      const { records } = (await json('domain', 'records', name)) as {
        records: { record_type: string; type?: string; name: string; value: string }[]
      }
      if ((await dns.resolver.a(hostname)).kind !== 'found') dns.set(hostname, 'A', ['127.0.0.1'])
      // What is only advised says its type in DNS.
      for (const record of records.filter(({ type = 'TXT' }) => type === 'TXT'))
        dns.set(record.name, record.record_type === 'MAIL_FROM_MX' ? 'MX' : 'TXT', [record.value])
      const checked = (await json('domain', 'check', name)) as { status: string }
      if (checked.status !== 'active') throw new Error(`${name} is ${checked.status}: ${JSON.stringify(checked)}`)
    },
    async stop() {
      try {
        if (!server.alive()) throw new Error(`the server was gone before it was stopped: ${log()}`)
        process.kill(server.pid, 'SIGTERM')
        await until(
          () => !server.alive(),
          12_000,
          () => `the server does not stop: ${log()}`,
        )
        if (server.exitCode() !== 0) throw new Error(`the server left with ${server.exitCode()}: ${log()}`)
      } finally {
        await box.close()
      }
    },
  }
}

type Ready = { http: string; smtp: string[] } & Partial<Record<'https' | 'submission' | 'submissions', string[]>>

function readyLine(log: string): Ready | undefined {
  const line = log.split('\n').find((text) => text.includes('"event":"server_ready"'))
  return line === undefined ? undefined : (JSON.parse(line) as Ready)
}
