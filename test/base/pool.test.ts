import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Pool, TookTooLong } from '../../src/base/pool.ts'

/** A worker that needs 500 ms to load and answers a job after as many ms as it says. */
const source = new URL(
  `data:text/javascript,${encodeURIComponent(`
    import { parentPort } from 'node:worker_threads'
    const rest = (time) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, time)
    rest(500)
    parentPort.on('message', ({ jobs }) => {
      for (const { id, job } of jobs) {
        rest(job)
        parentPort.postMessage([{ id, value: job }])
      }
    })
    parentPort.postMessage({ ready: true })
  `)}`,
)
const pool = new Pool<number, number>(source, { size: 1 })
after(() => pool.close())

test('the time that a worker needs to load is not held against its first job', async () => {
  assert.equal(await pool.run(0, 400), 0)
})

test('a job that takes longer than it may is ended, and the next one gets a new worker', async () => {
  await assert.rejects(pool.run(60_000, 100), TookTooLong)
  assert.equal(await pool.run(0, 400), 0)
})

test('a job that waits for its worker to load is ended as well when it takes too long afterwards', async () => {
  await assert.rejects(pool.run(60_000, 100), TookTooLong)
  await assert.rejects(pool.run(60_000, 100), TookTooLong)
})
