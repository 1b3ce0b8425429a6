// The sandbox of the executable, for tests of its console: its addresses, and its API by a token.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { until } from '../../kit/until.ts'
import { absent } from './browser.ts'

const BUILT = join(import.meta.dirname, '../../../dist/postrider')
const MEDIA = 'application/vnd.api+json'

/** The missing ones of the executable, Chromium and its driver. */
export const missing = [...absent, ...(existsSync(BUILT) ? [] : [BUILT])]

/** The output of the sandbox after its start. */
interface Shown {
  url: string
  api: string
  token: string
  console: string
  receiver: string
  user: string
}

export type BuiltConsole = Awaited<ReturnType<typeof startBuiltConsole>>

export async function startBuiltConsole() {
  const data = mkdtempSync(join(tmpdir(), 'postrider-console-'))
  const server = spawn(BUILT, ['--json', 'dev', '--data', data, '--http', 'localhost:0', '--smtp', '127.0.0.1:0'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const shown = await new Promise<Shown>((resolve, reject) => {
    let said = ''
    server.once('exit', () => reject(new Error(`the sandbox ended: ${said}`)))
    server.stdout.on('data', (chunk: Buffer) => {
      said += chunk.toString()
      if (said.trimEnd().endsWith('}')) resolve(JSON.parse(said) as Shown)
    })
  })

  /** The data of the answer. A `type` is what is written: its attributes, and what else belongs to it. */
  async function api(
    method: string,
    path: string,
    type?: string,
    attributes: object = {},
    more: object = {},
    // oxlint-disable-next-line typescript/no-explicit-any
  ): Promise<any> {
    const response = await fetch(shown.api + path, {
      method,
      headers: { authorization: `Bearer ${shown.token}`, ...(type === undefined ? {} : { 'content-type': MEDIA }) },
      ...(type === undefined ? {} : { body: JSON.stringify({ data: { type, attributes, ...more } }) }),
    })
    const body = (response.status === 204 ? {} : await response.json()) as { data?: unknown }
    // The server's limit of requests is waited out.
    if (response.status === 429) {
      await new Promise((resolve) => setTimeout(resolve, 1000 * Number(response.headers.get('retry-after') ?? 1)))
      return api(method, path, type, attributes, more)
    }
    assert.ok(response.ok, `${method} ${path}: ${JSON.stringify(body)}`)
    return body.data
  }

  /** The text of the newest message to an address of the sandbox with this subject, when it has arrived. */
  async function received(to: string, subject: RegExp): Promise<string> {
    const { id } = await until(async () => {
      const all: { id: string; attributes: { recipients: string[]; subject: string } }[] = await api(
        'GET',
        '/inbound-emails?sort=-created_at',
      )
      return all.find(({ attributes }) => attributes.recipients.includes(to) && subject.test(attributes.subject))
    }, `a message to ${to}`)
    return (await api('GET', `/inbound-emails/${id}`)).attributes.text
  }

  return {
    ...shown,
    data,
    api,
    received,
    /** Deletes the audience that the sandbox has, so that nobody must choose between two. */
    async withoutAudience(): Promise<void> {
      const [own] = await api('GET', '/audiences')
      await api('DELETE', `/audiences/${own.id}`)
    },
    /** A command next to the sandbox. */
    command: (...given: readonly string[]) =>
      promisify(execFile)(BUILT, given, { env: { ...process.env, POSTRIDER_DATA_DIR: data } }),
    async stop(): Promise<void> {
      const ended = new Promise((resolve) => server.once('exit', resolve))
      if (server.kill('SIGTERM')) await ended
      rmSync(data, { recursive: true, force: true })
    },
  }
}
