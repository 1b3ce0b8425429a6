// What the commands about waiting mail and found mail print: mails, recipients, and receiving domains.
import { iso, isTime } from '../base/clock.ts'
import { forTerminal } from '../base/clean-text.ts'
import type { Reader } from '../store/database.ts'
import { domainOf } from '../message/lane-names.ts'
import { table } from '../commands/terminal.ts'
import { holdingCampaigns, lastResponse } from './queue/waiting.ts'
import { protectionWords, readSecurity } from '../smtp/security.ts'
import type { QueuedMail } from './queue/operator.ts'
import { reasonOfLane, type ShownLane } from './shown-lanes.ts'

/** "1 recipient", "2 recipients". */
export const recipients = (times: number): string => `${times} ${times === 1 ? 'recipient' : 'recipients'}`

/** Null also for a damaged value. */
const shownTime = (time: number | null): string | null => (isTime(time) ? iso(time) : null)

/** Whether a recipient waits because mail for its domain is on hold. */
export const isOnHold = ({ lane, status }: QueuedMail['deliveries'][number], holds: QueuedMail['holds']): boolean =>
  status === 'queued' && holds.has(domainOf(lane))

export const showMail = ({ deliveries, holds, created_at, ...mail }: QueuedMail) => ({
  ...mail,
  created_at: shownTime(created_at),
  recipients: deliveries.map((delivery) => ({
    address: delivery.address,
    role: delivery.role,
    status: delivery.status,
    on_hold: isOnHold(delivery, holds),
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

/** What holds the mail of a campaign. */
export const pausedText = (name: string): string => `the campaign ${forTerminal(name)}, which is paused`

type ShownMail = ReturnType<typeof showMail>

export function listing(mails: readonly ShownMail[]): string {
  const rows = mails.flatMap((mail) =>
    mail.recipients.map((to) => [
      mail.id,
      mail.from,
      to.address,
      to.status,
      to.attempts,
      to.on_hold ? 'on hold' : to.next_attempt_at,
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
    const next = to.on_hold
      ? ', not tried while mail for its domain is on hold'
      : to.status === 'queued' && to.next_attempt_at
        ? `, tried again at ${to.next_attempt_at}`
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
      ? `\n\n  -> this server   <- ${forTerminal(to.remote_mta ?? 'the exchanger')}\n${to.dialogue.replace(/^/gm, '  ').trimEnd()}`
      : ''
    return `\n${to.role} ${forTerminal(to.address)}: ${to.status}, ${tries}${next}${said}${dialogue}`
  })
  return [...head, ...each].join('\n')
}

/** A receiving domain with the members of `/lanes` of the API. */
export const showLane = (reader: Reader, { next, paused_until, ...lane }: ShownLane) => ({
  ...lane,
  held_by: lane.held === 0 ? [] : holdingCampaigns(reader, lane.domain),
  next_attempt_at: shownTime(next),
  reason: reasonOfLane(reader, { ...lane, paused_until }),
  response: lastResponse(reader, lane.domain),
  paused_until: shownTime(paused_until),
})

type LaneOnPaper = ReturnType<typeof showLane>

/** The receiving domains as a table; below it the paused campaigns that hold mail there. */
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
  const columns = ['DOMAIN', 'HOLD', 'WAITING', 'HELD', 'UNDER WAY', 'NEXT']
  const learned = ['CONNECTIONS', 'PER SECOND', 'PAUSED UNTIL', 'LAST ANSWER']
  const notes = lanes.flatMap(({ domain, held_by }) =>
    held_by.map(
      ({ account, name, recipients: times }) =>
        `${recipients(times)} at ${domain} held by the campaign ${forTerminal(name)} of ${forTerminal(account)} (paused)`,
    ),
  )
  return [table([...columns, ...learned], rows), ...(notes.length === 0 ? [] : ['', ...notes])].join('\n')
}
