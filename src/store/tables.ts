// The tables as Kysely types, and the folder that owns each: only that folder inserts, updates and deletes its rows (a
// test checks it; store/move.ts and store/events.ts are listed exceptions). Times are ms, booleans 0 or 1. A test
// compares every type with the columns that the migrations make.
import type { Insertable, Selectable } from 'kysely'
import type { AccountsTables } from './tables/accounts.ts'
import type { CampaignsTables } from './tables/campaigns.ts'
import type { DomainsTables } from './tables/domains.ts'
import type { InboundTables } from './tables/inbound.ts'
import type { IdentityTables } from './tables/identity.ts'
import type { MailTables } from './tables/mail.ts'
import type { DeliveryTables } from './tables/delivery.ts'
import type { SuppressionsTables } from './tables/suppressions.ts'
import type { ReputationTables } from './tables/reputation.ts'
import type { PrivacyTables } from './tables/privacy.ts'
import type { StoreTables } from './tables/store.ts'
import type { WebhooksTables } from './tables/webhooks.ts'

export interface Tables
  extends
    AccountsTables,
    DomainsTables,
    IdentityTables,
    MailTables,
    DeliveryTables,
    SuppressionsTables,
    ReputationTables,
    StoreTables,
    WebhooksTables,
    CampaignsTables,
    PrivacyTables,
    InboundTables {}

export type TableName = keyof Tables
export type RowOf<T extends TableName> = Selectable<Tables[T]>
export type NewRow<T extends TableName> = Insertable<Tables[T]>

/** The one folder of src/ that writes each table. */
export const OWNERS: Record<TableName, string> = {
  users: 'identity',
  tokens: 'identity',
  token_days: 'identity',
  notices: 'accounts',
  usage: 'accounts',
  oauth_allowed: 'identity',
  oauth_clients: 'identity',
  oauth_grants: 'identity',
  oauth_tokens: 'identity',
  sessions: 'identity',
  sign_in_links: 'identity',
  passkeys: 'identity',
  domains: 'domains',
  dkim_keys: 'domains',
  records: 'domains',
  outbound_emails: 'mail',
  outbound_bodies: 'mail',
  deliveries: 'delivery',
  suppressions: 'suppressions',
  soft_bounces: 'suppressions',
  sts_policies: 'delivery',
  tallies: 'reputation',
  agents: 'reputation',
  domain_reputations: 'reputation',
  attempts: 'delivery',
  lane_holds: 'delivery',
  learned_lanes: 'delivery',
  receiver_tallies: 'reputation',
  refusals: 'reputation',
  digests: 'store',
  events: 'store',
  event_sums: 'store',
  webhooks: 'webhooks',
  outbound_webhooks: 'webhooks',
  webhook_attempts: 'webhooks',
  event_cursors: 'webhooks',
  audiences: 'campaigns',
  contacts: 'campaigns',
  campaigns: 'campaigns',
  privacy_requests: 'privacy',
  inboxes: 'inbound',
  inbound_messages: 'inbound',
  inbound_emails: 'inbound',
  inbound_bodies: 'inbound',
}
