// The dispatcher: sends due deliveries, endpoint by endpoint (specification "Receiver obligations and retries", D53,
// D54).
//
// Guarantees: a delivery has the same bytes and webhook-id at every attempt, with a new timestamp and signature. An
// endpoint has a bounded number of requests at once, and only one while it fails, so that it does not delay others. An
// attempt whose result was lost in a crash is repeated with the same webhook-id.
import { count } from '../base/maps.ts'
import { SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import { PersistentWrites } from '../base/retry-until-written.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import type { Troubles } from '../base/trouble.ts'
import { webhookDeliveryMachine } from '../store/states/webhook-delivery.ts'
import { dueGroups, type Queue } from '../store/due.ts'
import type { Store, Tx } from '../store/database.ts'
import { moveAll, takeAll } from '../store/move.ts'
import { authorizationOf, secretsOf, webhookByKey, type Webhook, type WebhookDelivery } from './endpoints.ts'
import { fanOut } from './fan-out.ts'
import { type Poster, signatureHeader } from './post.ts'
import { isFine, PROBE_FROM, settle } from './settle.ts'

export interface DispatchDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  log: Log
  poster: Poster
  config: Pick<Config, 'webhooks'>
  troubles: Troubles
  /** Called when a notification for an owner is ready. */
  noticed: () => void
}

const QUEUE: Queue = { table: 'outbound_webhooks', group: 'webhook_key', status: 'pending' }
const PER_ENDPOINT = 10
const AT_ONCE = 200
const LEASE = 60 * SECOND

export class Dispatcher {
  readonly #deps: DispatchDeps
  readonly #loop: Loop
  readonly #busy = new Map<number, number>()
  readonly #running = new Set<Promise<void>>()
  readonly #writes: PersistentWrites
  #released = false

  constructor(deps: DispatchDeps) {
    this.#deps = deps
    this.#writes = new PersistentWrites(deps)
    this.#loop = new Loop({ name: 'webhooks', clock: deps.clock, log: deps.log, run: (now) => this.#run(now) })
  }

  /** Releases the deliveries that a previous process had claimed, and starts. */
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

  /**
   * Waits up to `patience` ms for running requests. The remaining ones are aborted, and sent again with the same id
   * after the next start.
   */
  async stop(patience: number): Promise<void> {
    this.#writes.tryOften()
    const inTime = this.#deps.clock.wake(this.#deps.clock.now() + patience, () => {
      this.#released = true
      this.#writes.giveUp()
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
    // Half of the capacity is reserved for endpoints without a running request, so that a few slow endpoints cannot use
    // all of it.
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

  #start(webhook: Webhook, delivery: WebhookDelivery): void {
    const free = this.#occupy(webhook.key)
    const run = this.#attempt(webhook, delivery, free)
      .catch((thrown) => void this.#deps.log.fault(`webhook ${delivery.id}`, thrown))
      .finally(() => {
        this.#running.delete(run)
        free()
        this.#loop.ring()
      })
    this.#running.add(run)
  }

  /** Counts a running request of an endpoint. The returned function ends it, once. */
  #occupy(key: number): () => void {
    count(this.#busy, key, 1)
    let over = false
    return () => {
      if (over) return
      over = true
      count(this.#busy, key, -1)
    }
  }

  async #attempt(webhook: Webhook, delivery: WebhookDelivery, free: () => void): Promise<void> {
    const { clock, config, noticed, keyring, log, poster, store } = this.#deps
    const at = clock.now()
    const seconds = Math.floor(at / SECOND)
    const started = performance.now()
    const authorization = authorizationOf(keyring, webhook)
    const response = await poster.post(
      webhook.url,
      {
        'content-type': 'application/json',
        'webhook-id': delivery.id,
        'webhook-timestamp': String(seconds),
        'webhook-signature': signatureHeader(secretsOf(keyring, webhook, at), delivery.id, seconds, delivery.payload),
        ...(authorization !== undefined && { authorization }),
      },
      delivery.payload,
    )
    if (this.#released) return
    if (isFine(response)) {
      // The next request is sent while this result is written. After a failure it waits for the written result, which
      // may hold or disable the endpoint.
      free()
      this.#loop.ring()
    }
    const duration = Math.round(performance.now() - started)
    const lost = await this.#writes.write(
      () => `webhook delivery ${delivery.id}`,
      () => store.write((tx) => settle(tx, { config, delivery, duration, now: clock.now(), at, response })),
    )
    log.info('webhook_attempted', {
      id: delivery.id,
      webhook: webhook.id,
      type: delivery.event,
      status: response.status,
      reason: response.reason,
      attempt: delivery.attempts,
    })
    if (!lost) return
    log.warn('webhook_disabled', { webhook: webhook.id, reason: lost })
    noticed()
  }
}

function claim(tx: Tx, webhookKey: number, now: number, limit: number): WebhookDelivery[] {
  return takeAll<WebhookDelivery>(tx, webhookDeliveryMachine, 'claim', {
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
