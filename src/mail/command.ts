// `postrider mail …`: the delivery of an email, found by its recipient or its id.
import type { Command } from 'commander'
import { OperatorError } from '../base/errors.ts'
import { parseAddress, storedName } from '../message/address.ts'
import { findMails, showQueued } from '../delivery/queue/operator.ts'
import { detail, listing, showMail, showMails } from '../delivery/command-text.ts'
import { withDeps, type Invocation } from '../views/command/open.ts'
import { answer } from '../views/command/terminal.ts'

export function mailCommand(program: Command, invocation: () => Invocation): void {
  const mail = program.command('mail').description('find emails and show their delivery results')
  mail
    .command('find <address>')
    .description('find emails to a recipient, newest first')
    .option('--domain <name>', 'only email from this sending domain')
    .option('--since <time>', 'only email since then, such as 2026-11-01T12:00:00Z')
    .action((address: string, { domain, since }: { domain?: string; since?: string }) =>
      withDeps(invocation(), (deps) => {
        const sought = parseAddress(address)
        if (!sought) throw new OperatorError(`"${address}" is not an email address; use one such as ada@example.com.`)
        const from = since === undefined ? undefined : Date.parse(since)
        if (Number.isNaN(from))
          throw new OperatorError(`--since "${since}" is not a time; use one such as 2026-11-01T12:00:00Z.`)
        const found = findMails(deps.store, {
          address: sought.address,
          domain: domain && storedName(domain),
          since: from,
        })
        answer(invocation().terminal, showMails(deps, found), (mails) =>
          mails.length === 0 ? `There are no emails to ${sought.address}.` : listing(mails),
        )
      }),
    )
  mail
    .command('show <id>')
    .description('show an email, its recipients and the last SMTP transcript')
    .action((id: string) =>
      withDeps(invocation(), (deps) => {
        const found = showQueued(deps.store, id)
        if (!found)
          throw new OperatorError(`There is no email ${id}; run "postrider mail find ADDRESS" to search by recipient.`)
        answer(invocation().terminal, showMail(deps, found), detail)
      }),
    )
}
