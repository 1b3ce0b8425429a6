// The recipients that this server accepts (D46): inboxes (with +tags), return paths and unsubscribe addresses by their
// signed token, the addresses for reports, postmaster and abuse of hosted domains. All other addresses are rejected at
// RCPT, so that this server never relays and never bounces later. The rejection is temporary while no domain is set up,
// and for a domain of an account while it waits for its verification (D197).
import type { Keyring } from '../base/keyring.ts'
import { reportsAbout } from '../domains/dmarc.ts'
import { parseAddrSpec, toAscii } from '../message/address.ts'
import { readReturnPathToken, readUnsubscribeLocalPart } from '../message/return-path.ts'
import type { SmtpRefusal } from '../smtp/answers.ts'
import type { Reader } from '../store/database.ts'
import { db, raw, statement } from '../store/query.ts'

export type InboundRecipient =
  | { kind: 'inbox'; address: string; inboxes: number[] }
  | { kind: 'return'; address: string; delivery: number }
  | { kind: 'unsubscribe'; address: string; delivery: number }
  /** postmaster or abuse, of a domain or (`domain` null) of this server. */
  | { kind: 'role'; address: string; domain: number | null }
  /** Reports of other servers about the mail of a domain. */
  | { kind: 'reports'; address: string; domain: number; about: 'dmarc' | 'tls' }

/** Domains in use whose ownership was verified once. */
const HOSTED = `d.deleted_at is null and d.status in ('active', 'verifying')
  and exists (select 1 from dkim_keys k where k.domain_key = d.key and k.verified_at is not null)`

/**
 * If several accounts have a domain with this name, the first is the one whose records are in DNS now, because the name
 * may have been sold.
 */
const FIRST = `d.status <> 'active', d.key`

const inboxesAt = (address: string) =>
  raw<{ keys: string }>(
    `select json_group_array(key) as keys from inboxes
     where address = ? and deleted_at is null and domain_key in (select d.key from domains d where ${HOSTED})`,
    [address],
  )

const hosted = (name: string) =>
  raw<{ key: number }>(`select d.key from domains d where d.name = ? and ${HOSTED} order by ${FIRST} limit 1`, [name])

/** Whether this server receives mail for a domain. */
export const isHosted = (store: Reader, domain: string): boolean => store.fact(hosted(domain)) !== undefined

/** Hosts of return paths must have a postmaster too (RFC 5321 §4.5.1). */
const hostedReturnPath = (host: string) =>
  raw<{ key: number }>(
    `select d.key from domains d where d.name in (select value from json_each(?))
     and d.mail_from_prefix || '.' || d.name = ? and ${HOSTED} order by ${FIRST} limit 1`,
    [JSON.stringify(parentsOf(host)), host],
  )

/** Whether a host is a domain of an account that waits for its verification, or the host of its return path. */
const isUnverified = (store: Reader, host: string): boolean =>
  store.fact(
    raw(
      `select 1 from domains d where d.name in (select value from json_each(?)) and ? in (d.name, d.mail_from_prefix || '.' || d.name)
       and d.deleted_at is null and d.status in ('pending', 'verifying', 'failed') limit 1`,
      [JSON.stringify([host, ...parentsOf(host)]), host],
    ),
  ) !== undefined

/** Whether a domain accepts mail now. Another account may have a domain with the same name that does. */
export const takesMail = (store: Reader, domainKey: number): boolean =>
  store.fact(raw(`select 1 from domains d where d.key = ? and ${HOSTED}`, [domainKey])) !== undefined

const domainOfDelivery = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('deliveries as v')
    .innerJoin('domains as d', 'd.key', 'v.domain_key')
    .select('d.name')
    .where('v.key', '=', arg.key),
)

const ROLES = ['postmaster', 'abuse']
const UNKNOWN: SmtpRefusal = { code: 550, text: '5.1.1 No such mailbox' }
const FOREIGN: SmtpRefusal = { code: 554, text: '5.7.1 This server does not accept mail for that domain' }
/** The data of a server without any domain may still be missing, so such a server does not reject permanently. */
const UNSET: SmtpRefusal = { code: 451, text: '4.3.0 This server has no domains yet; try again later' }
const UNVERIFIED: SmtpRefusal = { code: 451, text: '4.3.0 This domain is not verified yet; try again later' }

const anyDomain = raw<{ key: number }>('select key from domains limit 1')

export interface RecipientDeps {
  store: Reader
  keyring: Keyring
}

/** The recipient behind an envelope address, or its refusal. */
export function judgeRecipient({ store, keyring }: RecipientDeps, address: string): InboundRecipient | SmtpRefusal {
  const at = address.lastIndexOf('@')
  if (at < 0) return address.toLowerCase() === 'postmaster' ? { kind: 'role', address, domain: null } : FOREIGN
  const local = address.slice(0, at).toLowerCase()
  const host = toAscii(address.slice(at + 1))
  if (host === undefined) return FOREIGN
  const whole = `${local}@${host}`

  const returned = readReturnPathToken(keyring, local)
  if (returned !== undefined && isBelow(store, host, returned))
    return { kind: 'return', address: whole, delivery: returned }
  const unsubscribed = readUnsubscribeLocalPart(keyring, local)
  if (unsubscribed !== undefined && isBelow(store, host, unsubscribed))
    return { kind: 'unsubscribe', address: whole, delivery: unsubscribed }

  const found = findInboxes(store, local, host)
  if (found.length > 0) return { kind: 'inbox', address: whole, inboxes: found }
  const domain = store.fact(hosted(host))
  const about = reportsAbout(local)
  const answers = store.fact(hostedReturnPath(host))
  const reported = about && answers
  if (reported) return { kind: 'reports', address: whole, domain: reported.key, about }
  const answering = ROLES.includes(local) ? (domain ?? answers) : undefined
  if (answering) return { kind: 'role', address: whole, domain: answering.key }
  if (domain || answers) return UNKNOWN
  if (isUnverified(store, host)) return UNVERIFIED
  if (parentOf(store, host)) return UNKNOWN
  return store.fact(anyDomain) ? FOREIGN : UNSET
}

/**
 * Whether mail to an address arrives at an inbox of this server, or is shown to a domain's owner (postmaster, abuse).
 * Others may read that mail, so it must not contain secrets of the address's owner.
 */
export const isReadHere = (deps: RecipientDeps, address: string): boolean => {
  const judged = judgeRecipient(deps, address)
  return !isRefusal(judged) && (judged.kind === 'inbox' || judged.kind === 'role')
}

/**
 * Whether a message was sent to an address for reports. With `only`: to no other address than that of these reports.
 */
export const isForReports = ({ recipients }: { recipients: string }, only?: 'tls' | 'all'): boolean => {
  const all = JSON.parse(recipients) as InboundRecipient[]
  return only === undefined
    ? all.some(({ kind }) => kind === 'reports')
    : all.every((each) => each.kind === 'reports' && (only === 'all' || each.about === only))
}

export const isRefusal = (judged: InboundRecipient | SmtpRefusal): judged is SmtpRefusal => 'code' in judged

function findInboxes(store: Reader, local: string, host: string): number[] {
  const at = (name: string): number[] => JSON.parse(store.fact(inboxesAt(`${name}@${host}`))?.keys ?? '[]') as number[]
  const exact = at(local)
  const plus = local.indexOf('+')
  return exact.length > 0 || plus < 1 ? exact : at(local.slice(0, plus))
}

/** A token is valid at hosts below the domain of its email, or below any hosted domain if the email was deleted. */
function isBelow(store: Reader, host: string, delivery: number): boolean {
  const domain = store.first(domainOfDelivery({ key: delivery }))
  return domain ? host.endsWith(`.${domain.name}`) : parentOf(store, host)
}

/** Whether a host is below a domain that is or was hosted here: bounces may come late. */
function parentOf(store: Reader, host: string): boolean {
  return parentsOf(host).some(
    (name) => store.fact(raw('select 1 from domains where name = ? limit 1', [name])) !== undefined,
  )
}

/** The parent domains of a host, without the top-level domain. */
function parentsOf(host: string): string[] {
  const labels = host.split('.')
  return labels.slice(1, -1).map((_, index) => labels.slice(index + 1).join('.'))
}

/** The stored form of an inbox address, or undefined if the text is not an address. */
export function inboxAddress(text: string): { address: string; domain: string } | undefined {
  const parsed = parseAddrSpec(text.trim())
  return parsed && { address: `${parsed.local.toLowerCase()}@${parsed.domain}`, domain: parsed.domain }
}
