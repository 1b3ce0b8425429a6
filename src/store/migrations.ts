// The schema, as a list of migrations in order, shipped inside the program. A released migration is never changed; new
// ones are added at the end. `pragma user_version` holds how many have run.
//
// Every table has `key`, an integer for joins that never leaves the store. It is autoincrement where something may
// still name the key of a deleted row: a return path, a delivery under way. Most tables have `id`, the public UUIDv7.
// Times are integer milliseconds since the epoch. Every row that the API lists has `user_key`, its owner.
import { agents } from './schema-agents.ts'
import { campaigns } from './schema-campaigns.ts'
import { console_ } from './schema-console.ts'
import { digests } from './schema-digests.ts'
import { foundation } from './schema-foundation.ts'
import { frontDoor } from './schema-front-door.ts'
import { inbound } from './schema-inbound.ts'
import { lanes } from './schema-lanes.ts'
import { notices } from './schema-notices.ts'
import { oauthAllowed } from './schema-oauth-allowed.ts'
import { oauthDocuments } from './schema-oauth-documents.ts'
import { promises } from './schema-promises.ts'
import { space } from './schema-space.ts'
import { submission } from './schema-submission.ts'
import { unsubscribeLink } from './schema-unsubscribe-link.ts'
import { webhooks } from './schema-webhooks.ts'

export const migrations: readonly { name: string; sql: string }[] = [
  { name: 'foundation', sql: foundation },
  { name: 'webhooks', sql: webhooks },
  { name: 'inbound', sql: inbound },
  { name: 'campaigns', sql: campaigns },
  { name: 'agents', sql: agents },
  { name: 'promises', sql: promises },
  { name: 'unsubscribe-link', sql: unsubscribeLink },
  { name: 'notices', sql: notices },
  { name: 'oauth-allowed', sql: oauthAllowed },
  { name: 'space', sql: space },
  { name: 'submission', sql: submission },
  { name: 'front-door', sql: frontDoor },
  { name: 'console', sql: console_ },
  { name: 'digests', sql: digests },
  { name: 'lanes', sql: lanes },
  { name: 'oauth-documents', sql: oauthDocuments },
]
