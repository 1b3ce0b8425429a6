// Alarms (DV77 to DV79): every few minutes the last 24 hours of each account's receivers are held against the week
// before. An alarm is opened once, told once, and closes after a day below the half of what opened it.
import { DAY, HOUR, MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { addNotice } from '../accounts/notices.ts'
import type { RowOf } from '../schema/tables.ts'
import type { EventType } from '../states/events.ts'
import { receiverAlarmMachine, type ReceiverAlarmKind } from '../states/receiver-alarm.ts'
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
/** An alarm closes after so long below the half of its threshold. */
const CALM_FOR = DAY
/** The owner is told once in this time. */
const TELL_EVERY = DAY
/** Closed alarms are kept as long as other figures of reputation are worth a look. */
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

/** Judges the receivers of every account. */
export async function judgeReceivers(deps: Omit<AlarmsDeps, 'clock'>, now: number): Promise<void> {
  const { store } = deps
  for (const { key } of store.all(db.selectFrom('users').select('key'))) {
    const changes = changesOf(store, key, now)
    if (changes.length === 0 && !mayTell(store, key, now)) continue
    const told = await store.write((tx) => {
      for (const change of changes) change(tx)
      return tellOwner(tx, deps.config.http.public_url, key, now)
    })
    if (told) deps.noticed()
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

/** What is to be written for an account, by its figures now. */
function changesOf(reader: Reader, userKey: number, now: number): AlarmChange[] {
  const end = Math.floor(now / HOUR) + 1
  const from = end - HOURS_OF_DAY
  const day = figuresBetween(reader, { userKey, from, until: end })
  const open = openOf(reader, userKey)
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

const openOf = (reader: Reader, userKey: number): ReceiverAlarm[] =>
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
  const open = openOf(reader, userKey).toSorted((a, b) => GRAVEST.indexOf(a.kind) - GRAVEST.indexOf(b.kind))
  return new Map(open.map(({ kind, receiver }) => [receiver, kind]))
}

const wordsNow = (reader: Reader, userKey: number, receiver: string, now: number): string | null =>
  commonRefusals(reader, { userKey, receiver, since: now - DAY, until: now }, 1)[0]?.words ?? null

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
    words: wordsNow(tx, userKey, receiver, now),
    calm_since: null,
    told_at: null,
    updated_at: now,
  }
  tx.run(db.insertInto('receiver_alarms').values(alarm))
  announce(tx, alarm, 'domain.receiver_warning', now)
}

/** What an open alarm becomes; undefined: it stays as it is. */
function follow(
  reader: Reader,
  alarm: ReceiverAlarm,
  figures: ReceiverFigures | undefined,
  now: number,
): AlarmChange | undefined {
  const value = measure(alarm.kind, figures ?? NO_FIGURES)
  // Without mail nothing is refused, so that the alarm of a receiver that is not written to ends.
  const calm_since = isCalm(value, alarm.threshold) ? (alarm.calm_since ?? now) : null
  const words = wordsNow(reader, alarm.user_key, alarm.receiver, now) ?? alarm.words
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

/** The attributes of an alarm that are told: those of the resource. */
type ToldAlarm = Pick<
  ReceiverAlarm,
  'user_key' | 'receiver' | 'kind' | 'measured' | 'usual' | 'volume' | 'words' | 'created_at'
>

/** Tells the sending domains that have had mail there since the day before the alarm. */
function announce(tx: Tx, alarm: ToldAlarm, type: EventType, now: number): void {
  const { kind, measured, created_at, receiver, usual, user_key, volume, words } = alarm
  const data = { receiver, kind, now: measured, before: usual, volume, words }
  const domains = domainsWithMail(tx, user_key, receiver, created_at - DAY)
  appendEvents(
    tx,
    domains.map((domain_key) => ({ type, user_key, domain_key, data, at: now })),
  )
}

/** Whether alarms are open of which the owner was not told, and none was told within a day. */
function mayTell(reader: Reader, userKey: number, now: number): boolean {
  const { last, untold } = reader.one(
    raw<{ last: number | null; untold: number }>(
      `select max(told_at) as last, count(*) filter (where told_at is null and status = 'open') as untold
       from receiver_alarms where user_key = ?`,
      [userKey],
    ),
  )
  return untold > 0 && (last === null || now - last >= TELL_EVERY)
}

/** Writes the notice of all alarms that the owner does not know of; false: there is none, or it is not time yet. */
function tellOwner(tx: Tx, url: string, userKey: number, now: number): boolean {
  if (!mayTell(tx, userKey, now)) return false
  const untold = openOf(tx, userKey).filter(({ told_at }) => told_at === null)
  const text = [
    ...untold.map((alarm) =>
      [
        alarmSentence(alarm),
        ...(alarm.words === null ? [] : [`It says: ${alarm.words}`]),
        `${url}/receivers/${encodeURIComponent(alarm.receiver)}`,
      ].join('\n'),
    ),
    'You are told of such alarms once a day at most; the page Receivers shows them all.',
  ].join('\n\n')
  addNotice(tx, { user_key: userKey, domain_key: null, subject: alarmSubject(untold), text }, now)
  const keys = untold.map(({ key }) => key)
  tx.run(db.updateTable('receiver_alarms').set({ told_at: now }).where('key', 'in', keys))
  return true
}
