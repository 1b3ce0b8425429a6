// Test emails of a campaign, before its start (D81). The campaign itself does not change.
import { field, parentOf } from '../jsonapi/resource.ts'
import { campaigns } from './api.ts'
import { contentApart } from './content-apart.ts'
import { exampleContact, valuesOf } from './render.ts'
import { knownAddress } from '../message/address.ts'
import { campaignSender } from '../message/identity.ts'
import { ofCaller, requireSubscription } from '../mail/accept/admit.ts'
import { submitEmail } from '../mail/accept/submit.ts'
import { knownDomain } from '../domains/find.ts'
import { define } from '../jsonapi/define.ts'
import { words } from '../jsonapi/fields.ts'
import { address } from '../jsonapi/schemas.ts'
import { textsOf } from '../base/json.ts'

export const campaignTests = define('campaign-tests', {
  table: 'outbound_emails',
  scope: 'campaigns',
  about: 'Test emails of campaigns.',
  extension: true,
  attributes: {
    email: field(address(), { create: 'required', about: 'Recipient of the test email.', example: 'ann@example.net' }),
    outbound_email_id: words('Id of the test email. `GET /outbound-emails/{id}` returns its status.'),
  },
  actions: [
    {
      kind: 'create',
      path: '/campaigns/:campaign/test',
      within: { type: 'campaigns', column: 'campaign_key' },
      id: 'testCampaign',
      refuses: [
        'not_found',
        'subscription_inactive',
        'agent_paused',
        'recipient_suppressed',
        'domain_not_active',
        'volume_exceeded',
        'message_too_large',
        'overloaded',
      ],
      about:
        'Send a test email of a campaign. It has the name and the fields of the newest contact of the audience if the token has the scope `contacts:read`. It has no unsubscribe links and no tracking. The campaign does not change.',
      async run(call) {
        const { attributes, caller, parts } = call
        const campaign = parentOf(campaigns, call)
        requireSubscription(parts.store, caller.userKey)
        const to = knownAddress(attributes.email)
        const domain = knownDomain(parts.store, campaign.domain_key)
        // A test can be sent to any address, so it contains a contact's data only if the caller can read contacts.
        const example = caller.scopes.has('contacts:read') && exampleContact(parts.store, campaign.audience_key)
        const { body_html, body_text, subject } = campaign
        const mail = await contentApart(
          'render',
          { subject, body_html, body_text },
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
          ...ofCaller(caller),
        })
        return { row: { key: email.key, id: email.id, email: attributes.email, outbound_email_id: email.id } }
      },
    },
  ],
})
