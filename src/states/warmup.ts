// The warm-up of a pair of source address and receiver (DV1 to DV5). A day's verdict moves it, or an operator.
//
//   warming --hold--> holding --good--> warming --graduate (past the last step)--> warm
//   any of them --bad--> back --good--> warming; warm --quiet (weeks without mail)--> warming
//   any --fix--> fixed, any --skip--> skipped, both --release--> warming; any --restart--> warming
import { machine } from './machine.ts'

export const WARMUP_STATES = ['warming', 'holding', 'back', 'warm', 'fixed', 'skipped'] as const
export type WarmupState = (typeof WARMUP_STATES)[number]
export type WarmupMove = 'good' | 'graduate' | 'hold' | 'bad' | 'quiet' | 'fix' | 'skip' | 'release' | 'restart'

export const warmupMachine = machine<WarmupState, WarmupMove>('warmups', [
  ['warming', 'good', 'warming', 'auto'],
  ['holding', 'good', 'warming', 'auto'],
  ['back', 'good', 'warming', 'auto'],
  ['warming', 'graduate', 'warm', 'auto'],
  ['warming', 'hold', 'holding', 'auto'],
  ['warming', 'bad', 'back', 'auto'],
  ['holding', 'bad', 'back', 'auto'],
  ['back', 'bad', 'back', 'auto'],
  ['warm', 'bad', 'back', 'auto'],
  ['warm', 'quiet', 'warming', 'auto'],
  ...WARMUP_STATES.flatMap((from) => [
    [from, 'fix', 'fixed', 'operator'] as const,
    [from, 'skip', 'skipped', 'operator'] as const,
    [from, 'restart', 'warming', 'operator'] as const,
  ]),
  ['fixed', 'release', 'warming', 'operator'],
  ['skipped', 'release', 'warming', 'operator'],
])
