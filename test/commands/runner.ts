// Runs command lines one after the other in one process, as requested by test/commands/runners.ts over the channel. A
// process for each would cost half a second. The output of a command is collected and returned with its exit code.
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

/** The environment of this process. A command may get additional variables. */
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
