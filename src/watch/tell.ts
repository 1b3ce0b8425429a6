// What the operator is told of the watch: once when something begins, once when it ends, and once when a list has not
// answered for days (DV91).
import { DAY, iso } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import { addNotice } from '../accounts/notices.ts'
import { operatorOf } from '../accounts/operator-notices.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import { explained, listShown, paragraphOf } from './words.ts'
import type { WatchRow } from './watches.ts'

/** Without an answer that can be believed for so long: the operator is told. */
const SILENT = 3 * DAY

export interface TellDeps {
  config: Pick<Config, 'notices'>
  log: Log
}

const NOTHING_STOPS = 'Mail goes on as before: the watch changes nothing of what is sent.'
const ALL =
  'The page "Server", part "Watch", of the console and "postrider watch list" show everything that is watched.'

function tell(
  tx: Tx,
  { config }: TellDeps,
  now: number,
  { paragraphs, subject }: { subject: string; paragraphs: readonly string[] },
): boolean {
  const operator = operatorOf(tx, config)
  if (!operator) return false
  addNotice(tx, { ...operator, domain_key: null, subject, text: `${[...paragraphs, ALL].join('\n\n')}\n` }, now)
  return true
}

const isList = ({ list }: WatchRow): boolean => list !== ''

/** The subject of a notice about what begins with one address or domain. */
function headline(begun: readonly WatchRow[]): string {
  const [first] = begun
  const lists = begun.filter(isList).map(({ list }) => list)
  return lists.length > 0
    ? `${first?.subject} is listed by ${lists.join(', ')}`
    : `The reverse DNS of ${first?.subject} is wrong`
}

const keyOf = ({ key }: WatchRow): number => key

/** Tells of the changes of one subject. Returns whether there is a notice to mail. */
export function tellChanges(tx: Tx, deps: TellDeps, changed: readonly WatchRow[], now: number): boolean {
  for (const { answer, kind, list, status, subject } of changed)
    deps.log.info('watch changed', { kind, subject, list, state: status, answer })
  const begun = changed.filter(({ status, told_at }) => told_at === null && (status === 'listed' || status === 'wrong'))
  const ended = changed.filter(({ status, told_at }) => told_at !== null && status === 'clear')
  const begins =
    begun.length > 0 &&
    tell(tx, deps, now, { subject: headline(begun), paragraphs: [...begun.map(paragraphOf), NOTHING_STOPS] })
  if (begins) tx.run(db.updateTable('watches').set({ told_at: now }).where('key', 'in', begun.map(keyOf)))
  const ends = ended.length > 0 && tell(tx, deps, now, { subject: headlineOfEnd(ended), paragraphs: ended.map(endOf) })
  if (ended.length > 0) tx.run(db.updateTable('watches').set({ told_at: null }).where('key', 'in', ended.map(keyOf)))
  return begins || ends
}

const headlineOfEnd = (ended: readonly WatchRow[]): string => {
  const lists = ended.filter(isList).map(({ list }) => list)
  return lists.length > 0
    ? `${ended[0]?.subject} is no longer listed by ${lists.join(', ')}`
    : `The reverse DNS of ${ended[0]?.subject} is right again`
}

const endOf = (watch: WatchRow): string => `Since ${iso(watch.since)}: ${explained(watch).words}`

/** Lists, and questions to DNS, that have had no answer for days and of which nobody was told: what they are about. */
export function silentLists(reader: Reader, now: number): WatchRow[][] {
  const rows = reader.all(
    db.selectFrom('watches').selectAll().where('left_at', 'is', null).where('status', '=', 'unknown').orderBy('since'),
  )
  return [...Map.groupBy(rows, ({ list }) => list).values()].filter(
    (all) =>
      all.every(({ told_unknown_at }) => told_unknown_at === null) && all.some(({ since }) => since <= now - SILENT),
  )
}

/** Tells of them. Returns whether there is a notice to mail. */
export function tellSilence(tx: Tx, deps: TellDeps, silent: readonly (readonly WatchRow[])[], now: number): boolean {
  return silent.filter((all) => tellOf(tx, deps, all, now)).length > 0
}

function tellOf(tx: Tx, deps: TellDeps, all: readonly WatchRow[], now: number): boolean {
  const [oldest] = all
  if (!oldest) return false
  const { mend, words } = explained(oldest)
  const named = all.slice(0, 10).map(({ subject }) => subject)
  const paragraphs = [
    `Since ${iso(oldest.since)} nothing is known: ${words}`,
    `It is about ${[...new Set(named)].join(', ')}${all.length > named.length ? ` and ${all.length - named.length} more` : ''}.`,
    ...(mend === null ? [] : [`What to do: ${mend}`]),
  ]
  const what = oldest.list === '' ? 'reverse DNS' : listShown(oldest.list)
  const told = tell(tx, deps, now, { subject: `No answer for three days: ${what}`, paragraphs })
  if (told) tx.run(db.updateTable('watches').set({ told_unknown_at: now }).where('key', 'in', all.map(keyOf)))
  return told
}
