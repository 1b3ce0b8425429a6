// Tests DNS answers that cannot be read: they count as missing.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { test } from 'node:test'
import dnsPacket from 'dns-packet'
import { askServer, readAnswer } from '../../src/net/dns-question.ts'

const packet = dnsPacket.encode({
  type: 'response',
  id: 1,
  flags: dnsPacket.RECURSION_AVAILABLE,
  questions: [{ type: 'A', name: 'here.test' }],
  answers: [{ type: 'A', name: 'here.test', ttl: 1, data: '192.0.2.1' }],
})

const asked = { id: 1, name: 'here.test', type: 'A' } as const

test('rejects a truncated answer', () => {
  assert.equal(readAnswer(packet, asked)?.answers.length, 1)
  // The last six bytes are the address and its length.
  for (let end = 0; end < packet.length - 6; end++)
    assert.equal(readAnswer(packet.subarray(0, end), asked), undefined, String(end))
})

test('treats an unreadable answer of a resolver as a missing one', async (t) => {
  const socket = createSocket('udp4')
  t.after(() => socket.close())
  socket.on('message', (question, { address, port }) => {
    socket.send(Buffer.concat([question.subarray(0, 2), Buffer.alloc(40, 0xff).fill(0, 0, 1)]), port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const server = { host: '127.0.0.1', port: socket.address().port }
  assert.deepEqual(await askServer(server, { name: 'here.test', type: 'A' }, 100), { failure: 'ETIMEOUT' })
})
