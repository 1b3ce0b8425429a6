// The alert emails of the watch: one when a listing or wrong reverse DNS starts, and one when it ends.
import { iso } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import { addNotice } from '../users/notices.ts'
import { operatorOf } from '../users/operator-notices.ts'
import type { Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import { explained, paragraphOf } from './words.ts'
import type { WatchRow } from './watches.ts'

export interface TellDeps {
  config: Pick<Config, 'notices'>
  log: Log
}

const NOTHING_STOPS = 'Postrider keeps sending as before. These checks do not affect delivery.'
const ALL = 'For all checks, see Server, Blocklists in the console or run "postrider watch list".'

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

/** The email subject for new problems of one address or domain. */
function headline(begun: readonly WatchRow[]): string {
  const [first] = begun
  const lists = begun.filter(isList).map(({ list }) => list)
  return lists.length > 0
    ? `${first?.subject} is listed by ${lists.join(', ')}`
    : `Reverse DNS of ${first?.subject} is wrong`
}

const keyOf = ({ key }: WatchRow): number => key

/** Logs the changes of one subject and stores notices. Returns whether there is a notice to email. */
export function tellChanges(tx: Tx, deps: TellDeps, changed: readonly WatchRow[], now: number): boolean {
  for (const { answer, kind, list, status, subject } of changed)
    deps.log.info('watch_status_changed', { kind, subject, list, state: status, answer })
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
    : `Reverse DNS of ${ended[0]?.subject} is correct again`
}

const endOf = (watch: WatchRow): string => `Since ${iso(watch.since)}: ${explained(watch).words}`
