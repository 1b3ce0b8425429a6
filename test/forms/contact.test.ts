// Contact forms: what was typed arrives in an inbox, under the limits of all forms.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { formKit } from '../kit/forms.ts'
import { ofFile } from '../kit/of-file.ts'
import { parse } from '../kit/page.ts'
import { SITE, signupKit } from '../kit/signups.ts'
import { until } from '../kit/until.ts'

const postrider = ofFile(() =>
  startTestAppliance({
    domains: ['here.test'],
    routes: ['there.test'],
    config: { signup: { per_client: 10_000, per_client_day: 10_000, per_form: 6 } },
  }),
)
const forms = formKit(() => postrider)
const visitor = signupKit(() => postrider)
let made = 0

/** An open contact form with an inbox of its own. */
async function stage(attributes: Record<string, unknown> = {}) {
  const address = `desk${++made}@here.test`
  const { body } = await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Desk', address }))
  const inbox = body.data.id as string
  const fields = [
    { key: 'name', label: null, required: false },
    { key: 'order', label: 'Order number', required: false },
  ]
  return {
    inbox,
    address,
    ...(await forms.open({ inbox }, { origins: [SITE], fields, consent_text: null, ...attributes })),
  }
}
const received = async (inbox: string) => (await postrider.api('GET', `/inbound-emails?inbox=${inbox}`)).body.data

test('a message arrives in the inbox as an email of the server whose answers go to the visitor', async () => {
  const { address, id, inbox, slug } = await stage()
  const answer = await visitor.send(slug, {
    email: 'Eve@there.test',
    name: 'Eve\r\nBcc: victim@there.test',
    'field.order': '4711',
    message: 'Hello,\r\n\r\n<b>where</b> is it?\nBcc: x@there.test',
  })
  assert.equal(answer.status, 200)
  assert.match(await answer.text(), /Message sent/)
  const [row] = await until(async () => {
    const rows = await received(inbox)
    return rows.length > 0 ? rows : undefined
  }, 'the message')
  const { attributes } = (await postrider.api('GET', `/inbound-emails/${row.id}`)).body.data
  assert.match(attributes.from, /noreply@here\.test/)
  assert.match(JSON.stringify(attributes.reply_to), /eve@there\.test/)
  assert.doesNotMatch(JSON.stringify(attributes.reply_to), /Bcc: victim@there\.test>/)
  assert.deepEqual(attributes.to, [address])
  assert.equal(attributes.subject, 'Old Trees News')
  assert.match(attributes.text, /Email address: eve@there\.test[\s\S]*Order number: 4711[\s\S]*<b>where<\/b> is it\?/)
  assert.equal(attributes.headers['auto-submitted'], 'auto-generated')
  assert.equal(attributes.headers.bcc, undefined)
  assert.equal(attributes.authentication.dkim, 'pass')
  assert.equal((await forms.show(id))['counts'].requested, 1)
  const events = raw<{ id: string }>(
    `select i.id from events e join inbound_emails i on i.key = json_extract(e.data, '$.inbound')
     where e.type = 'inbound_email.received'`,
  )
  assert.deepEqual(postrider.appliance.deps.store.all(events), [{ id: row.id }])
  const held = await postrider.api('GET', '/recipients/eve@there.test')
  assert.partialDeepStrictEqual(held.body.data.attributes, { emails: 0, received: 1, contacts: 0, consents: 0 })
  // Nobody is subscribed, and the visitor gets no email.
  assert.deepEqual(await visitor.tags('eve@there.test'), [])
})

test('controls and what reverses text are removed from a message, its fields and the name', async () => {
  const { inbox, slug } = await stage()
  const hostile = '\0\u0007a\u202eb\u2066'
  const message = `One${hostile}\r\n\tTwo`
  const typed = { email: 'gil@there.test', name: `Gil${hostile}`, 'field.order': `47${hostile}`, message }
  assert.equal((await visitor.send(slug, typed)).status, 200)
  const [row] = await until(async () => {
    const rows = await received(inbox)
    return rows.length > 0 ? rows : undefined
  }, 'the message')
  const { attributes } = (await postrider.api('GET', `/inbound-emails/${row.id}`)).body.data
  assert.match(attributes.text, /Name: Gil ab\r?\nOrder number: 47 ab\r?\n[^]*\r?\nOneab\r?\n\tTwo/)
  assert.match(JSON.stringify(attributes.reply_to), /Gil ab/)
})

test('a message is needed, of at most 4,000 characters', async () => {
  const { inbox, slug } = await stage()
  const empty = await visitor.send(slug, { email: 'a@there.test', message: '  \n' })
  assert.equal(empty.status, 422)
  assert.match(await empty.text(), /Fill in this field: Message/)
  const long = await visitor.send(slug, { email: 'a@there.test', message: 'x'.repeat(4001) })
  assert.equal(long.status, 422)
  assert.equal((await received(inbox)).length, 0)
})

test('the check page holds the message, and robots deliver none', async () => {
  const { inbox, slug } = await stage()
  const given = { email: 'a@there.test', message: 'Hello\n"there"' }
  const checked = await visitor.send(slug, given, { origin: 'null' })
  const page = await checked.text()
  assert.match(page, /will be sent to a@there\.test/)
  const { hidden } = parse(page)[0]!
  assert.equal(hidden['message'], given.message)
  const shown = await (await postrider.page(`/f/${slug}`)).text()
  const [, honeypot] = /class="unseen"[\s\S]*?name="([^"]+)"/.exec(shown)!
  assert.match(await (await visitor.send(slug, { ...given, [honeypot!]: 'x' })).text(), /Message sent/)
  assert.match(await (await visitor.send(slug, hidden, { origin: 'null' })).text(), /Message sent/)
  await until(async () => (await received(inbox)).length === 1, 'one message')
})

test('a contact form over its limit is paused, and its visitors see that it is closed', async () => {
  const { id, slug } = await stage()
  const push = async (): Promise<Response> => {
    const given = { email: 'a@there.test', message: 'Hello' }
    const answer = await visitor.send(slug, given)
    const [, check] = /name="check" value="([^"]+)"/.exec(await answer.clone().text()) ?? []
    return check === undefined ? answer : visitor.send(slug, { ...given, check })
  }
  for (let each = 0; each < 6; each++) assert.equal((await push()).status, 200)
  assert.equal((await push()).status, 410)
  const { paused_reason, status } = await forms.show(id)
  assert.equal(status, 'paused')
  assert.match(paused_reason, /more than 6 messages in an hour/)
  assert.equal((await push()).status, 410)
})
