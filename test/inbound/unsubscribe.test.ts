import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unsubscribeLocalPart } from '../../src/message/return-path.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { deliver } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { block, feedback, homeOf, letter, report, type Gone } from './home.ts'

const home = homeOf(
  () => postrider,
  () => exchanger,
)

const { comeHome, eventTypes, events, send, show, suppressions, tryPost } = home

const exchanger = testExchanger({ tls: true })
const postrider = ofFile(() => startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test'] }))

setUp(async () => {
  postrider.dns.set('there.test', 'TXT', ['v=spf1 ip4:127.0.0.1 -all'])
})

let count = 0
const someone = (): string => `someone${++count}@there.test`

const deliveries = ({ id }: Gone): { key: number; address: string }[] =>
  postrider.appliance.deps.store.all(
    raw('select key, address from deliveries where email_key = (select key from outbound_emails where id = ?)', [id]),
  )

/** The address at which the recipient of an email unsubscribes. */
function addressFor(gone: Gone, recipient?: string): string {
  const { key } = deliveries(gone).find(({ address }) => recipient === undefined || address === recipient)!
  return `${unsubscribeLocalPart(postrider.appliance.deps.keyring, key)}@bounce.here.test`
}

const unsubscribed = (email: string) => [
  { email, reason: 'unsubscribe', scope: 'marketing', source: 'unsubscribe_mail', expires_at: null },
]

test('a message to the unsubscribe address unsubscribes from marketing once, but not from transactional email', async () => {
  const to = someone()
  const gone = await send({ to })
  const address = addressFor(gone)
  for (let round = 0; round < 2; round++)
    await comeHome({ from: to, to: address, message: letter(address, 'unsubscribe', '', '') })
  assert.deepEqual(await suppressions(to), unsubscribed(to))
  assert.deepEqual(eventTypes(gone.id), ['email.sent', 'email.delivered', 'email.unsubscribed'])
  assert.equal(events(gone.id).at(-1)!.data['delivery'], deliveries(gone)[0]!.key)
  assert.equal((await show(gone.id)).status, 'delivered')
  const next = await send({ to })
  const other = addressFor(next)
  await comeHome({ from: to, to: other, message: letter(other, 'unsubscribe') })
  assert.deepEqual(eventTypes(next.id), ['email.sent', 'email.delivered'], 'there was nothing left to unsubscribe from')
})

test('the sender and the case of the address do not matter', async () => {
  const [to, cc] = [someone(), someone()]
  const gone = await send({ to, cc })
  const address = addressFor(gone, cc).toUpperCase()
  await comeHome({ from: 'alias@elsewhere.test', to: address, message: letter(address, '') })
  assert.deepEqual(await suppressions(cc), unsubscribed(cc))
  assert.deepEqual(await suppressions(to), [])
})

test('an address can unsubscribe again after the suppression was removed', async () => {
  const to = someone()
  const gone = await send({ to })
  const address = addressFor(gone)
  await comeHome({ from: to, to: address, message: letter(address, 'unsubscribe') })
  const { body } = await postrider.api('GET', `/suppressions?filter[email]=${to}`)
  assert.equal((await postrider.api('DELETE', `/suppressions/${body.data[0].id}`)).status, 204)
  await comeHome({ from: to, to: address, message: letter(address, 'unsubscribe') })
  assert.deepEqual(await suppressions(to), unsubscribed(to))
  assert.equal(eventTypes(gone.id).filter((type) => type === 'email.unsubscribed').length, 2)
})

const MACHINES: Record<string, { from: string; write: (to: string, recipient: string, gone: Gone) => string }> = {
  'an automatic answer': {
    from: 'bob@there.test',
    write: (to) => letter(to, 'Re: Hello', 'Auto-Submitted: auto-replied\n', 'I am away.'),
  },
  'an answer from the null sender': { from: '', write: (to) => letter(to, 'Your mail', '', 'I am away.') },
  'a delivery report': { from: '', write: (to, recipient) => report(to, [block({ recipient })]) },
  'a report of a delay': {
    from: '',
    write: (to, recipient) => report(to, [block({ recipient, action: 'delayed', status: '4.4.1', said: '' })]),
  },
  'a bounce in an unknown format': {
    from: '',
    write: (to) => `From: Robot <robot@there.test>\nTo: ${to}\nSubject: Zurueck\n\nDas ging nicht.\n`,
  },
  'a feedback report of type not-spam': {
    from: 'feedback@there.test',
    write: (to, recipient, { heard }) => feedback(to, 'not-spam', recipient, heard.message),
  },
}
for (const [name, { from, write }] of Object.entries(MACHINES))
  test(`${name} to the unsubscribe address has no effect`, async () => {
    const to = someone()
    const gone = await send({ to })
    const address = addressFor(gone)
    const [verdict] = await comeHome({ from, to: address, message: write(address, to, gone) })
    assert.equal(verdict!.code, 250)
    assert.deepEqual(await suppressions(to), [])
    assert.equal((await show(gone.id)).status, 'delivered')
    assert.deepEqual(eventTypes(gone.id), ['email.sent', 'email.delivered'])
  })

test('a complaint and an unsubscribe message both count, in any order', async () => {
  const to = someone()
  const gone = await send({ to })
  const address = addressFor(gone)
  await comeHome({ from: to, to: address, message: letter(address, 'unsubscribe') })
  await comeHome({ to: gone.returnPath, message: feedback(gone.returnPath, 'abuse', to, gone.heard.message) })
  assert.deepEqual((await suppressions(to)).map(({ reason }) => reason).toSorted(), ['complaint', 'unsubscribe'])
  assert.equal((await tryPost({ to })).status, 422)
})

test('only an unsubscribe token unsubscribes, and only at a host of this server', async () => {
  const to = someone()
  const gone = await send({ to })
  const [local, host] = addressFor(gone).split('@') as [string, string]
  const token = gone.returnPath.split('@')[0]!
  const code = async (address: string): Promise<number | null> =>
    (await deliver(postrider.appliance.smtp[0]!, { from: to, to: address }))[0]!.code
  // The token of the return path is different, and the reverse.
  assert.equal(await code(`u-${token}@${host}`), 550)
  assert.equal(await code(`${local.slice(2)}@${host}`), 550)
  assert.equal(await code(`${local.slice(0, 9)}${local[9] === 'a' ? 'b' : 'a'}${local.slice(10)}@${host}`), 550)
  assert.equal(await code(`${local}@bounce.foreign.test`), 554)
  assert.equal(await code(`u-@${host}`), 550)
  assert.deepEqual(await suppressions(to), [])
})

test('accepts a message to the unsubscribe address of a deleted email, without an effect', async () => {
  const to = someone()
  const gone = await send({ to })
  const address = addressFor(gone)
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${gone.id}`)).status, 204)
  const [verdict] = await comeHome({ from: to, to: address, message: letter(address, 'unsubscribe') })
  assert.equal(verdict!.code, 250)
  assert.deepEqual(await suppressions(to), [])
})

test('one message to several unsubscribe addresses unsubscribes each', async () => {
  const [first, second] = [await send({ to: someone() }), await send({ to: someone() })]
  const to = [addressFor(first), addressFor(second)]
  await comeHome({ from: 'ann@there.test', to, message: letter(to[0]!, 'unsubscribe') })
  for (const { id } of [first, second]) await until(() => eventTypes(id).includes('email.unsubscribed'), 'the second')
})
