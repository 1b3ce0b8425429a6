// Evidence about the email itself: its attempts, holds, and suppressions.
import { counted } from '../base/text.ts'
import { forLog } from '../base/clean-text.ts'
import { learnedLanes, type LearnedOf } from '../delivery/pacing/lane-memory.ts'
import { erasedForm } from '../base/recipient-hash.ts'
import type { Attempt } from '../delivery/results/attempt-log.ts'
import { normalised } from '../suppressions/stops.ts'
import { boundBetween, bulkLane, domainOf } from '../message/lane-names.ts'
import { agentOf } from '../reputation/pauses.ts'
import { paceOf } from '../reputation/agents.ts'
import { wordsOf } from '../reputation/receivers.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { reasonOf } from '../smtp/reply-reason.ts'
import { readSecurity } from '../smtp/security.ts'
import { db, raw } from '../store/query.ts'
import { moment, quoted, type EvidenceSource, type WhyRow } from './evidence.ts'
import { waitsForWarmup } from './sources-server.ts'
import { receiverOf, type SubjectMail, type WhySubject } from './subject.ts'

const MAX_TEXT = 300
/** The most attempts of one email that are read, the newest. */
const ATTEMPTS = 20
/** Codes of this server for a failure of TLS (delivery/wire, smtp/client.ts). */
const TLS_CODES = /^[45]\.7\.(?:4|5|10)$/

type SaidWords = Pick<RowOf<'deliveries'>, 'smtp_code' | 'enhanced_code' | 'response'>

type WaitingRow = Pick<
  RowOf<'deliveries'>,
  'enhanced_code' | 'remote_mta' | 'security' | 'smtp_code' | 'updated_at'
> & {
  next_attempt_at: number
  response: string | null
}

const words = ({ enhanced_code, response, smtp_code }: SaidWords): string =>
  forLog([smtp_code, enhanced_code, response].filter((part) => part !== null).join(' '), MAX_TEXT)

const pageOfMail = ({ id }: SubjectMail): string => `/mail/${id}`

/** The text of a result. */
const OUTCOMES: Readonly<Record<string, string>> = { deferred: 'deferred', bounced: 'rejected', failed: 'failed' }

/** The sending IP address or relay, if there are several. */
const byWhich = ({ route, source }: Attempt): string =>
  route !== null ? ` by the relay ${route}` : source !== null ? ` from ${source}` : ''

/** The cause of this server's own text: required TLS, DANE, or the connection. */
function factOfOwn({ enhanced_code, security }: Pick<Attempt, 'enhanced_code' | 'security'>): string {
  if (!TLS_CODES.test(enhanced_code ?? '')) return 'no_way'
  const known = readSecurity(security)
  return known?.policy === 'dane' || known?.dnssec.tlsa === 'failed' ? 'dane' : 'no_tls'
}

/** The DNSSEC results for the receiving server, if there are any. */
function inDns({ security }: Attempt): string {
  const known = readSecurity(security)
  if (!known) return ''
  const { address, mx, tlsa } = known.dnssec
  const states = Object.entries({ MX: mx, address, TLSA: tlsa }).filter(([, state]) => state !== 'not_queried')
  return states.length === 0 ? '' : ` (DNSSEC: ${states.map(([what, state]) => `${what} ${state}`).join(', ')})`
}

/** The domain whose MTA-STS policy required a valid certificate, or ''. */
const byPolicy = ({ address, security }: Attempt): string =>
  readSecurity(security)?.policy === 'sts'
    ? ` (required by the MTA-STS policy of ${forLog(address.slice(address.lastIndexOf('@') + 1))})`
    : ''

function attemptRow(mail: SubjectMail, attempt: Attempt): WhyRow {
  const { address, at, code, outcome, receiver, reported, said } = factsOf(mail, attempt)
  const text = `${address} ${OUTCOMES[outcome] ?? outcome}${byWhich(attempt)}: ${words(said)}`.replace(/: $/, '')
  const row = { at, text, href: pageOfMail(mail) }
  if (!Object.hasOwn(OUTCOMES, outcome)) return { ...row, fact: outcome }
  // Without a code there was no reply: the text is this server's own.
  if (code === null && !reported) {
    const fact = factOfOwn(attempt)
    return { ...row, fact, text: fact === 'no_way' ? text : `${text}${byPolicy(attempt)}${inDns(attempt)}` }
  }
  const reply = { code, enhanced: attempt.enhanced_code, text: attempt.response ?? '' }
  return { ...row, fact: 'reply', reason: reasonOf(reply, receiver) }
}

function factsOf(mail: SubjectMail, attempt: Attempt) {
  const delivery = mail.deliveries.find(({ address }) => address === attempt.address)
  const { enhanced_code, remote_mta, response, smtp_code } = attempt
  return {
    address: forLog(attempt.address),
    at: attempt.at,
    outcome: attempt.outcome,
    reported: attempt.reported,
    code: smtp_code,
    said: { smtp_code, enhanced_code, response },
    receiver: delivery && receiverOf({ lane: delivery.lane, remote_mta }),
  }
}

const ofMails = (subject: WhySubject, rows: (mail: SubjectMail) => WhyRow[]): WhyRow[] => subject.mails.flatMap(rows)

/** Final results of a recipient, regardless of earlier replies. */
const ENDS: ReadonlySet<string> = new Set(['bounced', 'rejected', 'suppressed'])

/** The attempts that explain the status: after a final result, earlier attempts do not count. */
const counting = ({ attempts }: SubjectMail): SubjectMail['attempts'] =>
  attempts.filter(
    (attempt) =>
      ENDS.has(attempt.outcome) ||
      !attempts.some(({ address, outcome }) => address === attempt.address && ENDS.has(outcome)),
  )

const attemptRows = (subject: WhySubject): WhyRow[] =>
  ofMails(subject, (mail) =>
    counting(mail)
      .filter(({ at }) => at >= subject.since)
      .slice(-ATTEMPTS)
      .map((attempt) => attemptRow(mail, attempt)),
  )

/** Whether the last reply belongs to an attempt. A reply that requests a slower rate is not an attempt (D64). */
const isAttempt = ({ attempts }: SubjectMail, { address, updated_at }: RowOf<'deliveries'>): boolean =>
  attempts.some((attempt) => attempt.address === address && attempt.at === updated_at)

/** Why a recipient is queued. Empty if it only waits for its turn or its next attempt. */
function waiting(mail: SubjectMail, delivery: RowOf<'deliveries'>): WhyRow[] {
  const { address, enhanced_code, next_attempt_at, response, smtp_code, status, trouble_since, updated_at } = delivery
  const row = { at: updated_at, href: pageOfMail(mail) }
  const until = next_attempt_at === null ? '' : `, next attempt ${moment(next_attempt_at)}`
  if (status === 'held') return [{ ...row, fact: 'held', text: `${forLog(address)} is on hold` }]
  if (status === 'queued' && smtp_code !== null && !isAttempt(mail, delivery)) {
    const text = `${forLog(address)} slowed down${until}: ${words(delivery)}`
    const reply = { code: smtp_code, enhanced: enhanced_code, text: response ?? '' }
    return [{ ...row, fact: 'reply', text, reason: reasonOf(reply, receiverOf(delivery)) }]
  }
  if (waitsForWarmup(delivery)) return []
  if (status !== 'queued' || smtp_code !== null || trouble_since === null) return []
  const fact = enhanced_code === '4.7.0' ? 'missing_key_record' : 'for us'
  return [
    {
      ...row,
      fact,
      text: `${forLog(address)} queued since ${moment(trouble_since)}${until}: ${forLog(response ?? '', MAX_TEXT)}`,
    },
  ]
}

const waits = ({ mails }: WhySubject): boolean =>
  mails.some(({ deliveries }) => deliveries.some(({ status }) => status === 'queued' || status === 'active'))

/** Holds, pauses and limits of a recipient domain. */
const laneRows: EvidenceSource['ask'] = ({ store }, subject) => {
  const held = store.all(
    db
      .selectFrom('lane_holds')
      .selectAll()
      .where('lane', 'in', [...subject.domains]),
  )
  const learned = learnedLanes(store, subject.now).filter(({ lane }) => subject.domains.includes(domainOf(lane)))
  return [
    ...held.map(({ held_at, lane }) => ({
      at: held_at,
      fact: 'hold',
      text: `Email to ${lane} on hold since ${moment(held_at)}`,
      href: null,
    })),
    ...learned.flatMap(({ lane, learned_at: at, paused_until, ...limits }): WhyRow[] => {
      const name = domainOf(lane)
      if (paused_until !== null)
        return [
          { at, fact: 'pause_of_receiver', text: `Email to ${name} paused until ${moment(paused_until)}`, href: null },
        ]
      // These limits concern the whole server (D150).
      const text = `Email to ${name} limited to ${limitsIn(limits)}, learned ${moment(at)}`
      return subject.operator ? [{ at, fact: 'limit_of_receiver', text, href: '/queue' }] : []
    }),
  ]
}

/** The learned limits as text: "at most 0.5 per second over 1 connection". */
const limitsIn = ({ connections, per_second }: Pick<LearnedOf, 'connections' | 'per_second'>): string =>
  [
    ...(per_second === null ? [] : [`at most ${per_second} per second`]),
    ...(connections === null ? [] : [`over at most ${counted(connections, 'connection')}`]),
  ].join(' ')

/** The most queued emails of one recipient domain that are read, those that are due last. */
const WAITING = 200

/** Email to a recipient domain that is queued because its servers deferred it or did not respond. */
const deferredRows: EvidenceSource['ask'] = ({ store }, subject) =>
  subject.domains.flatMap((domain) => {
    const lanes = [domain, bulkLane(domain)]
    const waiting = (lane: string): string =>
      `select * from (select * from deliveries where status = 'queued' and ${lane} order by lane desc, next_attempt_at desc limit ${WAITING})`
    const found = store.all(
      raw<WaitingRow>(
        `select waiting.smtp_code, waiting.response, waiting.enhanced_code, waiting.remote_mta, waiting.security, max(waiting.updated_at) as updated_at, max(waiting.next_attempt_at) as next_attempt_at
         from (${[...lanes.map(() => 'lane = ?'), ...lanes.map(() => 'lane > ? and lane < ?')].map(waiting).join(' union all ')}) waiting
           join outbound_emails e on e.key = waiting.email_key and e.user_key in (select value from json_each(?))
         where waiting.smtp_code is not null or (waiting.attempts > 0 and waiting.response is not null and waiting.trouble_since is null)
         group by waiting.smtp_code, waiting.response, waiting.enhanced_code, waiting.remote_mta, waiting.security`,
        [...lanes, ...lanes.flatMap((lane) => boundBetween(lane)), JSON.stringify(subject.accounts)],
      ),
    )
    const rows = found
      .filter(({ response }) => !waitsForWarmup({ response, status: 'queued' }))
      .map((row) => deferredRow(domain, row))
    // Replies that differ only in a queue id are the same.
    const alike = Map.groupBy(rows, ({ fact, text }) => `${fact} ${quoted(text)}`)
    return [...alike.values()].map((each) => each.reduce((newest, row) => (row.at > newest.at ? row : newest)))
  })

function deferredRow(domain: string, row: WaitingRow): WhyRow {
  const { enhanced_code: enhanced, next_attempt_at, remote_mta, response, smtp_code: code, updated_at: at } = row
  const says = `Email to ${domain} deferred ${moment(at)}, next attempt ${moment(next_attempt_at)}: `
  const text = response ?? ''
  if (code === null) return { at, fact: factOfOwn(row), text: says + forLog(text, MAX_TEXT), href: null }
  const reply = { code, enhanced, text }
  const reason = reasonOf(reply, receiverOf({ lane: domain, remote_mta }))
  // Without the parts that belong to one email, such as its recipient.
  return { at, fact: 'reply', reason, text: says + forLog(wordsOf(reply), MAX_TEXT), href: null }
}

/** The causes by the status of a campaign. */
const FACTS: Readonly<Record<string, string>> = {
  paused: 'paused_campaign',
  cancelled: 'ended_campaign',
  failed: 'ended_campaign',
}

const campaignRows: EvidenceSource['ask'] = (_, { campaign }) =>
  campaign
    ? [
        {
          at: campaign.updated_at,
          fact: FACTS[campaign.status] ?? campaign.status,
          text: `The campaign “${forLog(campaign.name, MAX_TEXT)}” is ${campaign.status}${campaign.failure === null ? '' : `: ${forLog(campaign.failure, MAX_TEXT)}`}`,
          href: `/campaigns/${campaign.id}`,
        },
      ]
    : []

const agentRows: EvidenceSource['ask'] = ({ store }, subject) =>
  [...new Set(subject.mails.map(({ agent_id }) => agent_id))].flatMap((agent_id) => {
    const owner = subject.accounts[0]
    const agent =
      agent_id === null || owner === undefined ? undefined : store.first(agentOf({ user_key: owner, agent_id }))
    if (!agent) return []
    const name = forLog(agent.agent_id, MAX_TEXT)
    const row = { href: '/agents' }
    if (agent.paused_at !== null)
      return [
        {
          ...row,
          at: agent.paused_at,
          fact: 'paused_agent',
          text: `The agent ${name} has been paused since ${moment(agent.paused_at)}`,
        },
      ]
    return [
      {
        ...row,
        at: agent.status_at,
        fact: agent.status,
        text: `The agent ${name} is in the pool ${agent.status}: ${paceOf(agent.status)}`,
      },
    ]
  })

const suppressionRows: EvidenceSource['ask'] = ({ keyring, store }, subject) =>
  ofMails(subject, (mail) =>
    mail.deliveries
      .filter(({ status }) => status === 'suppressed' || status === 'rejected')
      .flatMap(({ address }) =>
        store
          .all(
            raw<RowOf<'suppressions'>>(
              'select * from suppressions where domain_key = ? and email in (?, ?) order by key',
              [mail.domain_key, normalised(address), erasedForm(keyring, address)],
            ),
          )
          .map(({ created_at, reason, scope }) => ({
            at: created_at,
            fact: reason,
            text: `${forLog(address)} suppressed since ${moment(created_at)} for ${scope === 'all' ? 'all email' : 'campaigns'}: ${reason.replaceAll('_', ' ')}`,
            href: `/suppressions?q=${encodeURIComponent(address)}`,
          })),
      ),
  )

export const MAIL_SOURCES: readonly EvidenceSource[] = [
  {
    name: 'attempts',
    kinds: ['email'],
    ask: (_, subject) => attemptRows(subject),
  },
  {
    name: 'queue',
    kinds: ['email'],
    ask: (_, subject) => ofMails(subject, (mail) => mail.deliveries.flatMap((each) => waiting(mail, each))),
  },
  {
    name: 'lanes',
    kinds: ['email', 'receiver'],
    ask: (deps, subject) =>
      subject.domains.length === 0 || (subject.kind === 'email' && !waits(subject)) ? [] : laneRows(deps, subject),
  },
  { name: 'waiting', kinds: ['receiver'], ask: deferredRows },
  { name: 'campaign', kinds: ['email'], ask: campaignRows },
  { name: 'agents', kinds: ['email'], ask: agentRows },
  { name: 'suppressions', kinds: ['email'], ask: suppressionRows },
]
