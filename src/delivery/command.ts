// `postrider queue …`: the operator's commands for waiting mail, one by one or by receiving domain.
import { Option, type Command } from 'commander'
import { OperatorError } from '../base/errors.ts'
import { listDomains } from '../domains/find.ts'
import { givenName, storedName } from '../message/address.ts'
import { domainOf } from '../message/lane-names.ts'
import { count } from '../base/maps.ts'
import { detail, isOnHold, lanesText, listing, pausedText, recipients, showLane, showMail } from './command-text.ts'
import { LANE_ACTIONS, listQueue, moveQueued, retryNow, showQueued, type QueuedMail } from './queue/operator.ts'
import { shownLane, shownLanes } from './shown-lanes.ts'
import { asks, confirm, type Sure } from '../commands/confirm.ts'
import { withDeps, type Deps, type Invocation } from '../commands/open.ts'
import { answer } from '../commands/terminal.ts'

export function queueCommand(program: Command, invocation: () => Invocation): void {
  const queue = program.command('queue').description('see and control the mail that waits for delivery')
  list(queue, invocation)
  lanes(queue, invocation)
  show(queue, invocation)
  retry(queue, invocation)
  move(queue, invocation)
}

/** The receiving domains with the members of the API. */
const allLanes = ({ clock, store }: Pick<Deps, 'clock' | 'store'>) =>
  shownLanes(store, clock.now()).map((lane) => showLane(store, lane))

function list(queue: Command, invocation: () => Invocation): void {
  queue
    .command('list')
    .description('list mails with undecided recipients, oldest first')
    .option('--domain <name>', 'of this sending domain only')
    .action(({ domain }: { domain?: string }) =>
      withDeps(invocation(), (deps) => {
        const { store } = deps
        const mails = listQueue(store, domain && storedName(domain))
        // A removed domain may still have waiting mail, so a name without a domain is not an error when there is mail.
        if (mails.length === 0 && domain !== undefined && listDomains(store, domain).length === 0)
          throw new OperatorError(`There is no domain ${domain}; "postrider domain list" shows all.`)
        // The JSON answer has only the list of mails; "queue lanes" has the rest.
        answer(invocation().terminal, mails.map(showMail), (shown) => {
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
    .description('list the receiving domains with waiting mail, on hold, or with limits learned in the last hour')
    .action(() =>
      withDeps(invocation(), (deps) =>
        answer(invocation().terminal, allLanes(deps), (shown) =>
          shown.length === 0
            ? 'No mail waits, no domain is on hold, and no limit of a receiving domain was met in the last hour.'
            : lanesText(shown),
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

const ofLane = (): Option => new Option('--lane <domain>', 'all mail for this receiving domain')

/** The receiving domain of --lane in the form of the store. Throws an OperatorError. */
function laneNamed(name: string): string {
  const domain = givenName(name)
  if (domain === undefined) throw new OperatorError(`"${name}" is not a receiving domain such as example.net.`)
  return domain
}

/** The one mail or the one domain that a command is about; ends with exit code 2 when it is neither, or both. */
function whichOf(queue: Command, name: string, id: string | undefined, lane: string | undefined): Which {
  if (id !== undefined && lane === undefined) return { id }
  if (lane !== undefined && id === undefined) return { domain: laneNamed(lane) }
  return queue.error(`Say which: "postrider queue ${name} ID" or "postrider queue ${name} --lane DOMAIN".`, {
    exitCode: 2,
  })
}

type Which = { id: string; domain?: undefined } | { id?: undefined; domain: string }

function retry(queue: Command, invocation: () => Invocation): void {
  queue
    .command('retry [id]')
    .description('try a mail again now, or with --lane or --all many; what is on hold stays so')
    .option('--all', 'every queued mail')
    .addOption(ofLane())
    .action((id: string | undefined, { all, lane }: { all?: true; lane?: string }) =>
      withDeps(invocation(), async (deps) => {
        const { store } = deps
        if (all && (id !== undefined || lane !== undefined))
          queue.error('Say which: "postrider queue retry ID", "--lane DOMAIN" or "--all".', { exitCode: 2 })
        const which: Partial<Which> = all ? {} : whichOf(queue, 'retry', id, lane)
        const due =
          which.domain === undefined ? await retryNow(deps, which.id) : await LANE_ACTIONS.retry(deps, which.domain)
        if (due === 0 && id !== undefined) throw new OperatorError(whyNothing('retried', id, showQueued(store, id)))
        const waiting = onHold(deps, which)
        const on_hold = waiting.reduce((sum, [, times]) => sum + times, 0)
        answer(invocation().terminal, { retried: due - on_hold, on_hold }, ({ retried }) =>
          [
            ...(retried > 0 || on_hold === 0
              ? [`${recipients(retried)} due now; a running server begins within a second.`]
              : []),
            ...waiting.map(([domain, times]) => `${recipients(times)} at ${domain} not tried: ${letGo(domain)}`),
          ].join('\n'),
        )
      }),
    )
}

const letGo = (domain: string): string => `mail for it is on hold until "postrider queue release --lane ${domain}".`

/** Queued recipients that are not tried, because mail for their domain is on hold: of a mail, of a domain, or all. */
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

/** Why no recipient of a mail could be moved. */
function whyNothing(past: string, id: string, mail: QueuedMail | undefined): string {
  if (!mail) return `There is no mail ${id}.`
  const has = (wanted: string): boolean => mail.deliveries.some(({ status }) => status === wanted)
  if (past === 'retried' && has('held') && mail.paused_campaign !== null)
    return `The mail ${id} is held by ${pausedText(mail.paused_campaign)}; it goes on with it.`
  if (past === 'retried' && has('held')) return `The mail ${id} is held; "postrider queue release ${id}" lets it go.`
  const under = mail.deliveries.find(({ status }) => status === 'active')
  if (under && past !== 'released')
    return (
      `The mail ${id} is being delivered, or is next in the memory of the server. It can be ${past} when it waits again: ` +
      `after this attempt, or within a second after "postrider queue hold --lane ${domainOf(under.lane)}".`
    )
  return `The mail ${id} has no recipient that could be ${past}; "postrider queue show ${id}" shows its state.`
}

/** Asks before a mail is given up. For a mail without waiting recipients there is no question; it is refused later. */
async function sureToDrop(asked: Invocation, sure: Sure, { clock, store }: Deps, which: Which): Promise<void> {
  if (which.domain !== undefined) {
    const { domain, held, queued } = shownLane(store, clock.now(), which.domain)
    return confirm(asked, sure, `The mail to ${recipients(held + queued)} at ${domain} is never sent.`)
  }
  const mail = showQueued(store, which.id)
  const open = mail?.deliveries.filter(({ status }) => status === 'queued' || status === 'held') ?? []
  if (!mail || open.length === 0) return
  const shown = open.slice(0, 3).map(({ address }) => address)
  const more = open.length > shown.length ? ` and ${open.length - shown.length} more` : ''
  await confirm(asked, sure, `The mail "${mail.subject}" is never sent to ${shown.join(', ')}${more}.`)
}

/** Hold, release and drop, of one mail or of a receiving domain. */
function move(queue: Command, invocation: () => Invocation): void {
  for (const [on, past, about] of [
    ['hold', 'held', 'keep a mail back until it is released; with --lane all mail for a domain, new mail too'],
    ['release', 'released', 'let a held mail go, or with --lane a held domain'],
    ['drop', 'dropped', 'give mail up: its undecided recipients fail'],
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
              ...(campaign === null ? [] : [`A running server holds the mail again for ${pausedText(campaign)}.`]),
              ...onHold(deps, which).map(([domain]) => `At ${domain} ${letGo(domain)}`),
            ].join('\n'),
          )
        }),
      )
  }
}

/** Holds, releases or drops all mail for a receiving domain. */
async function moveDomain(
  deps: Deps,
  { terminal }: Invocation,
  on: 'hold' | 'release' | 'drop',
  domain: string,
): Promise<void> {
  const { clock, store } = deps
  const before = shownLane(store, clock.now(), domain)
  const moved = await LANE_ACTIONS[on](deps, domain)
  if (moved === 0 && on === 'drop') throw new OperatorError(`No mail for ${domain} waits.`)
  if (moved === 0 && on === 'release' && !before.hold) throw new OperatorError(`Mail for ${domain} is not on hold.`)
  const lane = showLane(store, shownLane(store, clock.now(), domain))
  const said = {
    hold: () => `Mail for ${domain} is on hold: ${recipients(lane.queued)} waiting, and new mail waits too.`,
    release: () => `Mail for ${domain} is no longer on hold: ${recipients(lane.queued)} waiting for a running server.`,
    drop: () => `${recipients(moved)} at ${domain} dropped.`,
  }
  answer(terminal, lane, said[on])
}
