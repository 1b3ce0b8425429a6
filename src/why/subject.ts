// The subject of an explanation: an email or a campaign by its id, a sending domain, or a receiver. Rows of other
// accounts are read only for an operator's explanation of a receiver (D162).
import { DAY, HOUR, startOfDay } from '../base/clock.ts'
import { forLog } from '../base/clean-text.ts'
import { refuse } from '../base/errors.ts'
import { attemptsOf, type Attempt } from '../delivery/results/attempt-log.ts'
import { storedName } from '../message/address.ts'
import { domainOf } from '../message/lane-names.ts'
import { receiverOf as receiverBy } from '../reputation/receivers.ts'
import { hostsFor, waitingReceivers } from '../reputation/waiting-receivers.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { providerNamed } from '../smtp/shaping.ts'
import type { Reader } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { receiversOf, UNCOUNTED } from '../warmup/pairs.ts'

/** The default period of evidence. */
const BACK = 28 * DAY
/** The most characters of a name in an error. */
const MAX_NAME = 255
/** The most emails of a campaign that are read per status. */
export const OF_CAMPAIGN = 100
/** Their statuses: all but delivered. */
const LOOKED_AT = ['queued', 'sent', 'bounced', 'failed', 'rejected', 'suppressed', 'complained'] as const

type EmailRow = Pick<
  RowOf<'outbound_emails'>,
  'key' | 'id' | 'user_key' | 'domain_key' | 'campaign_key' | 'contact_key' | 'agent_id' | 'status' | 'created_at'
>

export interface SubjectMail extends EmailRow {
  deliveries: RowOf<'deliveries'>[]
  attempts: Attempt[]
}

export interface WhySubject {
  /** A campaign is an email to many recipients. */
  kind: 'email' | 'domain' | 'receiver'
  /** An id, a domain or a receiver. */
  name: string
  /** The accounts whose rows are read. */
  accounts: readonly number[]
  /** The receiver is explained for all accounts. */
  everywhere?: true
  /** Whether the user is an operator. Only operators see evidence about the whole server. */
  operator: boolean
  now: number
  /** Older evidence is ignored. */
  since: number
  /** The email, or those of a campaign that were not simply delivered. */
  mails: readonly SubjectMail[]
  campaign: RowOf<'campaigns'> | undefined
  domain: RowOf<'domains'> | undefined
  receivers: readonly string[]
  /** Their domains, if known. */
  domains: readonly string[]
}

export interface WhyQuestion {
  name: string
  /** The account whose rows are read, or undefined for all, for the operator at the command line. */
  account: number | undefined
  /** Whether a receiver is explained for all accounts. */
  everywhere: boolean
  /** Whether the user is an operator. */
  operator: boolean
  now: number
  since?: number | undefined
}

export const receiverOf = ({ lane, remote_mta }: Pick<RowOf<'deliveries'>, 'lane' | 'remote_mta'>): string =>
  receiverBy(remote_mta, domainOf(lane))

const COLUMNS =
  'key, id, user_key, domain_key, campaign_key, contact_key, agent_id, status, created_at' as const satisfies string

function whole(reader: Reader, email: EmailRow): SubjectMail {
  const deliveries = reader.all(
    raw<RowOf<'deliveries'>>('select * from deliveries where email_key = ? order by key', [email.key]),
  )
  return { ...email, deliveries, attempts: attemptsOf(reader, email.key) }
}

/** The domain of an email or a campaign, even if it was removed. */
const senderOf = (reader: Reader, key: number): RowOf<'domains'> | undefined =>
  reader.first(db.selectFrom('domains').selectAll().where('key', '=', key))

/** The common part of every subject. */
type WhyPeriod = Pick<WhySubject, 'now' | 'operator' | 'since'> & { asked: boolean }

/** For an old email, evidence starts on the day of its creation. */
const fromIts = (
  { asked, now, operator, since }: WhyPeriod,
  createdAt: number,
): Pick<WhySubject, 'now' | 'operator' | 'since'> => ({
  now,
  operator,
  since: asked ? since : Math.min(since, startOfDay(createdAt)),
})

function ofMails(
  reader: Reader,
  common: WhyPeriod,
  {
    campaign,
    created_at,
    id,
    mails,
    owner,
    sender,
  }: WhySender & { created_at: number; id: string; mails: SubjectMail[] },
): WhySubject {
  const deliveries = mails.flatMap((mail) => mail.deliveries)
  const domains = [...new Set(deliveries.map(({ lane }) => domainOf(lane)))]
  // No server has responded yet for email that was not attempted: its receiver is the one that warm-up learned.
  const learned = receiversOf(reader, domains)
  const receiver = (delivery: RowOf<'deliveries'>): string =>
    (delivery.remote_mta === null ? learned.get(domainOf(delivery.lane)) : UNCOUNTED) || receiverOf(delivery)
  return {
    ...fromIts(common, created_at),
    kind: 'email',
    name: id,
    accounts: [owner],
    mails,
    campaign,
    domain: senderOf(reader, sender),
    receivers: [...new Set(deliveries.map(receiver))],
    domains,
  }
}

interface WhySender {
  owner: number
  sender: number
  campaign: RowOf<'campaigns'> | undefined
}

const campaignByKey = (reader: Reader, key: number | null): RowOf<'campaigns'> | undefined =>
  key === null ? undefined : reader.first(db.selectFrom('campaigns').selectAll().where('key', '=', key))

function mailOf(reader: Reader, { account, name }: WhyQuestion, common: WhyPeriod): WhySubject | undefined {
  const email = reader.first(raw<EmailRow>(`select ${COLUMNS} from outbound_emails where id = ?`, [name]))
  if (!email || (account !== undefined && email.user_key !== account)) return undefined
  return ofMails(reader, common, {
    id: email.id,
    created_at: email.created_at,
    owner: email.user_key,
    sender: email.domain_key,
    campaign: campaignByKey(reader, email.campaign_key),
    mails: [whole(reader, email)],
  })
}

function campaignOf(reader: Reader, { account, name }: WhyQuestion, common: WhyPeriod): WhySubject | undefined {
  const campaign = reader.first(
    db.selectFrom('campaigns').selectAll().where('id', '=', name).where('deleted_at', 'is', null),
  )
  if (!campaign || (account !== undefined && campaign.user_key !== account)) return undefined
  const mails = LOOKED_AT.flatMap((status) =>
    reader.all(
      raw<EmailRow>(
        `select ${COLUMNS} from outbound_emails where campaign_key = ? and status = ?
         order by delivered_at desc, key desc limit ${OF_CAMPAIGN}`,
        [campaign.key, status],
      ),
    ),
  )
  return ofMails(reader, common, {
    id: campaign.id,
    created_at: campaign.created_at,
    owner: campaign.user_key,
    sender: campaign.domain_key,
    campaign,
    mails: mails.map((email) => whole(reader, email)),
  })
}

function domainNamed(reader: Reader, { account, name }: WhyQuestion, common: WhyPeriod): WhySubject | undefined {
  const asked = db
    .selectFrom('domains')
    .selectAll()
    .where('name', '=', storedName(name))
    .where('deleted_at', 'is', null)
    .orderBy('key')
  const domain = reader.first(account === undefined ? asked : asked.where('user_key', '=', account))
  if (!domain) return undefined
  const nothing = { mails: [], campaign: undefined, receivers: [], domains: [] }
  const { now, operator, since } = common
  return { now, operator, since, ...nothing, kind: 'domain', name: domain.name, accounts: [domain.user_key], domain }
}

/** Whether this server has a warm-up schedule for a receiver. */
const isWarmed = (reader: Reader, receiver: string): boolean =>
  reader.first(raw('select 1 as there from warmups where receiver = ? limit 1', [receiver])) !== undefined

function receiverNamed(reader: Reader, question: WhyQuestion, common: WhyPeriod): WhySubject | undefined {
  const { now, operator, since } = common
  const name = providerNamed(question.name)?.name ?? storedName(question.name)
  const own = question.everywhere ? undefined : question.account
  const accounts = own === undefined ? reader.all(db.selectFrom('users').select('key')).map(({ key }) => key) : [own]
  const seen = reader.first(
    raw<{ found: number }>(
      `select 1 as found from receiver_tallies where user_key in (select value from json_each(?)) and hour >= ? and receiver = ? limit 1`,
      [JSON.stringify(accounts), Math.floor(common.since / HOUR), name],
    ),
  )
  const provider = providerNamed(name)
  // Email to a recipient domain is counted at the receiver that responded for it (D158), which may have another name.
  const hosts = provider ? [] : hostsFor(reader, name, own)
  const waits = own === undefined ? undefined : waitingReceivers(reader, own).get(name)?.domains
  if (!seen && !waits && hosts.length === 0 && !(operator && isWarmed(reader, name))) return undefined
  const domains = [...new Set([...(waits ?? []), ...(provider ? [] : [name])])]
  const answered = hosts.flatMap((host) => (host === null ? [] : [receiverBy(host, name)]))
  const learned = hosts.length === 0 ? [] : receiversOf(reader, [name]).values()
  const receivers = [...new Set([name, ...answered, ...learned])].filter((receiver) => receiver !== UNCOUNTED)
  const nothing = { mails: [], campaign: undefined, domain: undefined }
  const all = own === undefined ? ({ everywhere: true } as const) : {}
  return { now, operator, since, ...nothing, ...all, kind: 'receiver', name, accounts, receivers, domains }
}

/** Whether a name can only be a domain. */
export const isDomain = (name: string): boolean => /^[^\s@]+\.[^\s@]+$/.test(name)

/** Finds the subject. Throws 404 if the account has no subject of this name. */
export function subjectOf(reader: Reader, question: WhyQuestion): WhySubject {
  const { now, operator } = question
  // A whole day, so that an explanation stays the same from one second to the next.
  const common = { now, operator, since: question.since ?? startOfDay(now - BACK), asked: question.since !== undefined }
  const named = { ...question, name: question.name.trim() }
  for (const find of [mailOf, campaignOf, domainNamed, receiverNamed]) {
    const found = find(reader, named, common)
    if (found) return found
  }
  if (isDomain(named.name))
    throw refuse(
      'not_found',
      `No email to or from ${forLog(named.name, MAX_NAME)} is known: it is not one of the sending domains, and neither the queue nor the newest emails have a recipient there. Check the name.`,
    )
  throw refuse(
    'not_found',
    'No email, campaign, sending domain or receiver of this account matches. Check the id or the name.',
  )
}
