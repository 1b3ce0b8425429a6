import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { PassedSockets, passedSockets } from '../../src/server/passed-sockets.ts'

const socket = (name: string, port: number, host = '0.0.0.0') => ({ name, port, host, opened: new Socket() })
const portsOf = (each: readonly { port: number }[]): number[] => each.map(({ port }) => port)

test('a socket is for the listener that has its name, else for the one that has its port, in both families (N3)', () => {
  const sockets = new PassedSockets([
    socket('postrider', 25),
    socket('postrider', 25, '::'),
    socket('submissions', 9465),
    socket('postrider', 9999),
  ])
  const smtp = sockets.take('smtp', [
    { host: '::', port: 25 },
    { host: '0.0.0.0', port: 25 },
    { host: '0.0.0.0', port: 2525 },
  ])
  assert.deepEqual(
    smtp.passed.map(({ host, port }) => `${host} ${port}`),
    ['0.0.0.0 25', ':: 25'],
  )
  assert.deepEqual(portsOf(smtp.others), [2525], 'what is not passed is opened')
  const submissions = sockets.take('submissions', [{ host: '::', port: 465 }])
  assert.deepEqual(portsOf(submissions.passed), [9465])
  assert.deepEqual(submissions.others, [], 'a named socket stands for all of its listener')
  const free = sockets.take('http', [{ host: '127.0.0.1', port: 0 }])
  assert.deepEqual([free.passed, portsOf(free.others)], [[], [0]])
  const warned: unknown[] = []
  sockets.closeOthers({ warn: (_, fields) => void warned.push(fields) })
  assert.deepEqual(warned, [{ name: 'postrider', host: '0.0.0.0', port: 9999 }], 'nobody would answer there')
})

test('the sockets of another process are not taken, and no child finds the variables (N3)', () => {
  const environment = { LISTEN_PID: '1', LISTEN_FDS: '2', LISTEN_FDNAMES: 'smtp:http', PATH: '/bin' }
  const sockets = passedSockets(environment)
  assert.deepEqual(sockets.take('smtp', []).passed, [])
  assert.deepEqual(environment, { PATH: '/bin' })
})
