// The audience of a draft, changed (D147). The specification names it once, at the creation of a campaign; PATCH takes
// no other (403).
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { field, parentOf } from '../jsonapi/resource.ts'
import { define } from '../jsonapi/define.ts'
import { EXTENSION, words } from '../jsonapi/fields.ts'
import { address, addresses } from '../jsonapi/schemas.ts'
import { campaigns, MAX_ADDRESSES } from './api.ts'
import { audienceById } from './audiences.ts'
import { readdressCampaign } from './edit.ts'

export const campaignAudiences = define('campaign-audiences', {
  table: 'campaigns',
  about: `Audiences that drafts were given after they were made. ${EXTENSION}`,
  attributes: {
    audience_id: field(z.string('must be the id of an audience').max(100), {
      create: 'required',
      about: 'The audience that the draft goes to from now on.',
      example: '0199e7a1-1c2d-7f00-8000-000000000000',
    }),
    from_address: field(address().nullable(), {
      create: 'optional',
      about: 'The sender, where the other sending domain needs another one; as it is when absent.',
    }),
    reply_to: field(addresses(MAX_ADDRESSES).nullable(), {
      create: 'optional',
      read: 'never',
      about: 'Where replies go, for the same reason; as it is when absent.',
    }),
    campaign_id: words('The campaign.'),
  },
  actions: [
    {
      kind: 'create',
      path: '/campaigns/:campaign/audience',
      within: { type: 'campaigns', column: 'campaign_key' },
      id: 'changeCampaignAudience',
      scope: 'campaigns:write',
      refuses: ['not_found', 'not_editable', 'address_outside_domain', 'tracking_disabled'],
      about: `Give a draft another audience, whose sending domain it then has. ${EXTENSION}`,
      async run(call) {
        const { attributes, caller, parts } = call
        const campaign = parentOf(campaigns, call)
        const audience = audienceById(parts.store, attributes.audience_id)
        if (audience?.user_key !== caller.userKey)
          throw refuse('not_found', 'There is no such audience.', { pointer: '/data/attributes/audience_id' })
        const { clock, store, bells } = parts
        const { from_address, reply_to } = attributes
        const edits = { from_address, reply_to }
        const row = await readdressCampaign({ clock, store, ring: bells.campaigns }, campaign.key, audience, edits)
        return {
          row: {
            key: row.key,
            id: row.id,
            audience_id: audience.id,
            from_address: row.from_address,
            campaign_id: row.id,
          },
        }
      },
    },
  ],
})
