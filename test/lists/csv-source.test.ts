// A file that is read twice: a change between the reads is detected, and a pipe is copied for the second read.
import assert from 'node:assert/strict'
import { appendFileSync, createWriteStream, mkdtempSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openSource, type ListSource } from '../../src/lists/csv-source.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makePipe } from '../kit/pipe.ts'

const folder = temporaryDirectory('source')

async function textOf(source: ListSource): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of source.chunks()) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

test('rejects a file that changed since it was checked', async () => {
  const path = join(folder, 'grows.csv')
  writeFileSync(path, 'email\n')
  const source = await openSource(path, folder, 0)
  try {
    assert.equal(await textOf(source), 'email\n')
    source.checkUnchanged()
    appendFileSync(path, 'ann@there.test\n')
    assert.throws(() => source.checkUnchanged(), /grows\.csv changed while it was read; try again/)
  } finally {
    source.close()
  }
})

test('reads a file again after a read that stopped early', async () => {
  const path = join(folder, 'large.csv')
  writeFileSync(path, 'x'.repeat(300_000))
  const source = await openSource(path, folder, 0)
  try {
    for await (const chunk of source.chunks()) {
      assert.ok(chunk.length > 0)
      break
    }
    assert.equal((await textOf(source)).length, 300_000)
  } finally {
    source.close()
  }
})

test('reads a pipe once and keeps a copy without a name', async () => {
  const path = join(folder, 'pipe')
  makePipe(path)
  const data = mkdtempSync(join(folder, 'data-'))
  createWriteStream(path).end('email\nann@there.test\n')
  const source = await openSource(path, data, 0)
  try {
    for (let time = 0; time < 2; time++) assert.equal(await textOf(source), 'email\nann@there.test\n')
    source.checkUnchanged()
    assert.deepEqual(readdirSync(data), [])
  } finally {
    source.close()
  }
})
