// Runs command lines one after the other in one process, as test/commands/runners.ts asks over the channel: a process
// of its own for each would cost half a second. What a command prints is kept apart and sent back with its exit code.
import { main } from '../../src/cli/main.ts'

export interface Asked {
  argv: string[]
  env: Record<string, string>
  cwd: string
}

export interface Ran {
  code: number
  stdout: string
  stderr: string
}

/** What this process got of the environment; a command may have been given more. */
const BARE = { ...process.env }

let ran: Ran = { code: 0, stdout: '', stderr: '' }
process.stdout.write = (chunk: string | Uint8Array, ...more: unknown[]) => {
  ran.stdout += chunk.toString()
  const written = more.at(-1)
  if (typeof written === 'function') written()
  return true
}
process.stderr.write = (chunk: string | Uint8Array) => {
  ran.stderr += chunk.toString()
  return true
}

async function run({ argv, cwd, env }: Asked): Promise<void> {
  ran = { code: 0, stdout: '', stderr: '' }
  for (const name of Object.keys(process.env)) if (!(name in BARE)) delete process.env[name]
  Object.assign(process.env, BARE, env)
  process.chdir(cwd)
  process.exitCode = undefined
  const code = await main([process.execPath, 'postrider', ...argv])
  for (const stream of [process.stdout, process.stderr]) stream.removeAllListeners('error')
  process.exitCode = undefined
  process.send!({ ...ran, code } satisfies Ran)
}

process.on('message', (asked: Asked) => void run(asked))
process.on('disconnect', () => process.exit())
