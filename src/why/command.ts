// `postrider why …`: why a mail waits or was refused, and what is known of a domain or a receiver.
import type { Command } from 'commander'
import { OperatorError, Refusal } from '../base/errors.ts'
import { listDomains } from '../domains/find.ts'
import { theDomain } from '../domains/find-domain.ts'
import { requireUser } from '../identity/users.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer } from '../commands/terminal.ts'
import type { Reader } from '../store/database.ts'
import { explained } from './explain.ts'
import { told } from './told.ts'

interface WhyOptions {
  since?: string
  user?: string
}

export function whyCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('why <subject>')
    .description(
      'why a mail waits or was refused, or what is known of a domain or a receiver: each cause with its evidence',
    )
    .option('--since <time>', 'evidence since, such as 2026-11-01 or 2026-11-01T12:00:00Z (default: 28 days)')
    .option(
      '--user <email>',
      'whose domain, if several accounts have it; of a receiver: the mail of this account alone',
    )
    .action((subject: string, options: WhyOptions) =>
      withDeps(invocation(), async ({ clock, config, keyring, store }) => {
        const since = options.since === undefined ? undefined : Date.parse(options.since)
        if (Number.isNaN(since))
          throw new OperatorError(`"${options.since}" is not a time such as 2026-11-01T12:00:00Z.`)
        const account = accountOf(store, subject, options)
        const explanation = await found(() =>
          explained(
            { store, keyring, config },
            { name: subject, account, everywhere: account === undefined, operator: true, now: clock.now(), since },
          ),
        )
        answer(invocation().terminal, explanation, (shown) => told(shown, invocation()))
      }),
    )
}

/** The account that is asked about; a domain of several accounts needs --user. */
function accountOf(reader: Reader, subject: string, { user }: WhyOptions): number | undefined {
  if (user !== undefined) return requireUser(reader, user).key
  return listDomains(reader, subject).length === 0 ? undefined : theDomain(reader, subject, {}).user_key
}

async function found<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (thrown) {
    if (thrown instanceof Refusal)
      throw new OperatorError(
        'There is no mail, campaign, sending domain or receiver of this id or name; "postrider mail find ADDRESS" looks by recipient.',
      )
    throw thrown
  }
}
