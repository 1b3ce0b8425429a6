// Alarms: every few minutes, the last 24 hours of each account's receivers are compared with the week before. An alarm
// is opened and notified once, and closes after a day below half of its threshold.
import { DAY, HOUR, MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { addNotice } from '../users/notices.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { EventType } from '../store/states/events.ts'
import { receiverAlarmMachine, type ReceiverAlarmKind } from '../store/states/receiver-alarm.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { appendEvents } from '../store/events.ts'
import { move } from '../store/move.ts'
import { db, raw } from '../store/query.ts'
import { isCalm, judgeReceiver, measure, type AlarmJudgement } from './alarm-rules.ts'
import { alarmSentence, alarmSubject } from './alarm-words.ts'
import { commonRefusals, domainsWithMail, figuresBetween, NO_FIGURES, type ReceiverFigures } from './receivers.ts'

export type ReceiverAlarm = RowOf<'receiver_alarms'>

const EVERY = 5 * MINUTE
const HOURS_OF_DAY = DAY / HOUR
const WEEK = 7
/** An alarm closes after this time below half of its threshold. */
const CALM_FOR = DAY
/** The owner is notified at most once in this time. */
const NOTIFY_EVERY = DAY
/** Closed alarms are kept longer than other reputation figures. */
const KEPT = 400 * DAY

export interface AlarmsDeps {
  store: Store
  clock: Clock
  log: Log
  config: { http: Pick<Config['http'], 'public_url'> }
  /** Is called when a notice was written. */
  noticed: () => void
}

export class ReceiverAlarms {
  readonly #deps: AlarmsDeps
  readonly #loop: Loop

  constructor(deps: AlarmsDeps) {
    this.#deps = deps
    this.#loop = new Loop({ name: 'receiver alarms', clock: deps.clock, log: deps.log, run: (now) => this.#run(now) })
  }

  start(): void {
    this.#loop.start()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #run(now: number): Promise<number> {
    await judgeReceivers(this.#deps, now)
    return now + EVERY
  }
}

export async function judgeReceivers(deps: Omit<AlarmsDeps, 'clock'>, now: number): Promise<void> {
  const { store } = deps
  for (const { key } of store.all(db.selectFrom('users').select('key'))) {
    const changes = changesOf(store, key, now)
    if (changes.length === 0 && !canNotify(store, key, now)) continue
    const notified = await store.write((tx) => {
      for (const change of changes) change(tx)
      return notifyOwner(tx, deps.config.http.public_url, key, now)
    })
    if (notified) deps.noticed()
  }
  await store.writeSoon((tx) =>
    tx.run(
      db
        .deleteFrom('receiver_alarms')
        .where('status', '=', 'closed')
        .where('closed_at', '<', now - KEPT),
    ),
  )
}

type AlarmChange = (tx: Tx) => void

/** The changes to write for an account, by its current figures. */
function changesOf(reader: Reader, userKey: number, now: number): AlarmChange[] {
  const end = Math.floor(now / HOUR) + 1
  const from = end - HOURS_OF_DAY
  const day = figuresBetween(reader, { userKey, from, until: end })
  const open = listOpenAlarms(reader, userKey)
  if (day.size === 0 && open.length === 0) return []
  // Days that are over are one row at their first hour: the week begins with a whole day.
  const weekFrom = Math.floor((from - WEEK * HOURS_OF_DAY) / HOURS_OF_DAY) * HOURS_OF_DAY
  const week = figuresBetween(reader, { userKey, from: weekFrom, until: from })
  const known = new Set(open.map(({ kind, receiver }) => `${kind} ${receiver}`))
  const opening = [...day.values()].flatMap((figures) =>
    judgeReceiver(figures, week.get(figures.receiver) ?? NO_FIGURES)
      .filter(({ kind }) => !known.has(`${kind} ${figures.receiver}`))
      .map(
        (judgement): AlarmChange =>
          (tx) =>
            openAlarm(tx, { userKey, figures, judgement }, now),
      ),
  )
  const going = open.map((alarm): AlarmChange | undefined => follow(reader, alarm, day.get(alarm.receiver), now))
  return [...opening, ...going.filter((change) => change !== undefined)]
}

/** Returns the open alarms of an account, oldest first. */
export const listOpenAlarms = (reader: Reader, userKey: number): ReceiverAlarm[] =>
  reader.all(
    db
      .selectFrom('receiver_alarms')
      .selectAll()
      .where('user_key', '=', userKey)
      .where('status', '=', 'open')
      .orderBy('key'),
  )

/** The gravest kind of alarm that is open for each receiver of an account. */
export function openAlarms(reader: Reader, userKey: number): Map<string, ReceiverAlarmKind> {
  const GRAVEST: readonly ReceiverAlarmKind[] = ['slow', 'deferred', 'complained', 'refused']
  const open = listOpenAlarms(reader, userKey).toSorted((a, b) => GRAVEST.indexOf(a.kind) - GRAVEST.indexOf(b.kind))
  return new Map(open.map(({ kind, receiver }) => [receiver, kind]))
}

type AlarmSubject = Pick<ReceiverAlarm, 'user_key' | 'receiver' | 'kind'>

/** The most frequent reply of the receiver. Replies do not explain complaints, which are of recipients. */
const wordsNow = (reader: Reader, { kind, receiver, user_key: userKey }: AlarmSubject, now: number): string | null =>
  kind === 'complained'
    ? null
    : (commonRefusals(reader, { userKey, receiver, since: now - DAY, until: now }, 1)[0]?.words ?? null)

function openAlarm(
  tx: Tx,
  { figures, judgement, userKey }: { userKey: number; figures: ReceiverFigures; judgement: AlarmJudgement },
  now: number,
): void {
  const { receiver, tried } = figures
  const alarm = {
    id: newId(now),
    user_key: userKey,
    receiver,
    ...judgement,
    status: 'open' as const,
    created_at: now,
    closed_at: null,
    volume: tried,
    words: wordsNow(tx, { user_key: userKey, receiver, kind: judgement.kind }, now),
    calm_since: null,
    told_at: null,
    updated_at: now,
  }
  tx.run(db.insertInto('receiver_alarms').values(alarm))
  announce(tx, alarm, 'domain.receiver_warning', now)
}

/** The next state of an open alarm, or undefined if it does not change. */
function follow(
  reader: Reader,
  alarm: ReceiverAlarm,
  figures: ReceiverFigures | undefined,
  now: number,
): AlarmChange | undefined {
  const value = measure(alarm.kind, figures ?? NO_FIGURES)
  // Without email there are no rejections, so the alarm closes if the account stops sending to the receiver.
  const calm_since = isCalm(value, alarm.threshold) ? (alarm.calm_since ?? now) : null
  const words = wordsNow(reader, alarm, now) ?? alarm.words
  const shown = { measured: value ?? 0, volume: figures?.tried ?? 0, words, calm_since }
  if (calm_since !== null && now - calm_since >= CALM_FOR)
    return (tx) => {
      const row = move(tx, receiverAlarmMachine, alarm.key, 'calm', { ...shown, closed_at: now, updated_at: now })
      if (row?.emits) announce(tx, { ...alarm, ...shown }, row.emits, now)
    }
  const same = Object.entries(shown).every(([name, each]) => alarm[name as keyof typeof shown] === each)
  return same
    ? undefined
    : (tx) =>
        void tx.run(
          db
            .updateTable('receiver_alarms')
            .set({ ...shown, updated_at: now })
            .where('key', '=', alarm.key),
        )
}

/** The attributes of an alarm in its notices, which are those of the resource. */
type NotifiedAlarm = Pick<
  ReceiverAlarm,
  'user_key' | 'receiver' | 'kind' | 'measured' | 'usual' | 'volume' | 'words' | 'created_at'
>

/** Notifies the sending domains that have had email for the receiver since the day before the alarm. */
function announce(tx: Tx, alarm: NotifiedAlarm, type: EventType, now: number): void {
  const { kind, measured, created_at, receiver, usual, user_key, volume, words } = alarm
  const data = { receiver, kind, current: measured, baseline: usual, volume, reply: words }
  const domains = domainsWithMail(tx, user_key, receiver, created_at - DAY)
  appendEvents(
    tx,
    domains.map((domain_key) => ({ type, user_key, domain_key, data, at: now })),
  )
}

/** Whether an open alarm has no notice yet, and the owner's last notice is at least a day old. */
function canNotify(reader: Reader, userKey: number, now: number): boolean {
  const { last, unsent } = reader.one(
    raw<{ last: number | null; unsent: number }>(
      `select max(told_at) as last, count(*) filter (where told_at is null and status = 'open') as unsent
       from receiver_alarms where user_key = ?`,
      [userKey],
    ),
  )
  return unsent > 0 && (last === null || now - last >= NOTIFY_EVERY)
}

/** Writes one notice of all alarms that have none yet. False if there are no such alarms or it is too soon. */
function notifyOwner(tx: Tx, url: string, userKey: number, now: number): boolean {
  if (!canNotify(tx, userKey, now)) return false
  const unsent = listOpenAlarms(tx, userKey).filter(({ told_at }) => told_at === null)
  const text = [
    ...unsent.map((alarm) =>
      [
        alarmSentence(alarm),
        ...(alarm.words === null ? [] : [`SMTP reply: ${alarm.words}`]),
        `${url}/receivers/${encodeURIComponent(alarm.receiver)}`,
      ].join('\n'),
    ),
    'You receive such alerts at most once per day. The page Receivers of the console shows all of them.',
  ].join('\n\n')
  addNotice(tx, { user_key: userKey, domain_key: null, subject: alarmSubject(unsent), text }, now)
  const keys = unsent.map(({ key }) => key)
  tx.run(db.updateTable('receiver_alarms').set({ told_at: now }).where('key', 'in', keys))
  return true
}
