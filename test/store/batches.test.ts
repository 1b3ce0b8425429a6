// Which writes share a commit, and that they resolve only after it (store/commits.ts). Patient writes go after urgent
// ones, but not forever, and all writes are committed at the end.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import Database from 'better-sqlite3'
import { Batches } from '../../src/store/commits.ts'
import type { Store } from '../../src/store/database.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { meter } from '../kit/cost.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { until } from '../kit/until.ts'

/** Longer than any test takes. */
const NEVER = 1_000_000

describe('batches', () => {
  const commits: string[][] = []
  const batches = (most = Infinity): Batches<string> => {
    commits.length = 0
    return new Batches<string>((jobs) => {
      const taken = Math.min(jobs.length, most)
      commits.push(jobs.slice(0, taken))
      return taken
    })
  }

  test('writes of one turn share a commit, in their order', async () => {
    const queue = batches()
    for (const job of ['a', 'b', 'c']) queue.add(job)
    assert.deepEqual(commits, [], 'not at once')
    await until(() => commits.length > 0)
    assert.deepEqual(commits, [['a', 'b', 'c']])
  })

  test('patient writes join the commit of urgent ones, after them', async () => {
    const queue = batches()
    queue.addSoon('late', NEVER)
    queue.add('now')
    queue.addSoon('later', NEVER)
    await until(() => commits.length > 0)
    assert.deepEqual(commits, [['now', 'late', 'later']])
  })

  test('patient writes get their own commit after the shortest patience', async () => {
    const queue = batches()
    queue.addSoon('a', NEVER)
    queue.addSoon('b', 5)
    await until(() => commits.length > 0)
    assert.deepEqual(commits.flat().toSorted(), ['a', 'b'])
  })

  test('many patient writes do not wait longer', async () => {
    const queue = batches()
    for (let n = 0; n < 300; n++) queue.addSoon(String(n), NEVER)
    await until(() => commits.length > 0)
    assert.deepEqual(
      commits.flat(),
      Array.from({ length: 300 }, (_, n) => String(n)),
    )
  })

  test('writes that did not fit in a commit are first in the next', async () => {
    const queue = batches(2)
    for (const job of ['a', 'b', 'c']) queue.add(job)
    queue.addSoon('p', NEVER)
    queue.addSoon('q', NEVER)
    await until(() => commits.flat().length >= 5)
    assert.deepEqual(commits, [['a', 'b'], ['c', 'p'], ['q']])
  })

  test('a patient write is not starved by endless urgent ones', async () => {
    const queue = batches(1)
    queue.addSoon('patient', 10)
    let n = 0
    // Always more urgent ones than a commit takes.
    const add = (): void => {
      queue.add(`urgent ${n++}`)
      queue.add(`urgent ${n++}`)
    }
    await until(() => {
      if (commits.length * 2 >= n) add()
      return commits.flat().includes('patient')
    }, 'the patient write')
    queue.drain()
  })

  test('draining commits every write once', () => {
    const queue = batches(2)
    for (let n = 0; n < 5; n++) {
      queue.add(`u${n}`)
      queue.addSoon(`p${n}`, NEVER)
    }
    queue.drain()
    assert.equal(new Set(commits.flat()).size, 10)
    assert.equal(commits.flat().length, 10)
  })

  test('under load a commit waits as long as the last one took, 1 to 4 ms', (t) => {
    let now = 1000
    let takes = 0
    t.mock.method(performance, 'now', () => now)
    t.mock.timers.enable({ apis: ['setTimeout', 'setImmediate'] })
    const pass = (ms: number): void => {
      now += ms
      t.mock.timers.tick(ms)
    }
    const seen: string[] = []
    const queue = new Batches<string>((jobs) => {
      seen.push(jobs.join())
      now += takes
      return jobs.length
    })
    for (const [took, waits] of [
      [0, 1],
      [3, 3],
      [50, 4],
    ] as const) {
      takes = took
      queue.add('a')
      pass(1)
      takes = 0
      seen.length = 0
      queue.add('b')
      pass(waits - 1)
      queue.add('c')
      assert.deepEqual(seen, [], `after ${took} ms`)
      pass(1)
      assert.deepEqual(seen, ['b,c'])
      pass(10)
    }
  })

  test('writes during a commit go into the next', async () => {
    const seen: string[][] = []
    const queue: Batches<string> = new Batches<string>((jobs) => {
      seen.push([...jobs])
      if (seen.length === 1) {
        queue.add('urgent')
        queue.addSoon('patient', 1)
      }
      return jobs.length
    })
    queue.add('first')
    await until(() => seen.flat().length >= 3)
    assert.deepEqual(seen[0], ['first'])
    assert.deepEqual(seen.flat().toSorted(), ['first', 'patient', 'urgent'])
  })
})

describe('patient writes of a store', () => {
  const directory = temporaryDirectory('batches')
  let opened = 0
  const open = (): { store: Store; dir: string } => {
    const dir = join(directory, String(opened++))
    const store = openStore(dir)
    return { store, dir }
  }
  const put = (n: number) => raw(`insert into event_cursors (reader, event_key) values (?, ?)`, [`c${n}`, n])
  /** The committed rows, as another process sees them. */
  const outside = (dir: string): number => {
    const other = new Database(join(dir, 'postrider.db'), { readonly: true })
    try {
      return (other.prepare('select count(*) as n from event_cursors').get() as { n: number }).n
    } finally {
      other.close()
    }
  }

  test('resolve after the commit, never before', async () => {
    const { dir, store } = open()
    const before = outside(dir)
    let resolved = 0
    const seen: number[] = []
    const writes = Array.from({ length: 20 }, async (_, n) => {
      await (n % 2 === 0 ? store.write((tx) => tx.run(put(n))) : store.writeSoon((tx) => tx.run(put(n)), 5))
      resolved++
      seen.push(outside(dir) - before - resolved)
    })
    assert.equal(outside(dir), before)
    await Promise.all(writes)
    assert.ok(
      seen.every((more) => more >= 0),
      `resolved before another process saw it: ${seen.join()}`,
    )
    assert.equal(outside(dir), before + 20)
    store.close()
  })

  test('a failed write undoes only its own changes', async () => {
    const { dir, store } = open()
    const before = outside(dir)
    const hooks: string[] = []
    const results = await Promise.allSettled([
      store.writeSoon((tx) => tx.run(put(1))),
      store.writeSoon((tx) => {
        tx.run(put(2))
        tx.afterCommit(() => hooks.push('failed'))
        throw new Error('no')
      }),
      store.write((tx) => {
        tx.run(put(3))
        tx.afterCommit(() => hooks.push('went well'))
      }),
    ])
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    )
    assert.deepEqual(hooks, ['went well'])
    assert.equal(outside(dir), before + 2)
    store.close()
  })

  test('closing commits and resolves queued writes', async () => {
    const { dir, store } = open()
    const before = outside(dir)
    const writes = Array.from({ length: 50 }, (_, n) => store.writeSoon((tx) => tx.run(put(n)), NEVER))
    store.close()
    await Promise.all(writes)
    assert.equal(outside(dir), before + 50)
  })

  test('are not starved by endless writers', async () => {
    const { store } = open()
    let over = false
    // Each takes longer than a commit may last.
    const busy = async (): Promise<void> => {
      while (!over)
        await store.write(() => {
          const cost = meter()
          while (cost() < 8);
        })
    }
    const writers = Promise.all([busy(), busy(), busy()])
    let done = false
    void store.writeSoon(() => (done = true), 20)
    await until(() => done, 'the patient write')
    over = true
    await writers
    store.close()
  })
})
