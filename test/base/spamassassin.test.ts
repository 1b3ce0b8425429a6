// Reads SpamAssassin's result from its header. A server without SpamAssassin works, too.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judgeSpam, readStatus } from '../../src/base/spamassassin.ts'

const STATUS: [header: string, read: ReturnType<typeof readStatus>][] = [
  [
    'X-Spam-Status: No, score=0.1 required=5.0 tests=HTML_MESSAGE,MISSING_MID autolearn=no',
    { score: 0.1, required: 5, rules: ['HTML_MESSAGE', 'MISSING_MID'] },
  ],
  ['X-Spam-Status: Yes, score=17.2 required=5.0 tests=GTUBE', { score: 17.2, required: 5, rules: ['GTUBE'] }],
  ['X-Spam-Status: No, score=-1.9 required=5.0 tests=none', { score: -1.9, required: 5, rules: [] }],
  ['X-Spam-Level: ', undefined],
  ['', undefined],
]

for (const [header, read] of STATUS)
  test(`reads "${header}"`, () => assert.deepEqual(readStatus(`Received: by x\n${header}\nSubject: y\n\nx`), read))

test('has no verdict if SpamAssassin is missing or fails', async () => {
  assert.equal(await judgeSpam('Subject: x\r\n\r\nx', '/nowhere/spamassassin'), undefined)
  assert.equal(await judgeSpam('Subject: x\r\n\r\nx', '/bin/false'), undefined)
})
