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
import type { RowOf } from '../schema/tables.ts'
import { dmarcHost, judgeDmarc, observedDmarc, policyOf, publishedDmarc } from './dmarc.ts'
import { publishedKeys, retiredKeys, type DkimKey } from './keys.ts'
import { reportsTo } from './report-addresses.ts'

export type DnsRecord = RowOf<'records'>
type WantedRecord = Pick<DnsRecord, 'record_type' | 'name' | 'value' | 'required'>

/** Whether a record names hosts that send or receive mail. */
export const isOfHost = ({ record_type }: { record_type: string }): boolean => /SPF|MX/.test(record_type)

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

/** A published record keeps its other tags, so that reports go to the same addresses as before. */
function dmarcRecord(reader: Reader, domain: RowOf<'domains'>): WantedRecord {
  const { dmarc_policy, key, name } = domain
  const host = dmarcHost(name, dmarc_policy)
  const observed = recordsOf(reader, key).find((row) => row.record_type === 'DMARC' && row.name === host)?.observed
  return {
    record_type: 'DMARC',
    name: host,
    value: judgeDmarc(dmarc_policy, observed ?? null, reportsTo('dmarc', domain)).value,
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
    `Branded links live at ${TRACKING_LABEL}.${name}, where a return path cannot be as well; use another mail_from_prefix.`,
  )
}

/** Whether the domain has an inbox. */
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

/** Updates a domain's record rows: deletes old ones, adds new ones; the others keep their state. */
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
          created_at: now,
          updated_at: now,
        }),
      )
    else if (row.required !== record.required || row.value !== record.value) {
      const { required, value } = record
      const fits = row.record_type === 'DMARC' ? judgeDmarc(domain.dmarc_policy, row.observed).fits : row.verified === 1
      const verified = fits ? 1 : 0
      tx.run(db.updateTable('records').set({ required, value, verified, updated_at: now }).where('key', '=', row.key))
    }
  }
}

export function recordsOf(reader: Reader, domainKey: number): DnsRecord[] {
  return reader.all(db.selectFrom('records').selectAll().where('domain_key', '=', domainKey).orderBy('key'))
}

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

/** Looks up one record and compares the answer. */
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
 * DKIM key records are equal when their keys are equal: white space, tag order and defaults are ignored (RFC 6376
 * §3.6.1).
 */
function sameKey(found: string, wanted: string): boolean {
  const tags = dkimTags(found)
  // A list with a repeated tag is invalid (RFC 6376 §3.2).
  if (tags === undefined) return false
  const version = /^\s*v\s*=/.test(found) || !tags.has('v')
  return (
    version &&
    (tags.get('v') ?? 'DKIM1') === 'DKIM1' &&
    (tags.get('k') ?? 'rsa') === 'rsa' &&
    tags.get('p') === dkimTags(wanted)?.get('p')
  )
}

function dkimTags(text: string): Map<string, string> | undefined {
  const tags = new Map<string, string>()
  for (const tag of text.split(';').filter((each) => each.trim() !== '')) {
    const at = tag.indexOf('=')
    const name = tag.slice(0, at).trim()
    if (tags.has(name)) return undefined
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
