// What a question is about: a mail or a campaign by its id, a sending domain, or a receiver. Rows of other accounts are
// never read, but for an operator's question about a receiver (D162).
import { DAY, HOUR } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { attemptsOf, type Attempt } from '../delivery/results/attempt-log.ts'
import { storedName } from '../message/address.ts'
import { boundBetween, bulkLane, domainOf } from '../message/lane-names.ts'
import { receiverOf as receiverBy } from '../reputation/receivers.ts'
import { waitingReceivers } from '../reputation/waiting-receivers.ts'
import type { RowOf } from '../schema/tables.ts'
import { providerNamed } from '../smtp/shaping.ts'
import type { Reader } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { UNCOUNTED } from '../warmup/pairs.ts'
import { receiversOf } from '../warmup/shown.ts'

/** How far back evidence goes when nothing else is asked for. */
const BACK = 28 * DAY
/** Mails of a campaign that are looked at, of each status. */
export const OF_CAMPAIGN = 100
/** Their statuses: what did not simply arrive. */
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
  /** A campaign is a mail to many. */
  kind: 'mail' | 'domain' | 'receiver'
  /** As answers name it: an id, a domain or a receiver. */
  name: string
  /** The accounts whose rows may be read. */
  accounts: readonly number[]
  /** A receiver is asked about for all accounts. */
  everywhere?: true
  /** Whether an operator asks: what concerns the whole server is shown to nobody else (DV95). */
  operator: boolean
  now: number
  /** Older evidence is not looked at. */
  since: number
  /** The mail, or those of a campaign that did not simply arrive. */
  mails: readonly SubjectMail[]
  campaign: RowOf<'campaigns'> | undefined
  /** The sending domain. */
  domain: RowOf<'domains'> | undefined
  /** Where the mail goes. */
  receivers: readonly string[]
  /** Their domains, as far as they are known. */
  domains: readonly string[]
}

export interface WhyQuestion {
  name: string
  /** WhySender rows are read; undefined: everybody's, for the operator at the command line. */
  account: number | undefined
  /** Whether a receiver is asked about for all accounts. */
  everywhere: boolean
  /** Whether what concerns the whole server is shown (DV95). */
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

/** The domain of a mail or a campaign; a removed one too. */
const senderOf = (reader: Reader, key: number): RowOf<'domains'> | undefined =>
  reader.first(db.selectFrom('domains').selectAll().where('key', '=', key))

/** What every kind of subject has. */
type WhyPeriod = Pick<WhySubject, 'now' | 'operator' | 'since'> & { asked: boolean }

const dayOf = (at: number): number => Math.floor(at / DAY) * DAY

/** An old mail is explained from its own days on. */
const fromIts = (
  { asked, now, operator, since }: WhyPeriod,
  createdAt: number,
): Pick<WhySubject, 'now' | 'operator' | 'since'> => ({
  now,
  operator,
  since: asked ? since : Math.min(since, dayOf(createdAt)),
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
  // No exchanger has answered for mail that was not tried: its receiver is the one that warm-up learned.
  const learned = receiversOf(reader, domains)
  const receiver = (delivery: RowOf<'deliveries'>): string =>
    (delivery.remote_mta === null ? learned.get(domainOf(delivery.lane)) : UNCOUNTED) || receiverOf(delivery)
  return {
    ...fromIts(common, created_at),
    kind: 'mail',
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

/** Whether this server has a warm-up with a receiver. */
const isWarmed = (reader: Reader, receiver: string): boolean =>
  reader.first(raw('select 1 as there from warmups where receiver = ? limit 1', [receiver])) !== undefined

function receiverNamed(reader: Reader, question: WhyQuestion, common: WhyPeriod): WhySubject | undefined {
  const { now, operator, since } = common
  const name = providerNamed(question.name)?.name ?? storedName(question.name)
  const own = question.everywhere ? undefined : question.account
  const accounts = own === undefined ? reader.all(db.selectFrom('users').select('key')).map(({ key }) => key) : [own]
  const told = reader.first(
    raw<{ found: number }>(
      `select 1 as found from receiver_tallies where user_key in (select value from json_each(?)) and hour >= ? and receiver = ? limit 1`,
      [JSON.stringify(accounts), Math.floor(common.since / HOUR), name],
    ),
  )
  const waits = own === undefined ? waitsAnywhere(reader, name) : waitingReceivers(reader, own).get(name)?.domains
  if (!told && !waits && !(operator && isWarmed(reader, name))) return undefined
  const domains = [...new Set([...(waits ?? []), ...(providerNamed(name) ? [] : [name])])]
  const nothing = { mails: [], campaign: undefined, domain: undefined }
  const all = own === undefined ? ({ everywhere: true } as const) : {}
  return { now, operator, since, ...nothing, ...all, kind: 'receiver', name, accounts, receivers: [name], domains }
}

/** The domain itself, when anybody's mail waits for it; also mail that is bound to a source or a relay. */
function waitsAnywhere(reader: Reader, domain: string): string[] | undefined {
  const lanes = [domain, bulkLane(domain)]
  const where = (lane: string): string => `select 1 as found from deliveries where status = 'queued' and ${lane}`
  const bound = lanes.flatMap((lane) => boundBetween(lane))
  const found = reader.first(
    raw<{ found: number }>(
      `${['lane in (?, ?)', 'lane > ? and lane < ?', 'lane > ? and lane < ?'].map(where).join(' union all ')} limit 1`,
      [...lanes, ...bound],
    ),
  )
  return found && [domain]
}

/** Finds the subject. Throws 404 when the account has none of this name. */
export function subjectOf(reader: Reader, question: WhyQuestion): WhySubject {
  const { now, operator } = question
  // A whole day, so that the same question is the same from one second to the next.
  const common = { now, operator, since: question.since ?? dayOf(now - BACK), asked: question.since !== undefined }
  const named = { ...question, name: question.name.trim() }
  for (const find of [mailOf, campaignOf, domainNamed, receiverNamed]) {
    const found = find(reader, named, common)
    if (found) return found
  }
  throw refuse('not_found', 'No mail, campaign, sending domain or receiver of this account has this id or name.')
}
