// Tests how pages read API responses: names and types of attributes follow from the resource definitions, and an
// invalid value is read as empty.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { contacts } from '../../src/campaigns/api-audiences.ts'
import { campaigns } from '../../src/campaigns/api.ts'
import { domains } from '../../src/domains/api.ts'
import { lanes } from '../../src/delivery/api.ts'
import { outboundEmails } from '../../src/mail/api.ts'
import { webhooks } from '../../src/webhooks/api.ts'
import {
  flag,
  namesOf,
  number,
  objects,
  record,
  relatedId,
  text,
  texts,
  thingOf,
  those,
  type Thing,
} from '../../src/views/html/visit.ts'

const thing = (type: string, attributes: Record<string, unknown>): Thing => ({ type, id: 'id', attributes })
const mail = thingOf(
  outboundEmails,
  thing('outbound-emails', {
    subject: 'Your order',
    recipients: [{ address: 'ann@example.net', smtp_code: 250 }],
    sent_at: '2026-01-15T12:00:00.000Z',
    headers: { 'X-Order': '7' },
    track_opens: true,
  }),
)

// The type check fails if one of these lines compiles.
describe('code that does not compile', () => {
  const wrong = (read: () => unknown) => assert.doesNotThrow(read)

  test('an attribute that the resource does not have', () => {
    // @ts-expect-error: a typing error in the name
    wrong(() => text(mail, 'subjet'))
    // @ts-expect-error: an attribute of another resource
    wrong(() => text(mail, 'body_html'))
    // @ts-expect-error: a relationship that is not there
    wrong(() => relatedId(mail, 'audience'))
    // @ts-expect-error: read by name
    wrong(() => mail.attributes['subjet'])
    // @ts-expect-error: set by requests, and never shown
    wrong(() => flag(thingOf(webhooks, thing('webhooks', {})), 'rotate_secret'))
    // @ts-expect-error: the attributes of a thing are unknown without its resource
    wrong(() => text(thing('outbound-emails', {}), 'subject'))
  })

  test('an attribute of another type', () => {
    // @ts-expect-error: a list
    wrong(() => text(mail, 'recipients'))
    // @ts-expect-error: a text
    wrong(() => number(mail, 'subject'))
    // @ts-expect-error: a time is a text in answers
    wrong(() => number(mail, 'sent_at'))
    // @ts-expect-error: a text
    wrong(() => flag(mail, 'status'))
    // @ts-expect-error: a flag is a boolean in answers
    wrong(() => text(mail, 'track_opens'))
    // @ts-expect-error: a list of texts
    wrong(() => objects(mail, 'reply_to'))
    // @ts-expect-error: a list of objects
    wrong(() => texts(mail, 'attachments'))
    // @ts-expect-error: a list
    wrong(() => record(mail, 'recipients'))
    // @ts-expect-error: a name that the listed objects do not have
    wrong(() => objects(mail, 'recipients').map(({ adress }) => adress))
  })

  test('a resource of another type', () => {
    const read = (one: Thing<typeof contacts>): string => text(one, 'email')
    // @ts-expect-error: an email is not a contact
    wrong(() => read(mail))
  })
})

test('reads attributes with their types', () => {
  const status: 'queued' | 'sent' | undefined = objects(mail, 'recipients')[0]?.status as 'queued' | 'sent' | undefined
  assert.equal(status, undefined)
  const code: number | null = objects(mail, 'recipients')[0]!.smtp_code
  assert.equal(code, 250)
  const header: string | undefined = record(mail, 'headers')['X-Order']
  assert.equal(header, '7')
  assert.equal(text(mail, 'sent_at'), '2026-01-15T12:00:00.000Z')
  assert.equal(flag(mail, 'track_opens'), true)
  const scheduled: string | null | undefined = thingOf(campaigns, thing('campaigns', {})).attributes.scheduled_at
  assert.equal(scheduled, undefined)
})

test('reads an invalid value as empty', () => {
  const lane = thingOf(lanes, thing('lanes', { domain: null, queued: null, hold: null, held_by: null }))
  assert.deepEqual(
    [text(lane, 'domain'), number(lane, 'queued'), flag(lane, 'hold'), objects(lane, 'held_by')],
    ['', 0, false, []],
  )
  const odd = thingOf(contacts, thing('contacts', { email: { a: 1 }, custom_fields: 'x' }))
  assert.deepEqual([text(odd, 'email'), record(odd, 'custom_fields')], ['', {}])
  const webhook = thingOf(webhooks, thing('webhooks', { events: ['*', 7, null] }))
  assert.deepEqual(texts(webhook, 'events'), ['*'])
  assert.equal(relatedId(webhook, 'domain'), undefined)
})

test('throws if a resource has another type', () => {
  const one = thing('domains', { name: 'example.org' })
  assert.throws(() => thingOf(webhooks, one), /webhooks are expected here, not domains/)
  assert.deepEqual(those(domains, [thing('webhooks', {}), one]), [one])
  assert.deepEqual(
    [...namesOf([one, { ...thing('x', {}), id: 'other' }])],
    [
      ['id', 'example.org'],
      ['other', ''],
    ],
  )
})
