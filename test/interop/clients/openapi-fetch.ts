// An application that uses openapi-fetch with the types of openapi-typescript. It does the same as the applications
// next to it, and prints the results.
import createClient from 'openapi-fetch'
import type { components, paths } from './gen/openapi-typescript.ts'

const [server = '', token = '', name = ''] = process.argv.slice(2)
const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/vnd.api+json' }
const client = createClient<paths>({ baseUrl: server, headers })

function got<T>(answer: { data?: T; response: Response; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(`${answer.response.status} ${JSON.stringify(answer.error)}`)
  return answer.data
}

const domains = got(await client.GET('/domains', { params: { query: { 'filter[name]': name } } }))
const domain = domains.data[0]!
const path = { domain: domain.id }
const patched = got(
  await client.PATCH('/domains/{domain}', {
    params: { path },
    body: { data: { type: 'domains', id: domain.id, attributes: { tls_policy: 'Require' } } },
  }),
)
const records = got(await client.GET('/domains/{domain}/records', { params: { path } }))
const second = got(
  await client.POST('/domains', {
    body: { data: { type: 'domains', attributes: { name: `second.${name}`, purpose: 'both' } } },
  }),
)
await client.DELETE('/domains/{domain}', { params: { path: { domain: second.data.id } } })

for (const each of ['one', 'two', 'three'])
  got(
    await client.POST('/inboxes', {
      body: { data: { type: 'inboxes', attributes: { name: each, address: `${each}@${name}` } } },
    }),
  )
const inboxes: components['schemas']['Inbox'][] = []
const sizes: number[] = []
let cursor: string | null | undefined
do {
  const query = { 'page[size]': 2, sort: 'created_at', ...(cursor ? { 'page[cursor]': cursor } : {}) }
  const page = got(await client.GET('/inboxes', { params: { query } }))
  inboxes.push(...page.data)
  sizes.push(page.data.length)
  cursor = page.meta.next_cursor
} while (cursor)
const inbox = got(
  await client.PATCH('/inboxes/{inbox}', {
    params: { path: { inbox: inboxes[0]!.id } },
    body: { data: { type: 'inboxes', id: inboxes[0]!.id, attributes: { name: 'first' } } },
  }),
)
const wrong = await client.POST('/inboxes', {
  body: { data: { type: 'inboxes', attributes: { name: 'x', address: 'nonsense' } } },
})
const refusal = wrong.error?.errors[0]

const linked = { domain: { data: { type: 'domains' as const, id: domain.id } } }
const created = got(
  await client.POST('/webhooks', {
    body: {
      data: {
        type: 'webhooks',
        attributes: { name: 'Hook', url: 'https://hooks.test/', events: ['email.sent'] },
        relationships: linked,
      },
    },
  }),
)
const webhook = { params: { path: { webhook: created.data.id } } }
const { data: read } = got(await client.GET('/webhooks/{webhook}', webhook))
// Fetch, edit, save.
const saved = got(
  await client.PATCH('/webhooks/{webhook}', {
    ...webhook,
    body: { data: { ...read, attributes: { ...read.attributes, name: 'Renamed' } } },
  }),
)
const listed = got(await client.GET('/webhooks', { params: { query: { include: 'domain' } } }))
const deliveries = got(await client.GET('/webhooks/{webhook}/deliveries', webhook))

const audience = got(
  await client.POST('/audiences', {
    body: { data: { type: 'audiences', attributes: { name: 'Readers' }, relationships: linked } },
  }),
).data
const readers = { params: { path: { audience: audience.id } } }
const contact = got(
  await client.POST('/audiences/{audience}/contacts', {
    ...readers,
    body: { data: { type: 'contacts', attributes: { email: 'ann@there.test', custom_fields: { city: 'Ghent' } } } },
  }),
).data
const bob = got(
  await client.PATCH('/contacts/{contact}', {
    params: { path: { contact: contact.id } },
    body: { data: { type: 'contacts', id: contact.id, attributes: { name: 'Ann' } } },
  }),
)
const brought = got(
  await client.POST('/audiences/{audience}/contacts/import', {
    ...readers,
    body: {
      data: { type: 'contacts', attributes: { contacts: [{ email: 'ann@there.test' }, { email: 'bob@there.test' }] } },
    },
  }),
)
const contacts = got(await client.GET('/audiences/{audience}/contacts', readers))

const campaign = got(
  await client.POST('/campaigns', {
    body: {
      data: {
        type: 'campaigns',
        attributes: { name: 'News', subject: 'News', body_html: '<p>{{name}}</p>' },
        relationships: { audience: { data: { type: 'audiences', id: audience.id } } },
      },
    },
  }),
).data
const draft = { params: { path: { campaign: campaign.id } } }
const renamed = got(
  await client.PATCH('/campaigns/{campaign}', {
    ...draft,
    body: { data: { type: 'campaigns', id: campaign.id, attributes: { subject: 'Newer', reply_to: [`ann@${name}`] } } },
  }),
)
const stats = got(await client.GET('/campaigns/{campaign}/stats', draft))

const mail = got(
  await client.POST('/outbound-emails', {
    body: {
      data: {
        type: 'outbound-emails',
        attributes: { from: `ann@${name}`, to: 'bob@there.test', subject: 'Hello', html: '<p>Hello</p>' },
      },
    },
  }),
).data
const shown = got(
  await client.GET('/outbound-emails/{outboundEmail}', { params: { path: { outboundEmail: mail.id } } }),
).data
const figures = got(
  await client.GET('/outbound-emails/{outboundEmail}/stats', { params: { path: { outboundEmail: mail.id } } }),
)
const suppressions = got(await client.GET('/suppressions', {}))
const inbound = got(await client.GET('/inbound-emails', {}))
const made = got(
  await client.POST('/tokens', {
    body: { data: { type: 'tokens', attributes: { name: 'x', scopes: ['emails:read'], duration: '1_month' } } },
  }),
)
const revoked = await client.DELETE('/tokens/{token}', { params: { path: { token: made.data.id } } })

const secret: string = created.data.attributes.secret
const city = contacts.data.find(({ id }) => id === contact.id)?.attributes.custom_fields?.['city']
console.log(
  JSON.stringify({
    policy: patched.data.attributes.tls_policy,
    records: records.data.length > 0 && typeof records.data[0]!.attributes.verified === 'boolean',
    second: second.data.attributes.status,
    inboxes: inboxes.map(({ attributes }) => attributes.name),
    sizes,
    inbox: inbox.data.attributes.name,
    refusal: [refusal?.code, refusal?.source?.pointer],
    secret: secret.slice(0, 6),
    webhook: saved.data.attributes.name,
    listed: listed.data.some((each) => each.id === created.data.id && each.relationships.domain.data.id === domain.id),
    included: listed.included?.some(({ id }) => id === domain.id),
    deliveries: deliveries.meta.has_more,
    contact: [bob.data.attributes.name, city],
    brought: [brought.data.attributes.created, brought.data.attributes.skipped],
    contacts: contacts.data.length,
    campaign: [renamed.data.attributes.subject, renamed.data.attributes.reply_to],
    stats: [stats.data.attributes.recipients, stats.data.attributes.opens],
    mail: [mail.attributes.recipients[0]?.role, shown.attributes.html, shown.attributes.attachments],
    figures: figures.data.attributes.bounces,
    suppressions: suppressions.data.length,
    inbound: inbound.data.length,
    token: [made.data.attributes.token.slice(0, 3), revoked.response.status],
  }),
)
