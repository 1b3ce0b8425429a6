// What an alarm says, in sentences: for notices and for the console.
import type { ReceiverAlarmKind } from '../states/receiver-alarm.ts'

interface SaidAlarm {
  receiver: string
  kind: ReceiverAlarmKind
  measured: number
  usual: number | null
}

const SHARES = {
  deferred: 'put off',
  refused: 'refused',
  complained: 'answered with complaints about',
} as const

const percent = (share: number): string => `${Number((share * 100).toFixed(2))}%`

/** "40 s", "12 min", "1.5 h". */
export const duration = (seconds: number): string =>
  seconds < 100
    ? `${Math.round(seconds)} s`
    : seconds < 6000
      ? `${Math.round(seconds / 60)} min`
      : `${Number((seconds / 3600).toFixed(1))} h`

/** What is unusual at a receiver, and against what. */
export function alarmSentence({ kind, measured, receiver, usual }: SaidAlarm): string {
  if (kind === 'slow')
    return `${receiver} took half of its mail of the last 24 hours after ${duration(measured)} or later${usual === null ? '' : `; in the week before it was ${duration(usual)}`}.`
  const before =
    usual === null
      ? 'there was too little mail in the week before to compare with'
      : `in the week before ${percent(usual)}`
  return `${receiver} ${SHARES[kind]} ${percent(measured)} of its recipients of the last 24 hours; ${before}.`
}

/** The subject of a notice about alarms. */
export function alarmSubject(alarms: readonly SaidAlarm[]): string {
  const receivers = [...new Set(alarms.map(({ receiver }) => receiver))]
  const [only] = receivers
  return receivers.length === 1 && only !== undefined
    ? `Trouble with mail to ${only}`
    : `Trouble with mail to ${receivers.length} receivers`
}
