// Shared by both receiver pages: the resource as they read it, its verdict, and delivery times as text.
import { HOUR, SECOND } from '../base/clock.ts'
import { span } from '../base/text.ts'
import { text, type Thing } from '../views/html/visit.ts'
import type { receivers } from './api-receivers.ts'

export type ReceiverFound = Thing<typeof receivers>

/** The services that users know a provider by. */
const SERVICES: Readonly<Record<string, string>> = {
  Google: 'Gmail',
  'Microsoft consumer': 'Outlook.com, Hotmail',
  'Microsoft 365': 'Exchange Online',
  Yahoo: 'Yahoo Mail, AOL',
  Apple: 'iCloud Mail',
}
export const serviceOf = (receiver: ReceiverFound): string => SERVICES[text(receiver, 'name')] ?? ''

/** The longest time that is estimated. */
const LONGEST = 3 * HOUR

/** An estimated delivery time: "~40 s". */
export function estimateOf(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return '–'
  const ms = seconds * SECOND
  return ms >= LONGEST ? `> ${span(LONGEST)}` : `~${span(Math.max(ms, SECOND))}`
}

/** The verdict to display: an open alarm, or that of the period. */
export const verdictOf = (receiver: ReceiverFound): string =>
  text(receiver, 'alarm') === '' ? text(receiver, 'verdict') : 'alarm'
