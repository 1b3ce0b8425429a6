// The text output of the commands about queued and found mail: emails, recipients, and recipient domains.
import { iso, isTime, type Clock } from '../base/clock.ts'
import { must } from '../base/errors.ts'
import { forTerminal } from '../base/clean-text.ts'
import type { Reader } from '../store/database.ts'
import { counted } from '../base/text.ts'
import { domainOf } from '../message/lane-names.ts'
import { table } from '../views/command/terminal.ts'
import { holdingCampaigns, lastResponse } from './queue/waiting.ts'
import { waitingReasons } from './waiting-reason.ts'
import { protectionWords, readSecurity } from '../smtp/security.ts'
import type { QueuedMail } from './queue/operator.ts'
import { reasonOfLane, type ShownLane } from './api.ts'

/** "1 recipient", "2 recipients". */
export const recipients = (times: number): string => counted(times, 'recipient')

/** Null even for a corrupt value. */
const shownTime = (time: number | null): string | null => (isTime(time) ? iso(time) : null)

/** Whether a recipient waits because mail for its domain is on hold. */
export const isOnHold = ({ lane, status }: QueuedMail['deliveries'][number], holds: QueuedMail['holds']): boolean =>
  status === 'queued' && holds.has(domainOf(lane))

/** Emails as the commands print them, each recipient with the reason why it is queued. */
export function showMails(
  { clock, store }: { clock: Clock; store: Reader },
  mails: readonly QueuedMail[],
): ShownMail[] {
  const all = mails.flatMap(({ deliveries }) => deliveries)
  const reasonOf = waitingReasons(store, all, clock.now())
  return mails.map((mail) => shownMail(reasonOf, mail))
}

export const showMail = (deps: Parameters<typeof showMails>[0], mail: QueuedMail): ShownMail =>
  must(showMails(deps, [mail])[0], 'The email')

const shownMail = (
  reasonOf: ReturnType<typeof waitingReasons>,
  { deliveries, holds, created_at, ...mail }: QueuedMail,
) => ({
  ...mail,
  created_at: shownTime(created_at),
  recipients: deliveries.map((delivery) => ({
    address: delivery.address,
    role: delivery.role,
    status: delivery.status,
    on_hold: isOnHold(delivery, holds),
    waiting_reason: reasonOf(delivery).waiting_reason,
    attempts: delivery.attempts,
    next_attempt_at: shownTime(delivery.next_attempt_at),
    smtp_code: delivery.smtp_code,
    enhanced_code: delivery.enhanced_code,
    response: delivery.response,
    remote_mta: delivery.remote_mta,
    tls: delivery.tls,
    security: readSecurity(delivery.security) ?? null,
    source: delivery.source,
    dialogue: delivery.dialogue,
  })),
})

/** The campaign that holds an email, as text. */
export const pausedText = (name: string): string => `the campaign ${forTerminal(name)}, which is paused`

type ShownMail = ReturnType<typeof shownMail>

export function listing(mails: readonly ShownMail[]): string {
  const rows = mails.flatMap((mail) =>
    mail.recipients.map((to) => [
      mail.id,
      mail.from,
      to.address,
      to.status,
      to.attempts,
      to.on_hold ? 'on hold' : to.next_attempt_at,
      (to.waiting_reason ?? to.response)?.slice(0, 60) ?? null,
    ]),
  )
  return table(['ID', 'FROM', 'TO', 'STATUS', 'ATTEMPTS', 'NEXT', 'DETAILS'], rows)
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
    const tries = counted(to.attempts, 'attempt')
    const next = to.on_hold
      ? ', on hold with its recipient domain'
      : to.status === 'queued' && to.next_attempt_at
        ? `, next attempt at ${to.next_attempt_at}`
        : to.status === 'held' && mail.paused_campaign !== null
          ? `, by ${pausedText(mail.paused_campaign)}`
          : ''
    const from = to.source === null ? '' : `, from ${to.source}`
    const where = to.remote_mta
      ? ` (${forTerminal(to.remote_mta)} ${protectionWords(to.tls, to.security?.proof ?? null)}${from})`
      : ''
    // Only a reply of a server has a code.
    const codes = to.smtp_code === null ? [] : [to.smtp_code, to.enhanced_code]
    const said =
      to.response === null
        ? ''
        : `\n  ${forTerminal([...codes, to.response].filter((part) => part !== null).join(' '))}${to.smtp_code === null ? '' : where}`
    const dialogue = to.dialogue
      ? `\n\n  -> this server   <- ${forTerminal(to.remote_mta ?? 'receiving server')}\n${to.dialogue.replace(/^/gm, '  ').trimEnd()}`
      : ''
    return `\n${to.role} ${forTerminal(to.address)}: ${to.status}, ${tries}${next}${said}${dialogue}`
  })
  return [...head, ...each].join('\n')
}

/** A recipient domain with the attributes of `/lanes` of the API. */
export const showLane = (reader: Reader, { next, paused_until, ...lane }: ShownLane) => ({
  ...lane,
  held_by: lane.held === 0 ? [] : holdingCampaigns(reader, lane.domain),
  next_attempt_at: shownTime(next),
  reason: reasonOfLane(reader, { ...lane, paused_until }),
  response: lastResponse(reader, lane.domain),
  paused_until: shownTime(paused_until),
})

type LaneOnPaper = ReturnType<typeof showLane>

/** The recipient domains as a table, and below it the paused campaigns that hold mail there. */
export function lanesText(lanes: readonly LaneOnPaper[]): string {
  const rows = lanes.map((lane) => [
    lane.domain,
    lane.hold ? 'on hold' : null,
    lane.queued + lane.active + lane.held === 0 ? 'empty' : lane.queued + lane.held,
    lane.held,
    lane.active,
    lane.hold ? null : lane.next_attempt_at,
    lane.connections,
    lane.per_second,
    lane.paused_until,
    lane.response?.slice(0, 60) ?? null,
  ])
  const columns = ['DOMAIN', 'HOLD', 'QUEUED', 'HELD', 'IN PROGRESS', 'NEXT']
  const learned = ['CONNECTIONS', 'PER SECOND', 'PAUSED UNTIL', 'LAST REPLY']
  const notes = lanes.flatMap(({ domain, held_by }) =>
    held_by.map(
      ({ account, name, recipients: times }) =>
        `${recipients(times)} at ${domain} held by the campaign ${forTerminal(name)} of ${forTerminal(account)} (paused)`,
    ),
  )
  return [table([...columns, ...learned], rows), ...(notes.length === 0 ? [] : ['', ...notes])].join('\n')
}
