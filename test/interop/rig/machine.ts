// A data directory with all prerequisites of a server, and the executable on it: started, killed, limited and
// restarted. The setup runs in the test's process, and the executable is under test (POSTRIDER_BIN, or else
// dist/postrider, or else the sources).
import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { document, JSON_API, startTestAppliance } from '../../kit/appliance.ts'
import { ManualClock } from '../../kit/clock.ts'
import { startTestExchanger, type Script, type TestExchanger } from '../../kit/exchanger.ts'
import type { TestDns } from '../../kit/zone.ts'
import { executable } from './postrider.ts'

const ROOT = join(import.meta.dirname, '../../..')
const BUILT = join(ROOT, 'dist/postrider')

export const program = (): { program: string; first: string[] } =>
  process.env['POSTRIDER_BIN'] === undefined && existsSync(BUILT) ? { program: BUILT, first: [] } : executable()

export interface Output {
  code: number
  stdout: string
  stderr: string
}

/** Looks every few ms until it is so; throws after `limit` ms. */
export async function becomes<T>(
  look: () => T | Promise<T>,
  what: string | (() => string),
  limit = 30_000,
): Promise<NonNullable<T>> {
  const end = performance.now() + limit
  for (;;) {
    const value = await look()
    if (value) return value as NonNullable<T>
    if (performance.now() > end)
      throw new Error(`${typeof what === 'string' ? what : what()} did not come within ${limit} ms`)
    await pause(20)
  }
}

/** One process of the server. */
export class Serving {
  readonly child: ChildProcess
  /** Everything it printed. */
  said = ''
  /** The exit code, or the signal. */
  readonly ended: Promise<unknown>
  over = false
  url = ''
  smtp = 0
  /** Of the server itself, whatever it runs under. */
  pid = 0

  constructor(child: ChildProcess) {
    this.child = child
    for (const stream of [child.stdout!, child.stderr!])
      stream.setEncoding('utf8').on('data', (text: string) => (this.said += text))
    this.ended = new Promise((resolve) =>
      child.once('close', (code, signal) => {
        this.over = true
        resolve(signal ?? code)
      }),
    )
  }

  /** Waits for its ready line, or for its end; whether it is ready. */
  async ready(limit = 20_000): Promise<boolean> {
    const line = (): string | undefined => this.said.split('\n').find((text) => text.includes('"event":"server_ready"'))
    await becomes(() => this.over || line() !== undefined, 'the ready line', limit)
    const told = line()
    if (told === undefined) return false
    const { http, pid, smtp } = JSON.parse(told) as { http: string; pid: number; smtp: string[] }
    this.pid = pid
    this.url = `http://${http}`
    this.smtp = Number(smtp[0]!.split(':').at(-1))
    return true
  }

  /** As many descriptors as it may have at all. */
  get #hard(): string {
    return /^Max open files +\S+ +(\d+)/m.exec(readFileSync(`/proc/${this.child.pid}/limits`, 'utf8'))![1]!
  }

  /** Limits of the running process (prlimit(1)): --nofile, --fsize. Undone by `unlimited`. */
  limit(...limits: string[]): void {
    execFileSync('prlimit', ['--pid', String(this.child.pid), ...limits])
  }

  unlimited(): void {
    this.limit(`--nofile=${this.#hard}:`, '--fsize=unlimited:')
  }

  /** Descriptors that it has open. */
  get descriptors(): number {
    return Math.max(...readdirSync(`/proc/${this.child.pid}/fd`).map(Number)) + 1
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<unknown> {
    if (!this.over) this.child.kill(signal)
    return this.ended
  }
}

export interface MachineOptions {
  script?: Script
  /** Where the data directory is to lie; a temporary folder when left out. */
  folder?: string
  /** More of the configuration, as TOML. */
  more?: string
  /** Runs it as this user (setpriv(1)). */
  uid?: number
}

export class Machine {
  readonly folder: string
  readonly dataDir: string
  readonly dns: TestDns
  readonly exchanger: TestExchanger
  readonly token: string
  readonly domain: string
  readonly #options: MachineOptions
  readonly #servers: Serving[] = []
  /** A token that may only read webhooks. */
  readonly narrow: string

  static async make(options: MachineOptions = {}): Promise<Machine> {
    const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'postrider-machine-'))
    const dataDir = join(folder, 'data')
    const exchanger = await startTestExchanger(options.script)
    const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now() - 60_000) })
    const domain = await setUp.activeDomain('here.test')
    setUp.dns.set('there.test', 'MX', ['10 mx.there.test'])
    setUp.dns.set('mx.there.test', 'A', ['127.0.0.1'])
    await setUp.api('POST', '/inboxes', document('inboxes', { name: 'Box', address: 'box@here.test' }))
    const narrow = await setUp.tokenFor(setUp.user, ['webhooks:read'])
    await setUp.appliance.stop()
    return new Machine(options, {
      folder,
      dataDir,
      exchanger,
      dns: setUp.dns,
      token: setUp.token,
      narrow,
      domain: domain.id,
    })
  }

  private constructor(
    options: MachineOptions,
    made: Pick<Machine, 'folder' | 'dataDir' | 'dns' | 'exchanger' | 'token' | 'narrow' | 'domain'>,
  ) {
    this.#options = options
    this.folder = made.folder
    this.dataDir = made.dataDir
    this.dns = made.dns
    this.exchanger = made.exchanger
    this.token = made.token
    this.narrow = made.narrow
    this.domain = made.domain
    this.configure(this.dataDir)
  }

  get config(): string {
    return join(this.folder, 'postrider.toml')
  }

  /** Writes the configuration for a data directory. */
  configure(dataDir: string): void {
    writeFileSync(
      this.config,
      `hostname = "mx.postrider.test"
data_dir = ${JSON.stringify(dataDir)}
[http]
listen = "127.0.0.1:0"
[smtp]
listen = ["127.0.0.1:0"]
[dns]
servers = ["127.0.0.1:${this.dns.port}"]
[network]
allow_private = ["127.0.0.0/8"]
[api]
rate_limit = 0
[delivery]
port = ${this.exchanger.port}
retry = ["1s"]
${this.#options.more ?? ''}`,
    )
  }

  #command(args: readonly string[]): [string, string[]] {
    const { first, program: file } = program()
    const line = [...first, '--config', this.config, ...args]
    const { uid } = this.#options
    return uid === undefined
      ? [file, line]
      : ['setpriv', [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', file, ...line]]
  }

  /** Starts the server. Throws with its output if it does not start. */
  async start(): Promise<Serving> {
    const server = this.begin()
    if (!(await server.ready())) throw new Error(`the server ended: ${server.said}`)
    return server
  }

  /**
   * Starts the server without waiting for its result, optionally under another program such as strace(1) with its
   * options.
   */
  begin(under: readonly string[] = []): Serving {
    return this.#begin(under, ['serve'])
  }

  /** Starts one command without waiting for its result. */
  beginOf(...args: string[]): Serving {
    return this.#begin([], args)
  }

  #begin(under: readonly string[], words: readonly string[]): Serving {
    const [program, args] = this.#command(words)
    const [file, ...line] = [...under, program, ...args]
    const env = { PATH: process.env['PATH'] }
    const server = new Serving(spawn(file!, line, { cwd: this.folder, env, stdio: ['ignore', 'pipe', 'pipe'] }))
    this.#servers.push(server)
    return server
  }

  /** Runs one command to its end. */
  run(...args: string[]): Promise<Output> {
    return this.runUnder([], ...args)
  }

  /** The same under another program, such as unshare(1) with its options. */
  runUnder(program: readonly string[], ...args: string[]): Promise<Output> {
    const [file, line] = this.#command(args)
    const [first, ...rest] = [...program, file, ...line]
    return new Promise((done) =>
      execFile(
        first!,
        rest,
        { cwd: this.folder, env: { PATH: process.env['PATH'] }, timeout: 60_000, maxBuffer: 1 << 24 },
        (error, stdout, stderr) =>
          done({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1, stdout, stderr }),
      ),
    )
  }

  // oxlint-disable-next-line typescript/no-explicit-any
  async api(server: Serving, method: string, path: string, body?: unknown): Promise<{ status: number; body: any }> {
    const response = await fetch(`${server.url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${this.token}`, ...(body === undefined ? {} : { 'content-type': JSON_API }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    })
    const text = await response.text()
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
  }

  post(server: Serving, attributes: Record<string, unknown> = {}) {
    const mail = { from: 'me@here.test', to: 'bob@there.test', subject: 'Hello', html: '<p>Hello</p>', ...attributes }
    return this.api(server, 'POST', '/outbound-emails', document('outbound-emails', mail))
  }

  /** A mail's status and what its recipient's owner is told. */
  async show(server: Serving, id: string): Promise<{ status: string; response: string | null }> {
    const { body } = await this.api(server, 'GET', `/outbound-emails/${id}?fields[outbound-emails]=status,recipients`)
    return { status: body.data.attributes.status, response: body.data.attributes.recipients[0].response }
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.kill()))
    await this.exchanger.close()
    await this.dns.close()
    // A disk of its own is unmounted by whoever mounted it.
    if (this.#options.folder === undefined) rmSync(this.folder, { recursive: true, force: true })
  }
}

/** A directory on a small separate disk, or undefined if none can be mounted. */
export function smallDisk(megabytes: number): { folder: string; close: () => void } | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'postrider-disk-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder], { stdio: 'ignore' })
  } catch {
    rmSync(folder, { recursive: true })
    return undefined
  }
  return {
    folder,
    close() {
      execFileSync('umount', ['-l', folder])
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
