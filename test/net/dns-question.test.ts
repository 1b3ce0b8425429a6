// A resolver that answers what cannot be read has not answered: the grade goes on.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { test } from 'node:test'
import dnsPacket from 'dns-packet'
import { dnsOf, readAnswer } from '../../src/net/dns-question.ts'

const packet = dnsPacket.encode({
  type: 'response',
  id: 1,
  flags: dnsPacket.RECURSION_AVAILABLE,
  questions: [{ type: 'A', name: 'here.test' }],
  answers: [{ type: 'A', name: 'here.test', ttl: 1, data: '192.0.2.1' }],
})

const asked = { id: 1, name: 'here.test', type: 'A' } as const

test('an answer that ends too early is none', () => {
  assert.equal(readAnswer(packet, asked)?.answers.length, 1)
  // The last six octets are the address and its length.
  for (let end = 0; end < packet.length - 6; end++)
    assert.equal(readAnswer(packet.subarray(0, end), asked), undefined, String(end))
})

test('a resolver that answers with other octets has not answered', async (t) => {
  const socket = createSocket('udp4')
  t.after(() => socket.close())
  socket.on('message', (question, { address, port }) => {
    socket.send(Buffer.concat([question.subarray(0, 2), Buffer.alloc(40, 0xff).fill(0, 0, 1)]), port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const ask = dnsOf({ dns: { servers: [{ host: '127.0.0.1', port: socket.address().port }] } } as never, 100)
  assert.equal(await ask('here.test', 'A'), undefined)
})
