// The sentences of an alarm, for notices and for the console.
import { percent, span } from '../base/text.ts'
import { SECOND } from '../base/clock.ts'
import type { ReceiverAlarmKind } from '../store/states/receiver-alarm.ts'

interface SaidAlarm {
  receiver: string
  kind: ReceiverAlarmKind
  measured: number
  usual: number | null
}

const SHARES = {
  deferred: 'deferred',
  refused: 'rejected',
  complained: 'marked as spam',
} as const

/** The effect of an alarm, without its figures. */
export const ALARM_EFFECTS: Readonly<Record<ReceiverAlarmKind, string>> = {
  deferred: 'The provider defers much of your email.',
  refused: 'The provider rejects much of your email.',
  complained: 'Too many recipients at the provider mark your email as spam.',
  slow: 'The provider accepts much of your email late.',
}

/** Describes what is unusual at a receiver, with the usual value. */
export function alarmSentence({ kind, measured, receiver, usual }: SaidAlarm): string {
  if (kind === 'slow')
    return `In the last 24 hours, ${receiver} accepted half of your email only after ${span(measured * SECOND)} or more${usual === null ? '' : ` (the week before: ${span(usual * SECOND)})`}.`
  const before =
    usual === null ? 'too little volume in the week before to compare' : `the week before: ${percent(usual)}`
  const recipients = `${percent(measured)} of recipients`
  return kind === 'complained'
    ? `In the last 24 hours, ${recipients} at ${receiver} marked your email as spam (${before}).`
    : `In the last 24 hours, ${receiver} ${SHARES[kind]} ${recipients} (${before}).`
}

/** The subject of a notice about alarms. */
export function alarmSubject(alarms: readonly SaidAlarm[]): string {
  const receivers = [...new Set(alarms.map(({ receiver }) => receiver))]
  const [only] = receivers
  return receivers.length === 1 && only !== undefined
    ? `Delivery problem at ${only}`
    : `Delivery problems at ${receivers.length} providers`
}
