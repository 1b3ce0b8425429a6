// `postrider mail …`: the delivery of a mail, found by its recipient or its id.
import type { Command } from 'commander'
import { OperatorError } from '../base/errors.ts'
import { parseAddress, storedName } from '../message/address.ts'
import { findMails, showQueued } from '../delivery/queue/operator.ts'
import { detail, listing, showMail } from '../delivery/command-text.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer } from '../commands/terminal.ts'

export function mailCommand(program: Command, invocation: () => Invocation): void {
  const mail = program.command('mail').description('find a mail and see what became of it')
  mail
    .command('find <address>')
    .description('mails to a recipient, newest first')
    .option('--domain <name>', 'sent from this domain only')
    .option('--since <time>', 'accepted since, such as 2026-11-01 or 2026-11-01T12:00:00Z')
    .action((address: string, { domain, since }: { domain?: string; since?: string }) =>
      withDeps(invocation(), ({ store }) => {
        const sought = parseAddress(address)
        if (!sought) throw new OperatorError(`"${address}" is not an email address.`)
        const from = since === undefined ? undefined : Date.parse(since)
        if (Number.isNaN(from)) throw new OperatorError(`"${since}" is not a time such as 2026-11-01T12:00:00Z.`)
        const found = findMails(store, {
          address: sought.address,
          domain: domain && storedName(domain),
          since: from,
        })
        answer(invocation().terminal, found.map(showMail), (mails) =>
          mails.length === 0 ? `No mail to ${sought.address} is known.` : listing(mails),
        )
      }),
    )
  mail
    .command('show <id>')
    .description('one mail with its recipients, attempts and the last SMTP dialogue')
    .action((id: string) =>
      withDeps(invocation(), ({ store }) => {
        const found = showQueued(store, id)
        if (!found) throw new OperatorError(`There is no mail ${id}; "postrider mail find ADDRESS" looks by recipient.`)
        answer(invocation().terminal, showMail(found), detail)
      }),
    )
}
