// Posts with a generator in C: wrk, if it is installed, with the script posts.lua. It has no code of ours, so that no
// result depends on our own generator only. Both take 0.04 to 0.05 ms of CPU time per email. Without wrk, `post` is
// used.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installed, post, requestOf, type Posted, type Posting } from './rig.ts'
import { driverCpuMs } from './usage.ts'

const WRK = 'wrk'
const SCRIPT = fileURLToPath(new URL('posts.lua', import.meta.url))
/**
 * A placeholder for the number of an email in the request. The numbers are as long, so that Content-Length is right.
 */
const MARK = 4_242_000_000
/** The duration after which wrk would exit (s). */
const LONGEST = 200

/** The results and usage of a generator. */
export interface Driven extends Posted {
  /** By `performance.now()`. */
  startedAt: number
  generator: string
  generatorCpuMs: number
}

/** Posts like `post`, but with other numbers: `body` prints its index, and does not use it otherwise. */
export const posts = (posting: Posting): Promise<Driven> =>
  installed(WRK) ? driven(WRK, () => byWrk(posting)) : driven('node', () => post(posting))

/** Runs a generator, and returns its own usage too. This process does no other work in the meantime. */
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
    // Since the epoch of `performance.now()`. wrk uses the same clock of the system.
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
