// The status of one check: an IP address or domain on a blocklist, or the reverse DNS of an IP address.
// It changes after two equal answers (D160).
//
//   unknown, clear --list--> listed      unknown, clear --fault--> wrong
//   unknown, listed, wrong --clear--> clear      clear, listed, wrong --lose--> unknown
import { machine } from './machine.ts'

export const WATCH_STATUSES = ['clear', 'listed', 'wrong', 'unknown'] as const
export type WatchStatus = (typeof WATCH_STATUSES)[number]
export type WatchMove = 'list' | 'fault' | 'clear' | 'lose'

export const watchMachine = machine<WatchStatus, WatchMove>('watches', [
  ['unknown', 'list', 'listed', 'auto'],
  ['clear', 'list', 'listed', 'auto'],
  ['unknown', 'fault', 'wrong', 'auto'],
  ['clear', 'fault', 'wrong', 'auto'],
  ['unknown', 'clear', 'clear', 'auto'],
  ['listed', 'clear', 'clear', 'auto'],
  ['wrong', 'clear', 'clear', 'auto'],
  // The lookup gave no reliable answer, or the check no longer applies.
  ['clear', 'lose', 'unknown', 'auto'],
  ['listed', 'lose', 'unknown', 'auto'],
  ['wrong', 'lose', 'unknown', 'auto'],
])
