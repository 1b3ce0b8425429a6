// `postrider queue …`: the operator's commands for waiting mail.
import type { Command } from 'commander'
import { iso, isTime } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { listDomains } from '../domains/find.ts'
import { toAscii } from '../message/address.ts'
import { learnedLanes, shownLane, type LearnedLane } from './pacing/lane-memory.ts'
import { listQueue, moveQueued, retryNow, showQueued, type QueuedMail } from './queue/operator.ts'
import { waitingByLane } from './queue/waiting.ts'
import { asks, confirm, type Sure } from '../commands/confirm.ts'
import { withDeps, type Deps, type Invocation } from '../commands/open.ts'
import { forTerminal } from '../base/clean-text.ts'
import { answer, table } from '../commands/terminal.ts'

/** Null also for a damaged value. */
const shownTime = (time: number | null): string | null => (isTime(time) ? iso(time) : null)

export const showMail = ({ deliveries, created_at, ...mail }: QueuedMail) => ({
  ...mail,
  created_at: shownTime(created_at),
  recipients: deliveries.map((delivery) => ({
    address: delivery.address,
    role: delivery.role,
    status: delivery.status,
    attempts: delivery.attempts,
    next_attempt_at: shownTime(delivery.next_attempt_at),
    smtp_code: delivery.smtp_code,
    enhanced_code: delivery.enhanced_code,
    response: delivery.response,
    remote_mta: delivery.remote_mta,
    tls: delivery.tls,
    dialogue: delivery.dialogue,
  })),
})

type ShownMail = ReturnType<typeof showMail>

export function listing(mails: readonly ShownMail[]): string {
  const rows = mails.flatMap((mail) =>
    mail.recipients.map((to) => [
      mail.id,
      mail.from,
      to.address,
      to.status,
      to.attempts,
      to.next_attempt_at,
      to.response?.slice(0, 60) ?? null,
    ]),
  )
  return table(['ID', 'FROM', 'TO', 'STATUS', 'TRIES', 'NEXT', 'LAST ANSWER'], rows)
}

export function detail(mail: ShownMail): string {
  const head = [
    `id          ${mail.id}`,
    `message id  ${forTerminal(mail.message_id)}`,
    `from        ${forTerminal(mail.from)}`,
    `subject     ${forTerminal(mail.subject)}`,
    `status      ${mail.status}`,
    `created     ${mail.created_at}`,
  ]
  const each = mail.recipients.map((to) => {
    const tries = `${to.attempts} ${to.attempts === 1 ? 'attempt' : 'attempts'}`
    const next = to.status === 'queued' && to.next_attempt_at ? `, tried again at ${to.next_attempt_at}` : ''
    const where = to.remote_mta ? ` (${forTerminal(to.remote_mta)}${to.tls ? ` over ${to.tls}` : ', without TLS'})` : ''
    // Only a reply of a server has a code.
    const codes = to.smtp_code === null ? [] : [to.smtp_code, to.enhanced_code]
    const said =
      to.response === null
        ? ''
        : `\n  ${forTerminal([...codes, to.response].filter((part) => part !== null).join(' '))}${to.smtp_code === null ? '' : where}`
    const dialogue = to.dialogue
      ? `\n\n  -> this server   <- ${forTerminal(to.remote_mta ?? 'the exchanger')}\n${to.dialogue.replace(/^/gm, '  ').trimEnd()}`
      : ''
    return `\n${to.role} ${forTerminal(to.address)}: ${to.status}, ${tries}${next}${said}${dialogue}`
  })
  return [...head, ...each].join('\n')
}

/** The learned limits of an exchanger, as answers show them. `waiting`: its undecided recipients. */
const showLane = (row: LearnedLane, waiting: number) => ({
  ...shownLane(row),
  waiting,
  connections: row.connections,
  per_second: row.per_second,
  paused_until: shownTime(row.paused_until),
  learned_at: iso(row.learned_at),
})

/** All lanes with learned limits; one whose queue is empty is among them as long as its limits are remembered. */
function showLanes({ clock, store }: Pick<Deps, 'clock' | 'store'>): ReturnType<typeof showLane>[] {
  const waiting = waitingByLane(store)
  return learnedLanes(store, clock.now()).map((row) => showLane(row, waiting.get(row.lane) ?? 0))
}

const lanesTable = (lanes: readonly ReturnType<typeof showLane>[]): string =>
  table(
    ['LANE', 'MAIL', 'WAITING', 'CONNECTIONS', 'PER SECOND', 'PAUSED UNTIL', 'LEARNED'],
    lanes.map((lane) => [
      lane.domain,
      lane.campaigns ? 'campaigns' : 'other',
      lane.waiting || 'empty',
      lane.connections,
      lane.per_second,
      lane.paused_until,
      lane.learned_at,
    ]),
  )

/** The reason why no recipient of a mail can be tried now. */
function whyNothing(id: string, mail: QueuedMail | undefined): string {
  if (!mail) return `There is no mail ${id}.`
  return mail.deliveries.some(({ status }) => status === 'held')
    ? `The mail ${id} is held; "postrider queue release ${id}" lets it go.`
    : `No recipient of the mail ${id} is waiting; "postrider queue show ${id}" shows its state.`
}

/** Asks before a mail is given up. For a mail without waiting recipients there is no question; it is refused later. */
async function sureToDrop(asked: Invocation, sure: Sure, mail: QueuedMail | undefined): Promise<void> {
  const open = mail?.deliveries.filter(({ status }) => status === 'queued' || status === 'held') ?? []
  if (!mail || open.length === 0) return
  const shown = open.slice(0, 3).map(({ address }) => address)
  const more = open.length > shown.length ? ` and ${open.length - shown.length} more` : ''
  await confirm(asked, sure, `The mail "${mail.subject}" is never sent to ${shown.join(', ')}${more}.`)
}

export function queueCommand(program: Command, invocation: () => Invocation): void {
  const queue = program.command('queue').description('see and control the mail that waits for delivery')
  list(queue, invocation)
  lanes(queue, invocation)
  show(queue, invocation)
  retry(queue, invocation)
  move(queue, invocation)
}

function list(queue: Command, invocation: () => Invocation): void {
  queue
    .command('list')
    .description('list mails with undecided recipients, oldest first')
    .option('--domain <name>', 'of this sending domain only')
    .action(({ domain }: { domain?: string }) =>
      withDeps(invocation(), (deps) => {
        const { store } = deps
        const mails = listQueue(store, domain && (toAscii(domain) ?? domain))
        // A removed domain may still have waiting mail, so a name without a domain is not an error when there is mail.
        if (mails.length === 0 && domain !== undefined && listDomains(store, domain).length === 0)
          throw new OperatorError(`There is no domain ${domain}; "postrider domain list" shows all.`)
        const lanes = showLanes(deps)
        // The JSON answer has only the list of mails; "queue lanes" has the rest.
        answer(invocation().terminal, mails.map(showMail), (shown) =>
          [
            shown.length === 0 ? 'The queue is empty.' : listing(shown),
            ...(lanes.length === 0 ? [] : ['', lanesTable(lanes)]),
          ].join('\n'),
        )
      }),
    )
}

function lanes(queue: Command, invocation: () => Invocation): void {
  queue
    .command('lanes')
    .description('list the limits of receiving domains, learned in the last hour')
    .action(() =>
      withDeps(invocation(), (deps) =>
        answer(invocation().terminal, showLanes(deps), (shown) =>
          shown.length === 0 ? 'No limit of a receiving domain was met in the last hour.' : lanesTable(shown),
        ),
      ),
    )
}

function show(queue: Command, invocation: () => Invocation): void {
  queue
    .command('show <id>')
    .description('show a mail with its recipients and the last SMTP dialogue')
    .action((id: string) =>
      withDeps(invocation(), ({ store }) => {
        const mail = showQueued(store, id)
        if (!mail)
          throw new OperatorError(
            `There is no mail ${id}; its id stands in the API's answer and in "postrider queue list".`,
          )
        answer(invocation().terminal, showMail(mail), detail)
      }),
    )
}

function retry(queue: Command, invocation: () => Invocation): void {
  queue
    .command('retry [id]')
    .description('try a mail again now, or with --all everything')
    .option('--all', 'every queued mail')
    .action((id: string | undefined, { all }: { all?: true }) =>
      withDeps(invocation(), async (deps) => {
        if ((id === undefined) === (all === undefined))
          queue.error('Say which: "postrider queue retry ID" or "postrider queue retry --all".', { exitCode: 2 })
        const count = await retryNow(deps, id)
        if (count === 0 && id !== undefined) throw new OperatorError(whyNothing(id, showQueued(deps.store, id)))
        answer(
          invocation().terminal,
          { retried: count },
          () =>
            `${count} ${count === 1 ? 'recipient' : 'recipients'} will be tried within a second, if a server is running.`,
        )
      }),
    )
}

/** Hold, release and drop. */
function move(queue: Command, invocation: () => Invocation): void {
  for (const [name, on, past, about] of [
    ['hold', 'hold', 'held', 'keep a mail back until it is released'],
    ['release', 'release', 'released', 'let a held mail go'],
    ['drop', 'drop', 'dropped', 'give a mail up: its undecided recipients fail'],
  ] as const) {
    const command = queue.command(`${name} <id>`)
    ;(on === 'drop' ? asks(command) : command).description(about).action((id: string, sure: Sure) =>
      withDeps(invocation(), async (deps) => {
        if (on === 'drop') await sureToDrop(invocation(), sure, showQueued(deps.store, id))
        const count = await moveQueued(deps, id, on)
        if (count === 0) throw new OperatorError(`The mail ${id} has no recipient that could be ${past}.`)
        answer(
          invocation().terminal,
          { id, [past]: count },
          () => `${count} ${count === 1 ? 'recipient' : 'recipients'} ${past}.`,
        )
      }),
    )
  }
}
