// A pool with jobs that take long, die or wait, and do not affect each other. Times are CPU times of threads, so that a
// busy machine makes no difference.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import {
  JobFailed,
  NoWorker,
  Pool,
  PutBack,
  TookTooLong,
  WorkerLost,
  type PoolOptions,
} from '../../../src/base/threads/pool.ts'
import type { Deed } from './worker.ts'

const pools: Pool<Deed[], unknown>[] = []
after(() => Promise.all(pools.map((pool) => pool.close())))

function hire(options: PoolOptions, source = new URL('worker.ts', import.meta.url)): Pool<Deed[], unknown> {
  const pool = new Pool<Deed[], unknown>(source, options)
  pools.push(pool)
  return pool
}

test('a job that exceeds its CPU time fails alone, and the other jobs of its thread run on another', async () => {
  const pool = hire({ size: 1 })
  const long = pool.run([{ burn: 60_000 }], { cpu: 1000 })
  const others = Array.from({ length: 10 }, () => pool.run(['thread']))
  const over: string[] = []
  const note = (what: string) => () => void over.push(what)
  await Promise.all([assert.rejects(long, TookTooLong).then(note('long')), Promise.all(others).then(note('others'))])
  assert.deepEqual(over, ['others', 'long'], 'nobody waits until it is ended')
})

test('waiting on a busy machine does not count as CPU time', async () => {
  assert.equal(await hire({ size: 1 }).run([{ rest: 1500 }], { cpu: 500 }), undefined)
})

test('completes many long jobs that stay within their CPU time', async () => {
  const pool = hire({ size: 2 })
  const long = Array.from({ length: 4 }, () => pool.run([{ burn: 600 }, 'thread'], { cpu: 10_000 }))
  assert.equal((await Promise.all(long)).filter((thread) => typeof thread === 'number').length, 4)
})

test('the CPU time of one job does not count for another that waits for an answer', async () => {
  const answers: (() => void)[] = []
  const pool = hire({ size: 1, answer: () => new Promise<string>((resolve) => answers.push(() => resolve('x'))) })
  const waiting = pool.run([{ ask: 'x' }, { burn: 10 }], { cpu: 200 })
  for (let n = 0; n < 5; n++) await pool.run([{ burn: 100 }], { cpu: 200 })
  answers[0]!()
  await waiting
})

test('an answer after the end of its job keeps no thread busy', async () => {
  const answers: (() => void)[] = []
  const pool = hire({ size: 1, answer: () => new Promise<string>((resolve) => answers.push(() => resolve('x'))) })
  await pool.run([{ wonder: 'a' }, { wonder: 'b' }])
  const asking = pool.run([{ ask: 'c' }])
  while (answers.length < 3) await new Promise(setImmediate)
  for (const answer of answers) answer()
  assert.equal(await asking, 'x')
  assert.equal(typeof (await pool.run(['thread'])), 'number')
})

test('retries a job that kills its worker once before it fails, and completes the others', async () => {
  const pool = hire({ size: 1, answer: () => Promise.resolve('answer') })
  const innocent = Array.from({ length: 5 }, () => pool.run([{ ask: 'x' }]))
  await assert.rejects(pool.run(['die']), WorkerLost)
  assert.deepEqual(await Promise.all(innocent), ['answer', 'answer', 'answer', 'answer', 'answer'])
  assert.equal(typeof (await pool.run(['thread'])), 'number')
})

test('a job that uses too much memory fails alone', async () => {
  const pool = hire({ size: 1, heapMb: 32 })
  const lost = pool.run(['hoard'])
  const kept = pool.run(['thread'])
  await assert.rejects(lost, (thrown) => thrown instanceof WorkerLost && !(thrown instanceof NoWorker))
  assert.equal(typeof (await kept), 'number')
})

test('rejects jobs if no worker can start', async () => {
  const pool = hire({ size: 1 }, new URL('no-such-worker.ts', import.meta.url))
  await assert.rejects(pool.run(['thread']), NoWorker)
  const closed = hire({ size: 1 })
  await closed.close()
  await assert.rejects(closed.run(['thread']), NoWorker)
})

test('an error of a job keeps its code', async () => {
  const failed = (thrown: unknown): boolean =>
    thrown instanceof JobFailed && thrown.message === 'no more' && thrown.code === 'EMFILE'
  await assert.rejects(hire({ size: 1 }).run([{ throw: 'no more', code: 'EMFILE' }]), failed)
})

test('rejects a long job with PutBack if the caller has no capacity for it', async () => {
  const pool = hire({ size: 1 })
  await assert.rejects(pool.run([{ burn: 60_000 }], { cpu: 60_000, outlasts: () => false }), PutBack)
  await assert.rejects(pool.run(['thread'], { slow: true, outlasts: () => false }), PutBack)
})

test('a job in the slow lane does not delay the others', async () => {
  const pool = hire({ size: 1 })
  const slow = pool.run([{ burn: 500 }], { cpu: 10_000, slow: true })
  const first = await Promise.race([slow.then(() => 'slow'), pool.run(['thread']).then(() => 'brief')])
  assert.equal(first, 'brief')
  await slow
})

test('an answer for several jobs arrives while one of them has its turn', async () => {
  const answers: (() => void)[] = []
  const pool = hire({ size: 1, answer: () => new Promise<string>((resolve) => answers.push(() => resolve('key'))) })
  const jobs = Array.from({ length: 5 }, () => pool.run([{ share: 'key' }]))
  while (answers.length === 0) await new Promise(setImmediate)
  answers[0]!()
  assert.deepEqual(await Promise.all(jobs), Array<string>(5).fill('key'))
})

test('two answers during the turn of another job both reach the job that asked', async () => {
  const answers = new Map<unknown, () => void>()
  const answer = (ask: unknown) => new Promise((resolve) => answers.set(ask, () => resolve(`${String(ask)}!`)))
  const pool = hire({ size: 1, answer })
  const asking = pool.run([{ askAll: ['a', 'b'] }])
  while (answers.size < 2) await new Promise(setImmediate)
  const other = pool.run([{ share: 'key' }])
  while (answers.size < 3) await new Promise(setImmediate)
  for (const each of ['a', 'b', 'key']) answers.get(each)!()
  assert.deepEqual(await Promise.all([asking, other]), [['a!', 'b!'], 'key!'])
})

test('a job that blocks its turn does not block the other jobs of its thread', async () => {
  const pool = hire({ size: 1 })
  const standing = pool.run(['stand'], { cpu: 600_000 })
  const closed = assert.rejects(standing, NoWorker)
  await Promise.all(Array.from({ length: 10 }, () => pool.run(['thread'])))
  await pool.close()
  await closed
})

test('stops a job that blocks its turn', async () => {
  await assert.rejects(hire({ size: 1 }).run(['stand'], { cpu: 100 }), TookTooLong)
})
