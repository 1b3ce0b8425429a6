// Uploaded lists that cost more than they weigh.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readTable } from '../../src/console/csv.ts'

test('a file of too many cells is refused before the library reads it, and the commands are named (D126)', () => {
  for (const piece of [',', 'a,', '\n,', 'a\n'])
    assert.match(JSON.stringify(readTable(Buffer.from(`email\n${piece.repeat(500_001)}`))), /more than 500,000 cells/)
  assert.equal(typeof readTable(Buffer.from(`email,name\n${'ann@there.test,Ann\n'.repeat(1000)}`)), 'object')
})
