// Checks of a campaign before its start that take seconds (D81): whether its links answer, and the verdict of
// SpamAssassin.
import { z } from 'zod'
import { semaphore } from '../base/semaphore.ts'
import { hasSpamAssassin, judgeSpam } from '../base/spamassassin.ts'
import { field, parentOf } from '../jsonapi/resource.ts'
import { campaigns } from './api.ts'
import { knownAddress } from '../message/address.ts'
import { compose } from '../message/compose.ts'
import { campaignSender, messageIdOf } from '../message/identity.ts'
import { readPictures } from '../message/pictures.ts'
import { readTargets } from '../message/tracking.ts'
import type { Campaign } from './edit.ts'
import { render, valuesOf } from './render.ts'
import { knownDomain } from '../domains/find.ts'
import { reach } from '../net/check-link.ts'
import { define } from '../jsonapi/define.ts'
import { EXTENSION, words, wordsOrNull } from '../jsonapi/fields.ts'

/** The most links that are checked, and how many of them at once. */
const MOST_LINKS = 50
const AT_ONCE = 6
const oneOf = semaphore(AT_ONCE)

const within = { type: 'campaigns', column: 'campaign_key' } as const
/** A mail that is never sent: only its form is checked. */
const SOMEBODY = { email: 'ann@example.net', name: 'Ann', custom_fields: null }

/**
 * The web links and pictures in a campaign's HTML, without repeats. An address with a merge tag is not fixed, so it
 * is left out.
 */
export function linksOf({ body_html }: Pick<Campaign, 'body_html'>): string[] {
  const links = [...readTargets(body_html), ...readPictures(body_html)].map(({ url }) => url.trim())
  return [...new Set(links.filter((url) => /^https?:\/\//i.test(url) && !url.includes('{{')))].slice(0, MOST_LINKS)
}

export const campaignLinks = define('campaign-links', {
  table: 'campaigns',
  about: `Links and pictures of a campaign, and whether they answer. ${EXTENSION}`,
  attributes: {
    url: words('Where it leads.'),
    ok: field(z.boolean(), { about: 'Whether something answers there.' }),
    found: words('The result of the check, as the end of a sentence.'),
  },
  actions: [
    {
      kind: 'view',
      path: '/campaigns/:campaign/links',
      within,
      params: ['page'],
      id: 'checkCampaignLinks',
      scope: 'campaigns:write',
      about: `Ask the first ${MOST_LINKS} links and pictures of a campaign whether they answer; takes seconds. ${EXTENSION}`,
      run: async (call) =>
        Promise.all(
          linksOf(parentOf(campaigns, call)).map(async (url, index) => {
            const { ok, words: found } = await oneOf(() => reach(call.parts.fetching, url))
            return { key: index + 1, id: `link-${index + 1}`, url, ok, found }
          }),
        ),
    },
  ],
})

/** Why there is no verdict, as a sentence for the person who asked. */
const unjudged = (program: string): string =>
  hasSpamAssassin(program)
    ? 'SpamAssassin gave no verdict; the operator finds out why with "spamassassin --lint".'
    : 'SpamAssassin is not installed on this server.'

export const spamVerdicts = define('spam-verdicts', {
  table: 'campaigns',
  about: `What SpamAssassin says of a campaign. ${EXTENSION}`,
  attributes: {
    judged: field(z.boolean(), { about: 'Whether there is a verdict.' }),
    score: field(z.number().nullable(), { about: 'The higher, the more it looks like spam.' }),
    required: field(z.number().nullable(), { about: 'From this score on a mail is called spam.' }),
    rules: field(z.array(z.string()), { about: 'The rules that fired.' }),
    reason: wordsOrNull('Why there is no verdict, as a sentence.'),
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
      about: `Have SpamAssassin judge a campaign, where it is installed on the server. ${EXTENSION}`,
      async run(call) {
        const { now, parts } = call
        const campaign = parentOf(campaigns, call)
        const domain = knownDomain(parts.store, campaign.domain_key)
        const { html, subject, text } = render(campaign, valuesOf(SOMEBODY))
        const letter = compose({
          from: knownAddress(campaignSender(campaign.from_address, domain.name)),
          to: [knownAddress(SOMEBODY.email)],
          cc: [],
          replyTo: [],
          subject,
          html,
          text,
          attachments: [],
          messageId: messageIdOf(campaign.id, domain.name),
          date: now,
          extra: [],
          tracking: null,
        })
        const verdict = await judgeSpam([...letter].join(''), parts.spamAssassin)
        const about = { key: 0, id: String(campaign.id) }
        return verdict
          ? [{ ...about, judged: true, ...verdict, reason: null }]
          : [{ ...about, judged: false, score: null, required: null, rules: [], reason: unjudged(parts.spamAssassin) }]
      },
    },
  ],
})
