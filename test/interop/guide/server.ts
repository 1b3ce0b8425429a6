// A machine with Postrider on it: its service, its queue, its API.

import assert from 'node:assert/strict'
import type { Answer } from '../rig/postrider.ts'
import { until } from '../rig/sandbox.ts'
import { Machine } from './machine.ts'
import { BRIDGE, GATEWAY, NAMESERVER, SERVER, withPrefix } from './network.ts'

const API = 'http://127.0.0.1:8025'
const TIMEOUT = 60_000

export class Server {
  readonly machine: Machine
  /** An API token, once one was made. */
  token = ''

  constructor(machine: Machine) {
    this.machine = machine
  }

  /** Boots a machine with the address of the server. Only one can have it at a time. */
  static async boot(root: string, name: string): Promise<Server> {
    const network = { bridge: BRIDGE, address: withPrefix(SERVER), gateway: GATEWAY, nameserver: NAMESERVER }
    return new Server(await Machine.boot(root, name, network))
  }

  /** A postrider command that must succeed: the document it prints. */
  // oxlint-disable-next-line typescript/no-explicit-any
  async json(command: string): Promise<any> {
    return JSON.parse(await this.machine.must(`postrider --json ${command}`))
  }

  async makeToken(user: string): Promise<void> {
    const options = `--user ${user} --name guide --scopes all --duration 1_month`
    this.token = ((await this.json(`token create ${options}`)) as { token: string }).token
  }

  /** The value of a property of the unit. */
  async property(name: string): Promise<string> {
    return (await this.machine.must(`systemctl show --property ${name} --value postrider`)).trim()
  }

  /** The number of the server's process; 0 while it does not run. */
  async pid(): Promise<number> {
    return Number(await this.property('MainPID'))
  }

  /** Until the service of this process, or of a later one than `than`, says that it is ready. */
  async ready(than = 0): Promise<void> {
    const healthy = async () => {
      const pid = await this.pid()
      return pid !== 0 && pid !== than && (await this.get('/health')).status === 200
    }
    await until(healthy, TIMEOUT, () => 'the service does not become ready').catch(async (error: unknown) => {
      throw new Error(`the service does not become ready:\n${await this.journal('--lines 20')}`, { cause: error })
    })
  }

  async get(path: string): Promise<Answer> {
    return await this.#ask(['--request', 'GET', `${API}${path}`], '')
  }

  /** A request on the machine's loopback; `path` is below /api/v1. */
  async api(method: string, path: string, body?: unknown): Promise<Answer> {
    const sent = body === undefined ? '' : JSON.stringify(body)
    const type = body === undefined ? [] : ['--header', 'Content-Type: application/vnd.api+json', '--data-binary', '@-']
    const options = ['--request', method, '--header', `Authorization: Bearer ${this.token}`, ...type]
    return await this.#ask([...options, `${API}/api/v1${path}`], sent)
  }

  async #ask(options: string[], input: string): Promise<Answer> {
    const form = ['--silent', '--max-time', '30', '--write-out', '\n%{http_code}']
    const { stdout } = await this.machine.beside('curl', [...form, ...options], input)
    const cut = stdout.lastIndexOf('\n')
    const text = stdout.slice(0, cut)
    return { status: Number(stdout.slice(cut + 1)), body: /^[[{]/.test(text) ? JSON.parse(text) : undefined }
  }

  /** Makes a resource; its id. */
  async make(path: string, data: Record<string, unknown>, expected = 201): Promise<string> {
    const { body, status } = await this.api('POST', path, { data })
    assert.equal(status, expected, JSON.stringify(body))
    return body.data?.id
  }

  async post(to: string, subject: string): Promise<string> {
    const attributes = { from: 'hello@example.org', to, subject, html: '<p>Hello.</p>' }
    return await this.make('/outbound-emails', { type: 'outbound-emails', attributes })
  }

  /** Addresses that mail waits for, one for each recipient. */
  async queued(): Promise<string[]> {
    const mails = (await this.json('queue list')) as { recipients: { address: string }[] }[]
    return mails.flatMap(({ recipients }) => recipients.map(({ address }) => address))
  }

  /** Tries everything again until the queue is empty. */
  async emptied(): Promise<void> {
    const empty = async () => {
      if ((await this.queued()).length === 0) return true
      await this.json('queue retry --all')
      return false
    }
    await until(empty, TIMEOUT, () => 'the queue does not become empty').catch(async (error: unknown) => {
      const waiting = JSON.stringify(await this.json('queue list'), null, 1)
      throw new Error(`the queue does not become empty: ${waiting}\n${await this.journal('--lines 20')}`, {
        cause: error,
      })
    })
  }

  /** What the service has written to the journal. */
  journal(...options: string[]): Promise<string> {
    return this.machine.must(`journalctl --no-pager --quiet --unit postrider --output cat ${options.join(' ')}`)
  }

  /** What of it an operator sees who looks for errors alone. */
  errors(): Promise<string> {
    return this.journal('_SYSTEMD_UNIT=postrider.service', '--priority err')
  }
}
