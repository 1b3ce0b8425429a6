// Runs this executable again, next to the server and with low priority, so that the server's own work comes first.
import { spawn, type ChildProcess } from 'node:child_process'
import { setPriority } from 'node:os'
import type { Beside } from '../archive/schedule.ts'
import { codeOf } from '../base/errors.ts'
import { itself, type OwnProgram } from '../base/installed.ts'

const NICE = 10
/** Characters of stderr that are kept, from its end. */
const MAX_STDERR = 16 * 1024
/** Variables of systemd that are meant for the server only. */
const NOT_PASSED_ON = ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID', 'JOURNAL_STREAM']

/** One malloc arena for all threads, which uses less memory. */
const SPARING = { MALLOC_ARENA_MAX: '1' }

/** `configFile`: the configuration that the server was started with. */
export const besideServer =
  (configFile: string | undefined, { first, program }: OwnProgram = itself()): Beside =>
  (words) => {
    const config = configFile === undefined ? [] : ['--config', configFile]
    const passed = Object.entries(process.env).filter(([name]) => !NOT_PASSED_ON.includes(name))
    const env = { ...Object.fromEntries(passed), ...SPARING }
    const child = spawn(program, [...first, ...config, ...words], { env, stdio: ['ignore', 'ignore', 'pipe'] })
    lower(child)
    let said = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-MAX_STDERR)))
    return {
      pid: child.pid,
      ended: new Promise((resolve) => {
        child.on('error', (thrown) =>
          resolve({
            how: 1,
            said: `postrider: ${program} cannot be started (${codeOf(thrown)}); check that it exists.`,
          }),
        )
        child.on('close', (code, signal) => resolve({ how: code ?? signal ?? 1, said }))
      }),
      end: () => void child.kill('SIGTERM'),
    }
  }

/** Lowers the priority before the process starts its threads, which inherit it. */
function lower({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) setPriority(pid, NICE)
  } catch {
    // The process has ended, or the system call is not permitted.
  }
}
