// An application that uses the fetch client of orval. It does the same as the applications next to it, and prints the
// results.
import * as api from './gen/orval'

const [, token = '', name = ''] = process.argv.slice(2)
const auth = { headers: { Authorization: `Bearer ${token}` } }

/** The document of the answer with this status. */
async function got<A extends { status: number; data: unknown }, S extends A['status']>(
  status: S,
  answer: Promise<A>,
): Promise<Extract<A, { status: S }>['data']> {
  const given = await answer
  if (given.status !== status) throw new Error(`${given.status} ${JSON.stringify(given.data)}`)
  return given.data as Extract<A, { status: S }>['data']
}

const domains = await got(200, api.listDomains({ 'filter[name]': name }, auth))
const domain = domains.data[0]!
const patched = await got(
  200,
  api.updateDomain(
    domain.id,
    { data: { type: 'domains', id: domain.id, attributes: { tls_policy: 'Require' } } },
    undefined,
    auth,
  ),
)
const records = await got(200, api.listDomainRecords(domain.id, undefined, auth))
const second = await got(
  201,
  api.createDomain(
    { data: { type: 'domains', attributes: { name: `second.${name}`, purpose: 'both' } } },
    undefined,
    auth,
  ),
)
await got(204, api.deleteDomain(second.data.id, auth))

for (const each of ['one', 'two', 'three'])
  await got(
    201,
    api.createInbox(
      { data: { type: 'inboxes', attributes: { name: each, address: `${each}@${name}` } } },
      undefined,
      auth,
    ),
  )
const inboxes: api.Inbox[] = []
const sizes: number[] = []
let cursor: string | null | undefined
do {
  const query = { 'page[size]': 2, sort: 'created_at', ...(cursor ? { 'page[cursor]': cursor } : {}) }
  const page = await got(200, api.listInboxes(query, auth))
  inboxes.push(...page.data)
  sizes.push(page.data.length)
  cursor = page.meta.next_cursor
} while (cursor)
const inbox = await got(
  200,
  api.updateInbox(
    inboxes[0]!.id,
    { data: { type: 'inboxes', id: inboxes[0]!.id, attributes: { name: 'first' } } },
    undefined,
    auth,
  ),
)
const wrong = await got(
  422,
  api.createInbox({ data: { type: 'inboxes', attributes: { name: 'x', address: 'nonsense' } } }, undefined, auth),
)
const refusal = wrong.errors[0]

const linked = { domain: { data: { type: 'domains' as const, id: domain.id } } }
const created = await got(
  201,
  api.createWebhook(
    {
      data: {
        type: 'webhooks',
        attributes: { name: 'Hook', url: 'https://hooks.test/', events: ['email.sent'] },
        relationships: linked,
      },
    },
    undefined,
    auth,
  ),
)
const { data: read } = await got(200, api.getWebhook(created.data.id, undefined, auth))
// Fetch, edit, save.
const saved = await got(
  200,
  api.updateWebhook(
    read.id,
    { data: { ...read, attributes: { ...read.attributes, name: 'Renamed' } } },
    undefined,
    auth,
  ),
)
const listed = await got(200, api.listWebhooks({ include: 'domain' }, auth))
const deliveries = await got(200, api.listWebhookDeliveries(read.id, undefined, auth))

const audience = await got(
  201,
  api.createAudience(
    { data: { type: 'audiences', attributes: { name: 'Readers' }, relationships: linked } },
    undefined,
    auth,
  ),
)
const readers = audience.data.id
const contact = await got(
  201,
  api.createContact(
    readers,
    { data: { type: 'contacts', attributes: { email: 'ann@there.test', custom_fields: { city: 'Ghent' } } } },
    undefined,
    auth,
  ),
)
const bob = await got(
  200,
  api.updateContact(
    contact.data.id,
    { data: { type: 'contacts', id: contact.data.id, attributes: { name: 'Ann' } } },
    undefined,
    auth,
  ),
)
const people = [{ email: 'ann@there.test' }, { email: 'bob@there.test' }]
const brought = await got(
  200,
  api.importContacts(readers, { data: { type: 'contacts', attributes: { contacts: people } } }, undefined, auth),
)
const contacts = await got(200, api.listContacts(readers, undefined, auth))

const campaign = await got(
  201,
  api.createCampaign(
    {
      data: {
        type: 'campaigns',
        attributes: { name: 'News', subject: 'News', body_html: '<p>{{name}}</p>' },
        relationships: { audience: { data: { type: 'audiences', id: readers } } },
      },
    },
    undefined,
    auth,
  ),
)
const renamed = await got(
  200,
  api.updateCampaign(
    campaign.data.id,
    { data: { type: 'campaigns', id: campaign.data.id, attributes: { subject: 'Newer', reply_to: [`ann@${name}`] } } },
    undefined,
    auth,
  ),
)
const stats = await got(200, api.getCampaignStats(campaign.data.id, auth))

const mail = await got(
  201,
  api.createOutboundEmail(
    {
      data: {
        type: 'outbound-emails',
        attributes: { from: `ann@${name}`, to: 'bob@there.test', subject: 'Hello', html: '<p>Hello</p>' },
      },
    },
    undefined,
    auth,
  ),
)
const shown = await got(200, api.getOutboundEmail(mail.data.id, undefined, auth))
const figures = await got(200, api.getOutboundEmailStats(mail.data.id, auth))
const suppressions = await got(200, api.listSuppressions(undefined, auth))
const inbound = await got(200, api.listInboundEmails(undefined, auth))
const made = await got(
  201,
  api.createToken(
    { data: { type: 'tokens', attributes: { name: 'x', scopes: ['emails:read'], duration: '1_month' } } },
    undefined,
    auth,
  ),
)
const revoked = await api.revokeToken(made.data.id, auth)

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
    token: [made.data.attributes.token.slice(0, 3), revoked.status],
  }),
)
