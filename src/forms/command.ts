// `postrider form …`: forms with their counts, and their status. The commands use the API, which has the rules.
import type { Command } from 'commander'
import { OperatorError } from '../base/errors.ts'
import { withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { answer, answerRows } from '../views/command/terminal.ts'
import type { Thing } from '../views/html/visit.ts'
import type { CommandAccount } from '../views/command-api.ts'
import type { forms } from './api.ts'

/** The API of forms, loaded when a command needs it. */
async function formApi(deps: Deps) {
  const [{ apiOf }, own, { audiences }, { inboxes }, { domains }] = await Promise.all([
    import('../views/command-api.ts'),
    import('./api.ts'),
    import('../campaigns/api-audiences.ts'),
    import('../inbound/api.ts'),
    import('../domains/api.ts'),
  ])
  const related = [audiences, inboxes, domains] as never
  return { api: apiOf(deps, [own.forms], { parts: {}, related }), forms: own.forms }
}

type FormThing = Thing<typeof forms>

const shownForm = ({ attributes, id }: FormThing, user: string) => ({ id, ...attributes, user })

/** The form with a slug, which is unique on the server. */
async function theForm(deps: Deps, slug: string): Promise<{ account: CommandAccount; row: FormThing }> {
  const { api, forms } = await formApi(deps)
  const found = (await api.rows(forms)).find(({ row }) => row.attributes.slug === slug)
  if (!found) throw new OperatorError(`There is no form ${slug}; run "postrider form list" to see all forms.`)
  return found
}

const MOVES = {
  open: { about: 'open a form', to: 'open', said: 'is open' },
  pause: { about: 'pause a form: its sign-ups are stored, and no email is sent', to: 'paused', said: 'is paused' },
  close: { about: 'close a form', to: 'closed', said: 'is closed' },
} as const

export function formCommand(program: Command, invocation: () => Invocation): void {
  const form = program.command('form').description('manage sign-up forms and contact forms')
  form
    .command('list')
    .description('list forms with their sign-ups')
    .action(() =>
      withDeps(invocation(), async (deps) => {
        const { api, forms } = await formApi(deps)
        const all = (await api.rows(forms)).map(({ account, row }) => shownForm(row, account.user.email))
        const columns = {
          SLUG: 'slug',
          NAME: 'name',
          STATUS: 'status',
          REQUESTED: ({ counts }: (typeof all)[number]) => counts?.requested ?? 0,
          CONFIRMED: ({ counts }: (typeof all)[number]) => counts?.confirmed ?? 0,
          USER: 'user',
        } as const
        answerRows(invocation().terminal, all, columns, 'There are no forms.')
      }),
    )
  form
    .command('show <slug>')
    .description('show a form: its status, sign-ups and URL')
    .action((slug: string) =>
      withDeps(invocation(), async (deps) => {
        const { account, row } = await theForm(deps, slug)
        answer(invocation().terminal, shownForm(row, account.user.email), linesOf)
      }),
    )
  for (const [name, { about, said, to }] of Object.entries(MOVES))
    form
      .command(`${name} <slug>`)
      .description(about)
      .action((slug: string) =>
        withDeps(invocation(), async (deps) => {
          const { account, row } = await theForm(deps, slug)
          const { forms } = await import('./api.ts')
          await account.update(forms, row.id, { status: to })
          answer(invocation().terminal, { id: row.id, slug, status: to }, () => `The form ${slug} ${said}.`)
        }),
      )
}

function linesOf(form: ReturnType<typeof shownForm>): string {
  const lines: Record<string, string | number | null | undefined> = {
    name: form.name,
    title: form.title,
    status: form.status,
    reason: form.paused_reason,
    ...(form.opt_in === 'single' && { warning: 'subscribes without a confirmation (single opt-in)' }),
    url: form.public_url,
    version: form.version,
    ...form.counts,
    user: form.user,
  }
  return Object.entries(lines)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => `${name.padEnd(10)} ${value}`)
    .join('\n')
}
