// The command table. `main` runs one command and answers the exit code: 0 done, 1 a sentence on stderr says what to do, 2 the
// command line itself was wrong.
import { Command, CommanderError } from 'commander'
import { messageOf, OperatorError, Refusal } from '../base/errors.ts'
import { version } from '../base/version.ts'
import { agentCommand } from './agent.ts'
import { backupCommands } from './backup.ts'
import { completionCommand } from './completion.ts'
import { contactsCommand } from './contacts.ts'
import { devCommand } from './dev.ts'
import { doctorCommand } from './doctor.ts'
import { domainCommand } from './domain.ts'
import { exportCommand } from './export.ts'
import { inboxCommand } from './inbox.ts'
import { initCommand } from './init.ts'
import type { Invocation } from './open.ts'
import { noticesCommand } from './notice.ts'
import { openapiCommand } from './openapi.ts'
import { queueCommand } from './queue.ts'
import { sendCommand } from './send.ts'
import { serveCommand } from './serve.ts'
import { subscriptionCommand } from './subscription.ts'
import { suppressionCommand } from './suppression.ts'
import { grantCommand } from './grant.ts'
import { tokenCommand } from './token.ts'
import { webhookCommand } from './webhook.ts'
import { userCommand } from './user.ts'

const COMMANDS = [
  serveCommand,
  devCommand,
  initCommand,
  userCommand,
  subscriptionCommand,
  tokenCommand,
  grantCommand,
  domainCommand,
  inboxCommand,
  contactsCommand,
  queueCommand,
  suppressionCommand,
  agentCommand,
  doctorCommand,
  sendCommand,
  webhookCommand,
  noticesCommand,
  exportCommand,
  backupCommands,
  openapiCommand,
  completionCommand,
]

/** The program with all its commands. `invocation` is asked when a command runs. */
export function createProgram(environment: Invocation['environment']): Command {
  const program = new Command('postrider')
    .description('A self-hosted email appliance in one process.')
    .version(version)
    .option(
      '--config <file>',
      'the configuration file (else $POSTRIDER_CONFIG, ./postrider.toml, /etc/postrider/postrider.toml)',
    )
    .option('--json', 'print one JSON document and nothing else')
    .showHelpAfterError('("postrider help" lists the commands)')
    .exitOverride()
  const invocation = (): Invocation => {
    const { config, json } = program.opts<{ config?: string; json?: true }>()
    return {
      configFile: config,
      environment,
      terminal: {
        json: json === true,
        interactive: process.stdout.isTTY === true,
        out: (text) => void process.stdout.write(text),
        err: (text) => void process.stderr.write(text),
      },
    }
  }
  for (const add of COMMANDS) add(program, invocation)
  helpCommand(program)
  return program
}

/** The library's own knows only one word after "help". */
function helpCommand(program: Command): void {
  program.helpCommand(false)
  program
    .command('help [command...]')
    .description('show what a command takes, such as "help user add"')
    .action((path: string[]) => {
      let command = program
      for (const name of path)
        command =
          command.commands.find((each) => each.name() === name) ??
          program.error(`error: there is no command '${path.join(' ')}'`, { exitCode: 2 })
      command.outputHelp()
    })
}

export async function main(argv: readonly string[]): Promise<number> {
  // A reader that goes away (| head) ends the output, not in a stack trace.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))
  const program = createProgram(process.env)
  for (const command of [program, ...program.commands.flatMap((each) => [each, ...each.commands])])
    command.exitOverride()
  try {
    await program.parseAsync(argv)
    return Number(process.exitCode ?? 0)
  } catch (thrown) {
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : 2
    if (thrown instanceof OperatorError || thrown instanceof Refusal)
      process.stderr.write(`postrider: ${thrown.message}\n`)
    else
      process.stderr.write(
        `postrider: ${thrown instanceof Error ? (thrown.stack ?? thrown.message) : messageOf(thrown)}\n`,
      )
    return 1
  }
}
