// Access control and self-description of the API: authentication (RFC 6750), scopes, isolation of users, rate limits
// (D8), the size of bodies, unknown URLs and methods, and the OpenAPI document.
import assert from 'node:assert/strict'
import { request as httpRequest } from 'node:http'
import { test } from 'node:test'
import { SCOPES, type Scope } from '../../src/jsonapi/scopes.ts'
import { newId } from '../../src/base/ids.ts'
import { addClient } from '../../src/users/oauth/clients.ts'
import { grantCode, listGrants } from '../../src/users/oauth/grants.ts'
import { answerDepsOf } from '../../src/privacy/api-recipient-requests.ts'
import { askFor } from '../../src/privacy/recipient-requests.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { newPicture } from '../images/pictures.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { deliver, receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { raw } from '../../src/store/query.ts'
import { pairIn } from '../../src/warmup/pairs.ts'
import { document, JSON_API, type Answer } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import {
  API,
  codes,
  judge,
  mailDocument,
  MISSING,
  outcomes,
  sameOutcomes,
  startWire,
  described,
  type Ask,
  type Wire,
} from './wire.ts'
import type { Operation } from './described.ts'

interface BodySchema {
  properties: { data: { properties: { type: { const: string }; id?: object } } }
}

const { document: openApi } = described

const logged: string[] = []
const clock = new ManualClock()
const wire = ofFile(() => startWire({ clock, logged: { level: 'debug', lines: logged } }))
const ask: Wire['ask'] = (...request) => wire.ask(...request)

/** Creates a resource for each path parameter of the API. A new parameter needs its line here. */
const MAKERS: Record<string, (token: string) => Promise<string>> = {
  token: async (token) => {
    const body = document('tokens', { name: 'made', scopes: ['emails:read'], duration: '1_month' })
    return (await ask('POST', '/tokens', { token, body })).body.data.id
  },
  domain: async (token) => {
    const { body } = await ask('GET', '/domains?filter[name]=here.test', { token })
    return body.data[0].id
  },
  outboundEmailBatch: async (token) => {
    const { attributes } = mailDocument().data
    const body = document('outbound-email-batches', { emails: [attributes] })
    return (await ask('POST', '/outbound-email-batches', { token, body })).body.data.id
  },
  outboundEmail: async (token) => (await wire.mails(1, () => ({}), token))[0]!,
  // No request creates one: the operator does, or a bounce.
  suppression: async (token) => {
    const { store, clock: now } = wire.postrider.appliance.deps
    const { key, user_key } = store.first<{ key: number; user_key: number }>(
      raw('select key, user_key from domains where id = ?', [await MAKERS['domain']!(token)]),
    )!
    const given = { user_key, domain_key: key, reason: 'manual', source: 'manual', scope: 'all' } as const
    const address = `gone${++suppressed}@nowhere.test`
    return (await store.write((tx) => suppress(tx, { ...given, address }, now.now()))).id
  },
  webhook: async (token) => {
    const domain = { data: { type: 'domains', id: await MAKERS['domain']!(token) } }
    const attributes = { name: 'made', url: 'https://hooks.test/', events: ['email.opened'] }
    const body = document('webhooks', attributes, { relationships: { domain } })
    return (await ask('POST', '/webhooks', { token, body })).body.data.id
  },
  audience: async (token) => {
    const relationships = { domain: { data: { type: 'domains', id: await MAKERS['domain']!(token) } } }
    const body = document('audiences', { name: 'made' }, { relationships })
    return (await ask('POST', '/audiences', { token, body })).body.data.id
  },
  contact: async (token) => {
    const body = document('contacts', { email: 'reader@there.test' })
    const path = `/audiences/${await MAKERS['audience']!(token)}/contacts`
    return (await ask('POST', path, { token, body })).body.data.id
  },
  form: async (token) => {
    const relationships = { audience: { data: { type: 'audiences', id: await MAKERS['audience']!(token) } } }
    return (await ask('POST', '/forms', { token, body: document('forms', { name: 'made' }, { relationships }) })).body
      .data.id
  },
  // Every contact has one.
  consent: async (token) =>
    (await ask('GET', `/contacts/${await MAKERS['contact']!(token)}/consents`, { token })).body.data[0].id,
  campaign: async (token) => {
    const relationships = { audience: { data: { type: 'audiences', id: await MAKERS['audience']!(token) } } }
    const attributes = { name: 'made', subject: 'Hi', body_html: '<p>Hi</p>' }
    return (await ask('POST', '/campaigns', { token, body: document('campaigns', attributes, { relationships }) })).body
      .data.id
  },
  segment: async (token) => {
    const body = document('segments', { name: 'made', rules: [{ field: 'name', op: 'not_empty' }] })
    const path = `/audiences/${await MAKERS['audience']!(token)}/segments`
    return (await ask('POST', path, { token, body })).body.data.id
  },
  image: async (token) => {
    // Each is another image, because the same bytes again are the same image.
    const content = newPicture(1, ++pictures).toString('base64')
    return (await ask('POST', '/images', { token, body: document('images', { name: 'made', content }) })).body.data.id
  },
  inbox: async (token) => {
    const body = document('inboxes', { name: 'made', address: `box${++boxes}@${hostOf(token)}` })
    return (await ask('POST', '/inboxes', { token, body })).body.data.id
  },
  // A received email creates one.
  inboxMessage: (token) => MAKERS['inboundEmail']!(token),
  inboundEmail: async (token) => {
    const inbox = await MAKERS['inbox']!(token)
    const { address } = (await ask('GET', `/inboxes/${inbox}`, { token })).body.data.attributes
    const message = `From: ann@there.test\nTo: ${address}\nSubject: Hi\nContent-Type: text/csv\nContent-Disposition: attachment\n\n1\n`
    return (await receive(wire.postrider, { to: address, message }, token)).id
  },
  aggregateReport: async (token) => {
    const [found] = (await ask('GET', `/domains?filter[name]=${hostOf(token)}`, { token })).body.data
    const domain = found.id
    const rows = async (): Promise<{ id: string }[]> =>
      (await ask('GET', `/domains/${domain}/aggregate-reports?sort=-created_at`, { token })).body.data
    const before = (await rows()).length
    await deliver(wire.postrider.appliance.smtp[0]!, {
      to: `dmarc-reports@${found.attributes.mail_from_prefix}.${hostOf(token)}`,
    })
    return (await until(async () => ((await rows()).length > before ? await rows() : undefined), 'a report'))[0]!.id
  },
  knownSource: async (token) => {
    const body = document('known-sources', { network: `192.0.2.${++boxes % 256}`, name: 'made' })
    return (await ask('POST', `/domains/${await MAKERS['domain']!(token)}/known-sources`, { token, body })).body.data.id
  },
  // An email of the agent creates one.
  agent: async (token) => {
    const agent_id = `agent-${++agents}`
    await wire.mails(1, () => ({ agent_id }), token)
    return agent_id
  },
  grant: async (token) => {
    const { deps } = wire.postrider.appliance
    const user = token === wire.postrider.otherToken ? wire.postrider.other : wire.postrider.user
    const client = (await addClient(deps, { name: 'made', redirectUris: ['http://127.0.0.1:1/'] }))!
    const granting = { client, user_key: user.key, redirect_uri: 'http://127.0.0.1:1/', challenge: 'x', resource: 'x' }
    await grantCode(deps, granting)
    await deps.store.write((tx) => tx.run(raw('update oauth_grants set code_used_at = 1 where code_used_at is null')))
    return listGrants(deps.store)[0]!.id
  },
  lane: () => Promise.resolve('lane.test'),
  // The first email to a receiver creates one.
  warmup: async () => {
    const { store, clock: now } = wire.postrider.appliance.deps
    const pair = { source: '192.0.2.1', receiver: `receiver${++recipients}.test` }
    return (await store.write((tx) => pairIn(tx, pair, now.now()))).id
  },
  watch: async () => {
    const id = newId(wire.postrider.clock.now())
    const columns = '(id, kind, subject, list, hostname, status, answer, since, created_at)'
    await wire.postrider.appliance.deps.store.write((tx) =>
      tx.run(
        raw(`insert into watches ${columns} values (?, 'domain_list', ?, 'dbl.test', '', 'clear', '', 1, 1)`, [id, id]),
      ),
    )
    return id
  },
  // An email to it creates one.
  receiver: async (token) => {
    const receiver = `receiver${++recipients}.test`
    await wire.mails(1, () => ({ to: `ann@${receiver}` }), token)
    return receiver
  },
  // An import with a rejected line.
  import: async (token) => {
    const body = document('contacts', { rows: [{ email: `in${++recipients}@there.test` }, { email: 'nonsense' }] })
    const path = `/audiences/${await MAKERS['audience']!(token)}/list-imports`
    return (await ask('POST', path, { token, body })).body.data.id
  },
  // A recipient makes it on the page of an unsubscribe link.
  recipientRequest: async (token) => {
    const { deps } = wire.postrider.appliance
    const host = hostOf(token)
    const { key, user_key } = deps.store.one(
      raw<{ key: number; user_key: number }>('select key, user_key from domains where name = ?', [host]),
    )
    const asked = { user_key, domain_key: key, kind: 'export', language: 'en' } as const
    return (await askFor(answerDepsOf(deps), { ...asked, email: `asks${++recipients}@there.test` })).id
  },
  // An address is known to the account that sent email to it.
  recipient: async (token) => {
    const to = `known${++recipients}@there.test`
    await wire.mails(1, () => ({ to }), token)
    return to
  },
  // An event creates one.
  outboundWebhook: async (token) => {
    const { store, clock: now } = wire.postrider.appliance.deps
    const id = newId(now.now())
    const columns = `(id, user_key, webhook_key, event, about, payload, status, attempts, created_at, updated_at)`
    const from = `select ?, user_key, key, 'email.opened', 'mail 1', '{}', 'held', 0, ?, ? from webhooks where id = ?`
    const values = [id, now.now(), now.now(), await MAKERS['webhook']!(token)]
    await store.write((tx) => tx.run(raw(`insert into outbound_webhooks ${columns} ${from}`, values)))
    return id
  },
}
/** Each user has a domain of its own. */
const hostOf = (token: string): string => (token === wire.postrider.otherToken ? 'theirs.test' : 'mine.test')
let suppressed = 0
let agents = 0
let boxes = 0
let pictures = 0
let recipients = 0

setUp(async () => {
  const { postrider } = wire
  await Promise.all([postrider.activeDomain('here.test'), postrider.activeDomain('here.test', postrider.other)])
  // Mail for an address is delivered to all its inboxes, of any account.
  await Promise.all([postrider.activeDomain('mine.test'), postrider.activeDomain('theirs.test', postrider.other)])
})

const operations = () => described.operations()

/** The query of paths that need one. */
const QUESTIONS: Record<string, string> = { '/explanations': '?filter[subject]=here.test' }
/** The path with its first parameter filled. */
const fill = (path: string, id: string): string =>
  path.replace(/\{\w+\}/, id).replace('{attachment}', '1') + (QUESTIONS[path] ?? '')
/** Well formed, but they do not exist. */
const MISSING_ONE: Record<string, string> = { recipient: 'nobody@nowhere.test', lane: 'no%20domain' }
const missingOf = (path: string): string => MISSING_ONE[parameterOf(path) ?? ''] ?? MISSING
const parameterOf = (path: string): string | undefined => /\{(\w+)\}/.exec(path)?.[1]

/** The smallest request document that an operation accepts as one: the right type, no attributes. */
function leastBody({ requestBody }: Operation, id: string): Ask {
  if (!requestBody) return {}
  const schema = openApi.components.schemas[requestBody.content[JSON_API]!.schema.$ref.split('/').at(-1)!]
  const { type, ...rest } = (schema as unknown as BodySchema).properties.data.properties
  return { body: document(type.const, {}, rest.id ? { id } : {}) }
}

// ---- Authentication

test('every 401 has WWW-Authenticate: Bearer, with an error only if a credential was sent', async () => {
  for (const [method, path] of [
    ['GET', '/domains'],
    ['POST', '/outbound-emails'],
    ['DELETE', `/tokens/${MISSING}`],
    ['PUT', '/domains'],
    ['GET', '/nothing'],
    ['GET', '/'],
  ] as const) {
    const none = await ask(method, path, { token: null })
    assert.equal(none.status, 401, `${method} ${path}`)
    assert.deepEqual(codes(none), ['unauthenticated'])
    assert.equal(none.headers.get('www-authenticate'), 'Bearer')
    assert.deepEqual(none.body.errors[0].source, { header: 'Authorization' })
  }
  const { token } = wire.postrider
  for (const bad of [
    `Bearer ${token.slice(0, -1)}`,
    `Bearer ${token}x`,
    `Bearer ${token.toUpperCase()}`,
    `Bearer x${token}`,
    'Bearer pr_',
    'Bearer',
    `Bearer ${token} ${token}`,
    `Bearer ${token}, Bearer ${token}`,
    `Bearer "${token}"`,
  ]) {
    const answer = await ask('GET', '/domains', { token: null, headers: { authorization: bad } })
    assert.equal(answer.status, 401, bad)
    assert.match(answer.headers.get('www-authenticate')!, /^Bearer .*error="invalid_token"/, bad)
  }
  for (const other of [token, `Basic ${Buffer.from(`ann:${token}`).toString('base64')}`, `Token ${token}`])
    assert.equal((await ask('GET', '/domains', { token: null, headers: { authorization: other } })).status, 401, other)
})

test('reads the scheme case-insensitively, and ignores a token in the query or form', async () => {
  const { token } = wire.postrider
  for (const scheme of ['bearer', 'BEARER', 'BeArEr']) {
    const headers = { authorization: `${scheme} ${token}` }
    assert.equal((await ask('GET', '/domains', { token: null, headers })).status, 200, scheme)
  }
  assert.equal((await ask('GET', `/domains?access_token=${token}`, { token: null })).status, 401)
  const form = await ask('POST', '/domains', {
    token: null,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: `access_token=${token}`,
  })
  assert.equal(form.status, 401)
})

test('rejects revoked and expired tokens', async () => {
  const make = async (duration: string): Promise<{ id: string; token: string; expires_at: string }> => {
    const body = document('tokens', { name: 'x', scopes: ['domains:read'], duration })
    const { data } = (await ask('POST', '/tokens', { body })).body
    return { id: data.id, ...data.attributes }
  }
  const revoked = await make('1_month')
  assert.equal((await ask('GET', '/domains', { token: revoked.token })).status, 200)
  assert.equal((await ask('DELETE', `/tokens/${revoked.id}`)).status, 204)
  const after_ = await ask('GET', '/domains', { token: revoked.token })
  assert.equal(after_.status, 401)
  assert.match(after_.headers.get('www-authenticate')!, /error="invalid_token"/)
  assert.equal((await ask('DELETE', `/tokens/${revoked.id}`)).status, 404)

  const aged = new ManualClock()
  await using later = await startWire({ clock: aged })
  const body = document('tokens', { name: 'x', scopes: ['domains:read'], duration: '6_months' })
  const { token, expires_at } = (await later.ask('POST', '/tokens', { body })).body.data.attributes
  assert.equal(expires_at, '2026-07-15T12:00:00.000Z')
  aged.leap(Date.parse(expires_at) - aged.now() - 1)
  assert.equal((await later.ask('GET', '/domains', { token })).status, 200)
  aged.leap(1)
  const expired = await later.ask('GET', '/domains', { token })
  assert.equal(expired.status, 401)
  assert.deepEqual(codes(expired), ['token_expired'])
  assert.match(expired.headers.get('www-authenticate')!, /^Bearer .*error="invalid_token"/)
})

test('tokens are never in logs', async () => {
  const { token } = wire.postrider
  await ask('GET', '/domains', { headers: { authorization: `Bearer ${token}x` }, token: null })
  await ask('GET', `/domains?access_token=${token}`)
  const made = await ask('POST', '/tokens', {
    body: document('tokens', { name: 'x', scopes: ['domains:read'], duration: '1_month' }),
  })
  const text = logged.join('')
  assert.ok(text.length > 0)
  for (const secret of [token, made.body.data.attributes.token]) assert.ok(!text.includes(secret))
})

/** One request over a real socket, with the given headers. Resolves with the answer. */
function overSocket(
  method: string,
  path: string,
  headers: Record<string, string | string[]>,
  write: (send: (chunk: Uint8Array) => Promise<void>) => Promise<void> = async () => {},
): Promise<Answer> {
  const { host, port } = wire.postrider.appliance.http
  return new Promise((resolve, reject) => {
    let answered = false
    const request = httpRequest({ host, port, method, path: API + path, headers, agent: false }, (response) => {
      answered = true
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      response.on('end', () => {
        const flat = Object.entries(response.headers).map(([name, value]): [string, string] => [name, String(value)])
        resolve({ status: response.statusCode!, headers: new Headers(flat), body: JSON.parse(text) })
        request.destroy()
      })
    })
    // A server that has answered may stop reading, so the rest cannot be written.
    request.on('error', (thrown) => answered || reject(thrown))
    const send = (chunk: Uint8Array): Promise<void> =>
      new Promise((done) => void (answered || request.destroyed ? done() : request.write(chunk, () => done())))
    write(send).then(() => answered || request.end(), reject)
  })
}

test('rejects two Authorization headers', async () => {
  const bearer = `Bearer ${wire.postrider.token}`
  const one = await overSocket('GET', '/domains', { authorization: bearer })
  assert.equal(one.status, 200)
  const two = await overSocket('GET', '/domains', { Authorization: [bearer, bearer] })
  judge(two, { method: 'GET', path: '/domains', base: '' })
  assert.equal(two.status, 401)
})

// ---- Scopes

/** The scope column of the specification (D40 and D48 for endpoints that it omits), for every endpoint of the API. */
const SCOPE_OF: Record<string, Scope> = {
  'POST /tokens': 'tokens:write',
  'DELETE /tokens/{}': 'tokens:write',
  'POST /outbound-emails': 'emails:send',
  'POST /raw-emails': 'emails:send',
  'GET /outbound-emails': 'emails:read',
  'GET /outbound-emails/{}': 'emails:read',
  'DELETE /outbound-emails/{}': 'emails:write',
  'PATCH /outbound-emails/{}': 'emails:send',
  'POST /outbound-emails/{}/cancel': 'emails:send',
  'GET /outbound-emails/{}/stats': 'emails:read',
  'POST /campaigns': 'campaigns:write',
  'GET /campaigns': 'campaigns:read',
  'GET /campaigns/{}': 'campaigns:read',
  'PATCH /campaigns/{}': 'campaigns:write',
  'DELETE /campaigns/{}': 'campaigns:write',
  'GET /campaigns/{}/stats': 'campaigns:read',
  'GET /consents': 'contacts:read',
  'GET /consents/{}': 'contacts:read',
  'GET /contacts/{}/consents': 'contacts:read',
  'GET /audiences/{}/consents': 'contacts:read',
  'GET /forms': 'contacts:read',
  'POST /forms': 'contacts:write',
  'GET /forms/{}': 'contacts:read',
  'PATCH /forms/{}': 'contacts:write',
  'DELETE /forms/{}': 'contacts:write',
  'GET /forms/{}/versions': 'contacts:read',
  'POST /forms/{}/signups': 'contacts:write',
  'POST /contacts/{}/confirmation': 'contacts:write',
  'GET /audiences': 'contacts:read',
  'POST /audiences': 'contacts:write',
  'GET /audiences/{}': 'contacts:read',
  'PATCH /audiences/{}': 'contacts:write',
  'DELETE /audiences/{}': 'contacts:write',
  'GET /audiences/{}/contacts': 'contacts:read',
  'POST /audiences/{}/contacts': 'contacts:write',
  'POST /audiences/{}/contacts/import': 'contacts:write',
  'GET /contacts/{}': 'contacts:read',
  'PATCH /contacts/{}': 'contacts:write',
  'DELETE /contacts/{}': 'contacts:write',
  'POST /domains': 'domains:write',
  'GET /domains': 'domains:read',
  'GET /domains/{}': 'domains:read',
  'PATCH /domains/{}': 'domains:write',
  'DELETE /domains/{}': 'domains:write',
  'GET /domains/{}/records': 'domains:read',
  'POST /inboxes': 'domains:write',
  'GET /inboxes': 'domains:read',
  'GET /inboxes/{}': 'domains:read',
  'PATCH /inboxes/{}': 'domains:write',
  'DELETE /inboxes/{}': 'domains:write',
  'GET /inbound-emails': 'inbound:read',
  'GET /inboxes/{}/inbound-emails': 'inbound:read',
  'GET /inbound-emails/{}': 'inbound:read',
  'GET /inbound-emails/{}/attachments/{}': 'inbound:read',
  'GET /inbound-emails/{}/raw': 'inbound:read',
  'GET /outbound-emails/{}/raw': 'emails:read',
  'GET /statistics/outbound-emails': 'emails:read',
  'GET /suppressions': 'suppressions:read',
  'DELETE /suppressions/{}': 'suppressions:write',
  'GET /recipients/{}': 'compliance:write',
  'DELETE /recipients/{}/forget': 'compliance:write',
  'GET /recipients/{}/data': 'compliance:write',
  'GET /webhooks': 'webhooks:read',
  'POST /webhooks': 'webhooks:write',
  'GET /webhooks/{}': 'webhooks:read',
  'PATCH /webhooks/{}': 'webhooks:write',
  'DELETE /webhooks/{}': 'webhooks:write',
  'GET /webhooks/{}/deliveries': 'webhooks:read',
  'GET /deliveries/{}': 'webhooks:read',
  'POST /deliveries/{}/replay': 'webhooks:write',
  // Extensions (D76, D78, D81, D143).
  'GET /outbound-emails/{}/attempts': 'emails:read',
  'GET /statistics': 'emails:read',
  'GET /statistics/alarms': 'emails:read',
  'GET /statistics/receivers': 'emails:read',
  'GET /statistics/receivers/{}': 'emails:read',
  'GET /explanations': 'emails:read',
  'POST /suppression-imports': 'suppressions:write',
  'POST /audiences/{}/list-imports': 'contacts:write',
  'GET /audiences/{}/list-imports': 'contacts:read',
  'GET /list-imports/{}': 'contacts:read',
  'GET /list-imports/{}/rejected': 'contacts:read',
  'GET /audience-statistics': 'contacts:read',
  'GET /audience-statistics/{}': 'contacts:read',
  'POST /campaigns/{}/test': 'campaigns:write',
  'POST /campaigns/{}/audience': 'campaigns:write',
  'GET /audiences/{}/fields': 'contacts:read',
  'GET /audiences/{}/segments': 'contacts:read',
  'POST /audiences/{}/segments': 'contacts:write',
  'GET /segments/{}': 'contacts:read',
  'PATCH /segments/{}': 'contacts:write',
  'DELETE /segments/{}': 'contacts:write',
  'GET /segments/{}/count': 'contacts:read',
  'POST /audiences/{}/segment-counts': 'contacts:read',
  'GET /agents': 'emails:read',
  'POST /agents/{}/pause': 'emails:write',
  'POST /agents/{}/resume': 'emails:write',
  'POST /domains/{}/check': 'domains:write',
  'GET /domains/{}/advised-records': 'domains:read',
  'GET /privacy-requests': 'compliance:write',
  'GET /recipient-requests': 'compliance:write',
  'GET /recipient-requests/{}': 'compliance:write',
  'PATCH /recipient-requests/{}': 'compliance:write',
  'GET /personal-access-tokens': 'tokens:write',
  'GET /personal-access-tokens/{}': 'tokens:write',
  'GET /personal-access-tokens/{}/requests': 'tokens:write',
  'GET /grants': 'tokens:write',
  'POST /grants/{}/revoke': 'tokens:write',
  'GET /lanes': 'emails:read',
  'GET /sources': 'emails:read',
  'GET /campaigns/{}/forecast': 'campaigns:read',
  'GET /warmups': 'emails:read',
  'GET /warmups/{}': 'emails:read',
  'PATCH /warmups/{}': 'emails:write',
  'POST /warmups/{}/skip': 'emails:write',
  'POST /warmups/{}/restart': 'emails:write',
  'POST /outbound-email-batches': 'emails:send',
  'GET /outbound-email-batches/{}': 'emails:read',
  'POST /outbound-email-batches/{}/cancel': 'emails:send',
  'POST /outbound-emails/{}/hold': 'emails:write',
  'POST /outbound-emails/{}/release': 'emails:write',
  'POST /outbound-emails/{}/retry': 'emails:write',
  'POST /outbound-emails/{}/drop': 'emails:write',
  'POST /webhooks/{}/test': 'webhooks:write',
  'GET /campaigns/{}/activity': 'campaigns:read',
  'GET /domains/{}/reputation': 'domains:read',
  'GET /domains/{}/aggregate-reports': 'domains:read',
  'GET /aggregate-reports/{}': 'domains:read',
  'GET /aggregate-reports/{}/raw': 'domains:read',
  'GET /domains/{}/dmarc-sources': 'domains:read',
  'GET /domains/{}/dmarc-evidence': 'domains:read',
  'GET /domains/{}/tls-statistics': 'domains:read',
  'GET /domains/{}/known-sources': 'domains:read',
  'POST /domains/{}/known-sources': 'domains:write',
  'DELETE /known-sources/{}': 'domains:write',
  'POST /lanes/{}/hold': 'emails:write',
  'POST /lanes/{}/release': 'emails:write',
  'POST /lanes/{}/retry': 'emails:write',
  'POST /lanes/{}/drop': 'emails:write',
  'GET /outbound-emails/{}/webhook-deliveries': 'webhooks:read',
  'POST /images': 'campaigns:write',
  'GET /images': 'campaigns:read',
  'GET /images/{}': 'campaigns:read',
  'DELETE /images/{}': 'campaigns:write',
  'GET /campaigns/{}/links': 'campaigns:write',
  'GET /campaigns/{}/spam-verdict': 'campaigns:write',
  'GET /inbox-counts': 'inbound:read',
  'GET /inbox-counts/{}': 'inbound:read',
  'GET /inboxes/{}/messages': 'inbound:read',
  'GET /inbox-messages/{}': 'inbound:read',
  'PATCH /inbox-messages/{}': 'domains:write',
  'DELETE /inbox-messages/{}': 'domains:write',
  'GET /campaigns/{}/reach': 'campaigns:read',
  'GET /campaign-totals': 'campaigns:read',
  'GET /brand': 'campaigns:read',
  'GET /audit-entries': 'compliance:write',
  'GET /sender-domains': 'campaigns:read',
  'PATCH /brand': 'campaigns:write',
  'POST /campaigns/{}/unschedule': 'campaigns:write',
  'POST /campaigns/{}/reschedule': 'campaigns:write',
  'GET /audiences/{}/reach': 'contacts:read',
  'GET /audiences/{}/suppressed-contacts': 'contacts:read',
  'GET /watches': 'emails:read',
  'GET /findings': 'emails:read',
  'GET /email-events': 'emails:read',
}

test('each endpoint requires exactly the scope of the specification', async () => {
  for (const { method, path, operation } of operations()) {
    const name = `${method} ${path.replace(/\{\w+\}/g, '{}')}`
    const scope = SCOPE_OF[name]
    assert.ok(scope, `${name} is not in the specification`)
    assert.equal(operation['x-scope'], scope, name)
    const { postrider } = wire
    const without = await postrider.tokenFor(
      postrider.user,
      SCOPES.filter((one) => one !== scope),
    )
    // The resource does not exist, so that a refusal cannot have another cause and no data is deleted.
    const request = leastBody(operation, MISSING)
    const refused = await ask(method, fill(path, missingOf(path)), { ...request, token: without })
    assert.equal(refused.status, 403, name)
    assert.deepEqual(codes(refused), ['insufficient_scope'])
    const challenge = refused.headers.get('www-authenticate')!
    assert.match(challenge, /^Bearer /)
    assert.ok(challenge.includes('error="insufficient_scope"') && challenge.includes(`scope="${scope}"`), challenge)
    const only = await postrider.tokenFor(postrider.user, [scope])
    const answered = await ask(method, fill(path, missingOf(path)), { ...request, token: only })
    assert.ok(![401, 403].includes(answered.status), `${name} with ${scope} alone: ${answered.status}`)
  }
})

test('include requires the scope that reads the included resource', async () => {
  const { postrider } = wire
  for (const [path, scope, also] of [
    ['/outbound-emails?include=domain', 'emails:read', 'domains:read'],
    ['/outbound-emails?include=domain,contact', 'emails:read', 'domains:read'],
    ['/campaigns?include=audience', 'campaigns:read', 'contacts:read'],
  ] as [string, Scope, Scope][]) {
    const refused = await ask('GET', path, { token: await postrider.tokenFor(postrider.user, [scope]) })
    assert.equal(refused.status, 403, path)
    assert.ok(refused.headers.get('www-authenticate')!.includes(`scope="${also}"`), path)
    const both = await postrider.tokenFor(postrider.user, [...new Set<Scope>([scope, also, 'contacts:read'])])
    assert.equal((await ask('GET', path, { token: both })).status, 200, path)
  }
})

test('endpoints that act on GET reject HEAD, which must not change data', async () => {
  const { store } = wire.postrider.appliance.deps
  const count = (): unknown => store.first(raw('select count(*) as n from privacy_requests'))
  const before = count()
  const answer = await ask('HEAD', '/recipients/nobody%40nowhere.test/data')
  assert.equal(answer.status, 405)
  assert.equal(answer.headers.get('allow'), 'GET')
  assert.deepEqual(count(), before)
  assert.equal((await ask('HEAD', '/domains')).status, 200)
})

test('a token cannot grant scopes that its creator lacks (D15)', async () => {
  const { postrider } = wire
  const token = await postrider.tokenFor(postrider.user, ['tokens:write', 'emails:read'])
  const make = (scopes: string[]) =>
    ask('POST', '/tokens', { token, body: document('tokens', { name: 'x', scopes, duration: '1_month' }) })
  assert.equal((await make(['emails:read'])).status, 201)
  const beyond = await make(['emails:read', 'emails:send'])
  assert.equal(beyond.status, 422)
  assert.equal(beyond.body.errors[0].source.pointer, '/data/attributes/scopes/1')
})

// ---- Isolation

/** The parts of an answer that a client could compare, without the ids of errors, which are new each time. */
function visible({ status, headers, body }: Answer): unknown {
  const text = JSON.stringify(body, (key, value: unknown) => (key === 'id' ? 'id' : value))
  return { status, headers: Object.fromEntries(headers), text }
}

test('every endpoint answers for resources of other users as if they did not exist', async () => {
  const { otherToken, token } = wire.postrider
  let compared = 0
  for (const { method, path, operation } of operations()) {
    const name = parameterOf(path)
    if (name === undefined) continue
    assert.ok(MAKERS[name], `${path} has a parameter that this test cannot fill`)
    const foreign = await MAKERS[name](token)
    const look = async (id: string) =>
      visible(await ask(method, fill(path, id), { ...leastBody(operation, id), token: otherToken }))
    const missing = await look(missingOf(path))
    assert.equal((missing as Answer).status, 404, `${method} ${path}`)
    assert.deepEqual(await look(foreign), missing, `${method} ${path}`)
    // An invalid address is rejected as such for every caller.
    if (name !== 'recipient')
      for (const odd of ['1', 'null', '%27', foreign.toUpperCase(), `${foreign}%20`, `${foreign}%00`, '%F0%9F%93%AB'])
        assert.deepEqual(await look(odd), missing, `${method} ${fill(path, odd)}`)
    // The resource is unchanged for its owner, whom another account could have harmed.
    if (name === 'suppression')
      assert.ok((await ask('GET', '/suppressions')).body.data.some(({ id }: { id: string }) => id === foreign))
    else if (name === 'token') assert.equal((await ask('DELETE', `/tokens/${foreign}`)).status, 204)
    else if (method === 'GET')
      assert.equal((await ask('GET', fill(path, foreign))).status, path.endsWith('/data') ? 202 : 200)
    compared++
  }
  assert.ok(compared >= 9)
  const domain = await MAKERS['domain']!(token)
  assert.equal((await ask('GET', `/domains/${domain}`)).status, 200)
})

test('collections, filters and sending never use resources of other users', async () => {
  const { otherToken, token } = wire.postrider
  const mine = await wire.mails(2)
  const theirs = await wire.mails(2, () => ({}), otherToken)
  const domain = await MAKERS['domain']!(token)
  for (const owner of [token, otherToken]) {
    for (const kind of [
      'suppression',
      'webhook',
      'inboundEmail',
      'campaign',
      'image',
      'agent',
      'grant',
      'form',
      'consent',
      'recipientRequest',
    ])
      await MAKERS[kind]!(owner)
    await ask('GET', `/recipients/${await MAKERS['recipient']!(owner)}/data`, { token: owner })
  }
  // Statistics have no ids of their own, an account may have no problems, and only operators see the whole server.
  const shared = /^\/(?:statistics|lanes|sources|warmups|watches|campaign-totals|brand|explanations|findings)\b/
  for (const { method, path } of operations().filter(
    ({ method: verb, path: one }) => verb === 'GET' && !one.includes('{') && !shared.test(one),
  )) {
    const ids = async (bearer: string): Promise<string[]> =>
      (await ask(method, `${path}?page[size]=100`, { token: bearer })).body.data.map(({ id }: { id: string }) => id)
    const [own, others] = [new Set(await ids(token)), new Set(await ids(otherToken))]
    assert.ok(own.size > 0 && others.size > 0, path)
    assert.deepEqual(
      [...own].filter((id) => others.has(id)),
      [],
      path,
    )
  }
  const { body } = await ask('GET', '/outbound-emails?include=domain', { token: otherToken })
  assert.ok(body.data.some(({ id }: { id: string }) => theirs.includes(id)))
  assert.ok(!body.included.some(({ id }: { id: string }) => id === domain))
  const filtered = async (id: string) => {
    const answer = await ask('GET', `/outbound-emails?filter[domain]=${id}`, { token: otherToken })
    return [answer.status, answer.body.data]
  }
  assert.deepEqual(await filtered(domain), [200, []])
  assert.deepEqual(await filtered(MISSING), [200, []])

  // Only the first user has this domain.
  const from = async (name: string) => {
    const sent = await ask('POST', '/outbound-emails', {
      token: otherToken,
      body: mailDocument({ from: `ann@${name}` }),
    })
    return JSON.stringify(visible(sent)).replaceAll(name, 'NAME')
  }
  assert.equal(await from('mine.test'), await from('none.test'))
  assert.match(await from('mine.test'), /"status":404/)
  assert.equal((await ask('GET', `/outbound-emails/${mine[0]}`)).status, 200)
})

test('an idempotency key is valid only within its account', async () => {
  const body = mailDocument({ idempotency_key: 'shared' })
  const one = await ask('POST', '/outbound-emails', { body })
  const other = await ask('POST', '/outbound-emails', {
    token: wire.postrider.otherToken,
    body: mailDocument({ idempotency_key: 'shared', subject: 'Another' }),
  })
  assert.deepEqual([one.status, other.status], [201, 201])
  assert.notEqual(one.body.data.id, other.body.data.id)
  assert.equal(other.headers.get('idempotent-replayed'), null)
})

// ---- Rates

test('counts the requests of a token, returns the count, and rejects those above the limit (D8)', async () => {
  await using limited = await startWire({ config: { api: { rate_limit: 2, rate_burst: 5 } } })
  const { postrider } = limited
  const rates = ({ headers }: Answer) =>
    ['limit', 'remaining', 'reset'].map((name) => {
      const value = headers.get(`ratelimit-${name}`)
      return value === null ? null : Number(value)
    })
  const seen = [
    await limited.ask('GET', '/domains'),
    await limited.ask('GET', `/domains/${MISSING}`),
    await limited.ask('GET', '/domains?foo=1'),
    await limited.ask('POST', '/domains', { body: document('domains', {}) }),
    await limited.ask('PUT', '/domains'),
  ]
  assert.deepEqual(
    seen.map(({ status }) => status),
    [200, 404, 400, 422, 405],
  )
  assert.deepEqual(
    seen.map((each) => rates(each).slice(0, 2)),
    [4, 3, 2, 1, 0].map((remaining) => [5, remaining]),
  )
  const refused = await limited.ask('GET', '/domains')
  assert.equal(refused.status, 429)
  assert.deepEqual(codes(refused), ['rate_limited'])
  assert.deepEqual(rates(refused).slice(0, 2), [5, 0])
  assert.equal((await limited.ask('GET', '/nothing')).status, 429, 'unknown URLs are counted too')

  const another = await limited.ask('GET', '/domains', { token: postrider.otherToken })
  assert.equal(another.status, 200, 'each token has its own')
  const second = await postrider.tokenFor(postrider.user, ['domains:read'])
  assert.equal((await limited.ask('GET', '/domains', { token: second })).status, 200)

  postrider.clock.advance(Number(refused.headers.get('retry-after')) * 1000)
  const again = await limited.ask('GET', '/domains')
  assert.equal(again.status, 200, 'Retry-After keeps its word')
  postrider.clock.leap(60_000)
  const [limit, remaining] = rates(await limited.ask('GET', '/domains'))
  assert.deepEqual([limit, remaining], [5, 4], 'a rest fills it to the burst and no further')
})

test('every response to a valid token has the RateLimit headers (D8)', async () => {
  await using limited = await startWire({ domains: ['here.test'], config: { api: { rate_limit: 20 } } })
  const headers = { accept: `${JSON_API};charset=utf-8` }
  const [mail] = await limited.mails(1)
  const found = await outcomes(
    [
      ['200', 'GET', '/domains', {}],
      ['204', 'DELETE', `/outbound-emails/${mail}`, {}],
      ['400', 'GET', '/domains?x=1', {}],
      ['404', 'GET', '/nothing', {}],
      ['405', 'PUT', '/domains', {}],
      ['406', 'GET', '/domains', { headers }],
      ['415', 'POST', '/domains', { headers: { 'content-type': 'text/plain' }, body: 'x' }],
      ['422', 'POST', '/domains', { body: document('domains', {}) }],
    ] as [string, string, string, Ask][],
    ([status]) => status,
    async ([, method, path, more]) => {
      const answer = await limited.ask(method, path, more)
      const names = ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset']
      return [answer.status, names.every((name) => /^\d+$/.test(answer.headers.get(name) ?? ''))]
    },
  )
  sameOutcomes(found, Object.fromEntries([200, 204, 400, 404, 405, 406, 415, 422].map((each) => [each, [each, true]])))
})

test('a server without a rate limit sends no RateLimit headers (D8)', async () => {
  for (const [method, path] of [
    ['GET', '/domains'],
    ['GET', '/nothing'],
    ['PUT', '/domains'],
  ] as const)
    for (const [name] of (await ask(method, path)).headers) assert.doesNotMatch(name, /^ratelimit/)
})

// ---- Large bodies

const MB = 1024 * 1024
const block = new Uint8Array(MB).fill(0x20)
const spaces = (megabytes: number): ReadableStream => {
  let left = megabytes
  return new ReadableStream({
    pull: (controller) => (left-- > 0 ? controller.enqueue(block) : controller.close()),
  })
}

test('rejects a body above 60 MB with 413, with or without Content-Length, and reads a smaller one (D5)', async () => {
  const announced = { 'content-length': String(61 * MB) }
  for (const headers of [announced, {}] as Record<string, string>[]) {
    const answer = await ask('POST', '/outbound-emails', { body: spaces(61), headers })
    assert.equal(answer.status, 413)
    assert.deepEqual(codes(answer), ['payload_too_large'])
  }
  const below = await ask('POST', '/outbound-emails', { body: spaces(57) })
  assert.equal(below.status, 400)
  assert.deepEqual(codes(below), ['invalid_document'])
  assert.equal((await ask('POST', '/outbound-emails', { body: spaces(61), token: null })).status, 401)
})

test('a client receives the 413 in both forms, and the server keeps working', async () => {
  const headers = { authorization: `Bearer ${wire.postrider.token}`, 'content-type': JSON_API }
  for (const form of [{ 'content-length': String(61 * MB) }, { 'transfer-encoding': 'chunked' }]) {
    const answer = await overSocket('POST', '/outbound-emails', { ...headers, ...form }, async (send) => {
      for (let sent = 0; sent < 61; sent++) await send(block)
    })
    judge(answer, { method: 'POST', path: '/outbound-emails', base: '' })
    assert.equal(answer.status, 413)
  }
  assert.equal((await overSocket('GET', '/domains', headers)).status, 200)
})

// ---- URLs and methods

test('answers a wrong method with 405 and Allow', async () => {
  for (const [path, item] of Object.entries(openApi.paths)) {
    if ('servers' in item) continue
    const offered = Object.keys(item).map((method) => method.toUpperCase())
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
      if (offered.includes(method)) continue
      const answer = await ask(method, fill(path, missingOf(path)))
      assert.equal(answer.status, 405, `${method} ${path}`)
      assert.deepEqual(codes(answer), ['method_not_allowed'])
      const allowed = answer.headers.get('allow')!.split(/,\s*/)
      for (const each of offered) assert.ok(allowed.includes(each), `${path}: Allow names ${each}`)
      assert.deepEqual(
        allowed.filter((each) => !offered.includes(each) && each !== 'HEAD'),
        [],
      )
    }
    if (offered.includes('GET') && parameterOf(path) === undefined)
      assert.equal((await ask('HEAD', fill(path, ''))).status, 200, `HEAD ${path}`)
  }
})

test('answers an unknown URL with 404 for every method', async () => {
  for (const path of [
    '',
    '/',
    '/nothing',
    '/nothing/at/all/of/it',
    '/domain',
    '/Domains',
    '/domains/x/y',
    '/domains/',
    '//domains',
  ])
    for (const method of ['GET', 'POST', 'PATCH', 'DELETE', 'PUT']) {
      const answer = await ask(method, path)
      assert.equal(answer.status, 404, `${method} ${path}`)
      assert.deepEqual(codes(answer), ['not_found'])
    }
})

// ---- The OpenAPI document

test('serves a consistent OpenAPI document without a token', async () => {
  const { body, headers, status } = await wire.postrider.raw(`${API}/openapi.json`)
  assert.equal(status, 200)
  assert.match(headers.get('content-type')!, /^application\/(openapi\+)?json/)
  assert.equal(headers.get('api-version'), '1', 'D2')
  assert.match(body.openapi, /^3\.1\.\d$/)
  assert.equal(body.servers[0].url, wire.postrider.config.http.public_url + API)
  assert.deepEqual(Object.keys(body.paths), Object.keys(openApi.paths))
})

test('every route of the OpenAPI document responds as documented', async () => {
  const { token } = wire.postrider
  for (const { method, path, operation } of operations()) {
    // The deletion is tested last, on a resource that was created for it.
    const name = parameterOf(path)
    const id =
      name === undefined
        ? wire.postrider.user.id
        : path === '/domains/{domain}' && method === 'DELETE'
          ? await spare()
          : await MAKERS[name]!(token)
    // `ask` compares the answer with the document.
    const answer = await ask(method, fill(path, id), leastBody(operation, id))
    const at = `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`
    assert.ok(answer.status < 300 || (method === 'POST' && answer.status === 422), at)
  }
})

async function spare(): Promise<string> {
  const { body } = await ask('POST', '/domains', { body: document('domains', { name: 'spare.test', purpose: 'both' }) })
  return body.data.id
}

test('every operation declares all statuses that it returns', async () => {
  const undeclared: string[] = []
  const expect = async (method: string, path: string, template: string, status: number, more: Ask = {}) => {
    const answer = await ask(method, path, more)
    assert.equal(answer.status, status, `${method} ${path}`)
    if (!described.response(openApi.paths[template]![method.toLowerCase()]!, status))
      undeclared.push(`${method} ${template} ${status}`)
  }
  for (const { method, path, operation } of operations()) {
    const request = leastBody(operation, MISSING)
    await expect(method, fill(path, missingOf(path)), path, 401, { ...request, token: null })
    await expect(method, fill(path, missingOf(path)), path, 406, { ...request, headers: { accept: `${JSON_API};x=1` } })
    await expect(method, `${fill(path, missingOf(path))}${path in QUESTIONS ? '&' : '?'}foo=1`, path, 400, request)
    if (parameterOf(path)) await expect(method, fill(path, missingOf(path)), path, 404, request)
    if (request.body)
      await expect(method, fill(path, missingOf(path)), path, 415, {
        ...request,
        headers: { 'content-type': 'text/plain' },
      })
  }
  const body = mailDocument({ from: 'ann@unknown.test' })
  await expect('POST', '/outbound-emails', '/outbound-emails', 404, { body })
  assert.deepEqual(undeclared, [])
  assert.ok(openApi.paths['/domains/{domain}']!['delete']!.responses['502'], 'a teardown that fails is 502')
})
