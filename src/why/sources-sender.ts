// Evidence about the sender: replies to all its email, its domain, its contact lists, and this server.
import { countedGrouped } from '../base/text.ts'
import { forLog } from '../base/clean-text.ts'
import { DAY, dateOf, dayOf } from '../base/clock.ts'
import { takesMail } from '../inbound/recipients.ts'
import { rateSeverity } from '../reputation/findings.ts'
import { domainFigures } from '../reputation/tally.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { reasonOf } from '../smtp/reply-reason.ts'
import type { Reader } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { heldSince, whyHeld } from '../store/serving.ts'
import { moment, type EvidenceSource, type WhyDeps, type WhyRow } from './evidence.ts'
import type { WhySubject } from './subject.ts'

const MAX_TEXT = 300
/** The most replies that are read. A domain has those of all receivers, so fewer days are read. */
const REFUSALS = 2000
const DAYS_OF_A_DOMAIN = 7
/** One email or list has too few recipients for a rate alone: the least complaints and bounces that count. */
const COMPLAINTS = 3
const BOUNCES = 5
const IMPORTS = 20

const count = (value: number): string => value.toLocaleString('en')
const receiverPage = (receiver: string): string => `/receivers/${encodeURIComponent(receiver)}`

/** A record can contain the address for reports. */
const withoutAddresses = (text: string): string => text.replaceAll(/[^\s<>@:,;"]+@[^\s<>@,;"]+/g, '<address>')

const domainRow = ({ domain }: WhySubject): WhyRow[] => {
  if (!domain || domain.status === 'active') return []
  const state = domain.deleted_at === null ? domain.status : 'removed'
  const text = `The domain ${domain.name} has been ${state} since ${moment(domain.deleted_at ?? domain.status_at)}`
  return [{ at: domain.deleted_at ?? domain.status_at, fact: 'domain_state', text, href: `/domains/${domain.name}` }]
}

/** Inboxes of a domain that receives no email until it is verified (D197). */
function inboxRows(reader: Reader, { domain }: WhySubject): WhyRow[] {
  if (!domain || domain.deleted_at !== null || takesMail(reader, domain.key)) return []
  const { inboxes, since } = reader.one(
    raw<{ inboxes: number; since: number | null }>(
      'select count(*) as inboxes, min(created_at) as since from inboxes where domain_key = ? and deleted_at is null',
      [domain.key],
    ),
  )
  if (since === null) return []
  const text = `${countedGrouped(inboxes, 'inbox', 'inboxes')} of ${domain.name}, the first since ${moment(since)}: messages to ${inboxes === 1 ? 'it' : 'them'} are rejected`
  return [{ at: Math.max(since, domain.status_at), fact: domain.status, text, href: '/inboxes' }]
}

/** Records that were missing or different at the last check. */
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
  return records.map(({ checked_at, missing_address, name, observed, record_type }) => ({
    at: checked_at ?? 0,
    fact: 'missing_records',
    text: `${record_type.replaceAll('_', ' ')} at ${name}: ${observed === null ? 'not in DNS' : `DNS has “${forLog(withoutAddresses(observed), MAX_TEXT)}”${missing_address === 1 ? ', and its host has no address' : ''}`}, checked ${moment(checked_at ?? 0)}`,
    href: `/domains/${domain.name}`,
  }))
}

type DayOfRefusals = Pick<RowOf<'refusals'>, 'receiver' | 'day' | 'words' | 'times'>

function refusalRows(reader: Reader, { accounts, kind, now, receivers, since }: WhySubject): WhyRow[] {
  if (kind === 'email' && receivers.length === 0) return []
  const last = dayOf(now)
  const first = Math.max(dayOf(since), kind === 'domain' ? last - DAYS_OF_A_DOMAIN : 0)
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
    text: `${receiver} on ${dateOf(day * DAY)}, ${count(times)} times: ${forLog(words, MAX_TEXT)}`.replace(
      ', 1 times',
      ', once',
    ),
    href: receiverPage(receiver),
  }))
}

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
  const text = `${domain.name} has a reputation warning since ${moment(warned.warned_at)}: too many bounces or complaints in seven days`
  return [{ at: warned.warned_at, fact: 'warning', text, href: `/domains/${domain.name}` }]
}

function complaintRows(reader: Reader, { domain, mails, since }: WhySubject): WhyRow[] {
  const own = mails.flatMap(({ deliveries, id }) =>
    deliveries
      .filter(({ status }) => status === 'complained')
      .map(({ address, updated_at }) => ({
        at: updated_at,
        fact: 'own',
        text: `${forLog(address)} marked the email as spam`,
        href: `/mail/${id}`,
      })),
  )
  if (!domain) return own
  const { complaints, deliveries } = domainFigures(reader, domain.key, since)
  if (complaints < COMPLAINTS || rateSeverity('complaint_rate', complaints / deliveries) === 'ok') return own
  const text = `${domain.name} since ${dateOf(since)}: ${countedGrouped(complaints, 'complaint')} about ${countedGrouped(deliveries, 'delivered email')}`
  return [...own, { at: since, fact: 'share', text, href: `/domains/${domain.name}` }]
}

/** Whether so many addresses of a list bounced that providers may block its sender. */
const isBad = (bad: number, all: number): boolean => bad >= BOUNCES && rateSeverity('bounce_rate', bad / all) === 'fail'

/** Bounces of the campaign and of the imports of its audience. For one email, of the import of its contact. */
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
      fact: 'bad_list',
      text: `The campaign “${forLog(campaign.name, MAX_TEXT)}”: ${count(bounced)} of ${countedGrouped(all, 'email')} bounced`,
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
        fact: 'bad_list',
        text: `The import of ${moment(created_at)}: ${count(gone)} of ${countedGrouped(created, 'new contact')} bounced`,
        href: `/audiences/${audience}/imports/${id}`,
      })
  }
  return rows
}

const contactsOf = (reader: Reader, key: number | null): { created_at: number }[] =>
  key === null ? [] : reader.all(db.selectFrom('contacts').select('created_at').where('key', '=', key))

/** The problem of the server that a command can see: a file records whether the queue is held. */
function heldRows({ data_dir }: WhyDeps['config']): WhyRow[] | 'off' {
  const from = heldSince(data_dir)
  return from ? [{ at: Date.parse(from.time), fact: 'machine', text: whyHeld(from), href: null }] : 'off'
}

export const SENDER_SOURCES: readonly EvidenceSource[] = [
  { name: 'domain', kinds: ['email', 'domain'], ask: (_, subject) => domainRow(subject) },
  { name: 'records', kinds: ['email', 'domain'], ask: ({ store }, subject) => recordRows(store, subject) },
  { name: 'inboxes', kinds: ['domain'], ask: ({ store }, subject) => inboxRows(store, subject) },
  { name: 'replies', kinds: ['email', 'domain', 'receiver'], ask: ({ store }, subject) => refusalRows(store, subject) },
  { name: 'lists', kinds: ['email'], ask: ({ store }, subject) => listRows(store, subject) },
  { name: 'complaints', kinds: ['email', 'domain'], ask: ({ store }, subject) => complaintRows(store, subject) },
  { name: 'reputation', kinds: ['email', 'domain'], ask: ({ store }, subject) => reputationRows(store, subject) },
  {
    name: 'local trouble',
    kinds: ['email', 'domain', 'receiver'],
    ask: ({ config, troubles }) =>
      troubles?.list().map(({ name, sentence, since }) => ({
        at: since,
        fact: name,
        text: sentence,
        href: null,
      })) ?? heldRows(config),
  },
]
