// The inbox in the console and its API: unread messages, previews, the email that a message answers, replies,
// forwarding and deletion.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { registerDomain } from '../../src/domains/lifecycle.ts'
import { nameOf } from '../../src/inbound/page-message.ts'
import { Visit } from '../../src/views/html/visit.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { receive } from '../kit/sender.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'], exchanger, routes: ['there.test'] }))
let ann: Guest
let inbox: string

setUp(async () => {
  ann = await signedIn(postrider)
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

test('a message is unread until it was opened, and again if it is marked as unread', async () => {
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
  assert.match(opened.text, />not authenticated</)
  assert.equal(await unread(), 0)
  const changes = (await postrider.api('GET', '/audit-entries?filter[subject_type]=inbox-messages')).body.data
  assert.deepEqual(changes, [], 'reading is not a change of the account')
  assert.doesNotMatch((await ann.open('/inboxes')).text, /title="unread"/)
  assert.deepEqual(await messages('?filter[seen]=false'), [])
  assert.match((await ann.open(`/inboxes/${inbox}?show=unread`)).text, /No unread messages/)

  const again = await ann.send(opened, 'unseen')
  assert.match(again.text, /Marked as unread\./)
  assert.equal(await unread(), 1)
})

test('the preview of a message is its first words, from text or HTML', async () => {
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

test('a reply is sent from the inbox in the thread, and the message links to the email that it answers', async () => {
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
  assert.match(refused.text, /aria-invalid="true"/)
  assert.match(refused.text, /Kept words/)
  const answered = await ann.send(draft, 'send', {
    to: 'Ada <ada@there.test>',
    subject: 'Re: Your order',
    text: 'Hello Ada',
  })
  assert.match(answered.text, /Your email to Ada &lt;ada@there\.test&gt; is on its way\./)
  const heard = await until(() => exchanger.heard.find(({ message }) => message.includes('Hello Ada')))
  assert.match(heard.message, /^From: support@here\.test\r$/m)
  assert.match(heard.message, /^In-Reply-To: <2@there\.test>\r$/m)
  assert.ok(heard.message.replaceAll(/\r\n\s+/g, ' ').includes(`References: <0@there.test> ${ours} <2@there.test>`))
})

test('a reply goes to the only address of the sender, even if its name looks like an address', async () => {
  for (const [from, to] of [
    ['=?iso-8859-1?Q?Gro=DF=2C_Anna?= <anna@there.test>', '"Groß, Anna" <anna@there.test>'],
    ['=?utf-8?Q?=3Cboss=40bank.test=3E?= <real@there.test>', '"<boss@bank.test>" <real@there.test>'],
  ]) {
    const message = `From: ${from}\nReply-To: =?utf-8?Q?nobody?=\nSubject: Name\n\nHi.\n`
    const { id } = await receive(postrider, { to: 'support@here.test', message })
    const { attributes } = (await postrider.api('GET', `/inbound-emails/${id}`)).body.data
    assert.equal(attributes.from, to)
    const draft = await ann.open(`/inboxes/${inbox}/mail/${id}/reply`)
    const [, filled = ''] = /name="to"[^>]*? value="([^"]*)"/.exec(draft.text) ?? []
    const marks: Record<string, string> = { '&quot;': '"', '&lt;': '<', '&gt;': '>' }
    const given = filled.replace(/&\w+;/g, (mark) => marks[mark]!)
    assert.equal(given, to)
    const answered = await ann.send(draft, 'send', { to: given, subject: 'Re: Name', text: 'Hello' })
    assert.match(answered.text, /is on its way/)
    const body = { from: 'support@here.test', to: attributes.from, subject: 'x', html: '<p>x</p>' }
    assert.equal((await postrider.api('POST', '/outbound-emails', document('outbound-emails', body))).status, 201)
  }
})

test('forwards a message as an attachment', async () => {
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

test('deletes a message permanently, and its bytes with the last inbox that has it', async () => {
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
  assert.match(gone.text, /Message deleted\./)
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

test('without permission messages of an inbox cannot be viewed, marked or deleted', async () => {
  const [one] = await messages()
  const path = `/inbox-messages/${one!.id}`
  assert.equal((await postrider.asOther('GET', path)).status, 404)
  assert.equal((await postrider.asOther('DELETE', path)).status, 404)
  const mark = await postrider.asOther('PATCH', path, document('inbox-messages', { seen: true }, { id: one!.id }))
  assert.equal(mark.status, 404)
  const [still] = await messages()
  assert.deepEqual(still, one)
})

test('forwards messages one after the other, because each needs several times its size in memory', async (t) => {
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

test('an inbox of an unverified domain shows when it will receive, on its pages and in the API (D197)', async () => {
  const { deps } = postrider.appliance
  const made = await registerDomain({ ...deps, ring: () => {} }, postrider.user.key, {
    name: 'soon.test',
    purpose: 'both',
  })
  const said = await ann.send(await ann.open('/inboxes/new'), 'add', { name: 'Soon', address: 'box@soon.test' })
  assert.match(said.text, /box@soon\.test receives messages once soon\.test is verified\./)
  assert.match(said.text, /Until then, senders are asked to retry later/)
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
  assert.match(now.text, /now@soon\.test can receive messages now\./)
  assert.doesNotMatch(now.text, /try again later/)
})
