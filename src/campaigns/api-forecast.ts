// How many days a campaign takes, told before its start (DV12).
import { z } from 'zod'
import { field, parentOf } from '../jsonapi/resource.ts'
import { define } from '../jsonapi/define.ts'
import { count, EXTENSION, timeOrNull, wordsOrNull } from '../jsonapi/fields.ts'
import { knownAddress } from '../message/address.ts'
import { forecast } from '../warmup/forecast.ts'
import { campaigns } from './api.ts'
import { reachOf } from './reach.ts'

/** Receivers that an answer names, those with most recipients. */
const MOST = 100

const domainOfTest = (email: string | null): Map<string, number> =>
  new Map(email === null ? [] : [[knownAddress(email).domain, 1]])

export const campaignForecasts = define('campaign-forecasts', {
  table: 'campaigns',
  about: `How many days a campaign takes if it starts now, because receivers take only so much from an address that is new to them. ${EXTENSION}`,
  attributes: {
    recipients: count('How many get it.'),
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
      about: `How many days a campaign takes if it starts now and all days are good. ${EXTENSION}`,
      async run(call) {
        const campaign = parentOf(campaigns, call)
        const domains =
          campaign.test_mode === 1
            ? domainOfTest(campaign.test_recipient_email)
            : (await reachOf(call.parts, campaign)).domains
        const { receivers, ...rest } = forecast(call.parts, domains, call.now)
        return [{ key: 0, id: campaign.id, ...rest, receivers: receivers.slice(0, MOST) }]
      },
    },
  ],
})
