// Addresses in untrusted text: each is found, and every text is searched in linear time.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addressesIn } from '../../src/privacy/held.ts'
import { costingAtOnce } from '../kit/cost.ts'

const found = (text: string): string[] => [...addressesIn(text)]

test('finds addresses between other words', () => {
  assert.deepEqual(found('Ann <Ann@There.test>, "bob@there.test"; (mailto:c.d@there.test).'), [
    'ann@there.test',
    'bob@there.test',
    'c.d@there.test',
  ])
  assert.deepEqual(found("{'a': 'ann@there.test'}... x@y.test."), ["'ann@there.test", 'x@y.test'])
  assert.deepEqual(found('@ a@ @b ann at there.test'), [])
})

test('scans a long word and many dots in linear time', () => {
  for (const piece of ['a', '@', 'a@', '.', 'a.@', "a@b.test'"]) {
    costingAtOnce(500, () => found(piece.repeat(300_000)))
    costingAtOnce(500, () => found(`${'.'.repeat(300_000)}x${piece.repeat(300)}@a`))
  }
})
