// Polls DNS: looks up a domain's records, stores the answers, and moves the domain by its state table (D20). A failed
// lookup (SERVFAIL, a timeout) changes no record and no deadline: only a response moves a domain.
import { upTo } from '../base/text.ts'
import { pairs } from '../base/lists.ts'
import { DAY, HOUR, MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { domainMachine, type DomainMove, type DomainStatus } from '../store/states/domain.ts'
import type { Store, Tx } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { move } from '../store/move.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { addNotice } from '../users/notices.ts'
import { signingKeyOf, type SignedWith } from './keys.ts'
import { lookAtLinksHost, type LinksHost, type LinksHostDeps } from './links-host.ts'
import { hasAddress } from './host-records.ts'
import {
  isOfHost,
  isToPublish,
  lookUp,
  recordsOf,
  retiredKeyRecords,
  wantedDmarc,
  type DnsRecord,
  type RecordFinding,
} from './records.ts'

export interface CheckDeps extends LinksHostDeps {
  store: Store
  clock: Clock
  log: Log
}

type Domain = RowOf<'domains'>

/** Domains that are looked up at the same time. */
const AT_ONCE = 20
const RECHECK_ACTIVE = 6 * HOUR
/** A missed DKIM record is looked for again after this time, and mail is held when it is missing so much later. */
const CONFIRM = 45 * SECOND
const CONFIRM_AFTER = 30 * SECOND
/** An active domain that lacks something: a required record, a certificate or an address of a host. */
const RECHECK_LACKING = 30 * MINUTE
const GIVE_UP_ACTIVE = 72 * HOUR
const POLL_FAILED = HOUR
const POLL_FAILED_FOR = 30 * DAY

/**
 * Returns the time of a domain's next check, or null if no check is scheduled. `whole` means that the hosts of its
 * records are complete.
 */
export function nextCheck(
  domain: Pick<Domain, 'status' | 'status_at' | 'poll_from' | 'missing_since'>,
  now: number,
  whole = true,
): number | null {
  switch (domain.status) {
    case 'pending':
    case 'verifying': {
      const age = now - domain.poll_from
      return now + (age < 15 * MINUTE ? MINUTE : age < 2 * HOUR ? 5 * MINUTE : 30 * MINUTE)
    }
    case 'active':
      return now + (domain.missing_since === null && whole ? RECHECK_ACTIVE : RECHECK_LACKING)
    case 'failed':
      return now - domain.status_at < POLL_FAILED_FOR ? now + POLL_FAILED : null
    case 'suspended':
      return null
  }
}

/** Checks the due domains. Returns the time of the next check. Called by the domains loop. */
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

/** Looks up all records of a domain now. Returns the updated domain, or undefined if it was removed. */
export async function checkDomain(deps: CheckDeps, domainKey: number): Promise<Domain | undefined> {
  const asked = recordsOf(deps.store, domainKey)
  const retired = retiredKeyRecords(deps.store, domainKey)
  const addressed = hasAddress(deps.resolver, deps.config.hostname)
  const [findings, ofRetired] = await Promise.all([
    Promise.all(asked.map((record) => lookUpRecord(deps, record, addressed))),
    Promise.all(retired.map((record) => lookUp(deps.resolver, record))),
  ])
  return deps.store.write((tx) => {
    const now = deps.clock.now()
    const domain = tx.first(
      db.selectFrom('domains').selectAll().where('key', '=', domainKey).where('deleted_at', 'is', null),
    )
    if (!domain) return undefined
    const signing = signingKeyOf(tx, domainKey)
    const found = pairs(asked, findings)
    const news = found.map(([record, finding]) => note(tx, deps, domain, record, finding)).some(Boolean)
    const absent = new Set(found.filter(([, { verified }]) => verified === false).map(([{ key }]) => key))
    for (const [{ selector }, { verified }] of pairs(retired, ofRetired))
      noteKey(tx, { domainKey, selector }, verified, now)
    // Records may have been re-issued during the look-up, so the present ones are used.
    advance(tx, deps, domain, { news, absent }, now)
    const after = tx.one(db.selectFrom('domains').selectAll().where('key', '=', domainKey))
    // Records issued during the lookup are checked at once.
    const stands = new Set(asked.map(({ key }) => key))
    const records = recordsOf(tx, domainKey)
    const whole = records.every((record) => record.missing_address === 0 && !lacksCertificate(record, now))
    const planned = records.every(({ key }) => stands.has(key)) ? nextCheck(after, now, whole) : now
    const within = now + noteHeld(tx, deps.log, { before: signing, domain: after }, now)
    const next = within < (planned ?? Infinity) ? within : planned
    tx.run(db.updateTable('domains').set({ checked_at: now, next_check_at: next }).where('key', '=', domainKey))
    return { ...after, checked_at: now, next_check_at: next }
  })
}

/** The result of a check of a record, and of the host in its value. */
interface CheckFinding extends RecordFinding {
  links?: LinksHost | undefined
  /** Set if the host has no address: the record does not count then (D219). */
  missing_address?: 1
}

async function lookUpRecord(
  deps: CheckDeps,
  record: DnsRecord,
  addressed: ReturnType<typeof hasAddress>,
): Promise<CheckFinding> {
  const found = await lookUp(deps.resolver, record)
  if (found.verified === true && isOfHost(record)) {
    const verified = await addressed
    return { ...found, verified, ...(verified === false ? { missing_address: 1 } : {}) }
  }
  if (record.record_type !== 'TRACKING' || found.verified !== true) return found
  return { ...found, links: await lookAtLinksHost(deps, record.name) }
}

/** Whether the record for branded links is in DNS, and links still lead to this server's own host. */
const lacksCertificate = ({ certificate_until, record_type, verified }: DnsRecord, now: number): boolean =>
  record_type === 'TRACKING' && verified === 1 && (certificate_until ?? 0) <= now

/** Stores a finding. Returns true if a required record was found that the last check did not find. */
function note(tx: Tx, deps: CheckDeps, domain: Domain, record: DnsRecord, found: CheckFinding): boolean {
  const now = deps.clock.now()
  const { missing_address = 0, observed } = found
  if (found.verified === null) return false
  // For DMARC, a published record keeps its other tags: the advice is this record with the wanted policy.
  const dmarc = record.record_type === 'DMARC' ? wantedDmarc(tx, domain, observed) : undefined
  const verified = dmarc?.fits ?? found.verified
  const value = dmarc?.value ?? record.value
  const flag = verified ? 1 : 0
  const changed = flag !== record.verified || observed !== record.observed || missing_address !== record.missing_address
  tx.run(
    db
      .updateTable('records')
      .set({
        value,
        verified: flag,
        observed,
        missing_address,
        checked_at: now,
        ...(changed ? { updated_at: now } : {}),
      })
      .where('key', '=', record.key),
  )
  noteLinks(tx, deps.log, record, found)
  if (record.record_type === 'DKIM')
    noteKey(tx, { domainKey: record.domain_key, selector: upTo(record.name, '.') }, verified, now)
  return verified && record.required === 1 && record.verified === 0
}

/** Stores until when tracked links use the host of a record. Null means this server's own host. */
function noteLinks(tx: Tx, log: Log, record: DnsRecord, { links, verified }: CheckFinding): void {
  const { certificate_until: before, key, name } = record
  // The check failed locally, so the last result stays.
  if (verified === true && !links) return
  const until = links && 'until' in links ? links.until : null
  if (until !== before) tx.run(db.updateTable('records').set({ certificate_until: until }).where('key', '=', key))
  const error = links && 'fault' in links ? links.fault : undefined
  tx.afterCommit(() => {
    if (error !== undefined) log.warn('links_host_unusable', { name, error })
    else if (until !== null && before === null) log.info('links_host_usable', { name })
  })
}

type OfKey = { domainKey: number; selector: string }

/**
 * A key signs only while its record is published (D68). A failed lookup has no effect. If one response lacks a record,
 * the lookup is repeated before mail is held (D217).
 */
function noteKey(tx: Tx, { domainKey, selector }: OfKey, seen: boolean | null, now: number): void {
  if (seen === null) return
  const key = db.updateTable('dkim_keys').where('domain_key', '=', domainKey).where('selector', '=', selector)
  if (seen) return void tx.run(key.set({ verified_at: now, missed_at: null }))
  tx.run(key.set({ verified_at: null }).where('missed_at', '<=', now - CONFIRM_AFTER))
  tx.run(key.set({ missed_at: now }).where('missed_at', 'is', null).where('verified_at', 'is not', null))
}

/**
 * Reports when mail of a domain is held from now on, or no longer. Returns the longest time until the next check, in
 * ms: short while a missed record is to be confirmed, or mail is held for it.
 */
function noteHeld(tx: Tx, log: Log, { before, domain }: { before: SignedWith; domain: Domain }, now: number): number {
  const { key, name, user_key } = domain
  const after = signingKeyOf(tx, key)
  const [held, wasHeld] = [after, before].map((each) => each !== undefined && 'unseen' in each)
  if (held && !wasHeld && after && 'unseen' in after && domain.status === 'active') {
    const record = after.unseen
    tx.afterCommit(() => log.warn('domain_mail_held', { domain: name, record }))
    const text = `Two DNS checks did not find the record ${record}. Without it, receiving servers cannot verify the DKIM signatures of ${name}. Its email is held until the record is back.\n\nPublish the record again. You find it on the page of the domain in the console, or with "postrider domain check ${name}".\n`
    addNotice(tx, { user_key, domain_key: key, subject: `Email from ${name} is held: DKIM record missing`, text }, now)
  } else if (wasHeld && !held) tx.afterCommit(() => log.info('domain_mail_released', { domain: name }))
  const doubted = db
    .selectFrom('dkim_keys')
    .select('key')
    .where('domain_key', '=', key)
    .where('missed_at', 'is not', null)
    .where('verified_at', 'is not', null)
  return tx.first(doubted) ? CONFIRM : held && domain.status === 'active' ? 5 * MINUTE : Infinity
}

/**
 * The results of a check. `news` means that a required record was found that the last check did not find. `absent`
 * contains the keys of missing records.
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
    // An active domain continues to send if its host loses its address, and the operator is notified (D219).
    const gone = required.filter(isToPublish)
    const since = gone.length === 0 ? null : (domain.missing_since ?? now)
    tx.run(db.updateTable('domains').set({ missing_since: since }).where('key', '=', domain.key))
    const answered = gone.some(({ key }) => absent.has(key))
    if (answered && since !== null && now - since >= GIVE_UP_ACTIVE) go(status, 'missing')
  }
}

/** Moves a domain by its state table and writes the event. Returns its new status. */
export function moveDomain(tx: Tx, log: Log, domain: Domain, on: DomainMove, now: number): DomainStatus {
  const row = move(tx, domainMachine, domain.key, on, {
    status_at: now,
    poll_from: now,
    missing_since: null,
    updated_at: now,
  })
  if (!row) return domain.status
  const { emits, from, to } = row
  tx.afterCommit(() => log.info('domain_status_changed', { domain: domain.name, from, to }))
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
