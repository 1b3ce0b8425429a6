// `postrider consent show ADDRESS`: the proof why an address is in an audience, for printing.
import type { Command } from 'commander'
import { requireUser } from '../users/users.ts'
import { withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { answer } from '../views/command/terminal.ts'
import type { Thing } from '../views/html/visit.ts'
import type { audiences } from './api-audiences.ts'
import type { consents } from './api-consents.ts'

async function consentsIn(deps: Deps, address: string, user: string | undefined) {
  const [{ apiOf }, own, { audiences, contacts }, { domains }] = await Promise.all([
    import('../views/command-api.ts'),
    import('./api-consents.ts'),
    import('./api-audiences.ts'),
    import('../domains/api.ts'),
  ])
  const api = apiOf(deps, [own.consents, audiences, contacts], { parts: {}, related: [domains] as never })
  const of = user === undefined ? api.accounts() : [api.as(requireUser(deps.store, user))]
  const found = of.map(async (account) => {
    const path = `/consents?sort=created_at&filter%5Bemail%5D=${encodeURIComponent(address)}`
    const rows = await account.all(own.consents, path)
    const lists = rows.length === 0 ? [] : await account.all(audiences)
    return rows.map((row) => shownConsent(row, lists, account.user.email))
  })
  return (await Promise.all(found)).flat()
}

/** A consent with its audience, which may have been deleted. */
function shownConsent(consent: Thing<typeof consents>, lists: readonly Thing<typeof audiences>[], user: string) {
  const { attributes, id, relationships } = consent
  const audience = lists.find((each) => each.id === relationships?.['audience']?.data?.id)
  return { id, audience: audience?.attributes.name ?? null, ...attributes, user }
}

type ShownConsent = ReturnType<typeof shownConsent>

const LINES = {
  account: 'user',
  source: 'source',
  requested: 'requested_at',
  confirmed: 'confirmed_at',
  ended: 'ended_at',
  restored: 'restored_at',
  form: 'form_name',
  version: 'form_version',
  language: 'language',
  page: 'page',
  email: 'message_id',
  delivery: 'email_status',
  person: 'person',
  evidence: 'evidence',
  sha256: 'text_sha256',
  text: 'text',
} as const satisfies Record<string, keyof ShownConsent>

const linesOf = (consent: ShownConsent): string =>
  [
    `${consent.audience ?? '(deleted audience)'}: ${consent.state ?? ''}`,
    ...Object.entries(LINES).flatMap(([label, name]) => {
      const value = consent[name]
      return value === null || value === undefined ? [] : [`  ${label.padEnd(10)} ${value}`]
    }),
  ].join('\n')

export function consentCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('consent')
    .description('show the proof of consent of a contact')
    .command('show <address>')
    .description('show all consents of an address, even of deleted contacts')
    .option('--account <email>', 'only those of the account of this user')
    .action((address: string, { account }: { account?: string }) =>
      withDeps(invocation(), async (deps) => {
        const all = await consentsIn(deps, address, account)
        answer(invocation().terminal, all, (shown) =>
          shown.length === 0 ? `There is no consent of ${address}.` : shown.map(linesOf).join('\n\n'),
        )
      }),
    )
}
