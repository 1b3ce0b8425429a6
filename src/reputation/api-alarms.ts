// The alarms of an account's receivers (DV77 to DV79).
import { z } from 'zod'
import { define } from '../jsonapi/define.ts'
import { count, EXTENSION, time, timeOrNull, words, wordsOrNull } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { reasonOf } from '../smtp/reply-reason.ts'
import { RECEIVER_ALARM_KINDS, RECEIVER_ALARM_STATUSES } from '../states/receiver-alarm.ts'
import { alarmSentence } from './alarm-words.ts'
import type { ReceiverAlarm } from './alarms.ts'

const QUIETER = ' It is below the half of what opened the alarm, which ends when this lasts for a day.'

export const receiverAlarms = define('receiver-alarms', {
  table: 'receiver_alarms',
  about: `A receiver that suddenly takes less of your mail, or takes it later, than in the week before. ${EXTENSION}`,
  attributes: {
    receiver: words('The receiver, as in /statistics/receivers.'),
    kind: field(z.enum(RECEIVER_ALARM_KINDS), {
      about:
        'deferred, refused, complained: of the recipients tried in 24 hours, each counted once a day; slow: half of the mail took this long.',
    }),
    state: field(z.enum(RECEIVER_ALARM_STATUSES), {
      about: 'It closes after 24 hours below the half of what opened it.',
    }),
    opened_at: time('When it was opened.'),
    closed_at: timeOrNull('When it was closed; null: it is open.'),
    now: field(z.number(), {
      about: 'The share of the last 24 hours, 0 to 1; of slow the median in seconds. Of a closed alarm: at its end.',
    }),
    before: field(z.number().nullable(), {
      about: 'The same in the seven days before it was opened; null: there was too little mail.',
    }),
    volume: count('The recipients tried in the last 24 hours.'),
    words: wordsOrNull('The receiver’s commonest refusal or deferral; null: it said nothing.'),
    class: wordsOrNull('What these words are about, such as rate, full or greylisted; null: not known.'),
    meaning: wordsOrNull('What these words mean and what to do; null: not known.'),
    says: words('What is unusual, in a sentence.'),
  },
  filters: {
    state: { column: 'status', about: 'Only those that are open, or closed.' },
    receiver: { column: 'receiver' },
  },
  extend(rows) {
    for (const row of rows as unknown as (ReceiverAlarm & Record<string, unknown>)[]) {
      Object.assign(row, {
        state: row.status,
        opened_at: row.created_at,
        now: row.measured,
        before: row.usual,
        says: alarmSentence(row) + (row.status === 'open' && row.calm_since !== null ? QUIETER : ''),
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
      scope: 'emails:read',
      params: ['filter', 'page'],
      about: `The alarms of your receivers, the newest first. ${EXTENSION}`,
    },
  ],
})
