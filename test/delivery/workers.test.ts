// The delivery threads: a thread that ends closes only its own connections, and mail that is kept apart is never on the
// threads of other mail.
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { after, test } from 'node:test'
import { TookTooLong, WorkerLost } from '../../src/base/threads/pool.ts'
import type { ComposeJob } from '../../src/message/letters.ts'
import { parseAddress } from '../../src/message/address.ts'
import { isVerdict } from '../../src/delivery/wire/connect.ts'
import { DeliveryWorkers, type WorkerSession } from '../../src/delivery/wire/workers.ts'
import { startTestExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 1024 })
const PEM = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string

/** Addresses without a reply to the final dot. */
const silent = new Set<string>()
const exchanger = await startTestExchanger({
  final: ({ to }) => (silent.has(to[0]!) ? new Promise(() => {}) : undefined),
})
after(() => exchanger.close())

const heard = (to: string): number => exchanger.heard.filter((mail) => mail.to.includes(to)).length

function workers(t: { after(run: () => unknown): void }, { cpu = 60_000, size = 2 } = {}): DeliveryWorkers {
  const made = new DeliveryWorkers({ size, cpu, answer: async () => PEM })
  t.after(() => made.close())
  return made
}

async function open(from: DeliveryWorkers, apart = false): Promise<WorkerSession> {
  const { port } = exchanger
  const opened = await from.open(
    { host: 'mx.there.test', address: '127.0.0.1', port, hostname: 'mx.here.test', tls: 'none' },
    apart,
  )
  assert.ok(!isVerdict(opened), JSON.stringify(opened))
  return opened
}

const address = (text: string) => parseAddress(text)!

function letter(html: string): ComposeJob {
  return {
    mail: {
      from: address('me@here.test'),
      to: [address('you@there.test')],
      cc: [],
      replyTo: [],
      subject: 'x',
      messageId: '<x@here.test>',
      date: 0,
      extra: [],
      tracking: null,
    },
    mailto: '',
    content: { text: JSON.stringify({ html, text: null }) },
    spool: '/nowhere/',
    signature: { domain: 'here.test', selector: 's', keyId: 'k', time: 0 },
  }
}

const send = (session: WorkerSession, to: string, html = '<p>x</p>') =>
  session.send(letter(html), { from: 'me@bounce.here.test', recipients: [to] })

test('the thread that owns the connection composes, signs and sends an email', async (t) => {
  const session = await open(workers(t))
  for (const name of ['a', 'b']) {
    const [verdict] = await send(session, `${name}@there.test`).verdicts
    assert.equal(verdict?.kind, 'delivered', verdict!.text)
    assert.equal(session.usable, true)
  }
  const [mail] = exchanger.heard.filter(({ to }) => to.includes('a@there.test'))
  assert.match(mail!.message, /^DKIM-Signature: .*d=here\.test/)
  await session.quit()
  assert.equal(session.usable, false)
})

test('reports the recipients of a message that the server has received but not answered', async (t) => {
  silent.add('slow@there.test')
  const session = await open(workers(t))
  const sending = send(session, 'slow@there.test')
  await until(() => heard('slow@there.test') === 1)
  assert.deepEqual(await sending.handed(), [0])
  session.destroy()
  const [verdict] = await sending.verdicts
  assert.deepEqual([verdict?.kind, verdict?.handed], ['deferred', true], 'nobody knows whether it was taken')
  assert.deepEqual(await sending.handed().catch(() => []), [])
})

test('an email that takes too long ends its thread, which affects only emails on its connections', async (t) => {
  const short = workers(t, { cpu: 300, size: 1 })
  silent.add('beside@there.test')
  const [bad, beside, apart] = [await open(short), await open(short), await open(short, true)]
  const other = send(beside, 'beside@there.test')
  await until(() => heard('beside@there.test') === 1)
  const slow = send(bad, 'bad@there.test', '<p>a <b>b</b></p>\n'.repeat(1_500_000))
  await Promise.all([
    assert.rejects(slow.verdicts, (thrown) => thrown instanceof TookTooLong),
    assert.rejects(other.verdicts, (thrown) => thrown instanceof WorkerLost),
  ])
  assert.deepEqual([bad.usable, beside.usable, apart.usable], [false, false, true])
  assert.equal(heard('bad@there.test'), 0)
  await assert.rejects(send(beside, 'after@there.test').verdicts, (thrown) => thrown instanceof WorkerLost)
  const [verdict] = await send(apart, 'apart@there.test').verdicts
  assert.equal(verdict?.kind, 'delivered')
  const [next] = await send(await open(short), 'next@there.test').verdicts
  assert.equal(next?.kind, 'delivered', 'another thread has taken its place')
})

test('closes connections that are being opened with the others, and opens no further one', async (t) => {
  const threads = workers(t)
  exchanger.script.greeting = ''
  const { connections } = exchanger
  const [session, silent] = [open(threads, true), open(threads)].map((each) => each.catch((thrown: Error) => thrown))
  await until(() => exchanger.connections === connections + 2)
  threads.cut()
  delete exchanger.script.greeting
  for (const answer of [await session, await silent, await open(threads).catch((thrown: Error) => thrown)]) {
    assert.ok(answer instanceof Error, 'no session')
    assert.match(answer.message, /"kind":"deferred"/)
    assert.match(answer.message, /"code":null/)
  }
})

test('detects a connection that the server closed', async (t) => {
  const session = await open(workers(t))
  assert.equal(session.usable, true)
  exchanger.cut()
  await until(() => !session.usable)
})
