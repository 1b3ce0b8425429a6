// The n-th call fails, for every n: of SQLite, files, sockets and threads, once or until it is repaired. The process is
// also killed, or the power cut, before every call. Then everything is repaired, and all accepted work must be done
// once, without a restart and with one (the ways of failing are in plan.ts, the requirements in demands.ts).
//
// This is a sample. `npm run test:faults` runs every n. POSTRIDER_FAULTS_SEED draws another sample,
// POSTRIDER_FAULTS_SAMPLE a larger one.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, test, type TestContext } from 'node:test'
import type { Asked, Finding, Result } from './sweep.ts'

const EVERY = process.env['POSTRIDER_FAULTS'] === 'every'
/** The most points of one way in one scenario. Another seed tests other points. */
const MOST = Number(process.env['POSTRIDER_FAULTS_MOST'] ?? 60)
const SEED = Number(process.env['POSTRIDER_FAULTS_SEED'] ?? 1)
/** The number of ways of each scenario in the sample, and of its kills. */
const SAMPLE = Number(process.env['POSTRIDER_FAULTS_SAMPLE'] ?? 1)
const SWEEP = fileURLToPath(new URL('sweep.ts', import.meta.url))

/** In a separate process: an uncaught error there is a finding, and does not end this one. */
async function sweep(asked: Asked): Promise<Result> {
  const child = spawn(process.execPath, [SWEEP, JSON.stringify(asked)], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  let errors = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (output += chunk))
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (errors += chunk))
  const code = await new Promise((resolve) => child.once('close', resolve))
  const last = output.trim().split('\n').at(-1) ?? ''
  if (code !== 0 || last === '') throw new Error(`the sweep ended with ${String(code)}: ${errors.slice(-3000)}`)
  return JSON.parse(last) as Result
}

const shown = ({ call, logged, n, scenario, way, what }: Finding): string =>
  `${scenario}, ${way}, n = ${n} (${call}):\n    ${[...what, ...logged.map((line) => `log: ${line}`)].join('\n    ')}`

function judge(t: TestContext, { findings, points, runs }: Result): void {
  t.diagnostic(`${runs} runs, ${points} fault points`)
  assert.ok(runs > 0)
  assert.equal(findings.length, 0, findings.map(shown).join('\n'))
}

/** The scenarios, in groups that take about as long. */
const GROUPS = [
  ['post', 'post large', 'batch'],
  ['refused', 'told'],
  ['receive', 'receive large'],
  ['returned', 'campaign', 'aggregate'],
  ['forget', 'export'],
  ['start', 'stop'],
  ['backup', 'restore', 'backup is on the disk', 'restore is on the disk'],
]

describe('accepted work is done exactly once after any failed system call', { concurrency: EVERY ? 2 : 1 }, () => {
  if (EVERY)
    for (const scenarios of GROUPS)
      test(scenarios.join(', '), async (t) => judge(t, await sweep({ scenarios, every: true, most: MOST, seed: SEED })))
  else test('a sample of every scenario', async (t) => judge(t, await sweep({ sample: SAMPLE, seed: SEED })))
})
