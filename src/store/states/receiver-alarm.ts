// An alarm about delivery to a receiver. It opens with its row and closes once. The next alarm is
// a new row.
//
//   open --calm--> closed
import { machine } from './machine.ts'

export const RECEIVER_ALARM_STATUSES = ['open', 'closed'] as const
export const RECEIVER_ALARM_KINDS = ['deferred', 'refused', 'complained', 'slow'] as const
export type ReceiverAlarmKind = (typeof RECEIVER_ALARM_KINDS)[number]
export type ReceiverAlarmStatus = (typeof RECEIVER_ALARM_STATUSES)[number]

export const receiverAlarmMachine = machine<ReceiverAlarmStatus, 'calm'>('receiver_alarms', [
  ['open', 'calm', 'closed', 'auto', 'domain.receiver_recovered'],
])
