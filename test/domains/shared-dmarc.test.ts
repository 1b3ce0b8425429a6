// Two domains of one organisation share a DMARC record: it has the report addresses of both, and several records at its
// name are a conflict that the pages explain.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sandboxZone } from '../../src/server/sandbox/zone.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'

const postrider = ofFile(() => startTestAppliance({ domains: ['own.test'] }))
const [OWN, NEWS] = ['mailto:dmarc-reports@bounce.own.test', 'mailto:dmarc-reports@bounce.news.own.test']

interface Shown {
  value: string
  conflict: string | null
  verified: boolean
}

const dmarcOf = async (name: string): Promise<Shown> => {
  const { body } = await postrider.api('GET', `/domains?filter[name]=${name}`)
  const found = await postrider.api('GET', `/domains/${body.data[0].id}/records?filter[record_type]=DMARC`)
  return found.body.data[0].attributes
}
const check = async (name: string): Promise<void> => {
  const { body } = await postrider.api('GET', `/domains?filter[name]=${name}`)
  assert.equal((await postrider.api('POST', `/domains/${body.data[0].id}/check`)).status, 202)
}

test('both domains print the same record with both report addresses, so that the sandbox publishes one', async () => {
  const made = await postrider.api('POST', '/domains', document('domains', { name: 'news.own.test', purpose: 'both' }))
  assert.equal(made.status, 201)
  const published = `v=DMARC1; p=none; rua=${OWN},${NEWS};`
  for (const name of ['own.test', 'news.own.test']) assert.equal((await dmarcOf(name)).value, published, name)
  const { store } = postrider.appliance.deps
  assert.deepEqual(sandboxZone(() => store).lookUp('_dmarc.own.test', 'TXT'), [published])
  // The stricter policy of the two, after a command set it.
  await postrider.commands.json('domain', 'dmarc', 'own.test', '--policy', 'quarantine')
  for (const name of ['own.test', 'news.own.test'])
    assert.match((await dmarcOf(name)).value, /^v=DMARC1; p=quarantine; /, name)
  await postrider.commands.json('domain', 'dmarc', 'own.test', '--policy', 'none')
})

test('two records at the name are a conflict on both pages and on the report page, with the merged record', async () => {
  const ann = await signedIn(postrider)
  const records = [`v=DMARC1; p=quarantine; sp=none; rua=mailto:a@own.test`, 'v=DMARC1; p=none; rua=mailto:B@own.test;']
  postrider.dns.set('_dmarc.own.test', 'TXT', records)
  const conflict =
    '_dmarc.own.test has 2 DMARC records, but only one is allowed, so receiving servers ignore all of them. Delete all but one, and set it to the value in the list of DNS records.'
  for (const name of ['own.test', 'news.own.test']) {
    await check(name)
    const shown = await dmarcOf(name)
    assert.deepEqual([shown.conflict, shown.verified], [conflict, false], name)
    assert.equal(shown.value, `v=DMARC1; p=quarantine; sp=none; rua=mailto:a@own.test,mailto:B@own.test,${OWN},${NEWS}`)
    const { text } = await ann.open(`/domains/${name}`)
    assert.ok(text.includes(conflict), name)
    for (const each of records) assert.ok(text.includes(`<div>${each}</div>`), each)
    const reports = (await ann.open(`/domains/${name}/reports`)).text
    assert.ok(reports.includes(conflict), name)
    assert.doesNotMatch(reports, /No DMARC record found/)
  }
  postrider.dns.set('_dmarc.own.test', 'TXT', [(await dmarcOf('own.test')).value])
  for (const name of ['own.test', 'news.own.test']) {
    await check(name)
    assert.partialDeepStrictEqual(await dmarcOf(name), { conflict: null, verified: true })
    assert.doesNotMatch((await ann.open(`/domains/${name}`)).text, /but only one is allowed/)
  }
})
