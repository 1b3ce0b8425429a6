// An application that uses the client of hey-api. It does the same as the applications next to it, and prints the
// results.
import { client } from './gen/hey-api/client.gen'
import * as api from './gen/hey-api/sdk.gen'
import type { Inbox } from './gen/hey-api/types.gen'

const [server = '', token = '', name = ''] = process.argv.slice(2)
client.setConfig({ baseUrl: server, auth: token })
const throwOnError = true

const { data: domains } = await api.listDomains({ query: { 'filter[name]': name }, throwOnError })
const domain = domains.data[0]!
const path = { domain: domain.id }
const { data: patched } = await api.updateDomain({
  path,
  body: { data: { type: 'domains', id: domain.id, attributes: { tls_policy: 'Require' } } },
  throwOnError,
})
const { data: records } = await api.listDomainRecords({ path, throwOnError })
const { data: second } = await api.createDomain({
  body: { data: { type: 'domains', attributes: { name: `second.${name}`, purpose: 'both' } } },
  throwOnError,
})
await api.deleteDomain({ path: { domain: second.data.id }, throwOnError })

for (const each of ['one', 'two', 'three'])
  await api.createInbox({
    body: { data: { type: 'inboxes', attributes: { name: each, address: `${each}@${name}` } } },
    throwOnError,
  })
const inboxes: Inbox[] = []
const sizes: number[] = []
let cursor: string | null | undefined
do {
  const query = { 'page[size]': 2, sort: 'created_at', ...(cursor ? { 'page[cursor]': cursor } : {}) }
  const { data: page } = await api.listInboxes({ query, throwOnError })
  inboxes.push(...page.data)
  sizes.push(page.data.length)
  cursor = page.meta.next_cursor
} while (cursor)
const { data: inbox } = await api.updateInbox({
  path: { inbox: inboxes[0]!.id },
  body: { data: { type: 'inboxes', id: inboxes[0]!.id, attributes: { name: 'first' } } },
  throwOnError,
})
const wrong = await api.createInbox({
  body: { data: { type: 'inboxes', attributes: { name: 'x', address: 'nonsense' } } },
})
const refusal = wrong.error?.errors[0]

const linked = { domain: { data: { type: 'domains' as const, id: domain.id } } }
const { data: created } = await api.createWebhook({
  body: {
    data: {
      type: 'webhooks',
      attributes: { name: 'Hook', url: 'https://hooks.test/', events: ['email.sent'] },
      relationships: linked,
    },
  },
  throwOnError,
})
const webhook = { path: { webhook: created.data.id }, throwOnError } as const
const { data: read } = await api.getWebhook(webhook)
// Fetch, edit, save.
const { data: saved } = await api.updateWebhook({
  ...webhook,
  body: { data: { ...read.data, attributes: { ...read.data.attributes, name: 'Renamed' } } },
})
const { data: listed } = await api.listWebhooks({ query: { include: 'domain' }, throwOnError })
const { data: deliveries } = await api.listWebhookDeliveries(webhook)

const { data: audience } = await api.createAudience({
  body: { data: { type: 'audiences', attributes: { name: 'Readers' }, relationships: linked } },
  throwOnError,
})
const readers = { path: { audience: audience.data.id }, throwOnError } as const
const { data: contact } = await api.createContact({
  ...readers,
  body: { data: { type: 'contacts', attributes: { email: 'ann@there.test', custom_fields: { city: 'Ghent' } } } },
})
const { data: bob } = await api.updateContact({
  path: { contact: contact.data.id },
  body: { data: { type: 'contacts', id: contact.data.id, attributes: { name: 'Ann' } } },
  throwOnError,
})
const { data: brought } = await api.importContacts({
  ...readers,
  body: {
    data: { type: 'contacts', attributes: { contacts: [{ email: 'ann@there.test' }, { email: 'bob@there.test' }] } },
  },
})
const { data: contacts } = await api.listContacts(readers)

const { data: campaign } = await api.createCampaign({
  body: {
    data: {
      type: 'campaigns',
      attributes: { name: 'News', subject: 'News', body_html: '<p>{{name}}</p>' },
      relationships: { audience: { data: { type: 'audiences', id: audience.data.id } } },
    },
  },
  throwOnError,
})
const draft = { path: { campaign: campaign.data.id }, throwOnError } as const
const { data: renamed } = await api.updateCampaign({
  ...draft,
  body: {
    data: { type: 'campaigns', id: campaign.data.id, attributes: { subject: 'Newer', reply_to: [`ann@${name}`] } },
  },
})
const { data: stats } = await api.getCampaignStats(draft)

const { data: mail } = await api.createOutboundEmail({
  body: {
    data: {
      type: 'outbound-emails',
      attributes: { from: `ann@${name}`, to: 'bob@there.test', subject: 'Hello', html: '<p>Hello</p>' },
    },
  },
  throwOnError,
})
const one = { path: { outboundEmail: mail.data.id }, throwOnError } as const
const { data: shown } = await api.getOutboundEmail(one)
const { data: figures } = await api.getOutboundEmailStats(one)
const { data: suppressions } = await api.listSuppressions({ throwOnError })
const { data: inbound } = await api.listInboundEmails({ throwOnError })
const { data: made } = await api.createToken({
  body: { data: { type: 'tokens', attributes: { name: 'x', scopes: ['emails:read'], duration: '1_month' } } },
  throwOnError,
})
const revoked = await api.revokeToken({ path: { token: made.data.id }, throwOnError })

const secret: string = created.data.attributes.secret
const city = contacts.data.find(({ id }) => id === contact.data.id)?.attributes.custom_fields?.['city']
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
    mail: [mail.data.attributes.recipients[0]?.role, shown.data.attributes.html, shown.data.attributes.attachments],
    figures: figures.data.attributes.bounces,
    suppressions: suppressions.data.length,
    inbound: inbound.data.length,
    token: [made.data.attributes.token.slice(0, 3), revoked.response.status],
  }),
)
