// The OpenAPI document itself: complete, with valid examples and natural names. All contract tests compare the answers
// with it (wire.ts).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CODES } from '../../src/base/errors.ts'
import { singular } from '../../src/jsonapi/openapi-schemas.ts'
import { EVENT_TYPES } from '../../src/store/states/events.ts'
import { JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'
import { Described, type Operation } from './described.ts'

const described = new Described()
const { document } = described
type Schema = Record<string, unknown> & { properties?: Record<string, Schema>; required?: string[]; $ref?: string }
const schemas = document.components.schemas as Record<string, Schema>
const whole = (schema: Schema): Schema =>
  schema.$ref === undefined ? schema : schemas[schema.$ref.split('/').at(-1)!]!
const operations = (): Operation[] => [
  ...described.operations().map(({ operation }) => operation),
  ...Object.values(document.webhooks).map(({ post }) => post),
]

const postrider = ofFile(() => startTestAppliance())

test('every reference resolves, and every component is used', () => {
  const used = new Set([...JSON.stringify(document).matchAll(/"#\/components\/(\w+\/[\w-]+)"/g)].map(([, ref]) => ref!))
  const there = Object.entries(document.components).flatMap(([kind, each]) =>
    kind === 'securitySchemes' ? [] : Object.keys(each).map((name) => `${kind}/${name}`),
  )
  assert.deepEqual([...used].toSorted(), there.toSorted())
})

test('no alternative matches every value', () => {
  assert.doesNotMatch(JSON.stringify(document), /"(?:any|one|all)Of":\[(?:\{[^[\]]*\},)?\{\}/)
})

test('documents each status code separately, for generators without support for ranges', () => {
  for (const item of Object.values(document.paths))
    for (const { responses = {} } of Object.values(item as Record<string, { responses?: object }>))
      for (const status of Object.keys(responses)) assert.match(status, /^[1-5]\d\d$/)
})

test('makes the names of schemas singular', () => {
  for (const [many, one] of [
    ['OutboundEmails', 'OutboundEmail'],
    ['Inboxes', 'Inbox'],
    ['Watches', 'Watch'],
    ['Entries', 'Entry'],
    ['Images', 'Image'],
    ['Addresses', 'Address'],
    ['CampaignReach', 'CampaignReach'],
    ['AudienceStatistics', 'AudienceStatistics'],
    ['Statistics', 'Statistic'],
  ] as const)
    assert.equal(singular(many), one)
})

test('operation ids are natural and unique', () => {
  const names = operations().map(({ operationId }) => operationId)
  assert.equal(new Set(names).size, names.length)
  for (const name of [
    'createInbox',
    'listInboxes',
    'updateInbox',
    'createOutboundEmail',
    'listOutboundEmails',
    'getOutboundEmailStats',
    'getCampaignStats',
    'importContacts',
    'listDomainRecords',
    'downloadInboundAttachment',
    'revokeToken',
    'listWebhookDeliveries',
    'replayDelivery',
    'forgetRecipient',
    'onEmailDelivered',
  ])
    assert.ok(names.includes(name), name)
  for (const name of Object.keys(schemas))
    assert.ok(!(name in globalThis) && name !== 'Record', `${name} is a word of languages`)
})

test('operations, parameters and attributes have descriptions', () => {
  for (const operation of operations()) {
    assert.ok(operation.description.length > 20, operation.operationId)
    for (const parameter of described.parametersOf(operation))
      assert.ok((parameter as { description?: string }).description, `${operation.operationId} ${parameter.name}`)
  }
  for (const [name, schema] of Object.entries(schemas)) {
    const attributes = schema.properties?.['attributes'] ?? schema.properties?.['data']?.properties?.['attributes']
    for (const [attribute, value] of Object.entries(attributes?.properties ?? {})) {
      assert.ok(value['description'], `${name} ${attribute}`)
      assert.ok(value['type'] ?? value['anyOf'] ?? value['enum'] ?? value['const'], `${name} ${attribute} has a type`)
    }
  }
})

test('the schemas of resources have attributes, relationships and links, and those of lists have links and meta', () => {
  for (const [name, related] of [
    ['Webhook', ['domain']],
    ['Campaign', ['audience', 'segment']],
    ['Audience', ['domain']],
    ['OutboundEmail', ['domain', 'campaign', 'batch', 'contact']],
  ] as const) {
    const { properties, required } = schemas[name]!
    assert.deepEqual(required, ['type', 'id', 'attributes', 'relationships', 'links'], name)
    assert.deepEqual(properties!['relationships']!.required, related, name)
    assert.ok(properties!['attributes']!.required!.includes('created_at'), name)
  }
  const collections = Object.entries(schemas).filter(([name]) => name.endsWith('CollectionDocument'))
  assert.ok(collections.length >= 9)
  for (const [name, { properties, required }] of collections) {
    assert.deepEqual(required, ['data', 'links', 'meta'], name)
    assert.deepEqual(whole(properties!['links']!).required, ['first', 'last', 'prev', 'next'], name)
    assert.deepEqual(whole(properties!['meta']!).required, ['has_more', 'next_cursor', 'prev_cursor', 'per_page'], name)
  }
  for (const name of ['CreateWebhookRequest', 'CreateCampaignRequest', 'CreateAudienceRequest'])
    assert.ok(schemas[name]!.properties!['data']!.required!.includes('relationships'), name)
})

test('request and response schemas differ where needed', () => {
  const of = (name: string) => schemas[name]!.properties!['attributes']!.properties!
  const sent = schemas['CreateOutboundEmailRequest']!.properties!['data']!.properties!['attributes']!.properties!
  const attached = (schema: Schema): string[] => {
    const list = ((schema['anyOf'] as Schema[] | undefined)?.[0] ?? schema)['items'] as Schema
    return Object.keys(list.properties!).toSorted()
  }
  assert.deepEqual(attached(sent['attachments']!), [
    'content',
    'content_id',
    'content_type',
    'disposition',
    'filename',
    'path',
  ])
  assert.deepEqual(attached(of('OutboundEmail')['attachments']!), [
    'content_id',
    'content_type',
    'disposition',
    'filename',
    'size',
  ])
  assert.ok('secret' in of('CreatedWebhook') && !('secret' in of('Webhook')))
  assert.ok(!schemas['ChangedWebhook']!.properties!['attributes']!.required!.includes('secret'))
  assert.ok(!schemas['OutboundEmailSummary']!.properties!['attributes']!.required!.includes('html'))
})

test('every example fits its schema', () => {
  let seen = 0
  const check = (schema: object, value: unknown, at: string): void => {
    seen++
    assert.equal(described.faults(schema, value, 'plain'), undefined, `${at}: ${JSON.stringify(value)}`)
  }
  for (const operation of operations()) {
    for (const [type, content] of Object.entries(operation.requestBody?.content ?? {}))
      if (content.example !== undefined) check(content.schema, content.example, `${operation.operationId} ${type}`)
    for (const status of Object.keys(operation.responses)) {
      const { schema, example } = described.response(operation, Number(status))?.content?.[JSON_API] ?? {}
      if (schema) check(schema, example, `${operation.operationId} ${status}`)
    }
  }
  const walk = (schema: Schema, at: string): void => {
    for (const example of (schema['examples'] as unknown[] | undefined) ?? []) check(schema, example, at)
    for (const [name, each] of Object.entries(schema.properties ?? {})) walk(each, `${at}.${name}`)
  }
  for (const [name, schema] of Object.entries(schemas)) walk(schema, name)
  assert.ok(seen > 400, `${seen}`)
})

test('every operation lists the error codes that it returns', () => {
  const named = new Set(
    described
      .operations()
      .flatMap(({ operation }) =>
        Object.keys(operation.responses).flatMap(
          (status) => described.response(operation, Number(status))!['x-error-codes'] ?? [],
        ),
      ),
  )
  // Every error code belongs to an operation.
  assert.deepEqual(
    Object.keys(CODES).filter((code) => !named.has(code)),
    ['method_not_allowed'],
  )
  const enums = ['ErrorObject', 'ValidationErrorObject'].flatMap(
    (name) => schemas[name]!.properties!['code']!['enum'] as string[],
  )
  assert.deepEqual(enums.toSorted(), Object.keys(CODES).toSorted())
})

test('every operation documents its RateLimit headers, and 429 its Retry-After', () => {
  for (const { operation } of described.operations()) {
    for (const status of Object.keys(operation.responses).filter((each) => each !== '401'))
      assert.ok('RateLimit-Remaining' in described.response(operation, Number(status))!.headers!, operation.operationId)
    assert.ok('Retry-After' in described.response(operation, 429)!.headers!)
  }
})

test('every event is described with its data', () => {
  assert.deepEqual(Object.keys(document.webhooks), [...EVENT_TYPES])
  for (const [type, { post }] of Object.entries(document.webhooks)) {
    const { schema } = post.requestBody!.content['application/json']!
    assert.equal(whole(schema).properties!['type']!['const'], type)
    assert.ok(whole(schema).properties!['data']!.properties, type)
    assert.deepEqual(
      post.parameters.map(({ name }) => name),
      ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
    )
  }
})

test('the OAuth endpoints respond as documented', async () => {
  const outside = Object.entries(document.paths).filter(([, item]) => 'servers' in item)
  assert.deepEqual(
    outside.map(([path]) => path),
    ['/oauth/register', '/oauth/token', '/oauth/revoke', '/.well-known/oauth-protected-resource'],
  )
  const says = (path: string, method: string, status: number): object =>
    document.paths[path]![method]!.responses[status]!.content!['application/json']!.schema
  const fits = (schema: object, value: unknown) => assert.equal(described.faults(schema, value), undefined)
  for (const [path, item] of outside) if ('get' in item) fits(says(path, 'get', 200), (await postrider.raw(path)).body)
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const client = await postrider.raw('/oauth/register', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ redirect_uris: ['http://127.0.0.1/back'], client_name: 'Agent' }),
  })
  assert.equal(client.status, 201)
  fits(says('/oauth/register', 'post', 201), client.body)
  for (const [path, body, status] of [
    ['/oauth/token', 'grant_type=refresh_token', 401],
    ['/oauth/token', '', 400],
    ['/oauth/revoke', `client_id=${client.body.client_id}`, 400],
    ['/oauth/revoke', 'token=x', 401],
  ] as const) {
    const answer = await postrider.raw(path, { method: 'POST', headers: form, body })
    assert.equal(answer.status, status, path)
    fits(says(path, 'post', status), answer.body)
  }
})
