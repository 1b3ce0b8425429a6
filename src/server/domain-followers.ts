// The rows of other subjects that change when a domain is registered or removed, in the same transaction.
import type { DomainFollowers } from '../domains/lifecycle.ts'
import { closeInboxes } from '../inbound/inboxes.ts'
import { inheritSuppressions } from '../suppressions/suppressions.ts'

export const DOMAIN_FOLLOWERS: DomainFollowers = { registered: inheritSuppressions, removed: closeInboxes }
