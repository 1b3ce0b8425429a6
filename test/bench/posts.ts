// Posts from a generator in C: wrk, where it is installed, with the script posts.lua. It has no code of ours, so that
// no figure comes from our own generator alone; both take 0.04 to 0.05 ms of CPU a mail. Where there is no wrk, `post`
// posts.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installed, post, requestOf, type Posted, type Posting } from './rig.ts'
import { driverCpuMs } from './usage.ts'

const WRK = 'wrk'
const SCRIPT = fileURLToPath(new URL('posts.lua', import.meta.url))
/** Stands for the number of a mail in the request; those of the mails are as long, so that Content-Length holds. */
const MARK = 4_242_000_000
/** Until wrk would end by itself (s). */
const LONGEST = 200

/** What a generator did and took. */
export interface Driven extends Posted {
  /** By `performance.now()`. */
  startedAt: number
  generator: string
  generatorCpuMs: number
}

/** Posts as `post` does, but the mails have other numbers: `body` prints its index, and does nothing else with it. */
export const posts = (posting: Posting): Promise<Driven> =>
  installed(WRK) ? driven(WRK, () => byWrk(posting)) : driven('node', () => post(posting))

/** Runs a generator, and says what it took itself. It is the only work of this process meanwhile. */
export async function driven(generator: string, run: () => Promise<Posted & { startedAt?: number }>): Promise<Driven> {
  const cpuMs = driverCpuMs()
  const posted = await run()
  return {
    startedAt: performance.now() - posted.wallMs,
    ...posted,
    generator,
    generatorCpuMs: driverCpuMs() - cpuMs,
  }
}

async function byWrk({
  port,
  token,
  count,
  posters,
  body,
  rate,
  tls,
}: Posting): Promise<Posted & { startedAt: number }> {
  const folder = mkdtempSync(join(process.env['TMPDIR'] ?? tmpdir(), 'postrider-posts-'))
  try {
    const request = join(folder, 'request')
    writeFileSync(request, requestOf(token, body(MARK)))
    const connections = ['-t', '1', '-c', `${Math.min(posters, count)}`, '-d', `${LONGEST}s`, '--timeout', '60s']
    const url = `${tls ? 'https' : 'http'}://127.0.0.1:${port}/`
    const child = spawn(WRK, [...connections, '-s', SCRIPT, url], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        ...process.env,
        POSTS_REQUEST: request,
        POSTS_MARK: `${MARK}`,
        POSTS_COUNT: `${count}`,
        ...(rate === undefined ? {} : { POSTS_RATE: `${rate}` }),
      },
    })
    let output = ''
    // Since the epoch of `performance.now()`; wrk tells its times by the same clock of the system.
    const epoch = performance.now() - Number(process.hrtime.bigint()) / 1e6
    let endedAt = 0
    child.stdout.on('data', (chunk: Buffer) => {
      endedAt ||= chunk.includes('"latencies"') ? performance.now() : 0
      output += chunk.toString('latin1')
    })
    await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve))
    const line = output.split('\n').find((each) => each.startsWith('{'))
    if (line === undefined) throw new Error(`wrk did not end in time: ${output}`)
    const { began, problem, latencies } = JSON.parse(line) as { began: number; problem: string; latencies: number[] }
    if (problem !== '') throw new Error(`wrk: ${problem}`)
    const startedAt = began + epoch
    return { latencies, startedAt, wallMs: endedAt - startedAt }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
