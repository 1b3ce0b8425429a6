// The schema, as a list of migrations in order. A released migration is never changed. New ones are added at the end.
// `pragma user_version` holds the number of migrations that have run.
//
// Every table has `key`, an integer for joins. It is autoincrement if the key of a deleted row may still be in use, in
// a return path or in a current delivery. Most tables have `id`, the public UUIDv7. Times are integer milliseconds
// since the epoch. Every row that the API lists has `user_key`, its owner.
import { foundation } from './migrations/0001-foundation.ts'
import { webhooks } from './migrations/0002-webhooks.ts'
import { inbound } from './migrations/0003-inbound.ts'
import { campaigns } from './migrations/0004-campaigns.ts'
import { agents } from './migrations/0005-agents.ts'
import { promises } from './migrations/0006-promises.ts'
import { unsubscribeLink } from './migrations/0007-unsubscribe-link.ts'
import { notices } from './migrations/0008-notices.ts'
import { oauthAllowed } from './migrations/0009-oauth-allowed.ts'
import { space } from './migrations/0010-space.ts'
import { submission } from './migrations/0011-submission.ts'
import { frontDoor } from './migrations/0012-front-door.ts'
import { console_ } from './migrations/0013-console.ts'
import { digests } from './migrations/0014-digests.ts'
import { lanes } from './migrations/0015-lanes.ts'
import { oauthDocuments } from './migrations/0016-oauth-documents.ts'
import { toldOfMail } from './migrations/0017-told-of-mail.ts'
import { heldMail } from './migrations/0018-held-mail.ts'
import { words } from './migrations/0019-words.ts'
import { version03 } from './migrations/0020-version-0-3.ts'
import { warmup } from './migrations/0028-warmup.ts'
import { reports } from './migrations/0030-reports.ts'
import { receiverAlarms } from './migrations/0031-receiver-alarms.ts'
import { watches } from './migrations/0032-watches.ts'
import { consents } from './migrations/0033-consents.ts'
import { forms } from './migrations/0036-forms.ts'
import { recipients } from './migrations/0034-recipients.ts'
import { segments } from './migrations/0035-segments.ts'

export const migrations: readonly string[] = [
  foundation,
  webhooks,
  inbound,
  campaigns,
  agents,
  promises,
  unsubscribeLink,
  notices,
  oauthAllowed,
  space,
  submission,
  frontDoor,
  console_,
  digests,
  lanes,
  oauthDocuments,
  toldOfMail,
  heldMail,
  words,
  version03,
  warmup,
  reports,
  receiverAlarms,
  watches,
  consents,
  recipients,
  segments,
  forms,
]
