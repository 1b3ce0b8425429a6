// A sending domain's life (specification "Sending domain", D20, D21, D23).
//
//   pending --seen--> verifying --resolved--> active --missing--> verifying
//                         |  ^                  |
//                         |  '---- prefix ------'      rotate: any -> verifying
//                         '--lapsed--> failed --seen--> verifying
//
// `teardown` is written before anything is removed: if a later step fails, the domain stays suspended and cannot send.
import { machine } from './machine.ts'

export const DOMAIN_STATUSES = ['pending', 'verifying', 'active', 'suspended', 'failed'] as const
export type DomainStatus = (typeof DOMAIN_STATUSES)[number]
export type DomainMove = 'seen' | 'resolved' | 'lapsed' | 'missing' | 'prefix' | 'rotate' | 'teardown' | 'resume'

export const domainMachine = machine<DomainStatus, DomainMove>('domains', [
  ['pending', 'seen', 'verifying', 'auto'],
  ['verifying', 'resolved', 'active', 'auto', 'domain.verified'],
  ['verifying', 'lapsed', 'failed', 'auto', 'domain.verification_failed'],
  ['active', 'prefix', 'verifying', 'owner'],
  ['pending', 'rotate', 'verifying', 'owner'],
  ['verifying', 'rotate', 'verifying', 'owner'],
  ['active', 'rotate', 'verifying', 'owner'],
  ['suspended', 'rotate', 'verifying', 'owner'],
  ['failed', 'rotate', 'verifying', 'owner'],
  ['pending', 'teardown', 'suspended', 'owner'],
  ['verifying', 'teardown', 'suspended', 'owner'],
  ['active', 'teardown', 'suspended', 'owner'],
  ['failed', 'teardown', 'suspended', 'owner'],
  // These moves are from D20, not from the specification.
  ['suspended', 'teardown', 'suspended', 'owner'],
  ['active', 'missing', 'verifying', 'auto'],
  ['failed', 'seen', 'verifying', 'auto'],
  ['failed', 'prefix', 'verifying', 'owner'],
  ['suspended', 'resume', 'verifying', 'operator'],
])
