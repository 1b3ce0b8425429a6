// Uploaded lists that cost more than they weigh.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contactsApart } from '../../src/lists/apart.ts'
import { readUpload } from '../../src/lists/upload.ts'

const contacts = { map: new Map<string, string>() }
const jobOf = (text: string) => ({ bytes: Buffer.from(text), file: 'list.csv' })

test('a file of too many cells is refused, and the commands are named (D126)', async () => {
  for (const piece of [',', 'a,', '\n,', 'a\n'])
    assert.match(
      JSON.stringify(await readUpload({ ...jobOf(`email\n${piece.repeat(500_001)}`), contacts })),
      /more than 500,000 cells/,
    )
  const fits = await readUpload({ ...jobOf(`email,name\n${'ann@there.test,Ann\n'.repeat(1000)}`), contacts })
  assert.equal(typeof fits, 'object')
})

test('a list is read in a thread of its own, with the same result (D126)', async () => {
  const job = jobOf('email,name\nann@there.test,"Ann, A."\n')
  assert.deepEqual(await contactsApart(job, contacts), await readUpload({ ...job, contacts }))
})
