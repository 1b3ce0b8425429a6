// How many messages are read at once (inbound/queue.ts).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { semaphore } from '../../src/base/semaphore.ts'
import type { Content, InboundJob, InboundResult } from '../../src/inbound/reader.ts'
import { inTurns, unlimited } from '../../src/inbound/queue.ts'

const submitted = (content: Content): InboundJob => ({ task: 'submitted', content, longLines: false })

test('reads small messages together, at the same time as two in files', async () => {
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

test('readers with a shared file limit read one file at a time, and small messages at the same time', async () => {
  const begun: { content: Content; end: () => void }[] = []
  const pool = {
    run: ({ content }: InboundJob) =>
      new Promise<InboundResult>((resolve) => begun.push({ content: content!, end: () => resolve(null) })),
  }
  const oneFile = semaphore(1)
  const readers = [inTurns(pool, oneFile, unlimited), inTurns(pool, oneFile)]
  const all = [
    ...readers.map((reader, n) => reader.run(submitted({ file: `large ${n}` }))),
    ...Array.from({ length: 20 }, () => readers[0]!.run(submitted(Buffer.from('small')))),
  ]
  const files = (): string[] => begun.flatMap(({ content }) => ('file' in content ? [content.file] : []))
  await turn()
  assert.deepEqual([files(), begun.length], [['large 0'], 21])
  begun[0]!.end()
  await turn()
  assert.deepEqual(files(), ['large 0', 'large 1'])
  for (const { end } of begun) end()
  await Promise.all(all)
})
