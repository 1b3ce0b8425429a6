// Uploaded lists that cost more than they weigh.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tableApart } from '../../src/webui/apart.ts'
import { readTable } from '../../src/webui/table.ts'

test('a file of too many cells is refused before the library reads it, and the commands are named (D126)', () => {
  for (const piece of [',', 'a,', '\n,', 'a\n'])
    assert.match(JSON.stringify(readTable(Buffer.from(`email\n${piece.repeat(500_001)}`))), /more than 500,000 cells/)
  assert.equal(typeof readTable(Buffer.from(`email,name\n${'ann@there.test,Ann\n'.repeat(1000)}`)), 'object')
})

test('a list is read in a thread of its own, with the same result (D126)', async () => {
  const file = Buffer.from('email,name\nann@there.test,"Ann, A."\n')
  assert.deepEqual(await tableApart(file), readTable(file))
})
