// The test server as a separate process whose parent turns its clock: for tests that kill a server on each of many
// days. The end of this file is the code of that process.
import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { parseConfig, type ConfigInput } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import { createApp } from '../../src/http/server.ts'
import { createResolver } from '../../src/net/resolver.ts'
import { startAppliance } from '../../src/server/appliance.ts'
import { raw } from '../../src/store/query.ts'
import { everyHourBy, JSON_API, type Answer } from './appliance.ts'
import { ManualClock } from './clock.ts'

export interface TurnedOptions {
  /** A data directory that an appliance of this process has set up and left. */
  config: ConfigInput
  now: number
  /** Of the user whose requests they are. */
  token: string
  /** The port of the DNS, which stays in this process. */
  dns: number
}

type Question =
  | { api: [method: string, path: string, body?: unknown] }
  | { rows: string; values: (string | number)[] }
  | { advance: number }
  | { leap: number }

export interface TurnedServer {
  api(method: string, path: string, body?: unknown): Promise<Pick<Answer, 'status' | 'body'>>
  rows<T>(sql: string, ...values: (string | number)[]): Promise<T[]>
  /** Turns the clock, and returns its time. */
  advance(milliseconds: number): Promise<number>
  leap(milliseconds: number): Promise<number>
  /** kill -9. Resolves when the process has ended. */
  kill(): Promise<void>
}

export async function startTurnedServer(options: TurnedOptions): Promise<TurnedServer> {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(options)], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const waiting = new Map<number, { done: (answer: never) => void; failed: (why: Error) => void }>()
  let asked = 0
  await new Promise<void>((resolve, reject) => {
    child.on('message', (told: 'ready' | { to: number; answer?: unknown; failed?: string }) => {
      if (told === 'ready') return resolve()
      const { done, failed } = waiting.get(told.to)!
      waiting.delete(told.to)
      if (told.failed === undefined) done(told.answer as never)
      else failed(new Error(told.failed))
    })
    void ended.then(() => {
      reject(new Error('the server ended before it was ready'))
      for (const { failed } of waiting.values()) failed(new Error('the server has ended'))
    })
  })
  return asking(child, ended, (question) => {
    const to = ++asked
    return new Promise((done, failed) => {
      waiting.set(to, { done, failed })
      child.send({ to, question })
    })
  })
}

const asking = (
  child: ChildProcess,
  ended: Promise<void>,
  ask: <T>(question: Question) => Promise<T>,
): TurnedServer => ({
  api: (...request) => ask({ api: request }),
  rows: (sql, ...values) => ask({ rows: sql, values }),
  advance: (advance) => ask({ advance }),
  leap: (leap) => ask({ leap }),
  async kill() {
    child.kill('SIGKILL')
    await ended
  },
})

async function serve({ config, dns, now, token }: TurnedOptions): Promise<void> {
  const clock = new ManualClock(now)
  const { deps } = await startAppliance({
    config: parseConfig(config),
    clock,
    log: silentLog,
    resolver: createResolver({ servers: [{ host: '127.0.0.1', port: dns }], timeout: 60_000, tries: 3 }),
    everyHour: everyHourBy(clock),
  })
  const app = createApp(deps)
  const ask = async (method: string, path: string, body?: unknown): Promise<Pick<Answer, 'status' | 'body'>> => {
    const response = await app.request(`/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': JSON_API },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: await response.json() }
  }
  const answerTo = async (question: Question): Promise<unknown> => {
    if ('rows' in question) return deps.store.all(raw(question.rows, question.values))
    if ('advance' in question) clock.advance(question.advance)
    else if ('leap' in question) clock.leap(question.leap)
    else return ask(...question.api)
    return clock.now()
  }
  process.on('message', ({ question, to }: { to: number; question: Question }) => {
    void answerTo(question).then(
      (answer) => process.send!({ to, answer }),
      (thrown: unknown) => process.send!({ to, failed: String(thrown) }),
    )
  })
  process.on('disconnect', () => process.exit())
  process.send!('ready')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await serve(JSON.parse(process.argv[2]!) as TurnedOptions)
