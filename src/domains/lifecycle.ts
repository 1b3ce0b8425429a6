// Registers, changes, rotates and removes a sending domain for its owner. Changes are checked against DNS at once: the
// domains loop is woken after the commit.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { must, refuse, refuseAttribute } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { givenName, organisationalDomain } from '../message/address.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { planOf } from '../users/plan.ts'
import { moveDomain } from './check.ts'
import { domainByKey, knownDomain, type Domain } from './find.ts'
import { checkSoon } from './issue.ts'
import { insertKey, makeKeyPair, rotateKeys, scheduleErasure, SELECTOR_BYTES, type KeyPair } from './keys.ts'
import { refuseSharedName, syncRecords, syncSharedDmarc, type RecordsConfig } from './records.ts'

/** Steps of other modules in the transactions that create and remove a domain. */
export interface DomainFollowers {
  registered: (tx: Tx, domain: Domain) => void
  removed: (tx: Tx, domainKey: number, now: number) => void
}

export interface DomainsDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  log: Log
  config: RecordsConfig & Pick<Config, 'regions' | 'plans'>
  /** Wakes the domains loop. */
  ring: () => void
  makeKeys?: () => Promise<KeyPair>
}

export type RegisterDeps = DomainsDeps & { followers: DomainFollowers }

export interface NewDomain {
  name: string
  purpose: Domain['purpose']
  region?: string | undefined
  mail_from_prefix?: string | undefined
  tls_policy?: Domain['tls_policy'] | undefined
}

export interface DomainChange {
  mail_from_prefix?: string | undefined
  tls_policy?: Domain['tls_policy'] | undefined
  rotate_dkim_key?: boolean | undefined
  open_tracking_enabled?: boolean | undefined
  click_tracking_enabled?: boolean | undefined
  tracking_redirect_mode?: Domain['tracking_redirect_mode'] | undefined
}

/** A DNS name has at most 253 bytes (RFC 1035 §2.3.4). */
const LONGEST_NAME = 253 - SELECTOR_BYTES

/** Why a text is not a domain. The domain of a pasted web or email address is named. */
function nameFault(text: string): string {
  const [, named = ''] = /^(?:[a-z]+:\/\/)?(?:[^\s/@]+@)?(?:www\.)?([^\s/:?#@]+)/i.exec(text.trim()) ?? []
  const domain = named === text ? undefined : givenName(named)
  return domain?.includes('.')
    ? `is an address. Use only its domain: ${domain}.`
    : 'is not a fully qualified domain name. Use a name such as mail.example.org.'
}

/** The stored name: A-label, lower case, not a public suffix (D17). Throws 422. */
function canonicalName(name: string): string {
  const ascii = givenName(name)
  if (ascii === undefined || !ascii.includes('.'))
    throw refuseAttribute('invalid', 'name', `${JSON.stringify(name)} ${nameFault(name)}`)
  if (ascii.length > LONGEST_NAME)
    throw refuseAttribute(
      'too_long',
      'name',
      `"${ascii}" is too long for a DKIM record name. Use at most ${LONGEST_NAME} bytes.`,
    )
  if (organisationalDomain(ascii) === undefined)
    throw refuseAttribute('invalid', 'name', `"${ascii}" is a public suffix. Use a domain below it.`)
  return ascii
}

/**
 * Registers a domain: two keys, its records, status pending. Throws 422 for an invalid or used name or an unknown
 * region.
 */
export async function registerDomain(deps: RegisterDeps, userKey: number, given: NewDomain): Promise<Domain> {
  const { clock, config, keyring, store } = deps
  const name = canonicalName(given.name)
  const region = given.region ?? must(config.regions[0], 'The first region')
  if (!config.regions.includes(region))
    throw refuseAttribute(
      'invalid',
      'region',
      `"${region}" is not a region of this server. Use one of: ${config.regions.join(', ')}.`,
    )
  refuseKnown(store, userKey, name, region)
  const { makeKeys = makeKeyPair } = deps
  const [signing, standby] = await Promise.all([makeKeys(), makeKeys()])
  return store.write((tx) => {
    const now = clock.now()
    refuseKnown(tx, userKey, name, region)
    const { key } = tx.run(
      db.insertInto('domains').values({
        id: newId(now),
        user_key: userKey,
        name,
        purpose: given.purpose,
        region,
        mail_from_prefix: given.mail_from_prefix ?? 'bounce',
        tls_policy: given.tls_policy ?? 'Optional',
        open_tracking_enabled: 0,
        click_tracking_enabled: 0,
        tracking_redirect_mode: 'shared',
        sts_mode: 'none',
        dmarc_policy: 'none',
        status: 'pending',
        status_at: now,
        poll_from: now,
        next_check_at: now,
        created_at: now,
        updated_at: now,
      }),
    )
    insertKey(tx, keyring, { domainKey: key, role: 'signing', pair: signing, now })
    insertKey(tx, keyring, { domainKey: key, role: 'standby', pair: standby, now })
    const domain = knownDomain(tx, key)
    syncRecords(tx, domain, config, now)
    syncSharedDmarc(tx, domain, config, now)
    deps.followers.registered(tx, domain)
    tx.afterCommit(deps.ring)
    return domain
  })
}

function refuseKnown(reader: Reader, userKey: number, name: string, region: string): void {
  const known = reader.first(
    db
      .selectFrom('domains')
      .select('key')
      .where('user_key', '=', userKey)
      .where('name', '=', name)
      .where('region', '=', region)
      .where('deleted_at', 'is', null),
  )
  if (known)
    throw refuseAttribute('already_exists', 'name', `${name} already exists in your account (region: ${region}).`)
}

/** Changes a domain according to the specification of each attribute. Throws 422. */
export async function changeDomain(deps: DomainsDeps, domainKey: number, change: DomainChange): Promise<Domain> {
  const { clock, config, keyring, log, makeKeys = makeKeyPair, store } = deps
  const fresh = change.rotate_dkim_key ? await makeKeys() : undefined
  return store.write((tx) => {
    const now = clock.now()
    const before = domainByKey(tx, domainKey)
    if (!before) throw refuse('not_found', 'No such resource exists. Check the id in the URL.')
    if (change.tracking_redirect_mode === 'branded' && !planOfOwner(tx, config, before, now).branded_tracking)
      throw refuseAttribute(
        'plan_required',
        'tracking_redirect_mode',
        'Branded tracking requires the plan "growth" or a higher one. Use "shared", or change the plan.',
      )
    refuseSharedName(before, change)
    const moved = change.mail_from_prefix !== undefined && change.mail_from_prefix !== before.mail_from_prefix
    const flag = (value: boolean): 0 | 1 => (value ? 1 : 0)
    tx.run(
      db
        .updateTable('domains')
        .set({
          mail_from_prefix: change.mail_from_prefix ?? before.mail_from_prefix,
          tls_policy: change.tls_policy ?? before.tls_policy,
          tracking_redirect_mode: change.tracking_redirect_mode ?? before.tracking_redirect_mode,
          ...(change.open_tracking_enabled === undefined
            ? {}
            : { open_tracking_enabled: flag(change.open_tracking_enabled) }),
          ...(change.click_tracking_enabled === undefined
            ? {}
            : { click_tracking_enabled: flag(change.click_tracking_enabled) }),
          updated_at: now,
        })
        .where('key', '=', domainKey),
    )
    if (fresh) rotateKeys(tx, keyring, domainKey, fresh, now)
    const redirected =
      change.tracking_redirect_mode !== undefined && change.tracking_redirect_mode !== before.tracking_redirect_mode
    if (moved || fresh || redirected) {
      syncRecords(tx, knownDomain(tx, domainKey), config, now)
      if (moved) syncSharedDmarc(tx, knownDomain(tx, domainKey), config, now)
      if (moved) moveDomain(tx, log, before, 'prefix', now)
      if (fresh) moveDomain(tx, log, knownDomain(tx, domainKey), 'rotate', now)
      checkSoon(tx, deps, domainKey, now)
    }
    return knownDomain(tx, domainKey)
  })
}

/** After a downgrade to a plan without branded tracking, the user's domains use the shared tracking host. */
export function leaveBranded(
  tx: Tx,
  config: RecordsConfig & Pick<Config, 'plans'>,
  user: RowOf<'users'>,
  now: number,
): void {
  if (planOf(config, user, now).branded_tracking) return
  const branded = db
    .selectFrom('domains')
    .select('key')
    .where('user_key', '=', user.key)
    .where('deleted_at', 'is', null)
  for (const { key } of tx.all(branded.where('tracking_redirect_mode', '=', 'branded'))) {
    tx.run(db.updateTable('domains').set({ tracking_redirect_mode: 'shared', updated_at: now }).where('key', '=', key))
    syncRecords(tx, knownDomain(tx, key), config, now)
  }
}

/** Moves a suspended domain back to verification (operator). False when it was not suspended. */
export function resumeDomain(deps: DomainsDeps, domain: Domain): Promise<boolean> {
  return deps.store.write((tx) => {
    const now = deps.clock.now()
    const current = domainByKey(tx, domain.key)
    if (current?.status !== 'suspended') return false
    moveDomain(tx, deps.log, current, 'resume', now)
    checkSoon(tx, deps, domain.key, now)
    return true
  })
}

/**
 * Removes a domain (D23). It is first suspended durably, so that it sends no more mail even after a crash, and then
 * removed. If the removal fails, the domain stays suspended, an event is written, and this throws 502. The keys are
 * erased 7 days later. The row stays, because other rows refer to it.
 */
export async function removeDomain(deps: RegisterDeps, domainKey: number): Promise<void> {
  const { clock, log, store } = deps
  const previous = await store.write((tx) => {
    const domain = domainByKey(tx, domainKey)
    if (!domain) throw refuse('not_found', 'No such resource exists. Check the id in the URL.')
    moveDomain(tx, log, domain, 'teardown', clock.now())
    tx.run(db.updateTable('domains').set({ next_check_at: null }).where('key', '=', domainKey))
    return domain
  })
  try {
    await store.write((tx) => {
      tearDown(tx, domainKey, clock.now())
      deps.followers.removed(tx, domainKey, clock.now())
    })
  } catch (thrown) {
    log.fault(`teardown of ${previous.name}`, thrown)
    // A repeated failure gets no second event.
    if (previous.status !== 'suspended')
      await store.write((tx) =>
        appendEvent(tx, {
          type: 'domain.suspended',
          user_key: previous.user_key,
          domain_key: domainKey,
          data: { previous_status: previous.status, status: 'suspended', reason: 'teardown_failed' },
          at: clock.now(),
        }),
      )
    throw refuse(
      'teardown_failed',
      `The domain ${previous.name} could not be removed. It is suspended and cannot send. Delete it again.`,
    )
  }
}

function tearDown(tx: Tx, domainKey: number, now: number): void {
  scheduleErasure(tx, domainKey, now)
  tx.run(db.deleteFrom('records').where('domain_key', '=', domainKey))
  tx.run(db.updateTable('domains').set({ deleted_at: now, updated_at: now }).where('key', '=', domainKey))
}

function planOfOwner(reader: Reader, config: Pick<Config, 'plans'>, domain: Domain, now: number) {
  const user = db
    .selectFrom('users')
    .select(['plan', 'downgrade_to', 'downgrade_at'])
    .where('key', '=', domain.user_key)
  return planOf(config, reader.one(user), now)
}
