// Tests do not depend on the speed of the machine: they wait for conditions (kit/until.ts), set the clock
// (kit/clock.ts) and count work instead of time (kit/cost.ts). Checked by reading them, except benches, which measure,
// and interop tests, which wait for other programs.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const TESTS = fileURLToPath(new URL('../', import.meta.url))

/** Files that sleep or measure time, with the reason. */
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
  'hostile/report-content.test.ts setInterval': 'how often memory is looked at beside the work',
  'crash/ledger.ts setTimeout': 'a client beside the killed server asks again',
  'crash/ledger.ts AbortSignal.timeout': 'a server that is gone without a word never answers',
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

test('no test sleeps or measures time', () => {
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
