// The reach of a campaign or an audience: recipients before a start, and excluded contacts per reason.
import { field, parentOf } from '../jsonapi/resource.ts'
import { define } from '../jsonapi/define.ts'
import { count, words, wordsOrNull } from '../jsonapi/fields.ts'
import { db, sql } from '../store/query.ts'
import { z } from 'zod'
import { audiences } from './api-audiences.ts'
import { campaigns } from './api.ts'
import { oversizeOf, reachOf } from './reach.ts'

const reach = {
  contacts: count('Number of contacts in the audience, or in the segment of the campaign.'),
  recipients: count('Number of contacts who receive the campaign if it starts now.'),
  unsubscribed: count('Number of contacts who are skipped because they have unsubscribed.'),
  bounced: count('Number of contacts who are skipped because email to them bounced.'),
  complained: count('Number of contacts who are skipped because they complained.'),
  pending: count('Number of contacts who are skipped because they have not confirmed their subscription.'),
  suppressed: count('Number of subscribed contacts who are skipped because their address is suppressed.'),
}

export const campaignReach = define('campaign-reach', {
  table: 'campaigns',
  scope: 'campaigns',
  about: 'Number of contacts who receive a campaign, counted in the same way as at its start.',
  extension: true,
  attributes: {
    ...reach,
    oversize: wordsOrNull(
      'Reason why the emails would be too large, so that the campaign cannot start. Null if they are not.',
    ),
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/campaigns/:campaign/reach',
      within: { type: 'campaigns', column: 'key' },
      params: [],
      id: 'getCampaignReach',
      about:
        'Get the reach of a campaign. It is the number of contacts who receive the campaign if it starts now, and the number who are skipped, by reason.',
      async run(call) {
        const campaign = parentOf(campaigns, call)
        const about = { key: 0, id: campaign.id, oversize: await oversizeOf(call.parts, campaign) }
        if (campaign.test_mode === 1)
          return [
            {
              ...about,
              contacts: 0,
              recipients: 1,
              unsubscribed: 0,
              bounced: 0,
              complained: 0,
              pending: 0,
              suppressed: 0,
            },
          ]
        return [{ ...about, ...(await reachOf(call.parts, campaign)) }]
      },
    },
  ],
})

export const audienceReach = define('audience-reach', {
  table: 'audiences',
  scope: 'contacts',
  about: 'Number of contacts who would receive a campaign to an audience.',
  extension: true,
  attributes: reach,
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/audiences/:audience/reach',
      within: { type: 'audiences', column: 'key' },
      params: [],
      id: 'getAudienceReach',
      about:
        'Get the reach of an audience. It is the number of contacts who would receive a campaign now, and the number who would be skipped, by reason.',
      async run(call) {
        const { domain_key, id, key } = parentOf(audiences, call)
        return [{ key: 0, id, ...(await reachOf(call.parts, { audience_key: key, domain_key, segment_key: null })) }]
      },
    },
  ],
})

export const suppressedContacts = define('suppressed-contacts', {
  table: 'contacts',
  scope: 'contacts',
  about: 'Subscribed contacts who receive no campaign because their address is suppressed.',
  extension: true,
  attributes: {
    email: words('Email address.'),
    name: field(z.string().nullable(), { about: 'Name of the contact. Null if absent.' }),
  },
  actions: [
    {
      kind: 'view',
      path: '/audiences/:audience/suppressed-contacts',
      within: { type: 'audiences', column: 'audience_key' },
      params: ['page'],
      id: 'listSuppressedContacts',
      about:
        'List subscribed contacts whose address is suppressed. At most 1,000 are returned. The id is that of the contact.',
      async run(call) {
        const { domain_key, key } = parentOf(audiences, call)
        const { suppressed_contacts } = await reachOf(call.parts, { audience_key: key, domain_key, segment_key: null })
        return call.parts.store.all(
          db
            .selectFrom('contacts')
            .select(['key', 'id', 'email', 'name'])
            .where(sql<boolean>`key in (select value from json_each(${JSON.stringify(suppressed_contacts)}))`)
            .orderBy('key'),
        )
      },
    },
  ],
})
