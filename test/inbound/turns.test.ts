// How many messages are read at once for those who wait (inbound/turns.ts).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Content, InboundJob, InboundResult } from '../../src/inbound/reader.ts'
import { inTurns } from '../../src/inbound/turns.ts'

const submitted = (content: Content): InboundJob => ({ task: 'submitted', content, longLines: false })

test('small messages are read together, beside two that are in files', async () => {
  const begun: { job: InboundJob; end: () => void }[] = []
  const reader = inTurns({
    run: (job) => new Promise<InboundResult>((resolve) => begun.push({ job, end: () => resolve(null) })),
  })
  const underWay = (kind: 'file' | 'small'): typeof begun =>
    begun.filter(({ job }) => (job.content !== null && 'file' in job.content) === (kind === 'file'))
  const all = [
    ...Array.from({ length: 3 }, () => reader.run(submitted({ file: 'large' }))),
    ...Array.from({ length: 17 }, () => reader.run(submitted(Buffer.from('small')))),
  ]
  await turn()
  assert.deepEqual([underWay('file').length, underWay('small').length], [2, 16])
  underWay('file')[0]!.end()
  underWay('small')[0]!.end()
  await turn()
  assert.deepEqual([underWay('file').length, underWay('small').length], [3, 17])
  for (const { end } of begun) end()
  await Promise.all(all)
})
