// Endpoints under development: plain HTTP is accepted for loopback addresses that network.allow_private lists (D233).
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { portOf } from '../../src/base/network.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import type { Request } from '../kit/receiver.ts'
import { happen, makeHook, relation } from './hooks.ts'

const requests: Request[] = []
const endpoint = createServer((incoming, response) => {
  let body = ''
  incoming.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
  incoming.on('end', () => {
    requests.push({ path: incoming.url!, headers: incoming.headers as Record<string, string>, body })
    response.writeHead(204).end()
  })
})
await new Promise<void>((done) => endpoint.listen(0, '127.0.0.1', done))
after(() => endpoint.close())
const url = `http://127.0.0.1:${portOf(endpoint)}`

test('delivers a signed event to an http endpoint on loopback if allow_private lists loopback', async () => {
  await using postrider = await startTestAppliance()
  const domain = await postrider.activeDomain('here.test')
  const hook = await makeHook(postrider, { url, requests }, domain, ['email.delivered'])
  await happen(postrider, domain, 'email.delivered')
  const [request] = await hook.arrived(1)
  const now = Date.now
  Date.now = () => postrider.clock.now()
  try {
    new Webhook(hook.secret).verify(request!.body, request!.headers)
  } finally {
    Date.now = now
  }
})

test('rejects an http URL unless it is a loopback address that allow_private lists', async () => {
  await using postrider = await startTestAppliance({ config: { network: { allow_private: ['10.0.0.0/8', '::1'] } } })
  const domain = await postrider.activeDomain('here.test')
  const create = (target: string) =>
    postrider.api(
      'POST',
      '/webhooks',
      document('webhooks', { name: 'local', url: target, events: ['*'] }, relation(domain.id)),
    )
  for (const target of [url, 'http://localhost/hook', 'http://10.0.0.7/hook', 'http://2130706433/hook']) {
    const { body, status } = await create(target)
    assert.equal(status, 422, target)
    assert.equal(body.errors[0].source.pointer, '/data/attributes/url')
  }
  assert.equal((await create('http://[::1]:8080/hook')).status, 201)
})
