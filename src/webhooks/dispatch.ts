// The dispatcher: sends due deliveries, endpoint by endpoint (specification "Receiver obligations and retries", D53,
// D54).
//
// Guarantees: a delivery has the same bytes and webhook-id at every attempt; timestamp and signature are new each time.
// An endpoint has a bounded number of requests at once, one while it fails, so that it delays no other. An attempt
// whose result was not written (a crash) is repeated with the same webhook-id, never lost.
import { DAY, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import { Insistence } from '../base/insist.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { retryDelay } from '../base/retry.ts'
import type { Troubles } from '../base/trouble.ts'
import { addNotice, type NewNotice } from '../accounts/notices.ts'
import { webhookMachine } from '../states/webhook.ts'
import { webhookDeliveryMachine } from '../states/webhook-delivery.ts'
import { dueGroups, type Queue } from '../store/due.ts'
import type { Store, Tx } from '../store/database.ts'
import { move, moveAll, takeAll } from '../store/move.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../store/tables.ts'
import { holdWaiting, secretsOf, webhookByKey, type Webhook } from './endpoints.ts'
import { fanOut } from './fan-out.ts'
import type { Poster, Response } from './post.ts'
import { signatureHeader } from './sign.ts'

export interface DispatchDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  log: Log
  poster: Poster
  config: Pick<Config, 'webhooks'>
  troubles: Troubles
  /** Says that a notice for an owner waits. */
  noticed: () => void
}

type Delivery = RowOf<'outbound_webhooks'>

const QUEUE: Queue = { table: 'outbound_webhooks', group: 'webhook_key', status: 'pending' }
const PER_ENDPOINT = 10
const AT_ONCE = 200
const MAX_ATTEMPTS = 10
/** From this many failures in a row on, an endpoint gets one delivery at a time. */
const PROBE_FROM = 3
const DISABLE_AT = 10
const LEASE = 60 * SECOND

export class Dispatcher {
  readonly #deps: DispatchDeps
  readonly #loop: Loop
  readonly #busy = new Map<number, number>()
  readonly #running = new Set<Promise<void>>()
  readonly #insistence: Insistence
  #released = false

  constructor(deps: DispatchDeps) {
    this.#deps = deps
    this.#insistence = new Insistence(deps)
    this.#loop = new Loop({ name: 'webhooks', clock: deps.clock, log: deps.log, run: (now) => this.#run(now) })
  }

  /** Releases the deliveries that an ended process had claimed, and starts. */
  async start(): Promise<void> {
    const now = this.#deps.clock.now()
    await this.#deps.store.write((tx) =>
      moveAll(tx, webhookDeliveryMachine, 'lapse', {
        set: 'leased_until = null, next_attempt_at = ?, attempts = attempts - 1',
        where: 'true',
        parameters: [now],
      }),
    )
    this.#loop.start()
  }

  ring(): void {
    this.#loop.ring()
  }

  /** Waits up to `patience` ms for requests under way; the others are given up, and sent again with the same id after
   *  the next start. */
  async stop(patience: number): Promise<void> {
    this.#insistence.end()
    const inTime = this.#deps.clock.wake(this.#deps.clock.now() + patience, () => {
      this.#released = true
      this.#insistence.giveUp()
      this.#deps.poster.close()
    })
    await this.#loop.stop()
    await Promise.all(this.#running)
    inTime()
  }

  async #run(now: number): Promise<number | null> {
    const { store } = this.#deps
    await fanOut(this.#deps)
    let next: number | null = null
    const later = (at: number): void => {
      next = Math.min(next ?? at, at)
    }
    const ready: { webhook: Webhook; room: number; busy: number; due: number }[] = []
    // Half of the room is kept for endpoints without a request under way, so that a few slow ones cannot fill it.
    const calm = AT_ONCE / 2 - this.#running.size
    for (const { name: key, due } of dueGroups<number>(store, QUEUE)) {
      const webhook = webhookByKey(store, key)
      if (webhook?.status !== 'active') continue
      const at = Math.max(due, webhook.held_until ?? 0)
      const busy = this.#busy.get(key) ?? 0
      const room = (calm <= 0 || webhook.consecutive_failures >= PROBE_FROM ? 1 : PER_ENDPOINT) - busy
      if (at > now) later(at)
      else if (room > 0) ready.push({ webhook, room, busy, due: at })
    }
    let space = AT_ONCE - this.#running.size
    if (ready.length > 0 && space > 0) {
      const share = Math.max(1, Math.floor(calm / ready.length))
      ready.sort((a, b) => a.busy - b.busy || a.due - b.due)
      const claimed = await store.write((tx) =>
        ready.flatMap(({ webhook, room }) => {
          const limit = Math.min(room, share, space)
          const rows = limit > 0 ? claim(tx, webhook.key, now, limit) : []
          space -= rows.length
          return rows.map((delivery) => ({ delivery, webhook }))
        }),
      )
      for (const { delivery, webhook } of claimed) this.#start(webhook, delivery)
    }
    return next
  }

  #start(webhook: Webhook, delivery: Delivery): void {
    this.#busy.set(webhook.key, (this.#busy.get(webhook.key) ?? 0) + 1)
    const run = this.#attempt(webhook, delivery)
      .catch((thrown) => void this.#deps.log.fault(`webhook ${delivery.id}`, thrown))
      .finally(() => {
        const left = this.#busy.get(webhook.key)! - 1
        if (left > 0) this.#busy.set(webhook.key, left)
        else this.#busy.delete(webhook.key)
        this.#running.delete(run)
        this.#loop.ring()
      })
    this.#running.add(run)
  }

  async #attempt(webhook: Webhook, delivery: Delivery): Promise<void> {
    const { clock, config, noticed, keyring, log, poster, store } = this.#deps
    const at = clock.now()
    const seconds = Math.floor(at / SECOND)
    const started = performance.now()
    const response = await poster.post(
      webhook.url,
      {
        'content-type': 'application/json',
        'webhook-id': delivery.id,
        'webhook-timestamp': String(seconds),
        'webhook-signature': signatureHeader(secretsOf(keyring, webhook, at), delivery.id, seconds, delivery.payload),
      },
      delivery.payload,
    )
    if (this.#released) return
    const duration = Math.round(performance.now() - started)
    const lost = await this.#insistence.run(
      () => `webhook delivery ${delivery.id}`,
      () => store.write((tx) => settle(tx, { config, delivery, duration, now: clock.now(), at, response })),
    )
    log.info('webhook', {
      id: delivery.id,
      webhook: webhook.id,
      type: delivery.event,
      status: response.status,
      reason: response.reason,
      attempt: delivery.attempts,
    })
    if (!lost) return
    log.warn('webhook disabled', { webhook: webhook.id, reason: lost })
    noticed()
  }
}

function claim(tx: Tx, webhookKey: number, now: number, limit: number): Delivery[] {
  return takeAll<Delivery>(tx, webhookDeliveryMachine, 'claim', {
    set: 'attempts = attempts + 1, leased_until = ?, next_attempt_at = null',
    where: `key in (
      select d.key from outbound_webhooks d where d.status = 'pending' and d.webhook_key = ? and d.next_attempt_at <= ?
      -- The order of events about one mail is kept: the next waits for the first attempt of the one before it.
      and (d.about = '' or not exists (
        select 1 from outbound_webhooks e where e.status in ('pending', 'active') and e.webhook_key = d.webhook_key
        and e.about = d.about and e.key < d.key and (e.status = 'active' or e.attempts = 0)))
      order by d.next_attempt_at, d.key limit ?)`,
    parameters: [now + LEASE, webhookKey, now, limit],
  }).sort((a, b) => a.key - b.key)
}

/** Whether the stored payload is still the one that was sent. */
const kept = (tx: Tx, { key, payload }: Delivery): boolean => tx.first(payloadByKey({ key }))?.payload === payload

const payloadByKey = statement<{ key: number }>()((arg) =>
  db.selectFrom('outbound_webhooks').select('payload').where('key', '=', arg.key),
)

interface Settling {
  delivery: Delivery
  response: Response
  config: Pick<Config, 'webhooks'>
  /** When the attempt began. */
  at: number
  now: number
  duration: number
}

/** Writes the result of an attempt. Returns why the endpoint was disabled, undefined when it was not. */
function settle(tx: Tx, { at, config, delivery, duration, now, response }: Settling): string | undefined {
  const { reason, status } = response
  // An address was erased from the payload meanwhile: the answer may repeat it, and is not stored.
  const body = kept(tx, delivery) ? response.body : null
  const fine = status !== null && status >= 200 && status < 300 && reason === null
  const why = fine ? null : (reason ?? `answered with status ${status}`)
  const shown = { response_status: status, response_body: body, reason: why }
  tx.run(
    db
      .insertInto('webhook_attempts')
      .values({ delivery_key: delivery.key, number: delivery.attempts, at, duration, ...shown }),
  )
  const webhook = webhookByKey(tx, delivery.webhook_key)
  const set = { ...shown, leased_until: null, updated_at: now }
  if (fine) {
    move(tx, webhookDeliveryMachine, delivery.key, 'accept', set)
    if (webhook && webhook.consecutive_failures > 0)
      tx.run(
        db.updateTable('webhooks').set({ consecutive_failures: 0, held_until: null }).where('key', '=', webhook.key),
      )
    return undefined
  }
  const delay =
    status === 429
      ? (retryAfter(response.retryAfter, now) ?? retryDelay(config.webhooks.retry, delivery.attempts))
      : retryDelay(config.webhooks.retry, delivery.attempts)
  const over = delivery.attempts >= Math.min(MAX_ATTEMPTS, config.webhooks.retry.length + 1)
  if (over) move(tx, webhookDeliveryMachine, delivery.key, 'give_up', set)
  else if (webhook?.status === 'active')
    move(tx, webhookDeliveryMachine, delivery.key, 'retry', { ...set, next_attempt_at: now + delay })
  else move(tx, webhookDeliveryMachine, delivery.key, 'hold', set)
  return webhook && note(tx, webhook, status, config, at, now)
}

/** Counts a failure of an endpoint: held and probed from the third in a row, disabled at the tenth or by 410. */
function note(
  tx: Tx,
  webhook: Webhook,
  status: number | null,
  config: Pick<Config, 'webhooks'>,
  at: number,
  now: number,
): string | undefined {
  // Requests that were under way when the endpoint was held belong to the failure that held it.
  const known = webhook.held_until !== null && at < webhook.held_until
  const failures = webhook.consecutive_failures + (known ? 0 : 1)
  const { probe } = config.webhooks
  const step = failures >= PROBE_FROM ? now + probe[Math.min(failures - PROBE_FROM, probe.length - 1)]! : null
  const held = known ? webhook.held_until : step
  tx.run(
    db.updateTable('webhooks').set({ consecutive_failures: failures, held_until: held }).where('key', '=', webhook.key),
  )
  const on = status === 410 ? 'gone' : failures >= DISABLE_AT ? 'exhausted' : undefined
  if (!on) return undefined
  const reason = on === 'gone' ? 'gone' : 'failures'
  if (!move(tx, webhookMachine, webhook.key, on, { disabled_reason: reason, updated_at: now })) return undefined
  holdWaiting(tx, webhook.key, now)
  const why = on === 'gone' ? 'it answered 410 Gone' : `${failures} attempts in a row failed`
  addNotice(tx, noticeOf(webhook, why), now)
  return why
}

/** The notice to the owner of a disabled endpoint (specification "Receiver obligations and retries"). */
function noticeOf({ domain_key, id, name, url, user_key }: Webhook, why: string): NewNotice {
  return {
    user_key,
    domain_key,
    subject: `Webhook "${name}" was disabled`,
    text: `Postrider stopped sending events to your webhook "${name}" (${url}), because ${why}.

Events are kept on record from now on. Once the endpoint works again, set the webhook active (PATCH /webhooks/${id} with
"active": true) and replay the deliveries that you want.
`,
  }
}

/** The wait in ms of a Retry-After header in either form, at most a day; undefined when it is neither. */
export function retryAfter(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined
  const text = header.trim()
  // Date.parse reads "-5" and "1.5" as dates; an HTTP date always begins with a day's name (RFC 9110 section 5.6.7).
  const wait = /^\d+$/.test(text) ? Number(text) * SECOND : /^[A-Z]/i.test(text) ? Date.parse(text) - now : Number.NaN
  return Number.isNaN(wait) ? undefined : Math.min(Math.max(wait, 0), DAY)
}
