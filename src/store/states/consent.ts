// The state of a consent: how an address came into an audience, or why it did not. A withdrawal is not a state of its
// own: it is the time in `ended_at`, which the subscriber can undo. If a contact is removed, a trigger expires its
// request.
//
//   requested --confirm--> confirmed      requested --refuse--> refused
//   requested --expire--> expired         requested --bounce--> bounced
//   single, expired --refuse--> refused   any --erase--> erased
import { machine } from './machine.ts'

export const CONSENT_STATES = [
  'requested',
  'confirmed',
  'single',
  'asserted',
  'imported',
  'refused',
  'expired',
  'bounced',
  'erased',
] as const
export type ConsentState = (typeof CONSENT_STATES)[number]
export type ConsentMove = 'confirm' | 'refuse' | 'expire' | 'bounce' | 'erase'

export const consentMachine = machine<ConsentState, ConsentMove>('consents', [
  ['requested', 'confirm', 'confirmed', 'auto'],
  ['requested', 'refuse', 'refused', 'auto'],
  ['requested', 'expire', 'expired', 'auto'],
  ['requested', 'bounce', 'bounced', 'auto'],
  // Both buttons of a link pressed within minutes are the work of a scanner.
  ['confirmed', 'refuse', 'refused', 'auto'],
  // A link says "this was not me" even after it has expired.
  ['expired', 'refuse', 'refused', 'auto'],
  // A confirmation after that counts.
  ['refused', 'confirm', 'confirmed', 'auto'],
  ['single', 'refuse', 'refused', 'auto'],
  ...CONSENT_STATES.filter((state) => state !== 'erased').map((state) => [state, 'erase', 'erased', 'auto'] as const),
])
