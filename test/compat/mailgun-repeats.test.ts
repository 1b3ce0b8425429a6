// A client of Mailgun's API repeats a batch because it did not get the answer.
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { DAY, HOUR } from '../mail/mails.ts'

const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'], open: true }))
const PATH = '/v3/here.test/messages'
const headersOf = (key: string) => ({
  Authorization: `Basic ${Buffer.from(`api:${key}`).toString('base64')}`,
  'Content-Type': 'application/x-www-form-urlencoded',
})
const FIELDS = { from: 'ann@here.test', html: '<p>Hi</p>', 'recipient-variables': '{}' }
// While the server checks so many recipients, it sees that the client is gone.
const MANY = Array.from({ length: 400 }, (_, n) => `n${n}@there.test`).join()

const sent = async (fields: Record<string, string>, key = postrider.token) => {
  const body = new URLSearchParams({ ...FIELDS, ...fields })
  const answer = await postrider.raw(PATH, { method: 'POST', headers: headersOf(key), body })
  assert.equal(answer.status, 200, JSON.stringify(answer.body))
  return { id: answer.headers.get('postrider-batch'), replayed: answer.headers.get('idempotent-replayed') === 'true' }
}
const batches = (subject: string) =>
  postrider.appliance.deps.store.all(
    raw<{ id: string; idempotency_key: string | null }>(
      `select t.id, t.idempotency_key from outbound_batches t join outbound_emails e on e.batch_key = t.key
       where e.subject = ? and e.batch_index = 0 order by t.key`,
      [subject],
    ),
  )
/** Sends a batch, and leaves before the answer. Returns the id of the batch. */
async function lost(fields: Record<string, string>): Promise<string> {
  const { subject = '' } = fields
  const gone = request(postrider.url + PATH, { method: 'POST', headers: headersOf(postrider.token) })
  gone.on('error', () => {})
  gone.end(new URLSearchParams({ ...FIELDS, ...fields }).toString(), () => gone.destroy())
  await until(() => batches(subject).length === 1, 'the batch')
  return batches(subject)[0]!.id
}

test('a repeated batch whose answer was lost is the same batch, and is a new one after an answer', async () => {
  const fields = { subject: 'Lost', to: MANY }
  const id = await lost(fields)
  assert.deepEqual(await sent(fields), { id, replayed: true })
  await until(() => batches('Lost')[0]!.idempotency_key === null, 'the end of the key')
  const next = await sent(fields)
  assert.equal(next.replayed, false)
  assert.notEqual(next.id, id)
})

test('a batch with other content, or of another token, is another batch', async () => {
  const fields = { subject: 'Mine', to: MANY }
  const id = await lost(fields)
  for (const other of [{ to: 'bob@there.test' }, { html: '<p>Ho</p>' }, { 'v:a': '1' }, { 'o:tag': 'a' }])
    assert.notEqual((await sent({ ...fields, ...other })).id, id)
  const key = await postrider.tokenFor(postrider.user, ['emails:send'])
  assert.notEqual((await sent(fields, key)).id, id)
  assert.deepEqual(await sent(fields), { id, replayed: true })
})

test('a batch whose answer was lost is recognised for 24 hours, over midnight as well', async () => {
  const [early, late] = [
    { subject: 'Early', to: MANY },
    { subject: 'Late', to: MANY },
  ]
  const ids = [await lost(early), await lost(late)]
  postrider.clock.leap(DAY - HOUR)
  assert.deepEqual(await sent(early), { id: ids[0], replayed: true })
  postrider.clock.leap(2 * HOUR)
  assert.equal((await sent(late)).replayed, false)
})

test("a client's own idempotency key remains after the answer", async () => {
  const body = new URLSearchParams({ ...FIELDS, subject: 'Own key', to: 'bob@there.test' })
  const headers = { ...headersOf(postrider.token), 'Idempotency-Key': 'issue-1' }
  const ask = () => postrider.raw(PATH, { method: 'POST', headers, body })
  const first = (await ask()).headers
  const second = (await ask()).headers
  assert.equal(second.get('idempotent-replayed'), 'true')
  assert.equal(second.get('postrider-batch'), first.get('postrider-batch'))
})
