// Tests do not know how fast the machine is: they wait for facts (kit/until.ts), turn the clock by hand (kit/clock.ts)
// and count work instead of time (kit/cost.ts). Held by reading them. Benches measure, and interop tests wait for
// programs of others: both are apart.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const TESTS = fileURLToPath(new URL('../', import.meta.url))

/** Every place that sleeps, or looks how much time has passed. */
const ALLOWED: Record<string, string> = {
  'kit/until.ts setTimeout': 'it looks again after a moment',
  'kit/until.ts performance.now': 'what never comes is given up after minutes',
  'kit/ending.ts setTimeout': 'a file that does not end after its tests is given up',
  'commands/command.ts setTimeout': 'a command that does not end is given up after minutes',
  'commands/runners.ts setTimeout': 'the same',
  'smtp/dialogue.test.ts setInterval': 'a server that drips',
  'mail/attachments.test.ts setInterval': 'a server that drips',
  'webhooks/hostile.test.ts setInterval': 'a server that drips',
  'store/store.test.ts setInterval': 'a process that stays until it is killed',
  'cli/commands.test.ts difference to Date.now': 'months',
  'base/threads/worker.ts Atomics.wait': 'a job that waits without working',
  'hostile/hostile.test.ts setTimeout': 'how often memory is looked at beside the load',
  'hostile/hostile.test.ts performance.now': 'figures that are printed and decide nothing',
  'hostile/hostile.test.ts a test with a timeout': 'thousands of mails, where a variable asks for them',
  'reports/readers.test.ts setInterval': 'how often memory is looked at beside the work',
  'crash/ledger.ts setTimeout': 'a client beside the killed server asks again',
  'crash/lookups.test.ts performance.now': 'a stop that ends with the questions to DNS takes twice as long',
  'crash/mixed.test.ts setTimeout': 'the promises do not depend on when a server is killed',
  'crash/mixed.test.ts performance.now': 'figures that are printed and decide nothing',
  'faults/stage.ts setTimeout': 'a scenario that never ends is given up after minutes',
  'faults/stage.ts performance.now': 'a scenario that never ends is given up after minutes',
  'store/batches.test.ts setTimeout': 'the name of the timer that is turned by hand',
  'faults/stage.ts setInterval': 'the clock is turned while a stop waits for what cannot be written',
  'faults/sweep.ts performance.now': 'how long it may run, from a variable',
  'packaging/launcher.test.ts setInterval': 'a process that stays until it is signalled',
  'mutations/main.ts performance.now': 'how long it may run, from a variable',
}
const WATCHES: [RegExp, string?][] = [
  [/\b(?:setTimeout|setInterval|performance\.now|process\.hrtime|AbortSignal\.timeout|Atomics\.wait)\b/g],
  [/\bscheduler\.wait\b|\bmonitorEventLoopDelay\b|\bprocess\.uptime\b|'sleep'/g],
  [/\bDate\.now\(\)\s*(?:-\s*[a-z]|[<>])|[-<>]=?\s*Date\.now\(\)/g, 'difference to Date.now'],
  [/\btest\(\s*(?:'[^'\n]*'|`[^`]*`),\s*\{[^}]*\btimeout\b/g, 'a test with a timeout'],
]

test('no test sleeps, and none holds a watch', () => {
  const files = readdirSync(TESTS, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !/^(?:bench|interop|house)\//.test(file),
  )
  const found = files.flatMap((file) => {
    const code = readFileSync(join(TESTS, file), 'utf8').replace(/(^|[^:'"`\\])\/\/.*$/gm, '$1')
    return WATCHES.flatMap(([pattern, name]) => [...code.matchAll(pattern)].map(([word]) => `${file} ${name ?? word}`))
  })
  const seen = new Set(found)
  assert.ok(files.length > 100)
  assert.deepEqual(
    [...seen].filter((place) => !(place in ALLOWED)),
    [],
  )
  assert.deepEqual(
    Object.keys(ALLOWED).filter((place) => !seen.has(place)),
    [],
    'exceptions that nothing needs',
  )
})
