// A file that is read twice: what changes in between is not taken for what was judged, and a pipe is kept for the
// second time.
import assert from 'node:assert/strict'
import { appendFileSync, createWriteStream, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { openSource, type ListSource } from '../../src/lists/csv-source.ts'
import { makePipe } from '../kit/pipe.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-source-'))
after(() => rmSync(folder, { recursive: true }))

async function textOf(source: ListSource): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of source.chunks()) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

test('a file that changed since it was judged is refused', async () => {
  const path = join(folder, 'grows.csv')
  writeFileSync(path, 'email\n')
  const source = await openSource(path, folder, 0)
  try {
    assert.equal(await textOf(source), 'email\n')
    source.checkUnchanged()
    appendFileSync(path, 'ann@there.test\n')
    assert.throws(() => source.checkUnchanged(), /grows\.csv changed while it was read; nothing was imported/)
  } finally {
    source.close()
  }
})

test('it may be left before its end and read again', async () => {
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

test('a pipe is read once and kept without a name', async () => {
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
