// Webhook endpoints: their owner creates, changes and removes them, and rotates their secrets. Secrets are stored
// encrypted, and shown once.
import { HOUR, type Clock } from '../base/clock.ts'
import { must, refuse, refuseAttribute } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import type { AddressCheck } from '../base/network.ts'
import { addressRefused, isLocalHttp } from '../net/guard.ts'
import { webhookMachine } from '../store/states/webhook.ts'
import { webhookDeliveryMachine } from '../store/states/webhook-delivery.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { move, moveAll } from '../store/move.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { beginHere } from './cursor.ts'
import { hintOf, newSecret } from './post.ts'

export type Webhook = RowOf<'webhooks'>
export type WebhookDelivery = RowOf<'outbound_webhooks'>

export interface WebhooksDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  log: Log
  allowed: AddressCheck
  /** Wakes the dispatcher. */
  ring: () => void
}

/** How long the previous secret still signs after a rotation. */
export const GRACE = 24 * HOUR

export interface WebhookChange {
  name?: string | undefined
  url?: string | undefined
  events?: readonly string[] | undefined
  username?: string | null | undefined
  password?: string | null | undefined
  active?: boolean | undefined
  rotate_secret?: boolean | undefined
}

/** Throws 422 for a URL that must not be called. */
function checkUrl(deps: Pick<WebhooksDeps, 'allowed'>, text: string): void {
  const url = URL.parse(text)
  if (!url || (url.protocol !== 'https:' && !isLocalHttp(deps, url)))
    throw refuseAttribute('invalid', 'url', '"url" must be an HTTPS URL.')
  if (url.username || url.password)
    throw refuseAttribute(
      'invalid',
      'url',
      '"url" must not contain credentials. To authenticate requests, verify their signature, or set "username" and "password" if "format" is "listmonk".',
    )
  if (url.hash) throw refuseAttribute('invalid', 'url', '"url" must not contain a fragment.')
  const forbidden = addressRefused(deps, url)
  if (forbidden !== undefined) throw refuseAttribute('invalid', 'url', `"url" ${forbidden}.`)
}

/** Throws 422 for credentials of an endpoint that gets signed requests. */
function checkCredentials(
  { format }: Pick<Webhook, 'format'>,
  given: Pick<WebhookChange, 'username' | 'password'>,
): void {
  for (const name of ['username', 'password'] as const)
    if (format === 'standard' && typeof given[name] === 'string')
      throw refuseAttribute('invalid', name, `"${name}" can only be set if "format" is "listmonk". Remove it.`)
}

/** Throws 422 for another server that would get the stored password. */
function checkSameServer(before: Webhook, { password, url }: WebhookChange): void {
  if (url === undefined || before.sealed_password === null || password !== undefined) return
  if (URL.parse(url)?.origin !== URL.parse(before.url)?.origin)
    throw refuseAttribute(
      'required',
      'password',
      '"password" is required if "url" changes to another server. Send the password for that server, or null.',
    )
}

/** The columns of credentials that a request sets. */
const credentialsOf = (
  keyring: Keyring,
  id: string,
  { password, username }: Pick<WebhookChange, 'username' | 'password'>,
): Partial<Pick<Webhook, 'username' | 'sealed_password'>> => ({
  ...(username !== undefined && { username }),
  ...(password !== undefined && { sealed_password: password === null ? null : keyring.seal(id, password) }),
})

/** The Authorization header of requests to an endpoint (RFC 7617), or undefined without a user name. */
export function authorizationOf(keyring: Keyring, { id, sealed_password, username }: Webhook): string | undefined {
  if (username === null) return undefined
  const password = sealed_password === null ? '' : keyring.open(id, sealed_password)
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

export interface NewWebhook extends Pick<WebhookChange, 'username' | 'password'> {
  name: string
  url: string
  events: readonly string[]
  format?: Webhook['format']
}

export async function createWebhook(
  deps: WebhooksDeps,
  userKey: number,
  domainKey: number,
  { name, url, events, format = 'standard', ...credentials }: NewWebhook,
): Promise<{ webhook: Webhook; secret: string }> {
  const { clock, keyring, store } = deps
  checkUrl(deps, url)
  checkCredentials({ format }, credentials)
  const secret = newSecret()
  const webhook = await store.write((tx) => {
    const now = clock.now()
    const id = newId(now)
    beginHere(tx)
    const { key } = tx.run(
      db.insertInto('webhooks').values({
        id,
        user_key: userKey,
        domain_key: domainKey,
        name,
        url,
        events: JSON.stringify(events),
        status: 'active',
        consecutive_failures: 0,
        secret_hint: hintOf(secret),
        sealed_secret: keyring.seal(id, secret),
        format,
        ...credentialsOf(keyring, id, credentials),
        created_at: now,
        updated_at: now,
      }),
    )
    return must(webhookByKey(tx, key), 'The webhook')
  })
  return { webhook, secret }
}

/** Changes an endpoint. A new secret is returned once. The old one also signs for 24 hours. Throws 422. */
export async function changeWebhook(
  deps: WebhooksDeps,
  key: number,
  change: WebhookChange,
): Promise<{ webhook: Webhook; secret: string | undefined }> {
  const { clock, keyring, store } = deps
  if (change.url !== undefined) checkUrl(deps, change.url)
  const secret = change.rotate_secret ? newSecret() : undefined
  const webhook = await store.write((tx) => {
    const now = clock.now()
    const before = webhookByKey(tx, key)
    if (!before) throw refuse('not_found', 'No such resource exists. Check the id in the URL.')
    checkCredentials(before, change)
    checkSameServer(before, change)
    tx.run(
      db
        .updateTable('webhooks')
        .set({
          name: change.name ?? before.name,
          url: change.url ?? before.url,
          events: change.events ? JSON.stringify(change.events) : before.events,
          ...credentialsOf(keyring, before.id, change),
          ...(secret === undefined
            ? {}
            : {
                secret_hint: hintOf(secret),
                sealed_secret: keyring.seal(before.id, secret),
                sealed_previous: before.sealed_secret,
                previous_until: now + GRACE,
              }),
          updated_at: now,
        })
        .where('key', '=', key),
    )
    if (change.active === true) activate(tx, before, now)
    else if (change.active === false && move(tx, webhookMachine, key, 'pause', { disabled_reason: null }))
      holdWaiting(tx, key, now)
    tx.afterCommit(deps.ring)
    return must(webhookByKey(tx, key), 'The webhook')
  })
  return { webhook, secret }
}

/** Resumes a paused or disabled endpoint. Its held deliveries stay held and can be replayed (D54). */
function activate(tx: Tx, { key }: Webhook, now: number): void {
  move(tx, webhookMachine, key, 'resume', {
    disabled_reason: null,
    consecutive_failures: 0,
    held_until: null,
    updated_at: now,
  })
}

/** Holds all pending deliveries of an endpoint. */
export function holdWaiting(tx: Tx, webhookKey: number, now: number): void {
  moveAll(tx, webhookDeliveryMachine, 'hold', {
    set: 'next_attempt_at = null, updated_at = ?',
    where: `status = 'pending' and webhook_key = ?`,
    parameters: [now, webhookKey],
  })
}

/** Removes an endpoint and deletes its secrets. Past deliveries stay on record. */
export function removeWebhook({ store, clock }: WebhooksDeps, key: number): Promise<void> {
  return store.write((tx) => {
    const now = clock.now()
    holdWaiting(tx, key, now)
    tx.run(
      db
        .updateTable('webhooks')
        .set({ deleted_at: now, sealed_secret: null, sealed_previous: null, sealed_password: null, updated_at: now })
        .where('key', '=', key),
    )
  })
}

/** The secrets that sign now: the newest, and the previous one for a time after a rotation. */
export function secretsOf(keyring: Keyring, webhook: Webhook, now: number): string[] {
  const previous = webhook.previous_until !== null && now < webhook.previous_until ? webhook.sealed_previous : null
  return [webhook.sealed_secret, previous].filter((box) => box !== null).map((box) => keyring.open(webhook.id, box))
}

/** Returns an endpoint, or undefined if it was removed. */
export function webhookByKey(reader: Reader, key: number): Webhook | undefined {
  return reader.first(db.selectFrom('webhooks').selectAll().where('key', '=', key).where('deleted_at', 'is', null))
}
