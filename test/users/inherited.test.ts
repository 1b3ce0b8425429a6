// Tests that a token cannot gain permissions by creating another token or naming another agent (D116, D117).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addMonths } from '../../src/base/clock.ts'
import { SCOPES, type Scope } from '../../src/jsonapi/scopes.ts'
import { listUsers } from '../../src/users/users.ts'
import { changeToken, createToken, listTokens } from '../../src/users/tokens.ts'
import { document, startTestAppliance, type Answer } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ofFile } from '../kit/of-file.ts'

const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'] }))

const deps = () => postrider.appliance.deps
const tokenWith = (more: { agentId?: string; daily?: number }, scopes: readonly Scope[] = SCOPES) =>
  createToken(deps(), postrider.user.key, { name: 'maker', scopes, duration: '1_month', operator: true, ...more })
const by = (bearer: string, method: string, path: string, body?: unknown): Promise<Answer> =>
  postrider.api(method, path, body, { authorization: `Bearer ${bearer}` })

type Made = Record<'id' | 'token' | 'duration' | 'created_at' | 'expires_at', string>

async function madeBy(bearer: string): Promise<Made> {
  const attributes = { name: 'made', scopes: ['emails:send', 'tokens:write'], duration: '12_months' }
  const { body, status } = await by(bearer, 'POST', '/tokens', document('tokens', attributes))
  assert.equal(status, 201)
  return { id: body.data.id, ...body.data.attributes }
}

const mail = { from: 'a@here.test', to: 'ada@there.test', subject: 's', html: '<p>x</p>' }
const send = (bearer: string, more: Record<string, unknown> = {}): Promise<Answer> =>
  by(bearer, 'POST', '/outbound-emails', document('outbound-emails', { ...mail, ...more }))
const codeOf = ({ body }: Answer): string => body.errors[0].code

test('no token can create or list users, or read the server status and the log (D116)', async () => {
  const before = listUsers(deps().store).length
  const { plaintext } = await tokenWith({})
  const person = document('people', { email: 'eve@there.test', operator: true })
  for (const [method, path, body] of [
    ['POST', '/people', person],
    ['GET', '/people', undefined],
    ['GET', '/server', undefined],
    ['GET', '/server/log', undefined],
    ['GET', '/server/samples', undefined],
    ['GET', '/server/backups', undefined],
  ] as const) {
    const answer = await by(plaintext, method, path, body)
    assert.equal(answer.status, 404, path)
    assert.match(answer.body.errors[0].detail, /Sign in to the console/)
  }
  assert.equal(listUsers(deps().store).length, before)
})

test('a token created by a token inherits the agent and the limit, and has the requested lifetime (D117)', async () => {
  const { plaintext, token } = await tokenWith({ agentId: 'bot', daily: 3 })
  const child = await madeBy((await madeBy(plaintext)).token)
  // The requested 12 months, although its creator is valid for one month.
  assert.equal(child.duration, '12_months')
  assert.equal(Date.parse(child.expires_at), addMonths(Date.parse(child.created_at), 12))
  assert.ok(Date.parse(child.expires_at) > token.expires_at)
  const row = listTokens(deps().store).find(({ id }) => id === child.id)!
  assert.deepEqual([row.agent_id, row.daily], ['bot', 3])
})

test('tokens share the daily limit of the token that created them (D117)', async () => {
  const { plaintext, token } = await tokenWith({ daily: 2 })
  const [one, two] = [await madeBy(plaintext), await madeBy(plaintext)]
  assert.equal((await send(one.token)).status, 201)
  assert.equal((await send(two.token)).status, 201)
  for (const bearer of [one.token, two.token, plaintext]) assert.equal(codeOf(await send(bearer)), 'volume_exceeded')
  await changeToken(deps(), token.id, { daily: 3 })
  assert.equal((await send(plaintext)).status, 201)
})

test('a later limit also applies to tokens created before (D117)', async () => {
  const { plaintext, token } = await tokenWith({})
  const child = await madeBy(plaintext)
  await changeToken(deps(), token.id, { daily: 1, agent_id: 'late' })
  const sent = await send(child.token)
  assert.equal(sent.body.data.attributes.agent_id, 'late')
  assert.equal(codeOf(await send(child.token)), 'volume_exceeded')
})

test('revoking a token revokes the tokens that it created (D117)', async () => {
  const { plaintext, token } = await tokenWith({})
  const child = await madeBy((await madeBy(plaintext)).token)
  assert.equal((await send(child.token)).status, 201)
  assert.equal((await postrider.api('DELETE', `/tokens/${token.id}`)).status, 204)
  assert.equal((await send(child.token)).status, 401)
})

test('a token with an agent cannot send as another agent or resume its own (D117)', async () => {
  const { plaintext } = await tokenWith({ agentId: 'bound' })
  assert.equal((await send(plaintext, { agent_id: 'bound' })).status, 201)
  const other = await send(plaintext, { agent_id: 'other' })
  assert.equal(other.status, 422)
  assert.equal(other.body.errors[0].source.pointer, '/data/attributes/agent_id')
  assert.equal((await postrider.api('POST', '/agents/bound/pause')).status, 202)
  assert.equal(codeOf(await send(plaintext)), 'agent_paused')
  assert.equal((await by(plaintext, 'POST', '/agents/bound/resume')).status, 403)
  assert.equal(codeOf(await send(plaintext)), 'agent_paused')
  assert.equal((await postrider.api('POST', '/agents/bound/resume')).status, 202)
})

test('a token with an agent or a limit cannot start campaigns, and its test emails count towards its limit (D117)', async () => {
  const domain = await postrider.activeDomain('news.test')
  const kit = campaignKit(() => postrider)
  const audience = await kit.audience(domain)
  const campaign = await kit.draft(audience)
  const start = (bearer: string): Promise<Answer> =>
    by(bearer, 'PATCH', `/campaigns/${campaign}`, document('campaigns', { status: 'scheduled' }, { id: campaign }))
  const tried = (bearer: string, email: string): Promise<Answer> =>
    by(bearer, 'POST', `/campaigns/${campaign}/test`, document('campaign-tests', { email }))
  const capped = await tokenWith({ daily: 1 })
  const robot = await tokenWith({ agentId: 'robot' })
  const when = document('campaign-schedules', { scheduled_at: new Date(postrider.clock.now()).toISOString() })
  for (const { plaintext } of [capped, robot]) {
    assert.equal(codeOf(await start(plaintext)), 'insufficient_scope')
    assert.equal(codeOf(await by(plaintext, 'POST', `/campaigns/${campaign}/reschedule`, when)), 'insufficient_scope')
  }
  assert.equal((await tried(capped.plaintext, 'one@there.test')).status, 201)
  assert.equal(codeOf(await tried(capped.plaintext, 'two@there.test')), 'volume_exceeded')
  const mail = await tried(robot.plaintext, 'three@there.test')
  assert.equal(mail.status, 201)
  const { body } = await postrider.api('GET', `/outbound-emails/${mail.body.data.attributes.outbound_email_id}`)
  assert.equal(body.data.attributes.agent_id, 'robot')
  assert.equal((await postrider.api('POST', '/agents/robot/pause')).status, 202)
  assert.equal(codeOf(await tried(robot.plaintext, 'four@there.test')), 'agent_paused')
})

test('a token with an agent or a limit can revoke only itself and tokens that it created (D117)', async () => {
  const { plaintext, token } = await tokenWith({ daily: 3 })
  const other = await tokenWith({})
  assert.equal(codeOf(await by(plaintext, 'DELETE', `/tokens/${other.token.id}`)), 'insufficient_scope')
  const child = await madeBy((await madeBy(plaintext)).token)
  assert.equal((await by(plaintext, 'DELETE', `/tokens/${child.id}`)).status, 204)
  assert.equal((await by(plaintext, 'DELETE', `/tokens/${token.id}`)).status, 204)
})
