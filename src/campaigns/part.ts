// Campaigns and audiences as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import type { DeliveryGate } from '../parts/gate.ts'
import { campaigns, campaignSchedules, campaignStats, campaignTotals, type CampaignParts } from './api.ts'
import { campaignActivity } from './api-activity.ts'
import { campaignAudiences } from './api-addressing.ts'
import { audiences, contactImports, contacts } from './api-audiences.ts'
import { campaignLinks, spamVerdicts } from './api-checks.ts'
import { brands } from './api-brand.ts'
import { consents } from './api-consents.ts'
import { audienceFields } from './api-fields.ts'
import { audienceStatistics } from './api-figures.ts'
import { campaignForecasts } from './api-forecast.ts'
import { audienceReach, campaignReach, suppressedContacts } from './api-reach.ts'
import { segmentCounts, segments } from './api-segments.ts'
import { campaignTests } from './api-tests.ts'
import { forgetConsents } from './consents.ts'
import { forgetRefused } from './import-with-status.ts'
import { brakeFigure } from './brake.ts'
import { campaignPlaces } from './page.ts'
import { brandPlace } from './page-brand.ts'
import { consentPlaces } from './page-consents.ts'
import { contact } from './page-contacts.ts'
import { editorPlaces } from './page-editor.ts'
import { segmentPlaces } from './page-segments.ts'
import { forgetContacts, forgetSenders } from './forget.ts'
import { accountFindings } from './findings.ts'
import { forgetMatches } from './segments.ts'

export const campaignsPart = part<ApiDeps & CampaignParts & { gate: DeliveryGate }>('campaigns', {
  resources: [
    campaigns,
    campaignStats,
    audiences,
    contacts,
    contactImports,
    audienceStatistics,
    campaignTests,
    campaignAudiences,
    audienceFields,
    campaignLinks,
    spamVerdicts,
    campaignActivity,
    campaignSchedules,
    campaignTotals,
    campaignReach,
    campaignForecasts,
    audienceReach,
    brands,
    suppressedContacts,
    consents,
    segments,
    segmentCounts,
  ],
  pages: [...editorPlaces, ...campaignPlaces, ...consentPlaces, ...segmentPlaces, contact, brandPlace],
  accountFindings,
  figures: [brakeFigure],
  menu: [
    {
      group: 'Newsletters',
      rank: 1,
      path: '/campaigns',
      key: 'c',
      name: 'Campaigns',
      icon: 'campaigns',
      scope: 'campaigns',
    },
    {
      group: 'Setup',
      rank: 1.5,
      path: '/brand',
      key: 'b',
      name: 'Brand',
      icon: 'brand',
      scope: 'campaigns',
    },
  ],
  hourly: async ({ config, store }, now) => {
    await forgetRefused(store, now)
    await forgetConsents(store, config.signup, now)
    await forgetMatches(store)
  },
  forget: { first: forgetContacts, steps: [forgetSenders] },
})
