// The source of a sent email as its sender reads it: the message on the wire, without the signature.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test'] }))

/** The captured message with this text, without its DKIM-Signature. */
const heard = async (text: string): Promise<string> => {
  const { message } = await until(() => exchanger.heard.find(({ message: each }) => each.includes(text)), text)
  return message.replace(/^DKIM-Signature:.*\r\n(?:[ \t].*\r\n)*/m, '')
}
const sourceOf = async (id: string) => {
  const response = await postrider.page(`/api/v1/outbound-emails/${id}/raw`, {
    headers: { authorization: `Bearer ${postrider.token}` },
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

test('the source of a submitted email has its header, parts and files byte for byte', async () => {
  const attributes = {
    from: 'Shop <shop@here.test>',
    to: 'Ada Löw <ada@there.test>',
    cc: 'ben@there.test',
    subject: 'Grüße, and a subject that is so long that its field takes several lines, as the rules of mail say',
    html: '<p>.hidden</p>\n<p><a href="https://shop.test/">Your order</a></p>',
    text: '.dot first\nYour order 4711',
    headers: { 'X-Order': '.4711' },
    attachments: [{ filename: 'a.txt', content: Buffer.from('A file').toString('base64'), content_type: 'text/plain' }],
    track_clicks: false,
  }
  const { body } = await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))
  const wire = await heard('X-Order')
  const { headers, status, text } = await sourceOf(body.data.id)
  assert.equal(status, 200)
  assert.equal(text, wire)
  assert.match(text, /^From: Shop <shop@here\.test>\r\nTo: [^]*\r\nMessage-ID: [^]*\r\nX-Order: \.4711\r\n/)
  assert.equal(headers.get('content-type'), 'message/rfc822')
  assert.equal(headers.get('content-disposition'), `attachment; filename="${body.data.id}.eml"`)
  assert.equal((await postrider.asOther('GET', `/outbound-emails/${body.data.id}/raw`)).status, 404)
})

test('the source of a campaign email has unsubscribe links that have no effect', async () => {
  const kit = campaignKit(() => postrider)
  const audience = await kit.audience({ id: (await postrider.api('GET', '/domains')).body.data[0].id })
  await kit.fill(audience, [{ email: 'eve@there.test', name: 'Eve' }])
  const letter = {
    body_html:
      '<p>Hello {{name}}</p><p><a href="{{unsubscribe_url}}">Leave</a>, <a href="{{unsubscribe_mailto}}">write</a></p>',
  }
  await kit.send(await kit.draft(audience, letter))
  const wire = await heard('To: Eve <eve@there.test>')
  const { body } = await postrider.api('GET', '/outbound-emails?filter[search]=eve@there.test')
  const { text } = await sourceOf(body.data[0].id)
  /** Decodes quoted-printable, because folds and escapes depend on the length of a link. */
  const decoded = (message: string) =>
    message
      .replaceAll(/=\r\n/g, '')
      .replaceAll(/=([\dA-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  const rest = (message: string) =>
    decoded(message)
      .replaceAll(/mailto:[\w-]+@/g, 'mailto:LOCAL@')
      .replaceAll(/(?:List-Unsubscribe:\r?\n? )?<?\S*\/u\/[\w-]+=*/g, 'LINK')
  assert.equal(rest(text).replaceAll(/LINK>?,\s*/g, 'LINK,'), rest(wire).replaceAll(/LINK>?,\s*/g, 'LINK,'))
  const [, link = ''] = /(http\S*\/u\/[\w-]+)/.exec(decoded(text)) ?? []
  assert.match(link, /known-to-the-recipient$/)
  assert.equal((await postrider.page(new URL(link).pathname)).status, 404)
  // An email client offers both: the address of the header, and that of the text and of the page.
  const locals = [...decoded(text).matchAll(/mailto:([\w-]+)@/g)].map(([, local]) => local)
  assert.deepEqual([...new Set(locals)], ['known-to-the-recipient'])
  assert.ok(locals.length >= 3, text)
})

test('an email whose body is no longer stored has no source', async () => {
  const attributes = { from: 'shop@here.test', to: 'old@there.test', subject: 'Old', html: '<p>Old</p>' }
  const { body } = await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))
  await heard('Subject: Old')
  await postrider.appliance.deps.store.write((tx) => tx.run(raw('update outbound_bodies set content = null', [])))
  const { status, text } = await sourceOf(body.data.id)
  assert.equal(status, 404)
  assert.match(text, /The body of this email is no longer stored/)
})
