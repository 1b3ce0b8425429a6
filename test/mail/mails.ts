// Shared by the tests of this directory: post an email, view it, wait for its status, read its events.
import assert from 'node:assert/strict'
import { raw } from '../../src/store/query.ts'
import { learnedLanes } from '../../src/delivery/pacing/lane-memory.ts'
import { document, type Answer, type TestAppliance } from '../kit/appliance.ts'
import { until } from '../kit/until.ts'

export const MINUTE = 60_000
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR

export const mail = (attributes: Record<string, unknown> = {}) =>
  document('outbound-emails', {
    from: 'ann@here.test',
    to: 'bob@there.test',
    subject: 'A subject',
    html: '<p>Hello</p>',
    ...attributes,
  })

/** The attributes of an outbound email as the API shows them. */
export type Shown = Record<string, string | null> & {
  status: string
  recipients: {
    status: string
    smtp_code: number | null
    enhanced_code: string | null
    response: string | null
    remote_mta: string | null
    attempts: number
    next_attempt_at: string | null
    waiting_reason: string | null
  }[]
}

export interface Mails {
  /** Posts an email and returns its id. Anything but 201 fails the test. */
  post: (attributes?: Record<string, unknown>) => Promise<string>
  tryPost: (attributes?: Record<string, unknown>) => Promise<Answer>
  show: (id: string) => Promise<Shown>
  /** Waits until the email has the status. */
  become: (id: string, status: string) => Promise<Shown>
  /** Waits until the recipient's attempts have been made and the last one is settled. */
  attempted: (id: string, attempts: number) => Promise<Shown>
  /** The email's events in the order in which they were written. */
  events: (id: string) => { type: string; data: Record<string, unknown>; at: number }[]
  eventTypes: (id: string) => string[]
  /** Turns the clock to the next attempt of the email's first recipient. Returns how long that was. */
  turnToNext: (id: string) => Promise<number>
  /** Names a recipient domain in the DNS, with the test's receiving server behind it. */
  receiver: (domain: string, address?: string) => void
}

/** `postrider` is called each time, so that a test may start another. */
export function mailsOf(postrider: () => TestAppliance): Mails {
  const tryPost: Mails['tryPost'] = (attributes) => postrider().api('POST', '/outbound-emails', mail(attributes))
  const show: Mails['show'] = async (id) => {
    const { status, body } = await postrider().api('GET', `/outbound-emails/${id}`)
    assert.equal(status, 200, JSON.stringify(body))
    return body.data.attributes
  }
  const events: Mails['events'] = (id) =>
    postrider()
      .appliance.deps.store.all(
        raw<{ type: string; data: string; created_at: number }>(
          'select type, data, created_at from events where email_key = (select key from outbound_emails where id = ?) order by key',
          [id],
        ),
      )
      .map(({ type, data, created_at }) => ({
        type,
        data: JSON.parse(data) as Record<string, unknown>,
        at: created_at,
      }))
  /** The state of an email that does not reach the expected status, for the error message. */
  const stateOf = async (id: string): Promise<unknown> => {
    const { clock, appliance } = postrider()
    const { store, troubles } = appliance.deps
    return {
      now: clock.now(),
      shown: await show(id),
      deliveries: store.all(
        raw('select * from deliveries where email_key = (select key from outbound_emails where id = ?)', [id]),
      ),
      lanes: learnedLanes(store, clock.now()),
      troubles: troubles.list(),
    }
  }
  return {
    tryPost,
    async post(attributes) {
      const answer = await tryPost(attributes)
      assert.equal(answer.status, 201, JSON.stringify(answer.body))
      assert.match(answer.body.data.attributes.status, /^(?:queued|scheduled)$/)
      return answer.body.data.id
    },
    show,
    become: (id, status) =>
      until(
        async () => {
          const shown = await show(id)
          return shown.status === status ? shown : undefined
        },
        `${status} of ${id}`,
        () => stateOf(id),
      ),
    attempted: (id, attempts) =>
      until(
        async () => {
          const [row] = postrider().appliance.deps.store.all(
            raw<{ attempts: number; status: string }>(
              'select attempts, status from deliveries where email_key = (select key from outbound_emails where id = ?)',
              [id],
            ),
          )
          return row && row.attempts >= attempts && row.status !== 'active' ? show(id) : undefined
        },
        `attempt ${attempts} of ${id}`,
        () => stateOf(id),
      ),
    events,
    eventTypes: (id) => events(id).map(({ type }) => type),
    async turnToNext(id) {
      const { recipients } = await show(id)
      const next = recipients[0]!.next_attempt_at
      assert.ok(next, `a next attempt is planned: ${JSON.stringify(recipients)}`)
      const { clock } = postrider()
      const wait = Date.parse(next) - clock.now()
      assert.ok(wait > 0, `the next attempt lies ahead: ${wait} ms`)
      clock.leap(wait)
      return wait
    },
    receiver(domain, address = '127.0.0.1') {
      postrider().dns.set(domain, 'MX', [`10 mx.${domain}`])
      postrider().dns.set(`mx.${domain}`, 'A', [address])
    },
  }
}
