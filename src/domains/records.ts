// The DNS records that a sending domain needs (D19), and their comparison with DNS answers. One row per record: `value`
// is the wanted value, `observed` the value found in DNS.
import { sole } from '../base/lists.ts'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { sourcesOf } from '../base/sources.ts'
import { refuseAttribute } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { ResolverAnswer, Mx, Resolver } from '../net/resolver.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { dmarcHost, judgeDmarc, observedDmarc, policyOf, publishedDmarc, reportsTo, stronger } from './dmarc.ts'
import { publishedKeys, retiredKeys, type DkimKey } from './keys.ts'

export type DnsRecord = RowOf<'records'>
type WantedRecord = Pick<DnsRecord, 'record_type' | 'name' | 'value' | 'required'>

/** Whether a record names hosts that send or receive mail. */
export const isOfHost = ({ record_type }: { record_type: string }): boolean => /SPF|MX/.test(record_type)

/** Whether DNS lacks a record or has another one: only then is its zone line of use. */
export const isToPublish = ({ missing_address, verified }: Pick<DnsRecord, 'missing_address' | 'verified'>): boolean =>
  verified === 0 && missing_address === 0

export const TTL = 3600
const MX_PREFERENCE = 10
/** The label of the host for branded links. */
export const TRACKING_LABEL = 'links'
const MAX_OBSERVED = 1000
/** Longer than real DMARC records: the wanted value repeats the published record, so it must be stored whole. */
const MAX_DMARC = 4 * MAX_OBSERVED

export type RecordsConfig = Pick<Config, 'hostname' | 'http'> & {
  delivery: Pick<Config['delivery'], 'source' | 'sources' | 'routes'>
}

const keyRecord = ({ public_key, selector }: DkimKey, domain: string) => ({
  record_type: 'DKIM' as const,
  name: `${selector}._domainkey.${domain}`,
  value: `v=DKIM1; k=rsa; p=${public_key}`,
})

/**
 * The records of retired keys that may still sign. They need not be published again, but they are checked while the
 * keys are in use.
 */
export function retiredKeyRecords(
  reader: Reader,
  domainKey: number,
): (ReturnType<typeof keyRecord> & { selector: string })[] {
  const domain = reader.first(db.selectFrom('domains').select('name').where('key', '=', domainKey))
  return retiredKeys(reader, domainKey).map((key) => ({
    selector: key.selector,
    ...keyRecord(key, domain?.name ?? ''),
  }))
}

/** The records that a domain should have now. */
export function wantedRecords(reader: Reader, domain: RowOf<'domains'>, config: RecordsConfig): WantedRecord[] {
  const mailFrom = `${domain.mail_from_prefix}.${domain.name}`
  const dkim = publishedKeys(reader, domain.key).map((key): WantedRecord => ({
    ...keyRecord(key, domain.name),
    required: key.role === 'signing' ? 1 : 0,
  }))
  return [
    ...dkim,
    { record_type: 'SPF', name: mailFrom, value: spfValue(config), required: 1 },
    { record_type: 'MAIL_FROM_MX', name: mailFrom, value: `${MX_PREFERENCE} ${config.hostname}`, required: 1 },
    ...(receives(reader, domain.key)
      ? [
          {
            record_type: 'INBOUND_MX' as const,
            name: domain.name,
            value: `${MX_PREFERENCE} ${config.hostname}`,
            required: 0 as const,
          },
        ]
      : []),
    ...(domain.tracking_redirect_mode === 'branded'
      ? [
          {
            record_type: 'TRACKING' as const,
            name: `${TRACKING_LABEL}.${domain.name}`,
            value: new URL(config.http.public_url).hostname,
            required: 0 as const,
          },
        ]
      : []),
    dmarcRecord(reader, domain),
  ]
}

/** The domains of the account with the same DMARC record as this one, with it: a subdomain uses that of its parent. */
function sharingDmarc(reader: Reader, domain: RowOf<'domains'>): RowOf<'domains'>[] {
  const host = dmarcHost(domain.name, domain.dmarc_policy)
  const all = db.selectFrom('domains').selectAll().where('user_key', '=', domain.user_key)
  return reader
    .all(all.where('deleted_at', 'is', null).orderBy('key'))
    .map((each) => (each.key === domain.key ? domain : each))
    .filter((each) => dmarcHost(each.name, each.dmarc_policy) === host)
}

/**
 * The value of a domain's DMARC record, and whether the published one fits. Only one record may have its name, so it
 * has the strictest policy and the addresses of all domains that share it.
 */
export function wantedDmarc(
  reader: Reader,
  domain: RowOf<'domains'>,
  observed: string | null,
): ReturnType<typeof judgeDmarc> {
  const all = sharingDmarc(reader, domain)
  const policy = all.reduce((strictest, each) => stronger(strictest, each.dmarc_policy), domain.dmarc_policy)
  const reports = all.map((each) => reportsTo('dmarc', each))
  return judgeDmarc(policy, observed, reports)
}

/** Updates the DMARC records that a domain shares, because its address for reports is new. */
export function syncSharedDmarc(tx: Tx, domain: RowOf<'domains'>, config: RecordsConfig, now: number): void {
  for (const other of sharingDmarc(tx, domain)) if (other.key !== domain.key) syncRecords(tx, other, config, now)
}

/** A published record keeps its other tags, so that reports go to the same addresses as before. */
function dmarcRecord(reader: Reader, domain: RowOf<'domains'>): WantedRecord {
  const { dmarc_policy, key, name } = domain
  const host = dmarcHost(name, dmarc_policy)
  const observed = recordsOf(reader, key).find((row) => row.record_type === 'DMARC' && row.name === host)?.observed
  return {
    record_type: 'DMARC',
    name: host,
    value: wantedDmarc(reader, domain, observed ?? null).value,
    required: 0,
  }
}

/** Sets the wanted policy of a domain's DMARC record. */
export async function setDmarcPolicy(
  { clock, store }: { clock: Clock; store: Store },
  key: number,
  dmarc_policy: RowOf<'domains'>['dmarc_policy'],
): Promise<void> {
  await store.write((tx) =>
    tx.run(db.updateTable('domains').set({ dmarc_policy, updated_at: clock.now() }).where('key', '=', key)),
  )
}

type Names = Pick<RowOf<'domains'>, 'mail_from_prefix' | 'tracking_redirect_mode'>

/**
 * A CNAME excludes other records of its name (RFC 1034 §3.6.2), so branded links and the return path need different
 * names. Throws 422.
 */
export function refuseSharedName(
  { name, ...before }: Names & { name: string },
  change: { [Key in keyof Names]?: Names[Key] | undefined },
): void {
  const { mail_from_prefix: prefix, tracking_redirect_mode: mode } = change
  if (prefix === undefined && mode === undefined) return
  if ((mode ?? before.tracking_redirect_mode) !== 'branded') return
  if ((prefix ?? before.mail_from_prefix) !== TRACKING_LABEL) return
  throw refuseAttribute(
    'invalid',
    prefix === undefined ? 'tracking_redirect_mode' : 'mail_from_prefix',
    `${TRACKING_LABEL}.${name} is used for branded links and cannot be the return path too. Use another mail_from_prefix.`,
  )
}

function receives(reader: Reader, domainKey: number): boolean {
  const inbox = db
    .selectFrom('inboxes')
    .select('key')
    .where('domain_key', '=', domainKey)
    .where('deleted_at', 'is', null)
  return reader.first(inbox.limit(1)) !== undefined
}

/** The terms of SPF for this server's host name, and for the addresses and relays that the operator configured. */
export const sendersIn = (config: Pick<RecordsConfig, 'delivery' | 'hostname'>): string[] => [
  `a:${config.hostname}`,
  ...sourcesOf(config).map(({ address, family }) => `ip${family}:${address}`),
  ...config.delivery.routes.flatMap(({ spf }) => (spf === '' ? [] : spf.split(/\s+/))),
]

/** SPF with this server's host name, and the source addresses that the operator configured. */
function spfValue({ hostname, delivery }: RecordsConfig): string {
  return ['v=spf1', ...sendersIn({ hostname, delivery }), '-all'].join(' ')
}

/**
 * Whether two records are the same row. A DMARC row stays the same with another policy, and keeps its observed value.
 */
const same = (a: WantedRecord, b: WantedRecord): boolean =>
  a.record_type === b.record_type && a.name === b.name && (a.record_type === 'DMARC' || a.value === b.value)

/** Whether the rows match the present configuration: the server's name or addresses may have changed. */
export function inLine(reader: Reader, domain: RowOf<'domains'>, config: RecordsConfig): boolean {
  const wanted = wantedRecords(reader, domain, config)
  const present = recordsOf(reader, domain.key)
  return (
    wanted.length === present.length &&
    wanted.every((record) => present.some((row) => same(record, row) && row.value === record.value))
  )
}

/** Updates a domain's record rows: deletes old ones and adds new ones. The others keep their state. */
export function syncRecords(tx: Tx, domain: RowOf<'domains'>, config: RecordsConfig, now: number): void {
  const wanted = wantedRecords(tx, domain, config)
  const present = recordsOf(tx, domain.key)
  for (const row of present)
    if (!wanted.some((record) => same(record, row))) tx.run(db.deleteFrom('records').where('key', '=', row.key))
  for (const record of wanted) {
    const row = present.find((other) => same(record, other))
    if (!row)
      tx.run(
        db.insertInto('records').values({
          id: newId(now),
          user_key: domain.user_key,
          domain_key: domain.key,
          ...record,
          ttl: TTL,
          verified: 0,
          missing_address: 0,
          created_at: now,
          updated_at: now,
        }),
      )
    else if (row.required !== record.required || row.value !== record.value) {
      const { required, value } = record
      const fits = row.record_type === 'DMARC' ? wantedDmarc(tx, domain, row.observed).fits : row.verified === 1
      const verified = fits ? 1 : 0
      tx.run(db.updateTable('records').set({ required, value, verified, updated_at: now }).where('key', '=', row.key))
    }
  }
}

export function recordsOf(reader: Reader, domainKey: number): DnsRecord[] {
  return reader.all(db.selectFrom('records').selectAll().where('domain_key', '=', domainKey).orderBy('key'))
}

/** The first domain of this server with its DMARC record at the same name, or undefined if it is this one. */
export function dmarcSharedWith(reader: Reader, { key, name }: RowOf<'domains'>): string | undefined {
  const own = recordsOf(reader, key).find(({ record_type }) => record_type === 'DMARC')
  const first = reader.first(
    db
      .selectFrom('records as r')
      .innerJoin('domains as d', 'd.key', 'r.domain_key')
      .select('d.name')
      .where('r.record_type', '=', 'DMARC')
      .where('r.name', '=', own?.name ?? '')
      .where('d.deleted_at', 'is', null)
      .orderBy('d.key')
      .limit(1),
  )
  return first?.name === name ? undefined : first?.name
}

/** Whether an active domain has SPF or MX whose host has no address. */
export const lacksAddress = (reader: Reader): boolean =>
  reader.first(
    db
      .selectFrom('records as r')
      .innerJoin('domains as d', 'd.key', 'r.domain_key')
      .select('r.key')
      .where('r.missing_address', '=', 1)
      .where('d.status', '=', 'active')
      .where('d.deleted_at', 'is', null)
      .limit(1),
  ) !== undefined

/** Whether DNS answered for a record at the last check of its domain. */
export const isAnswered = (record: Pick<DnsRecord, 'checked_at'>, domain: { checked_at: number | null }): boolean =>
  record.checked_at !== null && record.checked_at >= (domain.checked_at ?? 0)

/** The result of a look-up: `verified` is null when DNS gave no answer (SERVFAIL, timeout). */
export interface RecordFinding {
  verified: boolean | null
  observed: string | null
}

/** Whether there is one text, and it fits. */
function alone(texts: readonly string[], fits: (text: string) => boolean): boolean {
  const text = sole(texts)
  return text !== undefined && fits(text)
}

/** Looks up one record and compares the response. */
export async function lookUp(
  resolver: Resolver,
  record: Pick<DnsRecord, 'record_type' | 'name' | 'value'>,
): Promise<RecordFinding> {
  switch (record.record_type) {
    case 'DKIM':
      return judge(await resolver.txt(record.name), (texts) => alone(texts, (text) => sameKey(text, record.value)))
    case 'SPF':
      return judge(keepOnly(await resolver.txt(record.name), isSpf), (texts) =>
        alone(texts, (text) => includesTerms(text, record.value)),
      )
    case 'DMARC':
      return lookUpDmarc(resolver, record)
    case 'MAIL_FROM_MX':
    case 'INBOUND_MX':
      return judge(showMx(await resolver.mx(record.name)), (found) =>
        found.some((mx) => mx.split(' ')[1] === record.value.split(' ')[1]),
      )
    case 'TRACKING':
      return judge(await resolver.cname(record.name), (names) => names.includes(record.value))
  }
}

/**
 * Of several records at a name that may have one (SPF, DMARC, DKIM), those to remove: all but the one that fits, else
 * all but the first. Empty when there is one.
 */
function tooMany({ observed, record_type, value }: DnsRecord): string[] {
  const found = observed?.split('\n').filter((text) => /^\s*v\s*=/.test(text)) ?? []
  const fitting = found.findIndex((text) =>
    record_type === 'DKIM' ? sameKey(text, value) : record_type === 'SPF' && includesTerms(text, value),
  )
  return found.toSpliced(Math.max(fitting, 0), 1)
}

/** What to do about several records at a name that may have one, or null. */
export function conflictOf(record: DnsRecord): string | null {
  const { name, record_type, verified } = record
  const more = verified === 1 ? [] : tooMany(record)
  if (more.length === 0) return null
  const many = `${name} has ${more.length + 1} ${record_type} records, but only one is allowed`
  return record_type === 'DMARC'
    ? `${many}, so receiving servers ignore all of them. Delete all but one, and set it to the value in the list of DNS records.`
    : `${many}; remove ${more.map((text) => `"${text}"`).join(' and ')}.`
}

async function lookUpDmarc(resolver: Resolver, record: Pick<DnsRecord, 'name' | 'value'>): Promise<RecordFinding> {
  const found = await publishedDmarc(resolver, record.name)
  if (found === undefined) return { verified: null, observed: null }
  const observed = observedDmarc(found)?.slice(0, MAX_DMARC) ?? null
  return { verified: judgeDmarc(policyOf(record.value), observed).fits, observed }
}

function judge(answer: ResolverAnswer<string>, fits: (records: string[]) => boolean): RecordFinding {
  if (answer.kind === 'failed') return { verified: null, observed: null }
  const records = answer.kind === 'found' ? answer.records : []
  return { verified: fits(records), observed: records.length > 0 ? records.join('\n').slice(0, MAX_OBSERVED) : null }
}

function keepOnly(answer: ResolverAnswer<string>, wanted: (text: string) => boolean): ResolverAnswer<string> {
  return answer.kind === 'found' ? { kind: 'found', records: answer.records.filter(wanted) } : answer
}

function showMx(answer: ResolverAnswer<Mx>): ResolverAnswer<string> {
  return answer.kind === 'found'
    ? { kind: 'found', records: answer.records.map(({ exchange, priority }) => `${priority} ${exchange}`) }
    : answer
}

const isSpf = (text: string): boolean => /^v=spf1(\s|$)/i.test(text)

/**
 * DKIM key records are equal when their keys are equal and the found one permits our signatures, which are by SHA-256
 * and for email: white space, tag order and defaults are ignored (RFC 6376 §3.6.1).
 */
function sameKey(found: string, wanted: string): boolean {
  const tags = dkimTags(found)
  if (tags === undefined) return false
  const version = /^\s*v\s*=/.test(found) || !tags.has('v')
  return (
    version &&
    (tags.get('v') ?? 'DKIM1') === 'DKIM1' &&
    (tags.get('k') ?? 'rsa') === 'rsa' &&
    lists(tags.get('h') ?? 'sha256', 'sha256') &&
    lists(tags.get('s') ?? '*', '*', 'email') &&
    tags.get('p') === dkimTags(wanted)?.get('p')
  )
}

/** Whether a list with colons has one of these words. */
const lists = (list: string, ...words: string[]): boolean =>
  list
    .toLowerCase()
    .split(':')
    .some((word) => words.includes(word))

/** The tags of a record, or undefined for an invalid list (RFC 6376 §3.2). */
function dkimTags(text: string): Map<string, string> | undefined {
  const tags = new Map<string, string>()
  for (const tag of text.split(';').filter((each) => each.trim() !== '')) {
    const at = tag.indexOf('=')
    const name = tag.slice(0, at).trim()
    if (at < 1 || tags.has(name)) return undefined
    tags.set(name, tag.slice(at + 1).replace(/\s+/g, ''))
  }
  return tags
}

/**
 * A customer may have merged our terms into an existing record: it must contain all of our terms except the final
 * "all".
 */
function includesTerms(found: string, wanted: string): boolean {
  const given = found.toLowerCase().split(/\s+/)
  // Terms after "all" are ignored (RFC 7208 §5.1).
  const all = given.findIndex((term) => /^[-~?+]?all$/.test(term))
  const terms = new Set((all < 0 ? given : given.slice(0, all)).map((term) => term.replace(/^\+/, '')))
  return wanted
    .toLowerCase()
    .split(' ')
    .every((term) => /^[-~?+]?all$/.test(term) || terms.has(term))
}
