// The daily summary for owners who enabled it ("postrider user set EMAIL --summary daily"): the results of a day's
// mail (UTC), newly suppressed addresses, and problems that the owner must solve. A day without any of these has no
// summary.
import { percent } from '../base/text.ts'
import { dateOf, DAY, HOUR, startOfDay } from '../base/clock.ts'
import { addNotice } from '../users/notices.ts'
import { summaryDue, summaryMade, type User } from '../users/users.ts'
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
  const to = startOfDay(now)
  for (const user of summaryDue(store, to)) {
    const text = summaryOf(store, user, { from: startOfDay(user.summary_at ?? to - DAY), to })
    await store.write((tx) => {
      summaryMade(tx, user, to)
      if (text === undefined) return
      const subject = `Email summary of ${config.hostname} for ${dateOf(to - 1)}`
      addNotice(tx, { user_key: user.key, domain_key: null, subject, text }, now)
    })
  }
}

function summaryOf(reader: Reader, user: User, period: Period): string | undefined {
  const figures = figuresOf(reader, user, period)
  const stopped = stoppedOf(reader, user, period)
  const hands = handsOf(reader, user, period.to)
  if (figures.length + stopped.length + hands.length === 0) return undefined
  const sections = [
    hands.length > 0 ? `Needs attention:\n\n${lines(hands)}` : 'Nothing needs attention.',
    figures.length > 0 ? `Email by domain, ${spanOf(period)}:\n\n${lines(figures)}` : '',
    stopped.length > 0 ? `New suppressions:\n\n${lines(stopped)}` : '',
    `To stop these summaries, run "postrider user set ${user.email} --summary none" on the server.`,
  ]
  return `${sections.filter((section) => section !== '').join('\n\n')}\n`
}

const lines = (entries: readonly string[]): string => entries.map((entry) => `- ${entry}`).join('\n')
const spanOf = ({ from, to }: Period): string =>
  to - from <= DAY ? dateOf(from) : `${dateOf(from)} to ${dateOf(to - DAY)}`

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
    const all = Math.max(deliveries + bounces, 1)
    return `${name}: ${deliveries} delivered, ${bounces} bounced (${percent(bounces / all, 1)}), ${complaints} complaints (${percent(complaints / all, 1)})`
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
  return rows.length > NAMED ? [...named, 'more in the console, under Suppressions'] : named
}

/** Problems that wait for an action of the owner. */
function handsOf(reader: Reader, { key }: User, now: number): string[] {
  const ask = (sql: string, ...more: number[]): string[] =>
    reader.all(raw<{ line: string }>(sql, [key, ...more])).map(({ line }) => line)
  return [
    ...ask(`select 'The domain ' || name || ' is ' || status || '. Its page in the console shows what is missing.' as line
      from domains where user_key = ? and deleted_at is null and status <> 'active' order by name`),
    ...ask(`select 'The webhook ' || url || ' is disabled. Resume it when the endpoint works again.' as line
      from webhooks where user_key = ? and deleted_at is null and status = 'disabled' order by key`),
    ...ask(`select 'The agent ' || agent_id || ' is ' || iif(paused_at is null, 'damaged: its sending rate is reduced', 'paused: its email is rejected') || '.' as line
      from agents where user_key = ? and (status = 'damaged' or paused_at is not null) order by agent_id`),
    ...ask(`select 'The campaign ' || name || ' is paused.' as line
      from campaigns where user_key = ? and status = 'paused' order by key`),
    ...ask(
      `select 'The token ' || name || ' expires on ' || date(expires_at / 1000, 'unixepoch') || '.' as line
      from tokens where user_key = ? and expires_at > ? and expires_at < ? order by expires_at`,
      now,
      now + SOON,
    ),
  ]
}
