// What both pages of receivers need: the resource as they read it, its verdict, and how long mail takes, in words. The
// API knows the times by their ranges.
import { text, type Thing } from '../webui/visit.ts'
import type { receivers } from './api-receivers.ts'

export type ReceiverFound = Thing<typeof receivers>

/** Half of the mail took no longer. */
export const TYPICAL: Readonly<Record<string, string>> = {
  '5s': '< 5 s',
  '1m': '< 1 min',
  '10m': '< 10 min',
  '1h': '< 1 h',
  longer: '> 1 h',
}

/** The slowest 5 % took at least the lower end of the range that their fastest mail is in; the first range has none. */
export const SLOWEST: Readonly<Record<string, string>> = {
  '5s': '< 5 s',
  '1m': '> 5 s',
  '10m': '> 1 min',
  '1h': '> 10 min',
  longer: '> 1 h',
}

/** The verdict that is shown: an open alarm goes before that of the period. */
export const verdictOf = (receiver: ReceiverFound): string =>
  text(receiver, 'alarm') === '' ? text(receiver, 'verdict') : 'alarm'
