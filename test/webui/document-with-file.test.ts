// Tests a JSON document with a file in it, streamed in pieces.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { documentWithFile } from '../../src/views/html/document-with-file.ts'

async function pieces(chunks: readonly Buffer[]): Promise<Buffer[]> {
  const file = (async function* () {
    yield* chunks
  })()
  const stream = documentWithFile(
    (content) => ({ data: { attributes: { subject: 'Grüße "quoted"', attachments: [{ content }] } } }),
    file,
  )
  const all: Buffer[] = []
  for await (const piece of stream) all.push(Buffer.from(piece))
  return all
}

test('the document is complete for any chunk size of the file', async () => {
  const file = Buffer.from(Array.from({ length: 1000 }, (_, at) => (at * 7) % 256))
  for (const size of [1, 2, 3, 4, 5, 100, 1000]) {
    const chunks = Array.from({ length: Math.ceil(file.length / size) }, (_, at) =>
      file.subarray(at * size, (at + 1) * size),
    )
    const { data } = JSON.parse(Buffer.concat(await pieces(chunks)).toString())
    assert.equal(data.attributes.subject, 'Grüße "quoted"')
    assert.equal(data.attributes.attachments[0].content, file.toString('base64'), `chunks of ${size}`)
  }
  assert.equal(JSON.parse(Buffer.concat(await pieces([])).toString()).data.attributes.attachments[0].content, '')
})

test('no piece exceeds 1 MB, even if the file arrives in one chunk', async () => {
  const file = Buffer.alloc(5_000_001, 'x')
  const all = await pieces([file])
  assert.ok(all.every(({ length }) => length <= 1024 * 1024))
  assert.equal(
    JSON.parse(Buffer.concat(all).toString()).data.attributes.attachments[0].content,
    file.toString('base64'),
  )
})

test('throws if the document contains the file twice or not at all', () => {
  const none = (async function* () {})()
  assert.throws(() => documentWithFile(() => ({}), none), /once/)
  assert.throws(() => documentWithFile((content) => [content, content], none), /once/)
})
