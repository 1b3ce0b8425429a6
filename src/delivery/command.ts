// `postrider queue …`: the operator's commands for waiting mail, one by one or by recipient domain.
import { Option, type Command } from 'commander'
import { OperatorError } from '../base/errors.ts'
import { listDomains } from '../domains/find.ts'
import { givenName, storedName } from '../message/address.ts'
import { domainOf } from '../message/lane-names.ts'
import { count } from '../base/maps.ts'
import {
  detail,
  isOnHold,
  lanesText,
  listing,
  pausedText,
  recipients,
  showLane,
  showMail,
  showMails,
} from './command-text.ts'
import { LANE_ACTIONS, listQueue, moveQueued, retryNow, showQueued, type QueuedMail } from './queue/operator.ts'
import { shownLane, shownLanes } from './api.ts'
import { asks, confirm, type Sure } from '../views/command/confirm.ts'
import { withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { answer } from '../views/command/terminal.ts'

export function queueCommand(program: Command, invocation: () => Invocation): void {
  const queue = program.command('queue').description('view and manage the queue')
  list(queue, invocation)
  lanes(queue, invocation)
  show(queue, invocation)
  retry(queue, invocation)
  move(queue, invocation)
}

/** The recipient domains with the attributes of the API. */
const allLanes = ({ clock, store }: Pick<Deps, 'clock' | 'store'>) =>
  shownLanes(store, clock.now()).map((lane) => showLane(store, lane))

function list(queue: Command, invocation: () => Invocation): void {
  queue
    .command('list')
    .description('list emails with queued recipients, oldest first')
    .option('--domain <name>', 'only email from this sending domain')
    .action(({ domain }: { domain?: string }) =>
      withDeps(invocation(), (deps) => {
        const { store } = deps
        const mails = listQueue(store, domain && storedName(domain))
        // A removed domain may still have queued mail, so an unknown name is not an error if there is mail.
        if (mails.length === 0 && domain !== undefined && listDomains(store, domain).length === 0)
          throw new OperatorError(`There is no domain ${domain}; run "postrider domain list" to see all domains.`)
        // The JSON answer has only the list of emails. "queue lanes" has the rest.
        answer(invocation().terminal, showMails(deps, mails), (shown) => {
          const special = allLanes(deps).filter(
            ({ connections, held_by, hold, paused_until, per_second }) =>
              hold || held_by.length > 0 || (connections ?? per_second ?? paused_until) !== null,
          )
          return [
            shown.length === 0 ? 'The queue is empty.' : listing(shown),
            ...(special.length === 0 ? [] : ['', lanesText(special)]),
          ].join('\n')
        })
      }),
    )
}

function lanes(queue: Command, invocation: () => Invocation): void {
  queue
    .command('lanes')
    .description('list recipient domains with queued email, a hold or a learned limit')
    .action(() =>
      withDeps(invocation(), (deps) =>
        answer(invocation().terminal, allLanes(deps), (shown) =>
          shown.length === 0
            ? 'The queue is empty. No recipient domain is on hold or had a limit in the last hour.'
            : lanesText(shown),
        ),
      ),
    )
}

function show(queue: Command, invocation: () => Invocation): void {
  queue
    .command('show <id>')
    .description('show an email, its recipients and the last SMTP transcript')
    .action((id: string) =>
      withDeps(invocation(), (deps) => {
        const mail = showQueued(deps.store, id)
        if (!mail) throw new OperatorError(`There is no email ${id}; run "postrider queue list" to see the ids.`)
        answer(invocation().terminal, showMail(deps, mail), detail)
      }),
    )
}

const ofLane = (): Option => new Option('--lane <domain>', 'all email to this recipient domain')

/** The recipient domain of --lane in the form of the store. Throws an OperatorError. */
function laneNamed(name: string): string {
  const domain = givenName(name)
  if (domain === undefined)
    throw new OperatorError(`--lane "${name}" is not a recipient domain; use one such as example.net.`)
  return domain
}

/** The email or the domain that a command is about. Exits with code 2 if neither or both are given. */
function whichOf(queue: Command, name: string, id: string | undefined, lane: string | undefined): Which {
  if (id !== undefined && lane === undefined) return { id }
  if (lane !== undefined && id === undefined) return { domain: laneNamed(lane) }
  return queue.error(
    `Give either an id or a domain; use "postrider queue ${name} ID" or "postrider queue ${name} --lane DOMAIN"${
      name === 'retry' ? ', or "postrider queue retry --all" for the whole queue' : ''
    }.`,
    {
      exitCode: 2,
    },
  )
}

type Which = { id: string; domain?: undefined } | { id?: undefined; domain: string }

function retry(queue: Command, invocation: () => Invocation): void {
  queue
    .command('retry [id]')
    .description('retry an email now, unless it is on hold')
    .option('--all', 'all queued email')
    .addOption(ofLane())
    .action((id: string | undefined, { all, lane }: { all?: true; lane?: string }) =>
      withDeps(invocation(), async (deps) => {
        const { store } = deps
        if (all && (id !== undefined || lane !== undefined))
          queue.error('Give only one of ID, --lane and --all; use "postrider queue retry --all" for the whole queue.', {
            exitCode: 2,
          })
        const which: Partial<Which> = all ? {} : whichOf(queue, 'retry', id, lane)
        const due =
          which.domain === undefined ? await retryNow(deps, which.id) : await LANE_ACTIONS.retry(deps, which.domain)
        if (due === 0 && id !== undefined) throw new OperatorError(whyNothing('retried', id, showQueued(store, id)))
        const waiting = onHold(deps, which)
        const on_hold = waiting.reduce((sum, [, times]) => sum + times, 0)
        answer(invocation().terminal, { retried: due - on_hold, on_hold }, ({ retried }) =>
          [
            ...(retried > 0 || on_hold === 0
              ? [`${recipients(retried)} due now. A running server retries within a second.`]
              : []),
            ...waiting.map(([domain, times]) => `${recipients(times)} at ${domain} not retried: ${letGo(domain)}`),
          ].join('\n'),
        )
      }),
    )
}

const letGo = (domain: string): string =>
  `the domain is on hold until you run "postrider queue release --lane ${domain}".`

/**
 * Queued recipients that are not attempted, because mail for their domain is on hold: of an email, of a domain, or all.
 */
function onHold({ clock, store }: Pick<Deps, 'clock' | 'store'>, { domain, id }: Partial<Which>): [string, number][] {
  if (id === undefined)
    return shownLanes(store, clock.now())
      .filter((lane) => lane.hold && lane.queued > 0 && (domain === undefined || lane.domain === domain))
      .map((lane) => [lane.domain, lane.queued])
  const mail = showQueued(store, id)
  const waiting = new Map<string, number>()
  for (const delivery of mail?.deliveries ?? [])
    if (mail && isOnHold(delivery, mail.holds)) count(waiting, domainOf(delivery.lane), 1)
  return [...waiting]
}

/** Why no recipient of an email could be moved. */
function whyNothing(past: string, id: string, mail: QueuedMail | undefined): string {
  if (!mail) return `There is no email ${id}; run "postrider queue list" to see the ids.`
  const has = (wanted: string): boolean => mail.deliveries.some(({ status }) => status === wanted)
  if (past === 'retried' && has('held') && mail.paused_campaign !== null)
    return `The email ${id} is held by ${pausedText(mail.paused_campaign)}; resume the campaign to send it.`
  if (past === 'retried' && has('held')) return `The email ${id} is held; run "postrider queue release ${id}" first.`
  const under = mail.deliveries.find(({ status }) => status === 'active')
  if (under && past !== 'released')
    return (
      `The email ${id} is being delivered or is next in line; it can be ${past} after this attempt, ` +
      `or one second after you run "postrider queue hold --lane ${domainOf(under.lane)}".`
    )
  return `The email ${id} has no recipient that can be ${past}; run "postrider queue show ${id}" to see their status.`
}

/**
 * Asks for confirmation before an email is dropped. An email without waiting recipients needs no confirmation, because
 * the action is rejected later.
 */
async function sureToDrop(asked: Invocation, sure: Sure, { clock, store }: Deps, which: Which): Promise<void> {
  if (which.domain !== undefined) {
    const { domain, held, queued } = shownLane(store, clock.now(), which.domain)
    return confirm(asked, sure, `The email to ${recipients(held + queued)} at ${domain} will never be sent.`)
  }
  const mail = showQueued(store, which.id)
  const open = mail?.deliveries.filter(({ status }) => status === 'queued' || status === 'held') ?? []
  if (!mail || open.length === 0) return
  const shown = open.slice(0, 3).map(({ address }) => address)
  const more = open.length > shown.length ? ` and ${open.length - shown.length} more` : ''
  await confirm(asked, sure, `The email "${mail.subject}" will never be sent to ${shown.join(', ')}${more}.`)
}

/** Adds the commands that hold, release and drop an email or the mail for a recipient domain. */
function move(queue: Command, invocation: () => Invocation): void {
  for (const [on, past, about] of [
    ['hold', 'held', 'hold an email, or all email to a domain, until it is released'],
    ['release', 'released', 'release a held email, or a recipient domain on hold'],
    ['drop', 'dropped', 'drop queued email; its recipients get the status failed'],
  ] as const) {
    const command = queue.command(`${on} [id]`).addOption(ofLane())
    ;(on === 'drop' ? asks(command) : command)
      .description(about)
      .action((id: string | undefined, { lane, ...sure }: Sure & { lane?: string }) =>
        withDeps(invocation(), async (deps) => {
          const which = whichOf(queue, on, id, lane)
          if (on === 'drop') await sureToDrop(invocation(), sure, deps, which)
          if (which.domain !== undefined) return moveDomain(deps, invocation(), on, which.domain)
          const moved = await moveQueued(deps, which.id, on)
          if (moved === 0) throw new OperatorError(whyNothing(past, which.id, showQueued(deps.store, which.id)))
          const campaign = on === 'release' ? (showQueued(deps.store, which.id)?.paused_campaign ?? null) : null
          answer(invocation().terminal, { id: which.id, [past]: moved }, () =>
            [
              `${recipients(moved)} ${past}.`,
              ...(campaign === null ? [] : [`A running server holds the email again for ${pausedText(campaign)}.`]),
              ...onHold(deps, which).map(([domain]) => `${domain}: ${letGo(domain)}`),
            ].join('\n'),
          )
        }),
      )
  }
}

async function moveDomain(
  deps: Deps,
  { terminal }: Invocation,
  on: 'hold' | 'release' | 'drop',
  domain: string,
): Promise<void> {
  const { clock, store } = deps
  const before = shownLane(store, clock.now(), domain)
  const moved = await LANE_ACTIONS[on](deps, domain)
  if (moved === 0 && on === 'drop')
    throw new OperatorError(
      `The queue has no email to ${domain}; run "postrider queue lanes" to see all recipient domains.`,
    )
  if (moved === 0 && on === 'release' && !before.hold)
    throw new OperatorError(`${domain} is not on hold; run "postrider queue lanes" to see all recipient domains.`)
  const lane = showLane(store, shownLane(store, clock.now(), domain))
  const said = {
    hold: () => `${domain} is on hold, with ${recipients(lane.queued)} queued. New email to it is held as well.`,
    release: () => `${domain} is no longer on hold. ${recipients(lane.queued)} queued for a running server.`,
    drop: () => `${recipients(moved)} at ${domain} dropped.`,
  }
  answer(terminal, lane, said[on])
}
