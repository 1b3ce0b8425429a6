// The daily summary for owners who asked for it ("postrider user set EMAIL --summary daily"): the results of a day's
// mail (UTC), newly suppressed addresses, and problems that the owner must solve. A day without any of these has no
// summary.
import { DAY, HOUR, iso } from '../base/clock.ts'
import { addNotice } from '../accounts/notices.ts'
import { summaryDue, summaryMade, type User } from '../identity/users.ts'
import type { Reader, Store } from '../store/database.ts'
import { raw } from '../store/query.ts'

/** The most addresses in one summary. */
const NAMED = 30
/** A token that expires within this time is listed. */
const SOON = 14 * DAY

interface Period {
  /** Times in ms, both at midnight UTC. */
  from: number
  to: number
}

export interface SummaryDeps {
  store: Store
  config: { hostname: string }
}

/** Stores the due summaries: after midnight UTC, one for all days since the last summary. */
export async function summarise({ config, store }: SummaryDeps, now: number): Promise<void> {
  const to = Math.floor(now / DAY) * DAY
  for (const user of summaryDue(store, to)) {
    const text = summaryOf(store, user, { from: Math.floor((user.summary_at ?? to - DAY) / DAY) * DAY, to })
    await store.write((tx) => {
      summaryMade(tx, user, to)
      if (text === undefined) return
      const subject = `Your mail on ${config.hostname} until ${dayOf(to - 1)}`
      addNotice(tx, { user_key: user.key, domain_key: null, subject, text }, now)
    })
  }
}

const dayOf = (time: number): string => iso(time).slice(0, 10)

function summaryOf(reader: Reader, user: User, period: Period): string | undefined {
  const figures = figuresOf(reader, user, period)
  const stopped = stoppedOf(reader, user, period)
  const hands = handsOf(reader, user, period.to)
  if (figures.length + stopped.length + hands.length === 0) return undefined
  const sections = [
    hands.length > 0 ? `What needs attention:\n\n${lines(hands)}` : 'Nothing needs attention.',
    figures.length > 0 ? `Mail of ${spanOf(period)}, by domain:\n\n${lines(figures)}` : '',
    stopped.length > 0 ? `Addresses that are written to no more:\n\n${lines(stopped)}` : '',
    `"postrider user set ${user.email} --summary none" on the server ends these summaries.`,
  ]
  return `${sections.filter((section) => section !== '').join('\n\n')}\n`
}

const lines = (entries: readonly string[]): string => entries.map((entry) => `- ${entry}`).join('\n')
const spanOf = ({ from, to }: Period): string =>
  to - from <= DAY ? dayOf(from) : `${dayOf(from)} to ${dayOf(to - DAY)}`
const percent = (part: number, whole: number): string => `${((100 * part) / Math.max(whole, 1)).toFixed(1)} %`

function figuresOf(reader: Reader, user: User, { from, to }: Period): string[] {
  const rows = reader.all(
    raw<{ name: string; deliveries: number; bounces: number; complaints: number }>(
      `select d.name, sum(t.deliveries) as deliveries, sum(t.bounces) as bounces, sum(t.complaints) as complaints
       from domains d join tallies t on t.domain_key = d.key where d.user_key = ? and t.hour >= ? and t.hour < ?
       group by d.key having deliveries + bounces + complaints > 0 order by d.name`,
      [user.key, from / HOUR, to / HOUR],
    ),
  )
  return rows.map(({ bounces, complaints, deliveries, name }) => {
    const all = deliveries + bounces
    return `${name}: ${deliveries} delivered, ${bounces} bounced (${percent(bounces, all)}), ${complaints} complaints (${percent(complaints, all)})`
  })
}

function stoppedOf(reader: Reader, user: User, { from, to }: Period): string[] {
  const rows = reader.all(
    raw<{ email: string; reason: string; name: string }>(
      `select s.email, s.reason, d.name from suppressions s join domains d on d.key = s.domain_key
       where s.user_key = ? and s.created_at >= ? and s.created_at < ? and s.reason in ('hard_bounce', 'complaint', 'soft_bounce')
       order by s.created_at limit ${NAMED + 1}`,
      [user.key, from, to],
    ),
  )
  const named = rows.slice(0, NAMED).map(({ email, name, reason }) => `${email} (${reason.replace('_', ' ')}, ${name})`)
  return rows.length > NAMED ? [...named, 'more: the page Suppressions of the console shows all'] : named
}

/** Problems that wait for an action of the owner. */
function handsOf(reader: Reader, { key }: User, now: number): string[] {
  const ask = (sql: string, ...more: number[]): string[] =>
    reader.all(raw<{ line: string }>(sql, [key, ...more])).map(({ line }) => line)
  return [
    ...ask(`select 'The domain ' || name || ' is ' || status || '; its page in the console says what is missing.' as line
      from domains where user_key = ? and deleted_at is null and status <> 'active' order by name`),
    ...ask(`select 'The webhook ' || url || ' is disabled; resume it once it answers again.' as line
      from webhooks where user_key = ? and deleted_at is null and status = 'disabled' order by key`),
    ...ask(`select 'The agent ' || agent_id || ' is ' || iif(paused_at is null, 'damaged: its mail is slowed', 'paused: its mail is refused') || '.' as line
      from agents where user_key = ? and (status = 'damaged' or paused_at is not null) order by agent_id`),
    ...ask(`select 'The campaign ' || name || ' is paused.' as line
      from campaigns where user_key = ? and status = 'paused' order by key`),
    ...ask(
      `select 'The token ' || name || ' ends on ' || date(expires_at / 1000, 'unixepoch') || '.' as line
      from tokens where user_key = ? and expires_at > ? and expires_at < ? order by expires_at`,
      now,
      now + SOON,
    ),
  ]
}
