// Answers `postrider health` before the rest of the program is evaluated, and ends the process: in the executable a
// module that waits here holds up all that come after it, and this one comes first. So a health check costs a third of
// another command. The command table handles every other command line.
import { standardTerminal } from '../views/command/terminal.ts'
import { askHealth, askServing, healthUrl, tellHealth, tellServing } from './ask-health.ts'

const named = { configFile: undefined, environment: process.env }

function asked([command, ...rest]: readonly string[]): { json: boolean; url?: URL } | undefined {
  if (command !== 'health') return undefined
  const json = rest.at(-1) === '--json'
  const [option, base, ...more] = json ? rest.slice(0, -1) : rest
  if (option === '--serving' && base === undefined) return { json }
  if (more.length > 0 || (option !== undefined && (option !== '--url' || base === undefined))) return undefined
  const url = healthUrl(base, named)
  return url && { json, url }
}

// The first process of a container loses a signal that it does not handle, and SIGHUP ends any other process. From here
// on, `serve` or `standby` handles it once it is loaded (serve.ts).
if (process.argv[2] === 'serve' || process.argv[2] === 'standby')
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR2']) process.on(signal, () => {})

const question = asked(process.argv.slice(2))
if (question) {
  const terminal = standardTerminal(question.json)
  process.exit(
    question.url ? tellHealth(terminal, await askHealth(question.url)) : tellServing(terminal, await askServing(named)),
  )
}
