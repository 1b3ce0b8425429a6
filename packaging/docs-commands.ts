// docs/commands.md, made from the command table: a section for each command, with usage, options and examples.
import type { Argument, Command, Help, Option } from 'commander'
import { createProgram } from '../src/cli/main.ts'
import { EXAMPLES } from '../src/cli/examples.ts'

const INTRO = `# Commands

<!-- Made from the help of the commands by "npm run docs". -->

Run commands as root on the server, or with \`podman exec\` or \`docker exec\` in a container. They work directly on the data directory, most of them
even while the server runs. The server applies the changes within a second. \`postrider help COMMAND\` prints the same text as this page.

- **Exit codes:** 0: success. 1: an error, with its reason and a fix on stderr. 2: wrong usage. 75: a temporary error, try again. \`verify --quick\` exits with 3 if the database is corrupt.
- **JSON:** with \`--json\`, a command prints a single JSON document. An error is \`{"error": {"message", "code"}}\`.
- **Confirmation:** commands that have the option \`--yes\` ask first. \`--yes\` skips the prompt. They do not ask without a terminal or with \`--json\`.
- **Configuration:** Postrider reads \`--config\`, else \`$POSTRIDER_CONFIG\`, \`/etc/postrider/postrider.toml\` or \`./postrider.toml\`.
  [Configuration](configuration.md) lists all settings. \`--instance NAME\` selects \`/etc/postrider/NAME.toml\`, one of
  [several instances](operate.md#several-instances-on-one-machine) on the machine.
- **Permissions:** a command that root runs switches to the owner of the data directory. Backups, exports and other files
  that you name must be accessible to that user. If they are not, use \`-\` and redirect standard input or output.
- **Data directory:** only \`init\`, \`serve\`, \`dev\` and \`restore\` create one. Other commands fail if it does not exist.
`

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('<', '&lt;')
const code = (text: string): string => `\`${text.replaceAll('|', '\\|')}\``

/** The default of an option for a table. Empty without one. */
function defaultOf({ defaultValue }: Option): string {
  return defaultValue === undefined || defaultValue === false ? '' : code(String(defaultValue))
}

const choicesOf = ({ argChoices }: Option | Argument): string =>
  argChoices === undefined ? '' : ` (${argChoices.map(code).join(', ')})`

/** "postrider user add [options] <email>", without the placeholder if the command has no options. */
function usageOf(command: Command, help: Help): string {
  const usage = help.commandUsage(command)
  return optionsOf(command, help).length === 0 ? usage.replace(' [options]', '') : usage
}

const optionsOf = (command: Command, help: Help): Option[] =>
  help.visibleOptions(command).filter(({ long }) => long !== '--help')

function tableOf(command: Command, help: Help): string {
  const rows = [
    ...command.registeredArguments
      .filter(({ description }) => description !== '')
      .map((each) => `| ${code(each.name())} | ${cell(each.description)}${choicesOf(each)} | |`),
    ...optionsOf(command, help).map(
      (each) =>
        `| ${code(each.flags)} | ${cell(each.description)}${choicesOf(each)} | ${each.mandatory ? 'required' : defaultOf(each)} |`,
    ),
  ].map((row) => row.replace(/ {2}\|$/, ' |'))
  return rows.length === 0 ? '' : `\n| option | description | default |\n|---|---|---|\n${rows.join('\n')}\n`
}

function examplesOf(path: string): string {
  const lines = EXAMPLES[path] ?? []
  return lines.length === 0 ? '' : `\n\`\`\`text\n${lines.join('\n')}\n\`\`\`\n`
}

const capitalised = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`

function sections(command: Command, path: string, help: Help, level: string): string {
  const runs = command.commands.length === 0 || command.registeredArguments.length > 0
  const own = `\n${level} ${path}\n\n${capitalised(command.description())}\n${
    runs ? `\nUsage: ${code(usageOf(command, help))}\n${tableOf(command, help)}${examplesOf(path)}` : ''
  }`
  return own + command.commands.map((each) => sections(each, `${path} ${each.name()}`, help, '###')).join('')
}

/** The text of docs/commands.md. */
export function commandsPage(): string {
  const program = createProgram({})
  const help = program.createHelp()
  const list = program.commands.map(
    (command) => `| [${command.name()}](#${command.name()}) | ${cell(command.description())} |`,
  )
  return `${INTRO}
| command | description |
|---|---|
${list.join('\n')}

## Global options
${tableOf(program, help)}${program.commands.map((command) => sections(command, command.name(), help, '##')).join('')}`
}
