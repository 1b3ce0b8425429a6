// The duration of a campaign in days: before its start, and the remaining days after it.
import { z } from 'zod'
import { definer, field, parentOf } from '../jsonapi/resource.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { count, timeOrNull, wordsOrNull } from '../jsonapi/fields.ts'
import { knownAddress } from '../message/address.ts'
import type { DeliveryGate } from '../parts/gate.ts'
import { campaigns } from './api.ts'
import type { Campaign } from './edit.ts'
import { queuedOf, reachOf } from './reach.ts'

/** Receivers that an answer names, those with most recipients. */
const MOST = 100

/** The recipients by their domains, if it starts now. */
async function domainsBefore(
  parts: Parameters<typeof reachOf>[0],
  campaign: Pick<Campaign, 'audience_key' | 'domain_key' | 'segment_key' | 'test_mode' | 'test_recipient_email'>,
): Promise<Map<string, number>> {
  const { test_mode, test_recipient_email: email } = campaign
  if (test_mode === 0) return (await reachOf(parts, campaign)).domains
  return new Map(email === null ? [] : [[knownAddress(email).domain, 1]])
}

export const campaignForecasts = definer<ApiDeps & { gate: DeliveryGate }>()('campaign-forecasts', {
  table: 'campaigns',
  scope: 'campaigns',
  about:
    'Number of days that a campaign needs because of warm-up limits: if it starts now, or from now on if it has started.',
  extension: true,
  attributes: {
    recipients: count('Number of recipients. If the campaign has started, the number that is still queued.'),
    waiting_for_warmup: count('Number of emails of this campaign that are queued because a daily limit is reached.'),
    days: field(z.int().nullable(), {
      about: 'Number of days (UTC) on which emails are sent. Null if the campaign would never finish.',
    }),
    ends_at: timeOrNull('Expected time of completion. Null if the campaign would never finish.'),
    relayed: count('Number of emails that a relay sends.'),
    receivers: field(
      z.array(z.object({ receiver: z.string(), recipients: z.int(), today: z.int(), days: z.int().nullable() })),
      {
        about:
          'Receivers with most recipients, at most 100, each with its recipients today and in total, and its number of days.',
      },
    ),
    exact: field(z.boolean(), {
      about: 'Whether the forecast is exact. False while the receiver of a recipient is unknown.',
    }),
    reason: wordsOrNull('Reason why the forecast is not exact, or why no email is delayed. Null if neither applies.'),
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/campaigns/:campaign/forecast',
      within: { type: 'campaigns', column: 'key' },
      params: [],
      id: 'getCampaignForecast',
      about:
        'Get the sending forecast of a campaign. It is the number of days that the campaign needs if every day goes well.',
      async run(call) {
        const campaign = parentOf(campaigns, call)
        const { domains, waiting } =
          campaign.started_at !== null
            ? await queuedOf(call.parts, campaign.key)
            : { domains: await domainsBefore(call.parts, campaign), waiting: 0 }
        const { receivers, ...rest } = call.parts.gate.forecast(call.parts.store, domains, call.now)
        return [{ key: 0, id: campaign.id, ...rest, waiting_for_warmup: waiting, receivers: receivers.slice(0, MOST) }]
      },
    },
  ],
})
