// What is known of the mail itself: its attempts, what holds it, and who asked that it is not sent.
import { forLog } from '../base/clean-text.ts'
import { learnedLanes } from '../delivery/pacing/lane-memory.ts'
import { erasedForm } from '../base/recipient-hash.ts'
import type { Attempt } from '../delivery/results/attempt-log.ts'
import { normalised } from '../suppressions/stops.ts'
import { boundBetween, bulkLane, domainOf } from '../message/lane-names.ts'
import { agentOf } from '../reputation/pauses.ts'
import { paceOf } from '../reputation/agents.ts'
import type { RowOf } from '../schema/tables.ts'
import { reasonOf } from '../smtp/reply-reason.ts'
import { readSecurity } from '../smtp/security.ts'
import { db, raw } from '../store/query.ts'
import { moment, type EvidenceSource, type WhyRow } from './evidence.ts'
import { waitsForWarmup } from './sources-server.ts'
import { receiverOf, type SubjectMail, type WhySubject } from './subject.ts'

const MAX_TEXT = 300
/** The newest attempts of one mail that are looked at. */
const ATTEMPTS = 20
/** Codes with which this server itself says that TLS failed (delivery/wire, smtp/client.ts). */
const TLS_CODES = /^[45]\.7\.(?:4|5|10)$/

type SaidWords = Pick<RowOf<'deliveries'>, 'smtp_code' | 'enhanced_code' | 'response'>

type UnreachedRow = Pick<RowOf<'deliveries'>, 'enhanced_code' | 'security' | 'updated_at'> & {
  next_attempt_at: number
  response: string
}

const words = ({ enhanced_code, response, smtp_code }: SaidWords): string =>
  forLog([smtp_code, enhanced_code, response].filter((part) => part !== null).join(' '), MAX_TEXT)

const pageOfMail = ({ id }: SubjectMail): string => `/mail/${id}`

/** The words for an outcome in a row. */
const OUTCOMES: Readonly<Record<string, string>> = { deferred: 'put off', bounced: 'refused', failed: 'given up' }

/** The source or the relay, where there is a choice of them. */
const byWhich = ({ route, source }: Attempt): string =>
  route !== null ? ` by the relay ${route}` : source !== null ? ` from ${source}` : ''

/** What this server's own words are about: TLS that is a must, DANE, or the way to the receiver. */
function factOfOwn({ enhanced_code, security }: Pick<Attempt, 'enhanced_code' | 'security'>): string {
  if (!TLS_CODES.test(enhanced_code ?? '')) return 'own'
  const known = readSecurity(security)
  return known?.policy === 'dane' || known?.dnssec.tlsa === 'failed' ? 'dane' : 'no tls'
}

/** What DNS said of the exchanger, where DNSSEC had a part in it (DV35). */
function inDns({ security }: Attempt): string {
  const known = readSecurity(security)
  if (!known) return ''
  const { address, mx, tlsa } = known.dnssec
  const states = Object.entries({ MX: mx, address, TLSA: tlsa }).filter(([, state]) => state !== 'not_asked')
  return states.length === 0 ? '' : ` (DNSSEC: ${states.map(([what, state]) => `${what} ${state}`).join(', ')})`
}

function attemptRow(mail: SubjectMail, attempt: Attempt): WhyRow {
  const { address, at, code, outcome, receiver, reported, said } = factsOf(mail, attempt)
  const text = `${address} ${OUTCOMES[outcome] ?? outcome}${byWhich(attempt)}: ${words(said)}`.replace(/: $/, '')
  const row = { at, text, href: pageOfMail(mail) }
  if (!Object.hasOwn(OUTCOMES, outcome)) return { ...row, fact: outcome }
  // Without a code nobody replied: the words are this server's own.
  if (code === null && !reported) {
    const fact = factOfOwn(attempt)
    return { ...row, fact, text: fact === 'own' ? text : `${text}${inDns(attempt)}` }
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

/** Outcomes that end a recipient, whatever was said before. */
const ENDS: ReadonlySet<string> = new Set(['bounced', 'rejected', 'suppressed'])

/** The attempts that say why the mail is where it is: what an end has overtaken explains nothing any more. */
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

/** Whether what was last said to a recipient stands among its attempts: a reply that asks for less costs none (D64). */
const isAttempt = ({ attempts }: SubjectMail, { address, updated_at }: RowOf<'deliveries'>): boolean =>
  attempts.some((attempt) => attempt.address === address && attempt.at === updated_at)

/** Why a recipient waits; nothing when it waits for its turn or its next attempt alone. */
function waiting(mail: SubjectMail, delivery: RowOf<'deliveries'>): WhyRow[] {
  const { address, enhanced_code, next_attempt_at, response, smtp_code, status, trouble_since, updated_at } = delivery
  const row = { at: updated_at, href: pageOfMail(mail) }
  const until = next_attempt_at === null ? '' : `, next try ${moment(next_attempt_at)}`
  if (status === 'held') return [{ ...row, fact: 'held', text: `${forLog(address)} is on hold` }]
  if (status === 'queued' && smtp_code !== null && !isAttempt(mail, delivery)) {
    const text = `${forLog(address)} slowed down${until}: ${words(delivery)}`
    const reply = { code: smtp_code, enhanced: enhanced_code, text: response ?? '' }
    return [{ ...row, fact: 'reply', text, reason: reasonOf(reply, receiverOf(delivery)) }]
  }
  if (waitsForWarmup(delivery)) return []
  if (status !== 'queued' || smtp_code !== null || trouble_since === null) return []
  const fact = enhanced_code === '4.7.0' ? 'no record' : 'for us'
  return [
    {
      ...row,
      fact,
      text: `${forLog(address)} waits since ${moment(trouble_since)}${until}: ${forLog(response ?? '', MAX_TEXT)}`,
    },
  ]
}

const waits = ({ mails }: WhySubject): boolean =>
  mails.some(({ deliveries }) => deliveries.some(({ status }) => status === 'queued' || status === 'active'))

/** What holds all mail of a receiving domain: the operator, or a pause after its servers refused or did not answer. */
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
      text: `Mail for ${lane} is on hold since ${moment(held_at)}`,
      href: null,
    })),
    ...learned.flatMap(({ lane, learned_at, paused_until }) =>
      paused_until === null
        ? []
        : [
            {
              at: learned_at,
              fact: 'pause',
              text: `Mail for ${domainOf(lane)} pauses until ${moment(paused_until)}`,
              href: null,
            },
          ],
    ),
  ]
}

/** Mails of one receiving domain that are looked at, those whose turn comes last. */
const WAITING = 200

/** Mail to a receiver that waits because none of its servers replied; what it replied is among the replies. */
const unreached: EvidenceSource['ask'] = ({ store }, subject) =>
  subject.domains.flatMap((domain) => {
    const lanes = [domain, bulkLane(domain)]
    const waiting = (lane: string): string =>
      `select * from (select * from deliveries where status = 'queued' and ${lane} order by lane desc, next_attempt_at desc limit ${WAITING})`
    const found = store.all(
      raw<UnreachedRow>(
        `select waiting.response, waiting.enhanced_code, waiting.security, max(waiting.updated_at) as updated_at, max(waiting.next_attempt_at) as next_attempt_at
         from (${[...lanes.map(() => 'lane = ?'), ...lanes.map(() => 'lane > ? and lane < ?')].map(waiting).join(' union all ')}) waiting
           join outbound_emails e on e.key = waiting.email_key and e.user_key in (select value from json_each(?))
         where waiting.attempts > 0 and waiting.smtp_code is null and waiting.response is not null and waiting.trouble_since is null
         group by waiting.response, waiting.enhanced_code, waiting.security`,
        [...lanes, ...lanes.flatMap((lane) => boundBetween(lane)), JSON.stringify(subject.accounts)],
      ),
    )
    return found.map((row) => ({
      at: row.updated_at,
      fact: factOfOwn(row),
      text: `Mail for ${domain} put off ${moment(row.updated_at)}, next try ${moment(row.next_attempt_at)}: ${forLog(row.response, MAX_TEXT)}`,
      href: null,
    }))
  })

const campaignRows: EvidenceSource['ask'] = (_, { campaign }) =>
  campaign
    ? [
        {
          at: campaign.updated_at,
          fact: campaign.status,
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
          fact: 'paused',
          text: `The agent ${name} is paused since ${moment(agent.paused_at)}`,
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
            text: `${forLog(address)} is suppressed since ${moment(created_at)} for ${scope === 'all' ? 'all mail' : 'campaigns'}: ${reason.replaceAll('_', ' ')}`,
            href: `/suppressions?q=${encodeURIComponent(address)}`,
          })),
      ),
  )

export const MAIL_SOURCES: readonly EvidenceSource[] = [
  {
    name: 'attempts',
    kinds: ['mail'],
    ask: (_, subject) => attemptRows(subject),
  },
  {
    name: 'tls',
    kinds: ['mail'],
    ask: (_, subject) => attemptRows(subject).filter(({ fact }) => fact === 'no tls' || fact === 'dane'),
  },
  {
    name: 'queue',
    kinds: ['mail'],
    ask: (_, subject) => ofMails(subject, (mail) => mail.deliveries.flatMap((each) => waiting(mail, each))),
  },
  {
    name: 'lanes',
    kinds: ['mail', 'receiver'],
    ask: (deps, subject) =>
      subject.domains.length === 0 || (subject.kind === 'mail' && !waits(subject)) ? [] : laneRows(deps, subject),
  },
  { name: 'waiting', kinds: ['receiver'], ask: unreached },
  { name: 'campaign', kinds: ['mail'], ask: campaignRows },
  { name: 'agents', kinds: ['mail'], ask: agentRows },
  { name: 'suppressions', kinds: ['mail'], ask: suppressionRows },
]
