// `postrider inbox …`: addresses whose mail is kept.
import type { Command } from 'commander'
import { firstIssue } from '../base/issues.ts'
import { OperatorError } from '../base/errors.ts'
import { addInbox, listInboxes, removeInbox } from './inboxes.ts'
import { inboxAddress, takesMail } from './recipients.ts'
import { name as nameForm } from '../jsonapi/schemas.ts'
import { requireUser } from '../identity/users.ts'
import { knownDomain } from '../domains/find.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'

export function inboxCommand(program: Command, invocation: () => Invocation): void {
  const inbox = program.command('inbox').description('addresses whose mail is kept and shown')
  inbox
    .command('add <address>')
    .description('make an inbox on a sending domain')
    .requiredOption('--user <email>', 'whose it is')
    .option('--name <name>', 'what it is called; the address when absent')
    .action((address: string, options: { user: string; name?: string }) =>
      withDeps(invocation(), async (deps) => {
        const owner = requireUser(deps.store, options.user)
        const given = options.name === undefined ? undefined : nameForm().safeParse(options.name)
        if (given?.success === false) throw new OperatorError(`--name ${firstIssue(given.error).message}.`)
        const name = given?.data ?? inboxAddress(address)?.address ?? address
        const made = await addInbox(deps, owner.key, { name, address })
        const domain = knownDomain(deps.store, made.domain_key)
        answer(
          invocation().terminal,
          { id: made.id, address: made.address, name: made.name, user: owner.email },
          () =>
            `${made.address} receives${takesMail(deps.store, domain.key) ? '' : ` once ${domain.name} is verified; until then senders are told to try again later`}. Publish "${domain.name}. MX 10 ${deps.config.hostname}." if you have not: postrider domain records ${domain.name}`,
        )
      }),
    )
  inbox
    .command('list')
    .description('every inbox')
    .action(() =>
      withDeps(invocation(), ({ store }) => {
        const all = listInboxes(store).map(({ id, address, name, email }) => ({ id, address, name, user: email }))
        answer(invocation().terminal, all, (rows) =>
          rows.length === 0
            ? 'There are no inboxes.'
            : table(
                ['ADDRESS', 'NAME', 'USER', 'ID'],
                rows.map((row) => [row.address, row.name, row.user, row.id]),
              ),
        )
      }),
    )
  inbox
    .command('remove <address>')
    .description('stop receiving for an address; what was received stays')
    .action((address: string) =>
      withDeps(invocation(), async (deps) => {
        const wanted = inboxAddress(address)?.address
        const found = listInboxes(deps.store).filter((each) => each.address === wanted)
        if (found.length === 0)
          throw new OperatorError(`There is no inbox ${address}; "postrider inbox list" shows all.`)
        for (const { key } of found) await removeInbox(deps, key)
        answer(invocation().terminal, { removed: found.map(({ id }) => id) }, () => `${wanted} receives no more.`)
      }),
    )
}
