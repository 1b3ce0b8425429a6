// Campaign emails with hostile names and fields on the wire: each has a signature that mailauth verifies and that
// covers the unsubscribe fields (RFC 8058 §4), and has the text of the specification.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { authenticate } from 'mailauth'
import { simpleParser } from 'mailparser'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger, type Heard } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { HOSTILE_NAMES, HOSTILE_VALUES } from './hostile.ts'

const CAMPAIGNS = 4
const EACH = 36

const kit = campaignKit(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))

/** Field values of the header, unfolded. */
const fields = (message: string, name: string): string[] =>
  [
    ...message
      .slice(0, message.indexOf('\r\n\r\n') + 2)
      .replace(/\r\n(?=[ \t])/g, '')
      .matchAll(new RegExp(`^${name}: *(.*?)\\r$`, 'gim')),
  ].map((match) => match[1]!)

const verify = (message: string) =>
  authenticate(Buffer.from(message), {
    ip: '127.0.0.1',
    sender: 'x@here.test',
    resolver: async (name: string, type: string) => {
      const answer = await postrider.dns.resolver.txt(name)
      if (type !== 'TXT' || answer.kind !== 'found') throw Object.assign(new Error(), { code: 'ENOTFOUND' })
      return answer.records.map((text) => [text])
    },
  })

const escaped = (value: string): string =>
  value
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
const lf = (text: string): string => text.replace(/\r\n?/g, '\n')

test(`merges ${CAMPAIGNS * EACH} emails with hostile names and fields`, async () => {
  const domain = await postrider.activeDomain('here.test')
  const attributes = { click_tracking_enabled: true, open_tracking_enabled: true }
  await postrider.api('PATCH', `/domains/${domain.id}`, { data: { type: 'domains', id: domain.id, attributes } })
  const contacts = Array.from({ length: EACH }, (_, n) => ({
    email: `n${n}@there.test`,
    name: HOSTILE_NAMES[n % HOSTILE_NAMES.length]!,
    custom_fields: { value: HOSTILE_VALUES[n % HOSTILE_VALUES.length]!, 'größe 1': n },
  }))
  const of = new Map(contacts.map((contact) => [contact.email, contact]))
  const listIds = new Set<string>()
  for (let n = 0; n < CAMPAIGNS; n++) {
    exchanger.heard.length = 0
    // The characters that a list name can have.
    const audience = await kit.audience(domain, ['Readers', '"Größe" <x>', '日本', 'a'.repeat(200)][n])
    const { created } = await kit.fill(audience, contacts)
    assert.equal(created, EACH)
    const tracked = n % 2 === 0
    const campaign = await kit.draft(audience, {
      subject: n === 3 ? '{{value}}' : 'For {{name}}: {{value}}',
      body_html:
        '<p>|{{name}}|{{value}}|{{größe 1}}|{{nothing}}|</p><a href="{{unsubscribe_url}}">Leave</a><a href="https://x.test/{{größe 1}}">x</a>',
      body_text: n === 1 ? '|{{name}}|{{value}}|' : null,
      from_address: n === 2 ? '"Ann, Größe" <ann@news.here.test>' : null,
      reply_to: n === 2 ? ['a@here.test', '"Ü" <b@here.test>'] : [],
      track_opens: tracked,
      track_clicks: tracked,
    })
    assert.equal(await kit.send(campaign), 'sent')
    assert.deepEqual(new Set(exchanger.heard.map(({ to }) => to[0])), new Set(of.keys()))
    assert.equal(exchanger.heard.length, EACH)
    const found = await Promise.all(exchanger.heard.map((mail) => check(mail, of.get(mail.to[0]!)!)))
    assert.equal(new Set(found).size, 1, 'one List-Id for an audience')
    listIds.add(found[0]!)
  }
  assert.equal(listIds.size, CAMPAIGNS, 'and another for each')
})

test('counts clicks of a link from a merge tag if it is a web URL, and leaves others unchanged', async () => {
  const domain = await postrider.activeDomain('links.here.test')
  const attributes = { click_tracking_enabled: true }
  await postrider.api('PATCH', `/domains/${domain.id}`, { data: { type: 'domains', id: domain.id, attributes } })
  const audience = await kit.audience(domain, 'Links')
  await kit.fill(audience, [
    { email: 'web@there.test', custom_fields: { url: 'https://x.test/?a=1&b=2' } },
    { email: 'not@there.test', custom_fields: { url: 'mailto:me@x.test' } },
  ])
  exchanger.heard.length = 0
  const body_html = '<a href="{{url}}">x</a><a href="{{unsubscribe_url}}">Leave</a>'
  assert.equal(await kit.send(await kit.draft(audience, { body_html, track_clicks: true })), 'sent')
  const htmlTo = async (address: string): Promise<string> =>
    (await simpleParser(exchanger.heard.find(({ to }) => to[0] === address)!.message)).html as string
  assert.match(await htmlTo('web@there.test'), /<a href="[^"]*\/t\/c\/[\w-]+">x<\/a><a href="[^"]*\/u\/[\w-]+">Leave/)
  assert.match(await htmlTo('not@there.test'), /<a href="mailto:me@x\.test">x<\/a>/)
})

async function check(
  { message, to }: Heard,
  contact: { name: string; custom_fields: Record<string, unknown> },
): Promise<string> {
  const why = JSON.stringify([to, contact])
  assert.match(message, /^[\t\r\n\x20-\x7e]*$/, why)
  for (const line of message.split('\r\n')) assert.ok(line.length <= 998, why)
  const { dkim } = await verify(message)
  assert.equal(dkim.results.length, 1, why)
  assert.equal(dkim.results[0]!.status.result, 'pass', why)
  // RFC 2369 §2, RFC 8058 §3.1: one URI of the web and one mailto, and both fields signed.
  const [leave, ...more] = fields(message, 'List-Unsubscribe')
  assert.deepEqual(more, [], why)
  assert.match(
    leave!,
    /^<https?:\/\/[^<>, ]+\/u\/[\w-]+>, <mailto:u-[a-z2-7]+@bounce\.here\.test\?subject=unsubscribe>$/,
    why,
  )
  assert.deepEqual(fields(message, 'List-Unsubscribe-Post'), ['List-Unsubscribe=One-Click'], why)
  const listId = fields(message, 'List-Id')
  assert.equal(listId.length, 1, why)
  assert.match(listId[0]!, /^(?:"[^"\\<>]+" )?<[\w.-]+\.here\.test>$/, why)
  assert.deepEqual(fields(message, 'Precedence'), [], why)
  const [signature] = fields(message, 'DKIM-Signature')
  const covered = /;\s*h=([^;]*)/.exec(signature!)![1]!.replace(/\s/g, '').toLowerCase().split(':')
  for (const name of [
    'from',
    'to',
    'subject',
    'date',
    'message-id',
    'list-unsubscribe',
    'list-unsubscribe-post',
    'list-id',
    'content-type',
  ])
    assert.ok(
      covered.includes(name) || (name === 'subject' && fields(message, 'Subject')[0] === ''),
      `${name} is not covered: ${why}`,
    )

  const mail = await simpleParser(message)
  assert.deepEqual(
    (mail.to as { value: { address?: string }[] }).value.map(({ address }) => address),
    to,
    why,
  )
  const given = contact.custom_fields['value'] as string | number | boolean | object | null
  const value = given === null || typeof given === 'object' ? '' : String(given).toWellFormed().replaceAll('\0', '')
  const name = contact.name.toWellFormed()
  const html = lf(mail.html as string)
  const n = String(contact.custom_fields['größe 1'])
  assert.ok(html.startsWith(`<p>|${lf(escaped(name))}|${lf(escaped(value))}|${n}||</p>`), `${why} ${html}`)
  return listId[0]!
}
