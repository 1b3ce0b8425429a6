// A row that is corrupt in the database is shown with nulls and a list of the lost attributes. The other rows of its
// page, and the same row after its repair, are shown as usual.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { resourcesOf } from '../../src/http/server.ts'
import { loadParts } from '../../src/server/parts.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { receive } from '../kit/sender.ts'

const resources = resourcesOf(await loadParts())

interface Shown {
  id: string
  attributes: Record<string, unknown>
  meta?: object
}

const said: string[] = []
/** A list of each kind with two rows, of which the last is corrupt. */
const lists = new Map<string, string>()

const made = async (path: string, type: string, attributes: object, related: Record<string, string> = {}) => {
  const relationships = Object.fromEntries(
    Object.entries(related).map(([name, id]) => [name, { data: { type: `${name}s`, id } }]),
  )
  const body = { data: { type, attributes, ...(Object.keys(related).length > 0 ? { relationships } : {}) } }
  const answer = await postrider.api('POST', path, body)
  assert.ok(answer.status < 300, `${path}: ${JSON.stringify(answer.body)}`)
  return answer.body.data.id as string
}

const postrider = ofFile(() => startTestAppliance({ logged: { level: 'error', lines: said }, domains: ['there.test'] }))

setUp(async () => {
  const kit = campaignKit(() => postrider)
  const domain = await postrider.activeDomain('here.test')
  const audience = await kit.audience(domain)
  await kit.audience(domain)
  await kit.fill(audience, [
    { email: 'one@a.test', custom_fields: { town: 'Ulm' }, preferences: { weekly: true } },
    { email: 'two@a.test', custom_fields: { town: 'Bonn' }, preferences: { weekly: true } },
  ])
  await made('/tokens', 'tokens', { name: 'Another', scopes: ['emails:read'], duration: '1_month' })
  const inbox = await made('/inboxes', 'inboxes', { name: 'Box', address: 'box@here.test' })
  await made('/inboxes', 'inboxes', { name: 'Second', address: 'second@here.test' })
  for (const n of [1, 2]) {
    await kit.draft(audience, { reply_to: [`ann${n}@here.test`] })
    await made(
      '/webhooks',
      'webhooks',
      { name: `Hook ${n}`, url: `https://hook${n}.test/`, events: ['email.sent'] },
      { domain: domain.id },
    )
    await made('/outbound-emails', 'outbound-emails', {
      from: 'ann@here.test',
      to: `bob${n}@nowhere.test`,
      cc: [`c${n}@nowhere.test`],
      subject: 'Hello',
      html: '<p>Hi</p>',
    })
    await receive(postrider, { to: 'box@here.test' })
  }
  for (const { type, actions } of resources)
    for (const action of actions) {
      // A token cannot read lists for signed-in users.
      if (action.kind !== 'list' || action.person) continue
      const ids: Record<string, string> = { ':audience': audience, ':inbox': inbox, ':domain': domain.id }
      const path = action.path.replace(/:\w+/, (name) => ids[name] ?? name)
      if (!path.includes(':') && !lists.has(type)) lists.set(type, path)
    }
})

test('every list returns corrupt rows with null and the other rows unchanged', async () => {
  const { store } = postrider.appliance.deps
  const tried: string[] = []
  for (const { attributes, table, type } of resources) {
    const path = lists.get(type)
    if (path === undefined) continue
    const whole = await postrider.api('GET', path)
    assert.equal(whole.status, 200, path)
    // The last of the tokens is the one of the request.
    const { id } = (whole.body.data as { id: string }[]).at(type === 'tokens' ? 0 : -1) ?? {}
    if (id === undefined) continue
    const columns = store.all(raw<{ name: string }>(`select name from pragma_table_info('${table}')`))
    for (const [name, { answer, kind, read, schema }] of Object.entries(attributes)) {
      const names = (answer ?? schema) instanceof z.ZodEnum && kind === undefined
      const form = answer ?? schema
      const inner = form instanceof z.ZodNullable ? form.unwrap() : form
      const number = kind === undefined && inner instanceof z.ZodNumber
      if ((kind === undefined && !names && !number) || (read !== undefined && read !== 'always')) continue
      if (!columns.some((column) => column.name === name)) continue
      const harm = names
        ? `'senx'`
        : kind === 'json'
          ? `'["x'`
          : kind === 'flag'
            ? '7'
            : number
              ? '-5'
              : '9000000000000000'
      const [before] = store.all(
        raw<{ was: string | number | null }>(`select "${name}" as was from ${table} where id = '${id}'`),
      )
      await store.write((tx) => tx.run(raw(`update ${table} set "${name}" = ${harm} where id = '${id}'`)))
      said.length = 0
      const faults = store.verify().join()
      assert.ok(
        faults.includes(`${name} in ${table}`) || faults.includes(`Texts in ${table}`),
        `${table}.${name}: ${faults}`,
      )
      const { body, status } = await postrider.api('GET', path)
      assert.equal(status, 200, `${path} with ${name} damaged: ${JSON.stringify(body)}`)
      const shown: Shown = (body.data as Shown[]).find((each) => each.id === id)!
      // Sorted by the corrupt column it may have another position, but it is there.
      assert.deepEqual(shown.meta, { damaged: [name] }, `${type} ${name}`)
      assert.equal(shown.attributes[name], null)
      assert.equal(body.data.length, whole.body.data.length)
      assert.match(said.join(''), new RegExp(`row_corrupt.*${id}`))
      assert.ok(!said.join('').includes('"internal_error"'))
      tried.push(`${type} ${name}`)
      await store.write((tx) => tx.run(raw(`update ${table} set "${name}" = ? where id = '${id}'`, [before!.was])))
    }
    assert.deepEqual((await postrider.api('GET', path)).body, whole.body, `${type} fixed`)
  }
  for (const each of [
    'campaigns test_mode',
    'inbound-emails size',
    'audiences contacts_count',
    'outbound-emails cc',
    'contacts custom_fields',
    'campaigns reply_to',
    'webhooks events',
  ])
    assert.ok(tried.includes(each), `${each} of ${tried.join(', ')}`)
  assert.ok(tried.length > 20, tried.join(', '))
})

test('verify reports recipients with an unknown status or an impossible time', async () => {
  const { store } = postrider.appliance.deps
  const path = '/outbound-emails'
  const whole = (await postrider.api('GET', path)).body
  const { id } = whole.data.at(-1)
  const change = (set: string) =>
    store.write((tx) =>
      tx.run(
        raw(
          `update deliveries set ${set} where email_key = (select key from outbound_emails where id = ?) and role = 'to'`,
          [id],
        ),
      ),
    )
  const [was] = store.all(
    raw<{ status: string; next_attempt_at: number | null }>(
      `select status, next_attempt_at from deliveries where email_key = (select key from outbound_emails where id = ?) and role = 'to'`,
      [id],
    ),
  )
  for (const [harm, fault] of [
    [`status = 'senx'`, /status in deliveries has an unknown value/],
    [`status = 'queued', next_attempt_at = 9000000000000000`, /next_attempt_at in deliveries is not a valid time/],
    [`smtp_code = -3`, /smtp_code in deliveries is not a valid number/],
  ] as const) {
    await change(harm)
    assert.match(store.verify().join(), fault)
    const shown: Shown = (await postrider.api('GET', path)).body.data.find((each: Shown) => each.id === id)
    assert.deepEqual([shown.meta, shown.attributes['recipients']], [{ damaged: ['recipients'] }, null], harm)
    await change(`status = '${was!.status}', next_attempt_at = ${was!.next_attempt_at ?? 'null'}, smtp_code = null`)
  }
  assert.deepEqual(store.verify(), [])
})

test('does not show a corrupt virus name', async () => {
  const { store } = postrider.appliance.deps
  const [mail] = (await postrider.api('GET', '/inbound-emails')).body.data
  const harm = (value: string | null) =>
    store.write((tx) =>
      tx.run(
        raw(`update inbound_messages set virus = ? where key = (select message_key from inbound_emails where id = ?)`, [
          value,
          mail.id,
        ]),
      ),
    )
  const detailOf = async () => (await postrider.api('GET', `/inbound-emails/${mail.id}/raw`)).body.errors[0].detail
  await harm('Eicar-Test-Signature')
  assert.equal(
    await detailOf(),
    'The message is withheld because it contains Eicar-Test-Signature. It cannot be downloaded.',
  )
  assert.deepEqual(store.verify(), [])
  await harm('Eic\u0000\ufffd')
  assert.equal(await detailOf(), 'The message is withheld because it contains a virus. It cannot be downloaded.')
  assert.match(store.verify().join(), /virus in inbound_messages is not a valid name/)
  await harm(null)
})

test('a token with corrupt scopes gets 403', async () => {
  const { store } = postrider.appliance.deps
  const { body } = await postrider.api('POST', '/tokens', {
    data: { type: 'tokens', attributes: { name: 'Damaged', scopes: ['emails:read'], duration: '1_month' } },
  })
  const { token } = body.data.attributes
  const headers = { authorization: `Bearer ${token}` }
  const asked = () => postrider.raw('/api/v1/outbound-emails', { headers })
  assert.equal((await asked()).status, 200)
  await store.write((tx) => tx.run(raw(`update tokens set scopes = '["ema' where id = ?`, [body.data.id])))
  assert.equal((await asked()).status, 403)
})
