// Changes the audience of a draft (D147). The specification allows an audience only when a campaign is created, and
// PATCH rejects others (403).
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { field, parentOf } from '../jsonapi/resource.ts'
import { words } from '../jsonapi/fields.ts'
import { address, addresses } from '../jsonapi/schemas.ts'
import { campaigns, define, depsOf, MAX_ADDRESSES } from './api.ts'
import { audienceById } from './audiences.ts'
import { readdressCampaign } from './edit.ts'

export const campaignAudiences = define('campaign-audiences', {
  table: 'campaigns',
  scope: 'campaigns',
  about: 'Changes of the audience of a draft campaign.',
  extension: true,
  attributes: {
    audience_id: field(z.string('must be the id of an audience').max(100), {
      create: 'required',
      about: 'Id of the new audience.',
      example: '0199e7a1-1c2d-7f00-8000-000000000000',
    }),
    from_address: field(address().nullable(), {
      create: 'optional',
      about:
        'New sender. Required if the present one does not belong to the sending domain of the new audience. Unchanged if absent.',
    }),
    reply_to: field(addresses(MAX_ADDRESSES).nullable(), {
      create: 'optional',
      read: 'never',
      about:
        'New reply address. Required if the present one does not belong to the sending domain of the new audience. Unchanged if absent.',
    }),
    campaign_id: words('Id of the campaign.'),
  },
  actions: [
    {
      kind: 'create',
      path: '/campaigns/:campaign/audience',
      within: { type: 'campaigns', column: 'campaign_key' },
      id: 'updateCampaignAudience',
      refuses: ['not_found', 'not_editable', 'address_outside_domain', 'tracking_disabled'],
      about:
        'Assign another audience to a draft campaign. The campaign then sends from the sending domain of that audience.',
      async run(call) {
        const { attributes, caller, parts } = call
        const campaign = parentOf(campaigns, call)
        const audience = audienceById(parts.store, attributes.audience_id)
        if (audience?.user_key !== caller.userKey)
          throw refuse('not_found', 'No such audience exists. Check the id in "audience".', {
            pointer: '/data/attributes/audience_id',
          })
        const { from_address, reply_to } = attributes
        const edits = { from_address, reply_to }
        const row = await readdressCampaign(depsOf(parts), campaign.key, audience, edits)
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
