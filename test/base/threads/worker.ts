// A worker for tests of the pool, which does as its job demands.
import { readFileSync } from 'node:fs'
import { ask, askForAll, serveJobs } from '../../../src/base/threads/jobs.ts'

export type Deed =
  | { burn: number }
  | { ask: string }
  | { askAll: string[] }
  | 'stand'
  | { wonder: string }
  | { share: string }
  | { rest: number }
  | { read: string }
  | { throw: string; code?: string }
  | 'die'
  | 'hoard'
  | 'thread'

const rest = (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

async function perform(deeds: Deed[]): Promise<unknown> {
  let result: unknown
  for (const deed of deeds)
    if (deed === 'die') process.exit(1)
    else if (deed === 'hoard') for (const kept: string[] = []; ;) kept.push(`${kept.length}`.repeat(1000))
    else if (deed === 'thread') result = thread
    else if (deed === 'stand') await new Promise(() => {})
    else if ('burn' in deed) {
      const { system, user } = process.threadCpuUsage()
      for (let now = { user: 0, system: 0 }; now.user + now.system < user + system + deed.burn * 1000;)
        now = process.threadCpuUsage()
    } else if ('share' in deed) result = await (shared ??= askForAll(deed.share))
    else if ('wonder' in deed) void ask(deed.wonder)
    else if ('askAll' in deed) result = await Promise.all(deed.askAll.map((each) => ask(each)))
    else if ('ask' in deed) result = await ask(deed.ask)
    else if ('rest' in deed) rest(deed.rest)
    // With an encoding it is one call without interruption.
    else if ('read' in deed) readFileSync(deed.read, 'utf8')
    else throw Object.assign(new Error(deed.throw), deed.code === undefined ? {} : { code: deed.code, syscall: 'open' })
  return result
}

let shared: Promise<unknown> | undefined
const thread = Math.random()
serveJobs<Deed[], unknown>(perform, { lot: 1 })
