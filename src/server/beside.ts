// Runs this program once more, beside the server, with low priority: the server's own work goes first (B5).
import { spawn } from 'node:child_process'
import { setPriority } from 'node:os'
import type { Beside } from '../archive/schedule.ts'
import { codeOf } from '../base/errors.ts'
import { itself, type OwnProgram } from '../base/installed.ts'
import { singleExecutable } from '../base/threads/pool.ts'
import { idleInput } from '../base/native.ts'

const NICE = 10
/** Of what it says on stderr so much is kept, from the end. */
const MOST_SAID = 16 * 1024
/** What a process manager tells the server alone. */
const NOT_PASSED_ON = [
  'NOTIFY_SOCKET',
  'WATCHDOG_USEC',
  'WATCHDOG_PID',
  'LISTEN_FDS',
  'LISTEN_PID',
  'LISTEN_FDNAMES',
  'JOURNAL_STREAM',
]

/** Its buffers come from one area of malloc (B5). */
const SPARING = { MALLOC_ARENA_MAX: '1' }

/** `configFile`: the configuration that the server was started with. */
export const besideServer =
  (configFile: string | undefined, { first, program }: OwnProgram = itself()): Beside =>
  (words) => {
    const config = configFile === undefined ? [] : ['--config', configFile]
    const passed = Object.entries(process.env).filter(([name]) => !NOT_PASSED_ON.includes(name))
    const env = { ...Object.fromEntries(passed), ...SPARING }
    const child = spawn(program, [...first, ...config, ...words], { env, stdio: ['ignore', 'ignore', 'pipe'] })
    lower(child.pid)
    let said = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-MOST_SAID)))
    return {
      pid: child.pid,
      ended: new Promise((resolve) => {
        child.on('error', (thrown) =>
          resolve({
            how: 1,
            said: `postrider: ${program} cannot be started (${codeOf(thrown)}); see that it is there.`,
          }),
        )
        child.on('close', (code, signal) => resolve({ how: code ?? signal ?? 1, said }))
      }),
      end: () => void child.kill('SIGTERM'),
    }
  }

/** Before the process makes its threads, which take over what it has. */
function lower(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    setPriority(pid, NICE)
  } catch {
    // It has ended already, or the system does not allow it: then it runs as any other.
  }
  if (singleExecutable()) idleInput(pid)
}
