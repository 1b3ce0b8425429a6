// Test mails of a campaign, before its start (D81). The campaign itself does not change.
import { field, parentOf } from '../jsonapi/resource.ts'
import { campaigns } from './api.ts'
import { exampleContact, render, valuesOf } from './render.ts'
import { knownAddress } from '../message/address.ts'
import { campaignSender } from '../message/identity.ts'
import { requireSubscription } from '../mail/accept/admit.ts'
import { submitEmail } from '../mail/accept/submit.ts'
import { knownDomain } from '../domains/find.ts'
import { define } from '../jsonapi/define.ts'
import { EXTENSION, words } from '../jsonapi/fields.ts'
import { address } from '../jsonapi/schemas.ts'
import { textsOf } from '../base/json.ts'

export const campaignTests = define('campaign-tests', {
  table: 'outbound_emails',
  about: `Tests of campaigns. ${EXTENSION}`,
  attributes: {
    email: field(address(), { create: 'required', about: 'Who gets the test.', example: 'ann@example.net' }),
    outbound_email_id: words('The id of the mail that was made: GET /outbound-emails/ID tells what becomes of it.'),
  },
  actions: [
    {
      kind: 'create',
      path: '/campaigns/:campaign/test',
      within: { type: 'campaigns', column: 'campaign_key' },
      id: 'testCampaign',
      scope: 'campaigns:write',
      refuses: [
        'not_found',
        'subscription_inactive',
        'agent_paused',
        'recipient_suppressed',
        'domain_not_active',
        'volume_exceeded',
      ],
      about: `Send one mail of a campaign to an address, with the name and the fields of the audience’s newest contact when the token has contacts:read, without ways to leave and without tracking; the campaign stays as it is. ${EXTENSION}`,
      async run(call) {
        const { attributes, caller, parts } = call
        const campaign = parentOf(campaigns, call)
        requireSubscription(parts.store, caller.userKey)
        const to = knownAddress(attributes.email)
        const domain = knownDomain(parts.store, campaign.domain_key)
        // The test may go to anybody: it shows a contact's data only to who may see contacts.
        const example = caller.scopes.has('contacts:read') && exampleContact(parts.store, campaign.audience_key)
        const mail = render(
          campaign,
          valuesOf({
            email: to.address,
            name: to.name || (example ? example.name : null),
            custom_fields: example ? example.custom_fields : null,
          }),
        )
        const { bells, ...deps } = parts
        const { email } = await submitEmail({ ...deps, ring: bells.deliveries }, caller.userKey, {
          from: campaignSender(campaign.from_address, domain.name),
          to: attributes.email,
          subject: `[Test] ${mail.subject}`,
          html: mail.html,
          text: mail.text,
          reply_to: campaign.reply_to === null ? null : textsOf(campaign.reply_to),
          track_opens: false,
          track_clicks: false,
          agent_id: caller.agentId,
          program: caller.program,
          cappedToken: caller.cappedToken,
        })
        return { row: { key: email.key, id: email.id, email: attributes.email, outbound_email_id: email.id } }
      },
    },
  ],
})
