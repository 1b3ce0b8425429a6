// `postrider form` and `postrider consent`, next to a running server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { formKit } from '../kit/forms.ts'
import { ofFile } from '../kit/of-file.ts'

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = formKit(() => postrider)
const audience = ofFile(async () => ({ audience: await campaignKit(() => postrider).audience(domain) }))

const said = async (...argv: string[]): Promise<string> => (await postrider.commands.run(argv)).stdout

test('a form is listed, shown, opened, paused and closed by its slug', async () => {
  const id = await kit.draft(audience, { slug: 'news', opt_in: 'single', single_reason: 'Customers sign in before.' })
  const { commands } = postrider
  const status = async (): Promise<string> => (await kit.show(id))['status']
  for (const [command, then] of [
    ['open', 'open'],
    ['pause', 'paused'],
    ['open', 'open'],
    ['close', 'closed'],
  ] as const) {
    assert.deepEqual(await commands.json('form', command, 'news'), { id, slug: 'news', status: then })
    assert.equal(await status(), then)
  }
  const [listed] = await commands.json<Record<string, unknown>[]>('form', 'list')
  assert.deepEqual(
    [listed!['slug'], listed!['status'], listed!['user'], (listed!['counts'] as { requested: number }).requested],
    ['news', 'closed', postrider.user.email, 0],
  )
  const shown = await said('form', 'show', 'news')
  for (const line of [/^status +closed$/m, /^warning +subscribes without/m, /^url +\S+\/f\/news$/m, /^requested +0$/m])
    assert.match(shown, line)
  assert.match(await commands.fails('form', 'open', 'none'), /There is no form none; run "postrider form list"/)
  assert.match(await commands.fails('form', 'pause', 'news'), /closed cannot be set to paused/)
})

test('the consents of an address are shown, even after its contact was deleted, and only of one account', async () => {
  const { commands } = postrider
  const email = 'reader@there.test'
  const path = `/audiences/${audience.audience}/contacts`
  const given = { email, consent_evidence: 'Paper form no. 17' }
  const made = await postrider.api('POST', path, document('contacts', given))
  const show = (...more: string[]) => commands.json<Record<string, unknown>[]>('consent', 'show', ...more)
  const [consent] = await show(email)
  assert.deepEqual(
    [consent!['state'], consent!['evidence'], consent!['audience'], consent!['user']],
    ['asserted', 'Paper form no. 17', 'Readers', postrider.user.email],
  )
  await postrider.api('DELETE', `/contacts/${made.body.data.id}`)
  const [later] = await show('Reader@There.test', '--account', postrider.user.email)
  assert.deepEqual([later!['id'], later!['state']], [consent!['id'], 'withdrawn'])
  assert.deepEqual(await show(email, '--account', postrider.other.email), [])
  assert.match(await said('consent', 'show', email), /^Readers: withdrawn\n[^]*evidence +Paper form no\. 17/)
  assert.match(await said('consent', 'show', 'none@there.test'), /There is no consent of none@there\.test/)
})
