// Files that are made durable together.
import assert from 'node:assert/strict'
import { closeSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { SyncedFiles } from '../../src/archive/backup-archive.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const folder = temporaryDirectory('lot')

/** The files of a folder that this process has open. */
const openIn = (place: string): number =>
  readdirSync('/proc/self/fd').filter((file) => {
    try {
      return readlinkSync(`/proc/self/fd/${file}`).startsWith(`${place}/`)
    } catch {
      return false
    }
  }).length

test('keeps files open until they are synced together, up to a limit', async () => {
  using lot = new SyncedFiles()
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

test('fails if a file cannot be synced, and closes all files', async () => {
  const place = mkdtempSync(join(folder, 'bad-'))
  {
    using lot = new SyncedFiles()
    const file = await lot.create(join(place, 'one'))
    await lot.create(join(place, 'two'))
    closeSync(file)
    await assert.rejects(lot.sync(), { code: 'EBADF' })
  }
  assert.equal(openIn(place), 0)
})
