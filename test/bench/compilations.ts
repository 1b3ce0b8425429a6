// Counts how often SQLite compiles a statement again while a server works (D132), by a probe of the kernel: `perf` must
// be installed, and the bench must run as root.
import { spawn, spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

const PROBE = 'postrider:compiled_again'
const ADDON = join(
  dirname(createRequire(import.meta.url).resolve('better-sqlite3/package.json')),
  'prebuilds',
  `linux-${process.arch}.node`,
)

const perf = (...args: string[]): boolean => spawnSync('perf', args, { stdio: 'ignore' }).status === 0

/** Runs `work` and returns how many statements a process compiled again. Undefined where that cannot be counted. */
export async function compiledAgain(pid: number, work: () => Promise<unknown>): Promise<number | undefined> {
  perf('probe', '-d', PROBE)
  if (!perf('probe', '-x', ADDON, `${PROBE}=sqlite3Reprepare`)) {
    await work()
    return undefined
  }
  const stat = spawn('perf', ['stat', '-x', ',', '-e', PROBE, '-p', String(pid)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let output = ''
  stat.stderr.setEncoding('utf8').on('data', (text: string) => (output += text))
  const ended = new Promise((resolve) => stat.once('close', resolve))
  try {
    await work()
    stat.kill('SIGINT')
    await ended
  } finally {
    stat.kill('SIGKILL')
    perf('probe', '-d', PROBE)
  }
  const [count] = /^\d+/m.exec(output) ?? []
  return count === undefined ? undefined : Number(count)
}
