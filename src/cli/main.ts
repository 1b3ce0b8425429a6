// The command table. `main` runs one command and returns the exit code: 0 for success, 1 for an error with a sentence
// on stderr that names the fix, 2 for a wrong command line, 75 for a temporary failure.
import { Command, CommanderError } from 'commander'
import { findConfig, instanceConfig, instanceOf } from '../base/config-file.ts'
import { isRefused, messageOf, OperatorError, Refusal, TryAgain } from '../base/errors.ts'
import { belongTo } from '../base/named-instance.ts'
import { explainedFile } from '../store/open.ts'
import { isRole } from '../jsonapi/roles.ts'
import { version } from '../base/version.ts'
import { adoptCommand } from './adopt.ts'
import { backupCommands } from '../archive/command-backup.ts'
import { completionCommand } from './completion.ts'
import { devCommand } from './dev.ts'
import { doctorCommand } from './doctor.ts'
import { addExamples } from './examples.ts'
import { healthCommand } from './ask-health.ts'
import { initCommand } from './init.ts'
import type { Invocation } from '../views/command/open.ts'
import { noticesCommand } from '../users/command-notice.ts'
import { openapiCommand } from './openapi.ts'
import { pairCommands } from './pair.ts'
import { sendCommand } from './send.ts'
import { serveCommand } from './serve.ts'
import { forTerminal } from '../base/clean-text.ts'
import { answerError, complain, standardTerminal, type Spoken, type Terminal } from '../views/command/terminal.ts'
import { auditCommand } from '../users/command-audit.ts'
import { subscriptionCommand } from '../users/command-subscription.ts'
import { refuseAbove, refuseEmpty } from '../views/command/unused-options.ts'
import { settleDowngrades } from '../domains/downgrades.ts'
import { oauthCommand, grantCommand } from '../users/oauth/command.ts'
import { tokenCommand } from '../users/command-token.ts'
import { usageCommand } from './usage.ts'
import { versionCommand } from './version.ts'
import { upgradeCommand } from '../archive/command-upgrade.ts'
import { verifyCommand } from '../archive/command-verify.ts'
import { PARTS } from '../server/parts.ts'
import { userCommand } from '../users/command-user.ts'

const COMMANDS: readonly ((program: Command, invocation: () => Invocation) => void)[] = [
  serveCommand,
  devCommand,
  initCommand,
  adoptCommand,
  pairCommands,
  (program, invocation) => userCommand(program, invocation, () => import('../server/link-mail.ts')),
  auditCommand,
  (program, invocation) => subscriptionCommand(program, invocation, settleDowngrades),
  tokenCommand,
  grantCommand,
  oauthCommand,
  ...PARTS.flatMap(({ commands }) => commands),
  doctorCommand,
  sendCommand,
  noticesCommand,
  backupCommands,
  verifyCommand,
  upgradeCommand,
  usageCommand,
  healthCommand,
  versionCommand,
  openapiCommand,
  completionCommand,
]

interface ProgramOptions {
  config?: string
  instance?: string
  json?: true
  verbose?: true
}

/** The program with all its commands. `invocation` is called when a command runs. */
export function createProgram(environment: Invocation['environment'], spoken: Spoken = { begun: false }): Command {
  const { err, out } = standardTerminal(false, spoken)
  const program = new Command('postrider')
    .configureOutput({
      writeOut: out,
      writeErr: err,
      // The library has the prefix in its own texts only.
      outputError: (text, write) => write(text.startsWith('error: ') ? text : `error: ${text}`),
    })
    .description('Postrider, a self-hosted email server. Most commands also work while the server runs.')
    .version(version, '-V, --version', 'version number')
    .helpOption('-h, --help', 'this help')
    .option('--config <file>', 'configuration file (default: /etc/postrider/postrider.toml)')
    .option('--instance <name>', 'instance of several on this machine: /etc/postrider/NAME.toml')
    .option('--verbose', 'paths of the configuration file and data directory, on stderr')
    .option('--json', 'output as a single JSON document')
    .showHelpAfterError('(run "postrider help" to list the commands)')
    .exitOverride()
  let typed: Invocation['typed']
  const invocation = (): Invocation => {
    const { config, instance, json, verbose } = program.opts<ProgramOptions>()
    if (config !== undefined && instance !== undefined)
      throw new OperatorError('--config and --instance both select a configuration; remove one of the two.')
    const configFile = instance === undefined ? config : instanceConfig(instance)
    belongTo(instanceOf(findConfig({ configFile, environment })))
    return {
      verbose: verbose === true,
      configFile,
      environment,
      typed,
      terminal: standardTerminal(json === true, spoken),
    }
  }
  for (const add of COMMANDS) add(program, invocation)
  program.hook('preAction', (_, action) => {
    refuseAbove(program, action)
    refuseEmpty(program)
    refuseEmpty(action)
    typed = typedOf(program, action)
  })
  helpCommand(program)
  addExamples(program)
  return program
}

/** A command as it was typed, for the audit log. */
function typedOf(program: Command, action: Command): Invocation['typed'] {
  const names: string[] = []
  for (let each: Command | null = action; each && each !== program; each = each.parent) names.unshift(each.name())
  const {
    account,
    role = action.args[1] ?? '',
    user,
  } = action.opts<Partial<Record<'account' | 'role' | 'user', string>>>()
  return {
    name: names.join(' '),
    subject: action.args[0],
    user: account ?? user,
    role: isRole(role) ? role : undefined,
  }
}

/** Replaces the library's help command, which accepts only one word. */
function helpCommand(program: Command): void {
  program.helpCommand(false)
  program
    .command('help [command...]')
    .description('show the help of a command, such as "help user add"')
    .action((path: string[]) => {
      let command = program
      for (const name of path)
        command =
          command.commands.find((each) => each.name() === name) ??
          program.error(`error: unknown command '${path.join(' ')}'`, { exitCode: 2 })
      command.outputHelp()
    })
}

export async function main(argv: readonly string[]): Promise<number> {
  // Files that commands write are readable only by this user by default.
  process.umask(0o077)
  // When the reader of the output closes it (| head), the program ends without a stack trace.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // The reader has read enough.
    if (error.code === 'EPIPE') process.exit(0)
    complain(
      standardTerminal(false),
      `The output cannot be written (${error.code}); check that its disk has free space.`,
    )
    process.exit(1)
  })
  const spoken: Spoken = { begun: false }
  const program = createProgram(process.env, spoken)
  for (const command of [program, ...program.commands.flatMap((each) => [each, ...each.commands])])
    command.exitOverride()
  try {
    await program.parseAsync(argv)
    return Number(process.exitCode ?? 0)
  } catch (thrown) {
    // Once a document has begun on stdout, a second one would make both unreadable.
    return failed(thrown, standardTerminal(argv.includes('--json') && !spoken.begun))
  }
}

/** EX_TEMPFAIL of sysexits.h. */
const TRY_AGAIN = 75

/** Reports an error: a sentence on stderr, with --json also a document on stdout. Returns the exit code. */
function failed(thrown: unknown, terminal: Terminal): number {
  if (thrown instanceof CommanderError) {
    if (thrown.exitCode === 0) return 0
    // commander has printed it already.
    const usageError = thrown.code === 'commander.help' ? 'No command given.' : thrown.message.replace(/^error: /, '')
    answerError(terminal, usageError, 'usage')
    return 2
  }
  const why = explainedFile(thrown)
  const expected = isRefused(why)
  const message = messageOf(why)
  const text = expected ? forTerminal(message) : ((thrown instanceof Error ? thrown.stack : undefined) ?? message)
  complain(terminal, text)
  const code = why instanceof Refusal ? why.code : expected ? 'refused' : 'internal'
  answerError(terminal, message, code)
  return why instanceof TryAgain ? TRY_AGAIN : 1
}
