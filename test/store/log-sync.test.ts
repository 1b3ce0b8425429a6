// The sync of the write-ahead log outside the event loop (store/log-sync.ts): nobody is told of a commit before a sync
// that began after it has ended, and nothing is promised any more once one has failed.
import assert from 'node:assert/strict'
import fs, { mkdtempSync, rmSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { Store } from '../../src/store/database.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { until } from '../kit/until.ts'

/** Syncs that were asked for; each ends when the test says so, and really syncs unless it fails. */
interface Held {
  file: string
  end: (error?: Error) => void
}

function holding(t: TestContext): Held[] {
  const held: Held[] = []
  const { fdatasync } = fs
  const patched = (descriptor: number, done: (error: Error | null) => void): void => {
    const file = fs.readlinkSync(`/proc/self/fd/${descriptor}`)
    held.push({ file, end: (error) => (error ? done(error) : fdatasync(descriptor, done)) })
  }
  ;(fs as { fdatasync: unknown }).fdatasync = patched
  syncBuiltinESMExports()
  t.after(() => {
    fs.fdatasync = fdatasync
    syncBuiltinESMExports()
  })
  return held
}

function fresh(t: TestContext): { store: Store; dir: string } {
  const dir = mkdtempSync(join(tmpdir(), 'postrider-sync-'))
  const store = openStore(dir)
  t.after(() => rmSync(dir, { recursive: true }))
  return { store, dir }
}

const put = (name: string) => raw('insert into event_cursors (reader, event_key) values (?, 1)', [name])
const names = raw<{ reader: string }>('select reader from event_cursors order by reader')
const read = (store: Store): string[] => store.all(names).map(({ reader }) => reader)
const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
}
const skip = process.platform === 'linux' ? false : 'reads /proc'

test('a write is told after a sync of the log that began after its commit', { skip }, async (t) => {
  const held = holding(t)
  const { dir, store } = fresh(t)
  t.after(() => store.close())
  const told: string[] = []
  const write = async (name: string): Promise<void> => {
    await store.write((tx) => {
      tx.run(put(name))
      tx.afterCommit(() => told.push(`after the commit of ${name}`))
    })
    told.push(name)
  }
  const first = write('a')
  await until(() => held.length === 1)
  assert.equal(held[0]!.file, join(fs.realpathSync(dir), 'postrider.db-wal'))
  assert.deepEqual([read(store), told], [['a'], []], 'committed, and not told')
  const others = [write('b'), write('c')]
  await turns()
  assert.deepEqual([read(store), held.length], [['a'], 1], 'the next commit waits for the disk')
  held[0]!.end()
  await first
  assert.deepEqual(told, ['after the commit of a', 'a'])
  await until(() => held.length === 2)
  await turns()
  assert.deepEqual([read(store), told.length], [['a', 'b', 'c'], 2], 'one sync is for both')
  held[1]!.end()
  await Promise.all(others)
})

test('what was read is settled when it is on the disk', { skip }, async (t) => {
  const held = holding(t)
  const { store } = fresh(t)
  t.after(() => store.close())
  await store.settled()
  const write = store.write((tx) => tx.run(put('a')))
  await until(() => held.length === 1)
  let settled = false
  const waiting = store.settled().then(() => (settled = true))
  held[0]!.end()
  await write
  await turns()
  assert.equal(settled, false, 'the sync had begun before the read')
  held[1]!.end()
  await waiting
})

test('after a sync that failed nothing is told, written or synced any more', { skip }, async (t) => {
  const held = holding(t)
  const { dir, store } = fresh(t)
  const first = store.write((tx) => tx.run(put('a')))
  await until(() => held.length === 1)
  const second = store.write((tx) => tx.run(put('b')))
  const failure = { code: 'SQLITE_IOERR_FSYNC', message: /could not be brought to the disk \(EIO\)/ }
  held[0]!.end(Object.assign(new Error('i/o error'), { code: 'EIO' }))
  await assert.rejects(first, failure)
  await assert.rejects(second, failure)
  await assert.rejects(
    store.write((tx) => tx.run(put('c'))),
    failure,
  )
  await assert.rejects(store.settled(), failure)
  assert.throws(() => store.demandPresence(), failure)
  assert.equal(store.failing instanceof Error, true)
  assert.equal(held.length, 1, 'a failed sync is not repeated')
  store.close()
  const again = openStore(dir)
  t.after(() => again.close())
  const write = again.write((tx) => tx.run(put('d')))
  await until(() => held.length === 2)
  held[1]!.end()
  await write
  assert.ok(read(again).includes('d'))
})

test('what waits is synced when the store is closed', { skip }, async (t) => {
  const held = holding(t)
  const { dir, store } = fresh(t)
  const writes = [store.write((tx) => tx.run(put('a')))]
  await until(() => held.length === 1)
  writes.push(
    store.write((tx) => tx.run(put('b'))),
    store.writeSoon((tx) => tx.run(put('c'))),
  )
  store.close()
  await Promise.all(writes)
  // The one under way ends later, and finds nothing left to do.
  held[0]!.end()
  const again = openStore(dir)
  t.after(() => again.close())
  assert.deepEqual(read(again), ['a', 'b', 'c'])
})
