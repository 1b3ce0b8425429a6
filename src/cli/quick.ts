// Answers `postrider health` before the rest of the program is evaluated, and ends the process: in the executable a
// module that waits here holds up all that come after it, and this one comes first. So a health check costs a third of
// another command. What is not exactly that command line is left to the command table.
import { standardTerminal } from '../commands/terminal.ts'
import { askHealth, healthUrl, tellHealth } from './ask-health.ts'

function asked([command, ...rest]: readonly string[]): { json: boolean; url: URL } | undefined {
  if (command !== 'health') return undefined
  const json = rest.at(-1) === '--json'
  const [option, base, ...more] = json ? rest.slice(0, -1) : rest
  if (more.length > 0 || (option !== undefined && (option !== '--url' || base === undefined))) return undefined
  const url = healthUrl(base, { configFile: undefined, environment: process.env })
  return url && { json, url }
}

// A signal to the first process of a container is lost while nothing hears it, and SIGHUP ends any other. From here on
// `serve` hears it, once it has been loaded (serve.ts).
if (process.argv[2] === 'serve') for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => {})

const question = asked(process.argv.slice(2))
if (question) process.exit(tellHealth(standardTerminal(question.json), await askHealth(question.url)))
