// The status of a sign-up form.
//
//   draft, paused, closed --open--> open      open --pause--> paused (by its owner, or automatically by a limit)
//   draft, open, paused --close--> closed (by its owner, or by a trigger when its audience, inbox or domain is deleted)
import { machine } from './machine.ts'

export const FORM_STATUSES = ['draft', 'open', 'paused', 'closed'] as const
export type FormStatus = (typeof FORM_STATUSES)[number]
export type FormMove = 'open' | 'pause' | 'limit' | 'close'

export const formMachine = machine<FormStatus, FormMove>('forms', [
  ['draft', 'open', 'open', 'owner'],
  ['paused', 'open', 'open', 'owner'],
  ['closed', 'open', 'open', 'owner'],
  ['open', 'pause', 'paused', 'owner'],
  // Too many sign-ups, bounces or refusals: somebody abuses the form.
  ['open', 'limit', 'paused', 'auto', 'form.paused'],
  ['draft', 'close', 'closed', 'owner'],
  ['open', 'close', 'closed', 'owner'],
  ['paused', 'close', 'closed', 'owner'],
])
