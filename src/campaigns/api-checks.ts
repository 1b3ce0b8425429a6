// Checks of a campaign before its start that take seconds (D81): whether its links answer, and the verdict of
// SpamAssassin.
import { z } from 'zod'
import { semaphore } from '../base/semaphore.ts'
import { hasSpamAssassin, judgeSpam } from '../base/spamassassin.ts'
import { field, parentOf } from '../jsonapi/resource.ts'
import { campaigns } from './api.ts'
import { knownAddress } from '../message/address.ts'
import { campaignSender, messageIdOf } from '../message/identity.ts'
import { contentApart } from './content-apart.ts'
import { knownDomain } from '../domains/find.ts'
import { reach } from '../net/fetch.ts'
import { define } from '../jsonapi/define.ts'
import { words, wordsOrNull } from '../jsonapi/fields.ts'

const AT_ONCE = 6
const oneOf = semaphore(AT_ONCE)

const within = { type: 'campaigns', column: 'campaign_key' } as const
/** The recipient in the checked email, which is never sent. */
const SOMEBODY = { email: 'ann@example.net', name: 'Ann', custom_fields: null }

export const campaignLinks = define('campaign-links', {
  table: 'campaigns',
  about: 'Links and images in a campaign, and whether they can be reached.',
  extension: true,
  attributes: {
    url: words('URL of the link or image.'),
    ok: field(z.boolean(), { about: 'Whether the URL can be reached.' }),
    found: words('Result of the check, such as an HTTP status.'),
  },
  actions: [
    {
      kind: 'view',
      path: '/campaigns/:campaign/links',
      within,
      params: ['page'],
      id: 'checkCampaignLinks',
      scope: 'campaigns:write',
      about: 'Check whether the first 50 links and images of a campaign can be reached. This takes several seconds.',
      run: async (call) =>
        Promise.all(
          (await contentApart('links', parentOf(campaigns, call).body_html)).map(async (url, index) => {
            const { ok, words: found } = await oneOf(() => reach(call.parts.fetching, url))
            return { key: index + 1, id: `link-${index + 1}`, url, ok, found }
          }),
        ),
    },
  ],
})

/** Why SpamAssassin returned no verdict, as a sentence for the user. */
const unjudged = (program: string): string =>
  hasSpamAssassin(program)
    ? 'SpamAssassin returned no score. To find the cause, run "spamassassin --lint" on the server.'
    : 'SpamAssassin is not installed on this server. To get scores, install it.'

export const spamVerdicts = define('spam-verdicts', {
  table: 'campaigns',
  about: 'SpamAssassin result for a campaign.',
  extension: true,
  attributes: {
    judged: field(z.boolean(), { about: 'Whether SpamAssassin returned a score.' }),
    score: field(z.number().nullable(), {
      about: 'Spam score. Higher means more like spam. Null if there is no score.',
    }),
    required: field(z.number().nullable(), {
      about: 'Score from which SpamAssassin classifies an email as spam. Null if there is no score.',
    }),
    rules: field(z.array(z.string()), { about: 'SpamAssassin rules that matched.' }),
    reason: wordsOrNull('Reason why there is no score. Null if there is one.'),
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/campaigns/:campaign/spam-verdict',
      within,
      params: [],
      id: 'judgeCampaign',
      scope: 'campaigns:write',
      about: 'Get the SpamAssassin score of a campaign. SpamAssassin must be installed on the server.',
      async run(call) {
        const { now, parts } = call
        const campaign = parentOf(campaigns, call)
        const domain = knownDomain(parts.store, campaign.domain_key)
        const { body_html, body_text, from_address, id, subject } = campaign
        const letter = await contentApart('message', { subject, body_html, body_text }, SOMEBODY, {
          from: knownAddress(campaignSender(from_address, domain.name)),
          to: [knownAddress(SOMEBODY.email)],
          cc: [],
          replyTo: [],
          attachments: [],
          messageId: messageIdOf(id, domain.name),
          date: now,
          extra: [],
          tracking: null,
        })
        const verdict = await judgeSpam(letter, parts.spamAssassin)
        const about = { key: 0, id }
        return verdict
          ? [{ ...about, judged: true, ...verdict, reason: null }]
          : [{ ...about, judged: false, score: null, required: null, rules: [], reason: unjudged(parts.spamAssassin) }]
      },
    },
  ],
})
