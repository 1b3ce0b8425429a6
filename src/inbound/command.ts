// `postrider inbox …`: addresses whose mail is kept. The commands use the API, which has the rules.
import type { Command } from 'commander'
import { OperatorError } from '../base/errors.ts'
import { withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { answer, answerRows } from '../views/command/terminal.ts'
import { domainById } from '../domains/find.ts'
import { requireUser } from '../users/users.ts'
import type { Thing } from '../views/html/visit.ts'
import type { inboxes } from './api.ts'
import { inboxAddress, takesMail } from './recipients.ts'

/** The API of inboxes, loaded when a command needs it. */
async function inboxApi(deps: Deps) {
  const [{ apiOf }, own, { domains }] = await Promise.all([
    import('../views/command-api.ts'),
    import('./api.ts'),
    import('../domains/api.ts'),
  ])
  return { api: apiOf(deps, [own.inboxes], { parts: {}, related: [domains] }), inboxes: own.inboxes }
}

const shownInbox = ({ attributes, id }: Thing<typeof inboxes>, user: string) => ({
  id,
  address: attributes.address ?? '',
  name: attributes.name ?? '',
  user,
})

export function inboxCommand(program: Command, invocation: () => Invocation): void {
  const inbox = program.command('inbox').description('manage inboxes, the addresses that receive email')
  inbox
    .command('add <address>')
    .description('add an inbox to a sending domain')
    .requiredOption('--user <email>', 'owner of the domain')
    .option('--name <name>', 'name of the inbox (default: its address)')
    .action((address: string, { name, user }: { user: string; name?: string }) =>
      withDeps(invocation(), async (deps) => {
        const owner = requireUser(deps.store, user)
        const { api, inboxes } = await inboxApi(deps)
        const attributes = { name: name ?? inboxAddress(address)?.address ?? 'Inbox', address }
        const made = await api.as(owner).create(inboxes, attributes, { name: '--name' })
        const domain = domainById(deps.store, made.relationships?.domain?.data?.id ?? '')!
        answer(
          invocation().terminal,
          shownInbox(made, owner.email),
          (shown) =>
            `${shown.address} receives email${takesMail(deps.store, domain.key) ? '' : ` when ${domain.name} is verified. Until then Postrider defers it (451)`}. If DNS does not have it yet, publish "${domain.name}. MX 10 ${deps.config.hostname}." (postrider domain records ${domain.name}).`,
        )
      }),
    )
  inbox
    .command('list')
    .description('list inboxes')
    .action(() =>
      withDeps(invocation(), async (deps) => {
        const { api, inboxes } = await inboxApi(deps)
        const all = (await api.rows(inboxes)).map(({ account, row }) => shownInbox(row, account.user.email))
        const columns = { ADDRESS: 'address', NAME: 'name', USER: 'user', ID: 'id' } as const
        answerRows(invocation().terminal, all, columns, 'There are no inboxes.')
      }),
    )
  inbox
    .command('remove <address>')
    .description('remove an inbox; received email is kept')
    .action((address: string) =>
      withDeps(invocation(), async (deps) => {
        const wanted = inboxAddress(address)?.address
        const { api, inboxes } = await inboxApi(deps)
        const found = (await api.rows(inboxes)).filter(({ row }) => row.attributes.address === wanted)
        if (found.length === 0)
          throw new OperatorError(`There is no inbox ${address}; run "postrider inbox list" to see all inboxes.`)
        for (const { account, row } of found) await account.remove(inboxes, row.id)
        const removed = found.map(({ row }) => row.id)
        answer(invocation().terminal, { removed }, () => `Removed the inbox ${wanted}.`)
      }),
    )
}
