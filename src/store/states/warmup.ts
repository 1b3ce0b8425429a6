// The warm-up of a sending IP address at a receiver. The verdict of a day or an operator changes it.
//
//   warming --hold--> holding --good--> warming --graduate (past the last step)--> warm
//   any of them --bad--> reduced --good--> warming
//   any --fix--> manual, any --skip--> unlimited, both --release--> warming
//   any --restart--> warming
import { machine } from './machine.ts'

export const WARMUP_STATES = ['warming', 'holding', 'reduced', 'warm', 'manual', 'unlimited'] as const
export type WarmupState = (typeof WARMUP_STATES)[number]
export type WarmupMove = 'good' | 'graduate' | 'hold' | 'bad' | 'fix' | 'skip' | 'release' | 'restart'

export const warmupMachine = machine<WarmupState, WarmupMove>('warmups', [
  ['warming', 'good', 'warming', 'auto'],
  ['holding', 'good', 'warming', 'auto'],
  ['reduced', 'good', 'warming', 'auto'],
  ['warming', 'graduate', 'warm', 'auto'],
  ['warming', 'hold', 'holding', 'auto'],
  ['warming', 'bad', 'reduced', 'auto'],
  ['holding', 'bad', 'reduced', 'auto'],
  ['reduced', 'bad', 'reduced', 'auto'],
  ['warm', 'bad', 'reduced', 'auto'],
  ...WARMUP_STATES.flatMap((from) => [
    [from, 'fix', 'manual', 'operator'] as const,
    [from, 'skip', 'unlimited', 'operator'] as const,
    [from, 'restart', 'warming', 'operator'] as const,
  ]),
  ['manual', 'release', 'warming', 'operator'],
  ['unlimited', 'release', 'warming', 'operator'],
])
