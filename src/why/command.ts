// `postrider why …`: explains delivery problems of an email, a campaign, a domain or a receiver.
import type { Command } from 'commander'
import { OperatorError, Refusal } from '../base/errors.ts'
import { listDomains } from '../domains/find.ts'
import { theDomain } from '../domains/find-domain.ts'
import { requireUser } from '../users/users.ts'
import { withDeps, type Invocation } from '../views/command/open.ts'
import { answer } from '../views/command/terminal.ts'
import type { Reader } from '../store/database.ts'
import { explain } from './explain.ts'
import { isDomain } from './subject.ts'
import { explanationText } from './text.ts'

interface WhyOptions {
  since?: string
  user?: string
}

export function whyCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('why')
    .argument('<subject>', 'id of an email or campaign, a domain, or a provider')
    .description('explain delivery problems of an email, campaign, domain or provider')
    .option('--since <time>', 'only evidence since then (default: the last 28 days)')
    .option('--user <email>', 'account, if several have the domain or send to the receiver')
    .action((subject: string, options: WhyOptions) =>
      withDeps(invocation(), async ({ clock, config, keyring, store }) => {
        const since = options.since === undefined ? undefined : Date.parse(options.since)
        if (Number.isNaN(since))
          throw new OperatorError(`--since "${options.since}" is not a time; use one such as 2026-11-01T12:00:00Z.`)
        const account = accountOf(store, subject, options)
        const explanation = found(subject, () =>
          explain(
            { store, keyring, config },
            { name: subject, account, everywhere: account === undefined, operator: true, now: clock.now(), since },
          ),
        )
        answer(invocation().terminal, explanation, (shown) => explanationText(shown, invocation()))
      }),
    )
}

/** Returns the account of the subject. A domain of several accounts needs --user. */
function accountOf(reader: Reader, subject: string, { user }: WhyOptions): number | undefined {
  if (user !== undefined) return requireUser(reader, user).key
  return listDomains(reader, subject).length === 0 ? undefined : theDomain(reader, subject, {}).user_key
}

function found<T>(subject: string, work: () => T): T {
  try {
    return work()
  } catch (thrown) {
    if (thrown instanceof Refusal)
      throw new OperatorError(
        // The error about a domain names the checks.
        isDomain(subject.trim())
          ? thrown.message
          : 'There is no email, campaign, domain or receiver with this id or name; run "postrider mail find ADDRESS" to search by recipient.',
      )
    throw thrown
  }
}
