// Whom a campaign or an audience reaches: the recipients before a start, and who gets no mail and why.
import { field, parentOf } from '../jsonapi/resource.ts'
import { define } from '../jsonapi/define.ts'
import { count, EXTENSION, words } from '../jsonapi/fields.ts'
import { db, sql } from '../store/query.ts'
import { z } from 'zod'
import { audiences } from './api-audiences.ts'
import { campaigns } from './api.ts'
import { reachOf } from './reach.ts'

const reach = {
  contacts: count('The contacts of the audience.'),
  gets: count('How many get it, if it starts now.'),
  unsubscribed: count('How many get none because they have left.'),
  bounced: count('How many get none because mail to them bounced.'),
  complained: count('How many get none because they complained.'),
  suppressed: count('How many are subscribed and get none because their address is suppressed.'),
}

export const campaignReaches = define('campaign-reaches', {
  table: 'campaigns',
  about: `Whom a campaign reaches, counted as at its start. ${EXTENSION}`,
  attributes: reach,
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/campaigns/:campaign/reach',
      within: { type: 'campaigns', column: 'key' },
      params: [],
      id: 'getCampaignReach',
      scope: 'campaigns:read',
      about: `How many contacts get a campaign if it starts now, and how many do not and why. ${EXTENSION}`,
      async run(call) {
        const campaign = parentOf(campaigns, call)
        const about = { key: 0, id: campaign.id }
        if (campaign.test_mode === 1)
          return [{ ...about, contacts: 0, gets: 1, unsubscribed: 0, bounced: 0, complained: 0, suppressed: 0 }]
        return [{ ...about, ...(await reachOf(call.parts, campaign)) }]
      },
    },
  ],
})

export const audienceReaches = define('audience-reaches', {
  table: 'audiences',
  about: `Whom a campaign to an audience would reach. ${EXTENSION}`,
  attributes: reach,
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/audiences/:audience/reach',
      within: { type: 'audiences', column: 'key' },
      params: [],
      id: 'getAudienceReach',
      scope: 'contacts:read',
      about: `How many contacts would get a campaign to this audience now, and how many not and why. ${EXTENSION}`,
      async run(call) {
        const { domain_key, id, key } = parentOf(audiences, call)
        return [{ key: 0, id, ...(await reachOf(call.parts, { audience_key: key, domain_key })) }]
      },
    },
  ],
})

export const suppressedContacts = define('suppressed-contacts', {
  table: 'contacts',
  about: `Contacts that are subscribed, and get no campaign because their address is suppressed. ${EXTENSION}`,
  attributes: {
    email: words('The address.'),
    name: field(z.string().nullable(), { about: 'The name of the person.' }),
  },
  actions: [
    {
      kind: 'view',
      path: '/audiences/:audience/suppressed-contacts',
      within: { type: 'audiences', column: 'audience_key' },
      params: ['page'],
      id: 'listSuppressedContacts',
      scope: 'contacts:read',
      about: `The first 1,000 subscribed contacts whose address is suppressed; the id is that of the contact. ${EXTENSION}`,
      async run(call) {
        const { domain_key, key } = parentOf(audiences, call)
        const { suppressed_contacts } = await reachOf(call.parts, { audience_key: key, domain_key })
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
