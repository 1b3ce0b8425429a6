// A webhook as its owner's application sees it: created over the API, with the requests to its path of the receiver.
import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import { appendEvent, type NewEvent } from '../../src/store/events.ts'
import type { Domain } from '../../src/domains/find.ts'
import { SAMPLES } from '../../src/webhooks/samples.ts'
import { document, type TestAppliance } from '../kit/appliance.ts'
import type { Request, TestReceiver } from '../kit/receiver.ts'
import { until } from '../kit/until.ts'

export interface Hook {
  id: string
  secret: string
  path: string
  /** The received requests, in order. */
  requests: () => Request[]
  /** Waits until this many requests arrived. */
  arrived: (count: number) => Promise<Request[]>
  // oxlint-disable-next-line typescript/no-explicit-any
  show: () => Promise<any>
  // oxlint-disable-next-line typescript/no-explicit-any
  change: (attributes: Record<string, unknown>) => Promise<any>
  /** Its deliveries, oldest first. */
  // oxlint-disable-next-line typescript/no-explicit-any
  deliveries: (query?: string) => Promise<any[]>
}

export const relation = (id: string) => ({ relationships: { domain: { data: { type: 'domains', id } } } })

let count = 0

export async function makeHook(
  { api }: Pick<TestAppliance, 'api'>,
  receiver: Pick<TestReceiver, 'url' | 'requests'>,
  domain: { id: string },
  events: string[] = ['*'],
): Promise<Hook> {
  const path = `/hook-${++count}`
  const made = await api(
    'POST',
    '/webhooks',
    document('webhooks', { name: path, url: `${receiver.url}${path}`, events }, relation(domain.id)),
  )
  assert.equal(made.status, 201, JSON.stringify(made.body))
  const { id } = made.body.data
  const requests = (): Request[] => receiver.requests.filter((request) => request.path === path)
  return {
    id,
    secret: made.body.data.attributes.secret,
    path,
    requests,
    arrived: (wanted) =>
      until(() => (requests().length >= wanted ? requests() : undefined), `${wanted} requests at ${path}`),
    async show() {
      const shown = await api('GET', `/webhooks/${id}`)
      assert.equal(shown.status, 200, JSON.stringify(shown.body))
      return shown.body.data.attributes
    },
    async change(attributes) {
      const changed = await api('PATCH', `/webhooks/${id}`, document('webhooks', attributes, { id }))
      assert.equal(changed.status, 200, JSON.stringify(changed.body))
      return changed.body.data.attributes
    },
    async deliveries(query = '') {
      const { body } = await api('GET', `/webhooks/${id}/deliveries?page[size]=100&sort=created_at${query}`)
      return body.data
    },
  }
}

/** A delivery by its id. */
// oxlint-disable-next-line typescript/no-explicit-any
export async function deliveryOf({ api }: Pick<TestAppliance, 'api'>, id: string): Promise<any> {
  const { body, status } = await api('GET', `/deliveries/${id}`)
  assert.equal(status, 200, JSON.stringify(body))
  return body.data.attributes
}

/** Waits until a delivery has this many stored attempts. */
// oxlint-disable-next-line typescript/no-explicit-any
export function attempted(postrider: Pick<TestAppliance, 'api'>, id: string, attempts: number): Promise<any> {
  return until(async () => {
    const now = await deliveryOf(postrider, id)
    return now.attempt_log.length >= attempts ? now : undefined
  }, `${attempts} attempts of ${id}`)
}

/** The attributes of an event of this type that are not in the store. */
function sampleOf(type: NewEvent['type']): Record<string, unknown> {
  return Object.fromEntries(Object.entries(SAMPLES[type]).filter(([name]) => name !== 'domain_id' && name !== 'name'))
}

/** Adds events to the log as their causes would: `times` of them in one commit. */
export async function happen(
  { appliance, clock }: Pick<TestAppliance, 'appliance' | 'clock'>,
  about: Pick<Domain, 'user_key'> & { key?: number },
  type: NewEvent['type'],
  data: Record<string, unknown> = sampleOf(type),
  times = 1,
): Promise<void> {
  await appliance.deps.store.write((tx) => {
    for (let n = 0; n < times; n++)
      appendEvent(tx, {
        type,
        user_key: about.user_key,
        domain_key: about.key ?? null,
        data: times > 1 ? { n, ...data } : data,
        at: clock.now(),
      })
  })
}

/** Waits until all due and running work is done, to check that something does not happen. */
export async function rest({ appliance }: Pick<TestAppliance, 'appliance'>): Promise<void> {
  for (let round = 0; round < 10; round++) {
    for (let n = 0; n < 20; n++) await turn()
    await appliance.deps.store.write(() => {})
  }
}
