// How many days a campaign takes: before its start (DV12), and what is left of one that has begun (DV13).
import { z } from 'zod'
import { field, parentOf } from '../jsonapi/resource.ts'
import { define } from '../jsonapi/define.ts'
import { count, EXTENSION, timeOrNull, wordsOrNull } from '../jsonapi/fields.ts'
import { knownAddress } from '../message/address.ts'
import { forecast } from '../warmup/forecast.ts'
import { campaigns } from './api.ts'
import type { Campaign } from './edit.ts'
import { reachOf } from './reach.ts'
import { queuedOf } from './waiting.ts'

/** Receivers that an answer names, those with most recipients. */
const MOST = 100

/** The recipients by their domains, if it starts now. */
async function domainsBefore(
  parts: Parameters<typeof reachOf>[0],
  campaign: Pick<Campaign, 'audience_key' | 'domain_key' | 'test_mode' | 'test_recipient_email'>,
): Promise<Map<string, number>> {
  const { test_mode, test_recipient_email: email } = campaign
  if (test_mode === 0) return (await reachOf(parts, campaign)).domains
  return new Map(email === null ? [] : [[knownAddress(email).domain, 1]])
}

export const campaignForecasts = define('campaign-forecasts', {
  table: 'campaigns',
  about: `How many days a campaign takes, because receivers take only so much from an address that is new to them: if it starts now, or from now on when it has begun. ${EXTENSION}`,
  attributes: {
    recipients: count('How many get it; of a campaign that has begun, how many are still in the queue.'),
    waiting_for_warmup: count('How many of its mails wait because a receiver takes no more of them today.'),
    days: field(z.int().nullable(), { about: 'On how many days (UTC); null: it would not end.' }),
    ends_at: timeOrNull('When it ends; null: it would not end.'),
    relayed: count('How many a relay takes over.'),
    receivers: field(
      z.array(z.object({ receiver: z.string(), recipients: z.int(), today: z.int(), days: z.int().nullable() })),
      { about: 'The receivers with most recipients, at most 100: how many today, and on how many days.' },
    ),
    exact: field(z.boolean(), { about: 'False while the receiver of a recipient is not known.' }),
    reason: wordsOrNull('Why it is not exact, or why nothing is held back.'),
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/campaigns/:campaign/forecast',
      within: { type: 'campaigns', column: 'key' },
      params: [],
      id: 'getCampaignForecast',
      scope: 'campaigns:read',
      about: `How many days a campaign takes, from now on, if all days are good. ${EXTENSION}`,
      async run(call) {
        const campaign = parentOf(campaigns, call)
        const { domains, waiting } =
          campaign.started_at !== null
            ? await queuedOf(call.parts, campaign.key)
            : { domains: await domainsBefore(call.parts, campaign), waiting: 0 }
        const { receivers, ...rest } = forecast(call.parts, domains, call.now)
        return [{ key: 0, id: campaign.id, ...rest, waiting_for_warmup: waiting, receivers: receivers.slice(0, MOST) }]
      },
    },
  ],
})
