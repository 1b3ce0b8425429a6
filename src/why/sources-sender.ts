// What is known of the sender: what receivers say to its mail as a whole, its domain, its lists, and this server.
import { forLog } from '../base/clean-text.ts'
import { DAY, iso } from '../base/clock.ts'
import { takesMail } from '../inbound/recipients.ts'
import { domainDays, domainFigures } from '../reputation/tally.ts'
import { outcomesOf, sumOf } from '../reputation/receivers.ts'
import { judged } from '../reputation/api-receivers.ts'
import type { RowOf } from '../schema/tables.ts'
import { reasonOf } from '../smtp/reply-reason.ts'
import type { Reader } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { moment, type EvidenceSource, type WhyRow } from './evidence.ts'
import { openRows } from './opens.ts'
import type { WhySubject } from './subject.ts'

const MAX_TEXT = 300
/** Rows of refusals that are read at most; of a domain they are those of all receivers, so of fewer days. */
const REFUSALS = 2000
const DAYS_OF_A_DOMAIN = 7
/** A domain, or an account that first sent, less than this long ago is new. */
const NEW = 28 * DAY
/** A day with this many times the mean of the days before, and this much mail, is a jump. */
const JUMP = { times: 3, least: 200 }
/** Complaints of a thousand mails from which on receivers take notice, and bounces of a hundred of a list. */
const COMPLAINTS = { perThousand: 1, least: 3 }
const BAD_LIST = { share: 0.05, least: 5 }
const IMPORTS = 20

const count = (value: number): string => value.toLocaleString('en')
const counted = (value: number, noun: string, nouns = `${noun}s`): string =>
  `${count(value)} ${value === 1 ? noun : nouns}`
const dayOf = (at: number): string => iso(at).slice(0, 10)

const receiverPage = (receiver: string): string => `/receivers/${encodeURIComponent(receiver)}`

/** A record may name where reports go. */
const withoutAddresses = (text: string): string => text.replaceAll(/[^\s<>@:,;"]+@[^\s<>@,;"]+/g, '<address>')

const domainRow = ({ domain }: WhySubject): WhyRow[] => {
  if (!domain || domain.status === 'active') return []
  const state = domain.deleted_at === null ? domain.status : 'removed'
  const text = `The domain ${domain.name} is ${state} since ${moment(domain.deleted_at ?? domain.status_at)}`
  return [{ at: domain.deleted_at ?? domain.status_at, fact: state, text, href: `/domains/${domain.name}` }]
}

/** Inboxes of a domain that takes no mail until it is verified (D197). */
function inboxRows(reader: Reader, { domain }: WhySubject): WhyRow[] {
  if (!domain || domain.deleted_at !== null || takesMail(reader, domain.key)) return []
  const { inboxes, since } = reader.one(
    raw<{ inboxes: number; since: number | null }>(
      'select count(*) as inboxes, min(created_at) as since from inboxes where domain_key = ? and deleted_at is null',
      [domain.key],
    ),
  )
  if (since === null) return []
  const text = `${counted(inboxes, 'inbox', 'inboxes')} of ${domain.name}, the first since ${moment(since)}: mail to ${inboxes === 1 ? 'it' : 'them'} is refused`
  return [{ at: Math.max(since, domain.status_at), fact: domain.status, text, href: '/inboxes' }]
}

/** Records that the last check did not see as they should be; a removed domain needs none. */
function recordRows(reader: Reader, { domain }: WhySubject): WhyRow[] {
  if (!domain || domain.deleted_at !== null) return []
  const records = reader.all(
    db
      .selectFrom('records')
      .selectAll()
      .where('domain_key', '=', domain.key)
      .where('checked_at', 'is not', null)
      .where('verified', '=', 0)
      .where('required', '=', 1),
  )
  return records.map(({ checked_at, name, observed, record_type }) => ({
    at: checked_at ?? 0,
    fact: record_type,
    text: `${record_type.replaceAll('_', ' ')} at ${name}: ${observed === null ? 'not in DNS' : `DNS has “${forLog(withoutAddresses(observed), MAX_TEXT)}”`}, asked ${moment(checked_at ?? 0)}`,
    href: `/domains/${domain.name}`,
  }))
}

type DayOfRefusals = Pick<RowOf<'refusals'>, 'receiver' | 'day' | 'words' | 'times'>

/** What receivers said, by day; each day is found by the key of the table. */
function refusalRows(reader: Reader, { accounts, kind, now, receivers, since }: WhySubject): WhyRow[] {
  if (kind === 'mail' && receivers.length === 0) return []
  const last = Math.floor(now / DAY)
  const first = Math.max(Math.floor(since / DAY), kind === 'domain' ? last - DAYS_OF_A_DOMAIN : 0)
  const days = Array.from({ length: Math.min(last - first + 1, 60) }, (_, at) => last - at)
  const only = kind === 'domain' ? '' : 'and receiver in (select value from json_each(?))'
  const rows = reader.all(
    raw<DayOfRefusals>(
      `select receiver, day, words, sum(times) as times from refusals
       where user_key in (select value from json_each(?)) and day in (select value from json_each(?)) ${only}
       group by receiver, day, words limit ${REFUSALS}`,
      [JSON.stringify(accounts), JSON.stringify(days), ...(kind === 'domain' ? [] : [JSON.stringify(receivers)])],
    ),
  )
  return rows.map(({ day, receiver, times, words }) => ({
    at: day * DAY,
    fact: 'reply',
    reason: reasonOf({ text: words }, receiver),
    times,
    text: `${receiver} on ${dayOf(day * DAY)}, ${count(times)} times: ${forLog(words, MAX_TEXT)}`.replace(
      ', 1 times',
      ', once',
    ),
    href: receiverPage(receiver),
  }))
}

/** Receivers that defer or refuse much of the mail in the last seven days, by the verdict of their page. */
function receiverRows(reader: Reader, { accounts, now, receivers }: WhySubject): WhyRow[] {
  const since = Math.floor((now - 7 * DAY) / DAY) * DAY
  return receivers.flatMap((only) => {
    const hours = accounts.flatMap(
      (userKey) => outcomesOf(reader, { receivers: [only], since, userKey }).get(only) ?? [],
    )
    const sum = sumOf(hours)
    const { verdict } = judged(sum)
    if (verdict !== 'slow' && verdict !== 'refusing') return []
    const text = `${only} since ${dayOf(since)}: ${count(sum.delivered)} delivered, ${count(sum.deferred)} put off, ${count(sum.refused)} refused`
    return [{ at: now - (now % DAY), fact: verdict, text, href: receiverPage(only) }]
  })
}

/** The last day against the mean of the days before. */
function jump(days: readonly { day: number; mails: number }[], now: number, of: string, href: string): WhyRow[] {
  const today = Math.floor(now / DAY)
  const mails = days.find(({ day }) => day === today)?.mails ?? 0
  const before = days.filter(({ day }) => day < today && day >= today - 28)
  const mean = before.reduce((sum, each) => sum + each.mails, 0) / 28
  if (mails < JUMP.least || mails < mean * JUMP.times) return []
  const text = `${of} on ${dayOf(now)}: ${counted(mails, 'mail')}; the mean of the 28 days before is ${count(Math.round(mean))}`
  return [{ at: today * DAY, fact: 'jump', text, href }]
}

function volumeRows(reader: Reader, { accounts, domain, kind, now, receivers, since }: WhySubject): WhyRow[] {
  if (kind !== 'receiver') {
    if (!domain) return []
    const days = domainDays(reader, domain.key, now - 29 * DAY).map(({ bounces, day, deliveries }) => ({
      day,
      mails: bounces + deliveries,
    }))
    return jump(days, now, domain.name, `/domains/${domain.name}`)
  }
  const hours = accounts.flatMap((userKey) => [...outcomesOf(reader, { receivers, since, userKey }).values()].flat())
  const byDay = Map.groupBy(hours, ({ hour }) => Math.floor(hour / 24))
  const days = [...byDay].map(([day, all]) => ({
    day,
    mails: all.reduce((sum, { delivered, refused }) => sum + delivered + refused, 0),
  }))
  return receivers.flatMap((receiver) => jump(days, now, `Mail to ${receiver}`, receiverPage(receiver)))
}

function ageRows(reader: Reader, { accounts, domain, now }: WhySubject): WhyRow[] {
  const [account, ...more] = accounts
  const rows: WhyRow[] = []
  if (domain && now - domain.created_at < NEW)
    rows.push({
      at: domain.created_at,
      fact: 'new domain',
      text: `The domain ${domain.name} was added on ${dayOf(domain.created_at)}`,
      href: `/domains/${domain.name}`,
    })
  if (account === undefined || more.length > 0) return rows
  const first = reader.first(
    raw<{ created_at: number }>(
      'select created_at from outbound_emails where user_key = ? order by created_at limit 1',
      [account],
    ),
  )
  if (first && now - first.created_at < NEW)
    rows.push({
      at: first.created_at,
      fact: 'first mail',
      text: `The first mail that is kept of the account is of ${dayOf(first.created_at)}`,
      href: '/mail',
    })
  return rows
}

/** Whether the domain is under a warning, and its complaints. */
function reputationRows(reader: Reader, { domain }: WhySubject): WhyRow[] {
  if (!domain) return []
  const warned = reader.first(
    db
      .selectFrom('domain_reputations')
      .select('warned_at')
      .where('domain_key', '=', domain.key)
      .where('warned_at', 'is not', null),
  )
  if (!warned || warned.warned_at === null) return []
  const text = `${domain.name} is under a warning since ${moment(warned.warned_at)}: too many bounces or complaints in seven days`
  return [{ at: warned.warned_at, fact: 'warning', text, href: `/domains/${domain.name}` }]
}

function complaintRows(reader: Reader, { domain, mails, since }: WhySubject): WhyRow[] {
  const own = mails.flatMap(({ deliveries, id }) =>
    deliveries
      .filter(({ status }) => status === 'complained')
      .map(({ address, updated_at }) => ({
        at: updated_at,
        fact: 'own',
        text: `${forLog(address)} called the mail spam`,
        href: `/mail/${id}`,
      })),
  )
  if (!domain) return own
  const { complaints, deliveries } = domainFigures(reader, domain.key, since)
  if (complaints < COMPLAINTS.least || complaints * 1000 <= deliveries * COMPLAINTS.perThousand) return own
  const text = `${domain.name} since ${dayOf(since)}: ${counted(complaints, 'complaint')} about ${counted(deliveries, 'delivered mail')}`
  return [...own, { at: since, fact: 'share', text, href: `/domains/${domain.name}` }]
}

const isBad = (bad: number, all: number): boolean => bad >= BAD_LIST.least && bad >= all * BAD_LIST.share

/** Unknown addresses of the campaign, and of the imports of its audience; of one mail, the import of its contact. */
function listRows(reader: Reader, { campaign, mails }: WhySubject): WhyRow[] {
  if (!campaign) return []
  const rows: WhyRow[] = []
  const statuses = reader.all(
    raw<{ status: string; mails: number }>(
      'select status, count(*) as mails from outbound_emails where campaign_key = ? group by status',
      [campaign.key],
    ),
  )
  const all = statuses.reduce((sum, each) => sum + each.mails, 0)
  const bounced = statuses.find(({ status }) => status === 'bounced')?.mails ?? 0
  if (isBad(bounced, all))
    rows.push({
      at: campaign.started_at ?? campaign.created_at,
      fact: 'campaign',
      text: `The campaign “${forLog(campaign.name, MAX_TEXT)}”: ${count(bounced)} of ${counted(all, 'mail')} bounced`,
      href: `/campaigns/${campaign.id}`,
    })
  const [contact] = mails.length === 1 ? contactsOf(reader, mails[0]?.contact_key ?? null) : []
  const imports = reader.all(
    raw<RowOf<'list_imports'> & { audience: string }>(
      `select i.*, a.id as audience from list_imports i join audiences a on a.key = i.audience_key
       where i.audience_key = ? order by i.key desc limit ${IMPORTS}`,
      [campaign.audience_key],
    ),
  )
  for (const each of imports) {
    const { audience, audience_key, created, created_at, id, updated_at } = each
    if (contact && (contact.created_at < created_at || contact.created_at > updated_at)) continue
    const { gone } = reader.one(
      raw<{ gone: number }>(
        `select count(*) as gone from contacts where audience_key = ? and status = 'bounced' and created_at between ? and ?`,
        [audience_key, created_at, updated_at],
      ),
    )
    if (isBad(gone, created))
      rows.push({
        at: created_at,
        fact: 'import',
        text: `The import of ${moment(created_at)}: ${count(gone)} of ${counted(created, 'new contact')} bounced`,
        href: `/audiences/${audience}/imports/${id}`,
      })
  }
  return rows
}

const contactsOf = (reader: Reader, key: number | null): { created_at: number }[] =>
  key === null ? [] : reader.all(db.selectFrom('contacts').select('created_at').where('key', '=', key))

export const SENDER_SOURCES: readonly EvidenceSource[] = [
  { name: 'domain', kinds: ['mail', 'domain'], ask: (_, subject) => domainRow(subject) },
  { name: 'records', kinds: ['mail', 'domain'], ask: ({ store }, subject) => recordRows(store, subject) },
  { name: 'inboxes', kinds: ['domain'], ask: ({ store }, subject) => inboxRows(store, subject) },
  { name: 'replies', kinds: ['mail', 'domain', 'receiver'], ask: ({ store }, subject) => refusalRows(store, subject) },
  { name: 'receivers', kinds: ['mail', 'receiver'], ask: ({ store }, subject) => receiverRows(store, subject) },
  { name: 'lists', kinds: ['mail'], ask: ({ store }, subject) => listRows(store, subject) },
  { name: 'complaints', kinds: ['mail', 'domain'], ask: ({ store }, subject) => complaintRows(store, subject) },
  { name: 'reputation', kinds: ['mail', 'domain'], ask: ({ store }, subject) => reputationRows(store, subject) },
  { name: 'volume', kinds: ['mail', 'domain', 'receiver'], ask: ({ store }, subject) => volumeRows(store, subject) },
  { name: 'age', kinds: ['mail', 'domain', 'receiver'], ask: ({ store }, subject) => ageRows(store, subject) },
  { name: 'opens', kinds: ['mail', 'receiver'], ask: ({ store }, subject) => openRows(store, subject) },
  {
    name: 'local trouble',
    kinds: ['mail', 'domain', 'receiver'],
    ask: ({ troubles }) =>
      troubles?.list().map(({ name, sentence, since }) => ({
        at: since,
        fact: name,
        text: sentence,
        href: null,
      })) ?? 'off',
  },
]
