// The alarms of an account's receivers.
import { z } from 'zod'
import { define } from '../jsonapi/define.ts'
import { count, time, timeOrNull, words, wordsOrNull } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { reasonOf } from '../smtp/reply-reason.ts'
import { RECEIVER_ALARM_KINDS, RECEIVER_ALARM_STATUSES } from '../store/states/receiver-alarm.ts'
import { alarmSentence } from './alarm-words.ts'
import type { ReceiverAlarm } from './alarms.ts'

const QUIETER =
  ' The value is now below half of the value that opened the alarm. The alarm closes if this lasts for 24 hours.'

export const receiverAlarms = define('receiver-alarms', {
  table: 'receiver_alarms',
  scope: 'emails',
  about:
    'Alarms about receivers: sudden deferrals, rejections, complaints or slow delivery, compared with the week before.',
  extension: true,
  attributes: {
    receiver: words('Receiver, as in `/statistics/receivers`.'),
    kind: field(z.enum(RECEIVER_ALARM_KINDS), {
      about:
        'Kind of problem. `deferred`, `refused`, `complained`: the rate among recipients attempted in 24 hours, each counted once per day. `slow`: the time within which half of the emails were accepted.',
    }),
    state: field(z.enum(RECEIVER_ALARM_STATUSES), {
      about: 'Whether the alarm is open. It closes after 24 hours below half of the value that opened it.',
    }),
    opened_at: time('Time when the alarm was opened.'),
    closed_at: timeOrNull('Time when the alarm was closed. Null if it is open.'),
    current: field(z.number(), {
      about:
        'Rate in the last 24 hours, from 0 to 1. For `slow`, the median in seconds. For a closed alarm, the value at its end.',
    }),
    baseline: field(z.number().nullable(), {
      about: 'Same value for the seven days before the alarm was opened. Null if there were too few emails.',
    }),
    volume: count('Number of recipients attempted in the last 24 hours.'),
    reply: wordsOrNull(
      'Most frequent rejection or deferral of the receiver. Null if there was no reply, and for complaints.',
    ),
    class: wordsOrNull('Category of this reply, such as `rate`, `full` or `greylisted`. Null if unknown.'),
    meaning: wordsOrNull('Meaning of this reply and what to do about it. Null if unknown.'),
    message: words('Description of the problem.'),
  },
  filters: {
    state: { column: 'status', about: 'Filter by status: `open` or `closed`.' },
    receiver: { column: 'receiver' },
  },
  extend(rows) {
    for (const row of rows as unknown as (ReceiverAlarm & Record<string, unknown>)[]) {
      Object.assign(row, {
        state: row.status,
        opened_at: row.created_at,
        current: row.measured,
        baseline: row.usual,
        message: alarmSentence(row) + (row.status === 'open' && row.calm_since !== null ? QUIETER : ''),
        reply: row.words,
      })
      const reason = row.words === null ? undefined : reasonOf({ text: row.words }, row.receiver)
      row['class'] = reason?.class ?? null
      row['meaning'] = reason?.words ?? null
    }
  },
  actions: [
    {
      kind: 'list',
      path: '/statistics/alarms',
      id: 'listReceiverAlarms',
      params: ['filter', 'page'],
      about: 'List alarms about receivers, newest first.',
    },
  ],
})
