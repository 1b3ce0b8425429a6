// Files that are made durable together (B14).
import assert from 'node:assert/strict'
import { closeSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { SyncedLot } from '../../src/archive/synced-lot.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-lot-'))
after(() => rmSync(folder, { recursive: true }))

/** The files of a folder that this process has open. */
const openIn = (place: string): number =>
  readdirSync('/proc/self/fd').filter((file) => {
    try {
      return readlinkSync(`/proc/self/fd/${file}`).startsWith(`${place}/`)
    } catch {
      return false
    }
  }).length

test('files stay open until they are synced together, and never many (B14)', async () => {
  using lot = new SyncedLot()
  let most = 0
  for (let n = 0; n < 700; n++) {
    writeSync(await lot.create(join(folder, `f${n}`)), `${n}`)
    most = Math.max(most, openIn(folder))
  }
  assert.equal(most, 256)
  assert.equal(openIn(folder), 700 - 2 * 256)
  await lot.sync()
  assert.equal(openIn(folder), 0)
  assert.equal(readFileSync(join(folder, 'f699'), 'utf8'), '699')
})

test('what cannot be synced is an error, and nothing stays open (B14)', async () => {
  const place = mkdtempSync(join(folder, 'bad-'))
  {
    using lot = new SyncedLot()
    const file = await lot.create(join(place, 'one'))
    await lot.create(join(place, 'two'))
    closeSync(file)
    await assert.rejects(lot.sync(), { code: 'EBADF' })
  }
  assert.equal(openIn(place), 0)
})
