// A pool under jobs that take long, die, or wait: none of them harms another. Times are CPU times of threads, so that a
// busy machine changes nothing.
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

test('a job that takes more CPU time than it may ends alone; those of its thread are done elsewhere', async () => {
  const pool = hire({ size: 1 })
  const long = pool.run([{ burn: 60_000 }], { cpu: 1000 })
  const others = Array.from({ length: 10 }, () => pool.run(['thread']))
  const over: string[] = []
  const note = (what: string) => () => void over.push(what)
  await Promise.all([assert.rejects(long, TookTooLong).then(note('long')), Promise.all(others).then(note('others'))])
  assert.deepEqual(over, ['others', 'long'], 'nobody waits until it is ended')
})

test('time that passes without work costs nothing: a busy machine ends no job', async () => {
  assert.equal(await hire({ size: 1 }).run([{ rest: 1500 }], { cpu: 500 }), undefined)
})

test('a job that takes long, but not longer than it may, is done in the end, as are many of them', async () => {
  const pool = hire({ size: 2 })
  const long = Array.from({ length: 4 }, () => pool.run([{ burn: 600 }, 'thread'], { cpu: 10_000 }))
  assert.equal((await Promise.all(long)).filter((thread) => typeof thread === 'number').length, 4)
})

test('what is CPU time of one job is none of another that waits for an answer meanwhile', async () => {
  const answers: (() => void)[] = []
  const pool = hire({ size: 1, answer: () => new Promise<string>((resolve) => answers.push(() => resolve('x'))) })
  const waiting = pool.run([{ ask: 'x' }, { burn: 10 }], { cpu: 200 })
  for (let n = 0; n < 5; n++) await pool.run([{ burn: 100 }], { cpu: 200 })
  answers[0]!()
  await waiting
})

test('an answer that comes when its job is done keeps no thread', async () => {
  const answers: (() => void)[] = []
  const pool = hire({ size: 1, answer: () => new Promise<string>((resolve) => answers.push(() => resolve('x'))) })
  await pool.run([{ wonder: 'a' }, { wonder: 'b' }])
  const asking = pool.run([{ ask: 'c' }])
  while (answers.length < 3) await new Promise(setImmediate)
  for (const answer of answers) answer()
  assert.equal(await asking, 'x')
  assert.equal(typeof (await pool.run(['thread'])), 'number')
})

test('a job that kills its worker is tried once more, then lost; the others are done', async () => {
  const pool = hire({ size: 1, answer: () => Promise.resolve('answer') })
  const innocent = Array.from({ length: 5 }, () => pool.run([{ ask: 'x' }]))
  await assert.rejects(pool.run(['die']), WorkerLost)
  assert.deepEqual(await Promise.all(innocent), ['answer', 'answer', 'answer', 'answer', 'answer'])
  assert.equal(typeof (await pool.run(['thread'])), 'number')
})

test('a job that hoards memory is lost alone', async () => {
  const pool = hire({ size: 1, heapMb: 32 })
  const lost = pool.run(['hoard'])
  const kept = pool.run(['thread'])
  await assert.rejects(lost, (thrown) => thrown instanceof WorkerLost && !(thrown instanceof NoWorker))
  assert.equal(typeof (await kept), 'number')
})

test('where no worker starts, no job was begun', async () => {
  const pool = hire({ size: 1 }, new URL('no-such-worker.ts', import.meta.url))
  await assert.rejects(pool.run(['thread']), NoWorker)
  const closed = hire({ size: 1 })
  await closed.close()
  await assert.rejects(closed.run(['thread']), NoWorker)
})

test('what a job reports comes with its code', async () => {
  const failed = (thrown: unknown): boolean =>
    thrown instanceof JobFailed && thrown.message === 'no more' && thrown.code === 'EMFILE'
  await assert.rejects(hire({ size: 1 }).run([{ throw: 'no more', code: 'EMFILE' }]), failed)
})

test('who has no room for what takes long puts it back', async () => {
  const pool = hire({ size: 1 })
  await assert.rejects(pool.run([{ burn: 60_000 }], { cpu: 60_000, outlasts: () => false }), PutBack)
  await assert.rejects(pool.run(['thread'], { slow: true, outlasts: () => false }), PutBack)
})

test('a job that belongs to the slow lane keeps none of the others', async () => {
  const pool = hire({ size: 1 })
  const slow = pool.run([{ burn: 500 }], { cpu: 10_000, slow: true })
  const first = await Promise.race([slow.then(() => 'slow'), pool.run(['thread']).then(() => 'brief')])
  assert.equal(first, 'brief')
  await slow
})

test('an answer that several jobs wait for comes while one of them has its turn', async () => {
  const answers: (() => void)[] = []
  const pool = hire({ size: 1, answer: () => new Promise<string>((resolve) => answers.push(() => resolve('key'))) })
  const jobs = Array.from({ length: 5 }, () => pool.run([{ share: 'key' }]))
  while (answers.length === 0) await new Promise(setImmediate)
  answers[0]!()
  assert.deepEqual(await Promise.all(jobs), Array<string>(5).fill('key'))
})

test('two answers that come during the turn of another job both reach the job that asked', async () => {
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

test('a job that holds its turn and waits for nothing keeps none of its thread', async () => {
  const pool = hire({ size: 1 })
  const standing = pool.run(['stand'], { cpu: 600_000 })
  const closed = assert.rejects(standing, NoWorker)
  await Promise.all(Array.from({ length: 10 }, () => pool.run(['thread'])))
  await pool.close()
  await closed
})

test('such a job is ended', async () => {
  await assert.rejects(hire({ size: 1 }).run(['stand'], { cpu: 100 }), TookTooLong)
})
