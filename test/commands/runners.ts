// Processes in which `Commands` run command lines (runner.ts). Starting one costs as much as many commands, so an idle
// one is kept for the next command of any test file. They end with the process that started them, and do not keep it
// alive.
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { LIMIT } from '../kit/until.ts'
import type { Asked, Ran } from './runner.ts'

const RUNNER = fileURLToPath(new URL('./runner.ts', import.meta.url))

const idle: ChildProcess[] = []

function start(env: Record<string, string>): ChildProcess {
  const child = fork(RUNNER, { cwd: tmpdir(), env, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  child.once('exit', () => {
    const at = idle.indexOf(child)
    if (at >= 0) idle.splice(at, 1)
  })
  return child
}

/** Whether the process of the test waits for the child. */
function keep(child: ChildProcess, keeps: boolean): void {
  child[keeps ? 'ref' : 'unref']()
  child.channel?.[keeps ? 'ref' : 'unref']()
}

/** Runs one command line. Throws if it ends its process. It is killed after minutes, or when the signal aborts. */
export async function runApart(asked: Asked, env: Record<string, string>, stop: AbortSignal): Promise<Ran> {
  const child = idle.pop() ?? start(env)
  keep(child, true)
  const kill = (): void => void child.kill('SIGKILL')
  const limit = setTimeout(kill, LIMIT)
  stop.addEventListener('abort', kill)
  const ending = new AbortController()
  try {
    child.send(asked)
    const answer = once(child, 'message', ending).then(([ran]) => ran as Ran)
    const exit = once(child, 'exit', ending).then(() => {
      throw new Error(`"${asked.argv.join(' ')}" ended its process or did not end within minutes`)
    })
    const ran = await Promise.race([answer, exit])
    keep(child, false)
    idle.push(child)
    return ran
  } finally {
    clearTimeout(limit)
    stop.removeEventListener('abort', kill)
    ending.abort()
  }
}
