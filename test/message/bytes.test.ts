// Scanning four bytes at a time has the same result as patterns (message/octets.ts).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BARE, RUNS, scan, TRAILING, WIDE } from '../../src/message/bytes.ts'

/** The same by patterns. */
const byPatterns = (octets: Buffer): number => {
  const text = octets.toString('latin1')
  if (/[^\t\r\n\x20-\x7e]/.test(text)) return WIDE
  return (
    (/\r(?!\n)|(?<!\r)\n/.test(text) ? BARE : 0) +
    (/[ \t](?:\r|$)/.test(text) ? TRAILING : 0) +
    (/\t| {2}/.test(text) ? RUNS : 0)
  )
}
const found = (octets: Buffer): number => {
  const sum = scan(octets)
  return (sum & WIDE) === 0 ? sum : WIDE
}

test('finds every byte at every position of a word, alone and next to every odd neighbour, at every memory offset', () => {
  const odd = [0, 9, 10, 13, 31, 32, 33, 126, 127, 128, 255, 97]
  for (let octet = 0; octet < 256; octet++)
    for (let place = 0; place < 9; place++)
      for (const next of odd) {
        // Four places in the memory: the first word begins elsewhere in each.
        const whole = Buffer.alloc(16, 'a')
        const octets = whole.subarray(place % 4, (place % 4) + 10)
        octets[place] = octet
        octets[place + 1] = next
        assert.equal(found(octets), byPatterns(octets), octets.toString('hex'))
      }
})

test('scans texts of odd bytes of every length at every memory offset', () => {
  let state = 7
  const next = (): number => (state = (state * 1103515245 + 12345) % 2147483648) >> 8
  const some = [9, 10, 13, 13, 32, 32, 33, 97, 98, 126]
  for (let round = 0; round < 20_000; round++) {
    const text = Array.from({ length: next() % 14 }, () => some[next() % some.length]!)
    const place = next() % 8
    // At the end of the memory, too: there are no bytes after the text.
    const octets = Buffer.from(new ArrayBuffer(place + text.length)).subarray(place)
    octets.set(text)
    const wide = next() % 50 === 0 && octets.length > 0
    if (wide) octets[next() % octets.length] = 200
    assert.equal(found(octets), byPatterns(octets), octets.toString('hex'))
  }
})
