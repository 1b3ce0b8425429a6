// The inbox in the console, and what the API gives it: unread messages, how they begin, the mail that they answer, an
// answer, a message sent on, and one that is deleted.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { registerDomain } from '../../src/domains/lifecycle.ts'
import { nameOf } from '../../src/inbound/page-message.ts'
import { Visit } from '../../src/webui/visit.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { givePassword } from '../kit/person.ts'
import { receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'

const PASSWORD = 'a long enough password'
const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'], exchanger, routes: ['there.test'] }))
let ann: Guest
let inbox: string

setUp(async () => {
  await givePassword(postrider, postrider.user.email, PASSWORD)
  ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  inbox = await makeInbox('support@here.test')
})

async function makeInbox(address: string): Promise<string> {
  const made = await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Support', address }))
  return made.body.data.id
}

const messages = async (query = '', of = inbox) =>
  (await postrider.api('GET', `/inboxes/${of}/messages${query}`)).body.data as {
    id: string
    attributes: Record<string, unknown>
  }[]
const unread = async (of = inbox): Promise<number> =>
  (await postrider.api('GET', '/inbox-counts')).body.data.find(({ id }: { id: string }) => id === of).attributes.unread

test('a message is new until it was opened, and again when it is marked so', async () => {
  const { id } = await receive(postrider, {
    to: 'support@here.test',
    message: 'From: "Ada <b>" <ada@there.test>\nSubject: Where is it?\n\nI ordered\n on Monday.\n',
  })
  const [first] = await messages()
  assert.deepEqual(
    [first!.id, first!.attributes['seen'], first!.attributes['snippet']],
    [id, false, 'I ordered on Monday.'],
  )
  assert.equal(await unread(), 1)
  assert.match((await ann.open(`/inboxes/${inbox}`)).text, /<strong>Ada b<\/strong>|<strong>Ada &lt;b&gt;<\/strong>/)
  const list = (await ann.open('/inboxes')).text
  assert.match(list, /<strong>1<\/strong>/)
  assert.match(list, /title="unread"\s*>1<span class="hidden"> unread</, 'the menu counts it')

  const opened = await ann.open(`/inboxes/${inbox}/mail/${id}`)
  assert.match(opened.text, /sender not proven/)
  assert.equal(await unread(), 0)
  assert.doesNotMatch((await ann.open('/inboxes')).text, /title="unread"/)
  assert.deepEqual(await messages('?filter[seen]=false'), [])
  assert.match((await ann.open(`/inboxes/${inbox}?show=unread`)).text, /All is read/)

  const again = await ann.send(opened, 'unseen')
  assert.match(again.text, /The message is unread again\./)
  assert.equal(await unread(), 1)
})

test('a message begins with its words, whether they are text or HTML', async () => {
  const html = `<html><head><style>${'p { color: red } '.repeat(100)}</style></head><body><h1>Big</h1><p>news &amp; more</p></body></html>`
  await receive(postrider, {
    to: 'support@here.test',
    message: `From: a@there.test\nSubject: HTML\nMIME-Version: 1.0\nContent-Type: text/html\n\n${html}\n`,
  })
  const [newest] = await messages()
  assert.match(String(newest!.attributes['snippet']), /^big news & more$/i)
  await receive(postrider, {
    to: 'support@here.test',
    message: `From: a@there.test\nSubject: Long\n\n${'word '.repeat(20_000)}\n`,
  })
  const [long] = await messages()
  assert.equal(String(long!.attributes['snippet']).length, 139)
})

test('a sender is shown by name, or by address', () => {
  const shown = ['"Ada, Dr." <a@b.c>', 'Ada <a@b.c>', '<a@b.c>', 'a@b.c', 'Ada <x> <a@b.c>', ''].map(nameOf)
  assert.deepEqual(shown, ['Ada, Dr.', 'Ada', 'a@b.c', 'a@b.c', 'Ada <x>', ''])
})

test('an answer goes out from the inbox, in the thread; what a message answers is a link', async () => {
  const sent = await postrider.api(
    'POST',
    '/outbound-emails',
    document('outbound-emails', {
      from: 'support@here.test',
      to: 'ada@there.test',
      subject: 'Your order',
      html: '<p>x</p>',
    }),
  )
  const { id: mail } = sent.body.data
  const { message_id: ours } = sent.body.data.attributes
  const { id } = await receive(postrider, {
    to: 'support@here.test',
    message: `From: Ada <ada@there.test>\nSubject: Re: Your order\nMessage-ID: <2@there.test>\nReferences: <0@there.test> ${ours}\nIn-Reply-To: ${ours}\n\nThanks.\nBye.\n`,
  })
  const page = `/inboxes/${inbox}/mail/${id}`
  assert.match((await ann.open(page)).text, new RegExp(`<a href="/mail/${mail}">Your order</a>`))

  const draft = await ann.open(`${page}/reply`)
  assert.match(draft.text, /value="Re: Your order"/)
  assert.match(draft.text, /Ada wrote:\n&gt; Thanks\.\n&gt; Bye\./)
  const refused = await ann.send(draft, 'send', { to: 'nobody', subject: 'Re: Your order', text: 'Kept words' })
  assert.match(refused.text, /role="alert"/)
  assert.match(refused.text, /Kept words/)
  const answered = await ann.send(draft, 'send', {
    to: 'Ada <ada@there.test>',
    subject: 'Re: Your order',
    text: 'Hello Ada',
  })
  assert.match(answered.text, /Your mail to Ada &lt;ada@there\.test&gt; is on its way\./)
  const heard = await until(() => exchanger.heard.find(({ message }) => message.includes('Hello Ada')))
  assert.match(heard.message, /^From: support@here\.test\r$/m)
  assert.match(heard.message, /^In-Reply-To: <2@there\.test>\r$/m)
  assert.ok(heard.message.replaceAll(/\r\n\s+/g, ' ').includes(`References: <0@there.test> ${ours} <2@there.test>`))
})

test('a message is sent on as a file, whole', async () => {
  const { id } = await receive(postrider, {
    to: 'support@here.test',
    message: 'From: a@there.test\nSubject: Original\n\nThe original words.\n',
  })
  const draft = await ann.open(`/inboxes/${inbox}/mail/${id}/forward`)
  assert.match(draft.text, /value="Fwd: Original"/)
  const gone = await ann.send(draft, 'send', { to: 'boss@there.test', subject: 'Fwd: Original', text: 'Look' })
  assert.match(gone.text, /is on its way/)
  const heard = await until(() => exchanger.heard.find(({ message }) => message.includes('Fwd: Original')))
  const parts = [...heard.message.matchAll(/\r\n\r\n([A-Za-z0-9+/=\r\n]+)\r\n--/g)].map(([, octets]) =>
    Buffer.from(octets!, 'base64').toString(),
  )
  assert.ok(heard.message.includes('The original words.') || parts.some((each) => each.includes('The original words.')))
})

test('a message is deleted for good; its octets go with the last inbox that has it', async () => {
  const other = await makeInbox('sales@here.test')
  await receive(postrider, {
    to: ['support@here.test', 'sales@here.test'],
    message: `From: a@there.test\nSubject: To both\n\n${'x'.repeat(60)}\n`.replace(
      '\n\n',
      `\nX: ${'y'.repeat(60)}\n\n${'line\n'.repeat(60_000)}`,
    ),
  })
  const of = async (box: string) =>
    (await messages('', box)).find(({ attributes }) => attributes['subject'] === 'To both')
  const [mine, theirs] = [await until(() => of(inbox)), await until(() => of(other))]
  const files = (): string[] =>
    readdirSync(join(postrider.dataDir, 'spool'), { recursive: true, withFileTypes: true })
      .filter((each) => each.isFile())
      .map(({ name }) => name)
  const before = files().length
  const gone = await ann.send(await ann.open(`/inboxes/${inbox}/mail/${mine.id}`), 'remove')
  assert.match(gone.text, /The message is deleted\./)
  assert.equal((await postrider.api('GET', `/inbound-emails/${mine.id}`)).status, 404)
  assert.equal(
    (
      await postrider.raw(`/api/v1/inbound-emails/${theirs.id}/raw`, {
        headers: { authorization: `Bearer ${postrider.token}` },
      })
    ).status,
    200,
  )
  assert.equal(files().length, before)
  assert.equal((await postrider.api('DELETE', `/inbox-messages/${theirs.id}`)).status, 204)
  assert.equal(files().length, before - 1)
})

test('who has no right to an inbox neither sees nor marks nor deletes its messages', async () => {
  const [one] = await messages()
  const path = `/inbox-messages/${one!.id}`
  assert.equal((await postrider.asOther('GET', path)).status, 404)
  assert.equal((await postrider.asOther('DELETE', path)).status, 404)
  const mark = await postrider.asOther('PATCH', path, document('inbox-messages', { seen: true }, { id: one!.id }))
  assert.equal(mark.status, 404)
  const [still] = await messages()
  assert.deepEqual(still, one)
})

test('messages are sent on one after the other: each takes several times its size in memory', async (t) => {
  const message = 'From: ada@there.test\nSubject: Heavy\n\nText\n'
  const { id } = await receive(postrider, { to: 'support@here.test', message })
  const draft = await ann.open(`/inboxes/${inbox}/mail/${id}/forward`)
  const ask = Reflect.get(Visit.prototype, 'ask') as Visit['ask']
  const download = Reflect.get(Visit.prototype, 'download') as Visit['download']
  let [held, most] = [0, 0]
  t.mock.method(Visit.prototype, 'download', async function (this: Visit, path: string) {
    most = Math.max(most, ++held)
    return download.call(this, path)
  })
  t.mock.method(Visit.prototype, 'ask', async function (this: Visit, ...args: Parameters<Visit['ask']>) {
    const answer = await ask.apply(this, args)
    if (args[0] === 'POST' && args[1] === '/outbound-emails') held--
    return answer
  })
  const sent = await Promise.all(
    Array.from({ length: 4 }, () =>
      ann.send(draft, 'send', { to: 'boss@there.test', subject: 'Fwd: Heavy', text: '' }),
    ),
  )
  for (const { text } of sent) assert.match(text, /is on its way/)
  assert.deepEqual([most, held], [1, 0])
})

test('an inbox of a domain that is not verified says when it receives, on its pages and over the API (D197)', async () => {
  const { deps } = postrider.appliance
  const made = await registerDomain({ ...deps, ring: () => {} }, postrider.user.key, {
    name: 'soon.test',
    purpose: 'both',
  })
  const said = await ann.send(await ann.open('/inboxes/new'), 'add', { name: 'Soon', address: 'box@soon.test' })
  assert.match(said.text, /box@soon\.test receives mail once soon\.test is verified\./)
  assert.match(said.text, /until then senders are told to try again later/)
  const receives = async (): Promise<boolean[]> =>
    (await postrider.api('GET', '/inbox-counts')).body.data.map(
      ({ attributes }: { attributes: { receives: boolean } }) => attributes.receives,
    )
  assert.equal((await receives()).filter((each) => !each).length, 1)
  assert.equal((await ann.open('/inboxes')).text.match(/receives once soon\.test is verified/g)?.length, 1)

  postrider.publish(made)
  await postrider.api('POST', `/domains/${made.id}/check`)
  await until(async () => (await receives()).every(Boolean), 'the domain verified')
  assert.doesNotMatch((await ann.open('/inboxes')).text, /receives once/)
  const now = await ann.send(await ann.open('/inboxes/new'), 'add', { name: 'Now', address: 'now@soon.test' })
  assert.match(now.text, /now@soon\.test receives mail from now on\./)
  assert.doesNotMatch(now.text, /try again later/)
})
