// Uploaded lists that cost more than their size suggests.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contactsApart } from '../../src/lists/apart.ts'
import { readUpload } from '../../src/lists/upload.ts'

const contacts = { map: new Map<string, string[]>() }
const jobOf = (text: string) => ({ bytes: Buffer.from(text), file: 'list.csv' })

/** A line of 200 cells. Many short lines have the same result and take ten times as long. */
const LINE = `${'a,'.repeat(199)}\n`
for (const [what, text] of [
  ['in one row of empty cells', ','.repeat(500_001)],
  ['in one row of values', 'a,'.repeat(500_001)],
  ['in many rows', LINE.repeat(2_501)],
] as const)
  test(`rejects a file with too many cells ${what} and names the commands (D126)`, async () => {
    assert.match(JSON.stringify(await readUpload({ ...jobOf(`email\n${text}`), contacts })), /more than 500,000 cells/)
  })

test('reads a list in a worker thread with the same result (D126)', async () => {
  const job = jobOf('email,name\nann@there.test,"Ann, A."\n')
  const read = await contactsApart(job, contacts)
  assert.equal(typeof read, 'object')
  assert.deepEqual(read, await readUpload({ ...job, contacts }))
})
