// Campaign emails with hostile names and fields, sent by the executable: OpenDKIM, which shares no code with the
// signer, passes all 1,000, and rejects each with a second field in front.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { HOSTILE_NAMES, HOSTILE_VALUES } from '../campaigns/hostile.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { fields } from './rig/letter.ts'
import { withPrograms } from './rig/need.ts'
import { startPostrider, type RunningPostrider } from './rig/postrider.ts'
import { PROGRAMS, until } from './rig/sandbox.ts'
import { opendkimAll, type DkimKey } from './rig/verifiers.ts'

const MAILS = 1000
const FROM = 'shop.example'

withPrograms('campaign emails with OpenDKIM', existsSync(PROGRAMS.opendkim) ? [] : ['opendkim'], () => {
  let dns: TestDns
  let exchanger: TestExchanger
  let postrider: RunningPostrider
  let key: DkimKey

  before(async () => {
    dns = await startTestDns()
    exchanger = await startTestExchanger()
    dns.set('there.example', 'MX', ['10 mx.there.example'])
    dns.set('mx.there.example', 'A', ['127.0.0.1'])
    postrider = await startPostrider({ dns, hostname: 'mx.postrider.example', deliveryPort: exchanger.port })
    await postrider.sendingDomain(FROM)
    const { records } = (await postrider.json('domain', 'records', FROM)) as {
      records: { record_type: string; name: string; value: string; required: boolean }[]
    }
    const { name, value } = records.find(({ record_type, required }) => record_type === 'DKIM' && required)!
    key = { selector: name.split('.')[0]!, domain: FROM, record: value }
  })
  after(async () => {
    await postrider?.stop()
    await exchanger?.close()
    await dns?.close()
  })

  const made = async (path: string, data: Record<string, unknown>, expected = 201): Promise<string> => {
    const { body, status } = await postrider.api('POST', path, { data })
    assert.equal(status, expected, JSON.stringify(body))
    return body.data.id
  }

  test(`all ${MAILS} emails pass, and a modified one fails`, async () => {
    const domain = (await postrider.api('GET', '/domains')).body.data[0].id
    const audience = await made('/audiences', {
      type: 'audiences',
      attributes: { name: 'Größe "x"' },
      relationships: { domain: { data: { type: 'domains', id: domain } } },
    })
    // A header field of some 60 KB is more than OpenDKIM's own reader of files takes.
    const short = (value: unknown): unknown => (typeof value === 'string' && value.length > 300 ? '' : value)
    const contacts = Array.from({ length: MAILS }, (_, n) => ({
      email: `n${n}@there.example`,
      name: HOSTILE_NAMES[n % HOSTILE_NAMES.length],
      custom_fields: {
        value: HOSTILE_VALUES[n % HOSTILE_VALUES.length],
        short: short(HOSTILE_VALUES[n % HOSTILE_VALUES.length]),
        n,
      },
    }))
    for (let from = 0; from < MAILS; from += 250)
      await made(
        `/audiences/${audience}/contacts/import`,
        { type: 'contacts', attributes: { contacts: contacts.slice(from, from + 250) } },
        200,
      )
    const campaign = await made('/campaigns', {
      type: 'campaigns',
      attributes: {
        name: 'Hostile',
        subject: '{{name}}: {{short}}',
        body_html: '<p>{{name}} {{value}} {{n}}</p><a href="{{unsubscribe_url}}">Leave</a>',
      },
      relationships: { audience: { data: { type: 'audiences', id: audience } } },
    })
    const data = { type: 'campaigns', id: campaign, attributes: { status: 'scheduled' } }
    assert.equal((await postrider.api('PATCH', `/campaigns/${campaign}`, { data })).status, 200)
    await until(
      async () => (await postrider.api('GET', `/campaigns/${campaign}`)).body.data.attributes.status === 'sent',
      60_000,
      () => `${exchanger.heard.length} mails were heard:\n${postrider.log().slice(-3000)}`,
    )
    assert.equal(new Set(exchanger.heard.map(({ to }) => to[0])).size, MAILS)
    assert.equal(exchanger.heard.length, MAILS)

    const letters = exchanger.heard.map(({ message }) => Buffer.from(message))
    for (const letter of letters) assert.equal(fields(letter, 'DKIM-Signature').length, 1)
    const passed = async (mails: Buffer[]) => (await opendkimAll(mails, [key])).map(({ ok }) => ok)
    const said = await opendkimAll(letters, [key])
    assert.deepEqual(
      said.filter(({ ok }) => !ok),
      [],
    )
    assert.equal(said.length, MAILS)
    for (const name of ['From', 'Subject', 'To', 'Reply-To', 'Content-Type', 'List-Unsubscribe']) {
      const more = letters
        .slice(0, 100)
        .map((letter) => Buffer.concat([Buffer.from(`${name}: x@evil.example\r\n`), letter]))
      assert.ok(!(await passed(more)).includes(true), `a second ${name}`)
    }
    const changed = letters[0]!.toString().replace(/^List-Unsubscribe-Post: .*$/m, 'List-Unsubscribe-Post: No')
    assert.deepEqual(await passed([Buffer.from(changed)]), [false])
  })
})
