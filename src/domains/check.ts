// Polls DNS: looks up a domain's records, stores the answers, and moves the domain by its state table (D20). A failed
// look-up (SERVFAIL, a timeout) changes no record and ends no time window: only an answer moves a domain.
import { upTo } from '../base/text.ts'
import { pairs } from '../base/lists.ts'
import { DAY, HOUR, MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import type { Resolver } from '../net/resolver.ts'
import { domainMachine, type DomainMove, type DomainStatus } from '../states/domain.ts'
import type { Store, Tx } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { move } from '../store/move.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../schema/tables.ts'
import { judgeDmarc } from './dmarc.ts'
import { lookUp, recordsOf, retiredKeyRecords, type DnsRecord, type RecordFinding } from './records.ts'
import { reportsTo } from './report-addresses.ts'

export interface CheckDeps {
  store: Store
  clock: Clock
  resolver: Resolver
  log: Log
  config: Pick<Config, 'domains'>
}

type Domain = RowOf<'domains'>

/** Domains that are looked up at the same time. */
const AT_ONCE = 20
const RECHECK_ACTIVE = 6 * HOUR
const GIVE_UP_ACTIVE = 72 * HOUR
const POLL_FAILED = HOUR
const POLL_FAILED_FOR = 30 * DAY

/** The time of a domain's next check; null: none is scheduled. */
export function nextCheck(
  domain: Pick<Domain, 'status' | 'status_at' | 'poll_from' | 'missing_since'>,
  now: number,
): number | null {
  switch (domain.status) {
    case 'pending':
    case 'verifying': {
      const age = now - domain.poll_from
      return now + (age < 15 * MINUTE ? MINUTE : age < 2 * HOUR ? 5 * MINUTE : 30 * MINUTE)
    }
    case 'active':
      return now + (domain.missing_since === null ? RECHECK_ACTIVE : 30 * MINUTE)
    case 'failed':
      return now - domain.status_at < POLL_FAILED_FOR ? now + POLL_FAILED : null
    case 'suspended':
      return null
  }
}

/** Checks the due domains; returns the time of the next check. The domains loop calls it. */
export async function checkDue(deps: CheckDeps, now: number): Promise<number | null> {
  const due = deps.store.all(
    db.selectFrom('domains').select('key').where('next_check_at', '<=', now).orderBy('next_check_at').limit(AT_ONCE),
  )
  await Promise.all(due.map(({ key }) => checkDomain(deps, key)))
  const next = deps.store.first(
    db
      .selectFrom('domains')
      .select((eb) => eb.fn.min('next_check_at').as('at'))
      .where('next_check_at', 'is not', null),
  )
  return (next?.at as number | null | undefined) ?? null
}

/** Looks up all records of a domain now. Returns the domain after that; undefined when it was removed. */
export async function checkDomain(deps: CheckDeps, domainKey: number): Promise<Domain | undefined> {
  const asked = recordsOf(deps.store, domainKey)
  const retired = retiredKeyRecords(deps.store, domainKey)
  const [findings, ofRetired] = await Promise.all([
    Promise.all(asked.map((record) => lookUp(deps.resolver, record))),
    Promise.all(retired.map((record) => lookUp(deps.resolver, record))),
  ])
  return deps.store.write((tx) => {
    const now = deps.clock.now()
    const domain = tx.first(
      db.selectFrom('domains').selectAll().where('key', '=', domainKey).where('deleted_at', 'is', null),
    )
    if (!domain) return undefined
    const found = pairs(asked, findings)
    const news = found.map(([record, finding]) => note(tx, domain, record, finding, now)).some(Boolean)
    const absent = new Set(found.filter(([, { verified }]) => verified === false).map(([{ key }]) => key))
    for (const [{ selector }, { verified }] of pairs(retired, ofRetired))
      noteKey(tx, domainKey, selector, verified, now)
    // Records may have been re-issued during the look-up, so the present ones are used.
    advance(tx, deps, domain, { news, absent }, now)
    const after = tx.one(db.selectFrom('domains').selectAll().where('key', '=', domainKey))
    // Records issued during the look-up are checked at once.
    const stands = new Set(asked.map(({ key }) => key))
    const next = recordsOf(tx, domainKey).every(({ key }) => stands.has(key)) ? nextCheck(after, now) : now
    tx.run(db.updateTable('domains').set({ checked_at: now, next_check_at: next }).where('key', '=', domainKey))
    return { ...after, checked_at: now, next_check_at: next }
  })
}

/** Stores a finding; true when a required record was found that the last check did not find. */
function note(tx: Tx, domain: Domain, record: DnsRecord, found: RecordFinding, now: number): boolean {
  const { observed } = found
  if (found.verified === null) return false
  // For DMARC, a published record keeps its other tags: the advice is this record with the wanted policy.
  const dmarc =
    record.record_type === 'DMARC' ? judgeDmarc(domain.dmarc_policy, observed, reportsTo('dmarc', domain)) : undefined
  const verified = dmarc?.fits ?? found.verified
  const value = dmarc?.value ?? record.value
  const flag = verified ? 1 : 0
  const changed = flag !== record.verified || observed !== record.observed
  tx.run(
    db
      .updateTable('records')
      .set({ value, verified: flag, observed, checked_at: now, ...(changed ? { updated_at: now } : {}) })
      .where('key', '=', record.key),
  )
  if (record.record_type === 'DKIM') noteKey(tx, record.domain_key, upTo(record.name, '.'), verified, now)
  return verified && record.required === 1 && record.verified === 0
}

/** A key is used for signing only while the last check found its record (D68); a failed look-up changes nothing. */
function noteKey(tx: Tx, domainKey: number, selector: string, seen: boolean | null, now: number): void {
  if (seen === null) return
  tx.run(
    db
      .updateTable('dkim_keys')
      .set({ verified_at: seen ? now : null })
      .where('domain_key', '=', domainKey)
      .where('selector', '=', selector),
  )
}

/**
 * The results of a check. `news`: a required record was found that the last check did not find; `absent`: the keys of
 * missing records.
 */
interface SeenRecords {
  news: boolean
  absent: ReadonlySet<number>
}

/** Moves the domain as far as its state table and its records allow. */
function advance(tx: Tx, deps: CheckDeps, domain: Domain, { absent, news }: SeenRecords, now: number): void {
  const required = recordsOf(tx, domain.key).filter((record) => record.required === 1)
  const all = required.every((record) => record.verified === 1)
  const any = required.some((record) => record.verified === 1)
  // DNS answered in this check that a required record is missing.
  const lacking = required.some(({ key }) => absent.has(key))
  const go = (status: DomainStatus, on: DomainMove): DomainStatus =>
    moveDomain(tx, deps.log, { ...domain, status }, on, now)
  let { status } = domain
  if (status === 'pending' && any) status = go(status, 'seen')
  // A failed domain stays failed while DNS has only the records that it had before.
  if (status === 'failed' && (news || all)) status = go(status, 'seen')
  if (status === 'verifying') {
    if (all) go(status, 'resolved')
    else if (
      lacking &&
      domain.status === 'verifying' &&
      now - domain.status_at >= deps.config.domains.verification_window
    )
      go(status, 'lapsed')
  } else if (status === 'active') {
    const since = all ? null : (domain.missing_since ?? now)
    tx.run(db.updateTable('domains').set({ missing_since: since }).where('key', '=', domain.key))
    if (lacking && since !== null && now - since >= GIVE_UP_ACTIVE) go(status, 'missing')
  }
}

/** Moves a domain by its table and writes the event; returns its new status. */
export function moveDomain(tx: Tx, log: Log, domain: Domain, on: DomainMove, now: number): DomainStatus {
  const row = move(tx, domainMachine, domain.key, on, {
    status_at: now,
    poll_from: now,
    missing_since: null,
    updated_at: now,
  })
  if (!row) return domain.status
  const { emits, from, to } = row
  tx.afterCommit(() => log.info('domain status', { domain: domain.name, from, to }))
  if (emits)
    appendEvent(tx, {
      type: emits,
      user_key: domain.user_key,
      domain_key: domain.key,
      data: { previous_status: from, status: to },
      at: now,
    })
  return to
}
