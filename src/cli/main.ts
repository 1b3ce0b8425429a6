// The command table. `main` runs one command and returns the exit code: 0 for success, 1 for an error with a sentence
// on stderr that says what to do, 2 for a wrong command line.
import { Command, CommanderError } from 'commander'
import { isRefused, messageOf, Refusal } from '../base/errors.ts'
import { explainedFile } from '../store/open.ts'
import { version } from '../base/version.ts'
import { agentCommand } from '../reputation/command.ts'
import { evidenceCommand } from '../reputation/command-evidence.ts'
import { backupCommands } from '../archive/command.ts'
import { completionCommand } from './completion.ts'
import { contactsCommand, suppressionListCommands } from '../lists/command.ts'
import { devCommand } from './dev.ts'
import { doctorCommand } from '../checks/command.ts'
import { domainCommand } from '../domains/command.ts'
import { addExamples } from './examples.ts'
import { exportCommand } from '../privacy/command.ts'
import { inboxCommand } from '../inbound/command.ts'
import { healthCommand } from './health.ts'
import { initCommand } from './init.ts'
import type { Invocation } from '../commands/open.ts'
import { noticesCommand } from '../accounts/command-notice.ts'
import { openapiCommand } from './openapi.ts'
import { queueCommand } from '../delivery/command.ts'
import { domainReportCommands } from '../reports/command-domain.ts'
import { reportCommand } from '../reports/command-read.ts'
import { sourceCommand } from '../delivery/command-sources.ts'
import { sendCommand } from './send.ts'
import { serveCommand } from './serve.ts'
import { forTerminal } from '../base/clean-text.ts'
import { answerError, complain, standardTerminal, type Spoken, type Terminal } from '../commands/terminal.ts'
import { subscriptionCommand } from '../accounts/command-subscription.ts'
import { suppressionCommand } from '../suppressions/command.ts'
import { refuseAbove, refuseEmpty } from '../commands/unused-options.ts'
import { DOMAIN_FOLLOWERS } from '../server/domain-followers.ts'
import { settleDowngrades } from '../domains/downgrades.ts'
import { oauthCommand } from '../accounts/command-oauth.ts'
import { grantCommand } from '../accounts/command-grant.ts'
import { tokenCommand } from '../accounts/command-token.ts'
import { tryUpgrade } from './try-upgrade.ts'
import { usageCommand } from './usage.ts'
import { versionCommand } from './version.ts'
import { upgradeCommand } from '../archive/command-upgrade.ts'
import { mailCommand } from '../mail/command.ts'
import { verifyCommand } from '../archive/command-verify.ts'
import { whyCommand } from '../why/command.ts'
import { warmupCommand } from '../warmup/command.ts'
import { watchCommand } from '../watch/command.ts'
import { webhookCommand } from '../webhooks/command.ts'
import { userCommand } from '../accounts/command-user.ts'

const COMMANDS: readonly ((program: Command, invocation: () => Invocation) => void)[] = [
  serveCommand,
  devCommand,
  initCommand,
  (program, invocation) => userCommand(program, invocation, () => import('../http/invite.ts')),
  (program, invocation) => subscriptionCommand(program, invocation, settleDowngrades),
  tokenCommand,
  grantCommand,
  oauthCommand,
  (program, invocation) => domainCommand(program, invocation, DOMAIN_FOLLOWERS),
  domainReportCommands,
  inboxCommand,
  contactsCommand,
  queueCommand,
  sourceCommand,
  suppressionCommand,
  suppressionListCommands,
  agentCommand,
  warmupCommand,
  evidenceCommand,
  doctorCommand,
  reportCommand,
  watchCommand,
  sendCommand,
  webhookCommand,
  noticesCommand,
  exportCommand,
  backupCommands,
  verifyCommand,
  (program, invocation) => upgradeCommand(program, invocation, tryUpgrade),
  mailCommand,
  whyCommand,
  usageCommand,
  healthCommand,
  versionCommand,
  openapiCommand,
  completionCommand,
]

/** The program with all its commands. `invocation` is called when a command runs. */
export function createProgram(environment: Invocation['environment'], spoken: Spoken = { begun: false }): Command {
  const { err, out } = standardTerminal(false, spoken)
  const program = new Command('postrider')
    .configureOutput({ writeOut: out, writeErr: err })
    .description('A self-hosted email appliance in one process.')
    .version(version)
    .option(
      '--config <file>',
      'the configuration file (else $POSTRIDER_CONFIG, /etc/postrider/postrider.toml, ./postrider.toml)',
    )
    .option(
      '--verbose',
      'name the configuration and the data directory in use, on stderr; "why" also lists all that it looked at',
    )
    .option('--json', 'print one JSON document and nothing else')
    .showHelpAfterError('("postrider help" lists the commands)')
    .exitOverride()
  const invocation = (): Invocation => {
    const { config, json, verbose } = program.opts<{ config?: string; json?: true; verbose?: true }>()
    return {
      verbose: verbose === true,
      configFile: config,
      environment,
      terminal: standardTerminal(json === true, spoken),
    }
  }
  for (const add of COMMANDS) add(program, invocation)
  program.hook('preAction', (_, action) => {
    refuseAbove(program, action)
    refuseEmpty(program)
    refuseEmpty(action)
  })
  helpCommand(program)
  addExamples(program)
  return program
}

/** Replaces the library's help command, which accepts only one word. */
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
  // Files that commands write are readable only for this user, unless the code says otherwise.
  process.umask(0o077)
  // When the reader of the output closes it (| head), the program ends without a stack trace.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // Who read it has read enough.
    if (error.code === 'EPIPE') process.exit(0)
    complain(standardTerminal(false), `The output cannot be written (${error.code}); see that its disk has room.`)
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

/** Reports an error: a sentence on stderr, with --json also a document on stdout. Returns the exit code. */
function failed(thrown: unknown, terminal: Terminal): number {
  if (thrown instanceof CommanderError) {
    if (thrown.exitCode === 0) return 0
    // commander has printed it already.
    const said = thrown.code === 'commander.help' ? 'No command is named.' : thrown.message.replace(/^error: /, '')
    answerError(terminal, said, 'usage')
    return 2
  }
  const why = explainedFile(thrown)
  const expected = isRefused(why)
  const message = messageOf(why)
  const told = expected ? forTerminal(message) : ((thrown instanceof Error ? thrown.stack : undefined) ?? message)
  complain(terminal, told)
  const code = why instanceof Refusal ? why.code : expected ? 'refused' : 'internal'
  answerError(terminal, message, code)
  return 1
}
