// The server under system limits: a failure is a problem of this machine and not an internal error (D72).
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { Agent, request } from 'node:http'
import { test, type TestContext } from 'node:test'
import { JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { configFor, startServer } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'
import { mail } from '../mail/mails.ts'

/** A server under a limit. `post` sends an email of this size over one connection and returns status and code. */
async function limited(t: TestContext, limit: string) {
  const dataDir = temporaryDirectory('limits')
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
  await setUp.activeDomain('here.test')
  await setUp.appliance.stop()
  let said = ''
  const config = configFor(dataDir, setUp.dns, '[storage]\nreserve = "0"\n')
  const server = await startServer(config, { limit, heard: (chunk) => (said += chunk) })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(async () => {
    agent.destroy()
    server.process.kill('SIGKILL')
    await server.ended
    await setUp[Symbol.asyncDispose]()
  })
  const post = (bytes: number): Promise<[status: number, code: unknown]> =>
    new Promise((resolve, reject) => {
      const headers = { 'content-type': JSON_API, authorization: `Bearer ${setUp.token}` }
      request(`${server.url}/api/v1/outbound-emails`, { agent, method: 'POST', headers }, (response) => {
        let body = ''
        response
          .on('data', (chunk: Buffer) => (body += chunk.toString()))
          .on('end', () => {
            const { errors } = JSON.parse(body) as { errors?: { code: string }[] }
            resolve([response.statusCode ?? 0, errors?.[0]?.code])
          })
      })
        .on('error', reject)
        .end(JSON.stringify(mail({ html: 'x'.repeat(bytes) })))
    })
  const logged = (event: string) => said.split('\n').filter((line) => line.includes(`"event":"${event}"`))
  return { server, post, logged }
}

test('returns 507 and reports a problem if a file cannot grow, and accepts small email (D72)', async (t) => {
  const { logged, post, server } = await limited(t, 'ulimit -f 4096')
  assert.deepEqual(await post(3_000_000), [507, 'insufficient_storage'])
  assert.deepEqual(await post(1000), [201, undefined])
  await until(() => logged('problem_reported').some((line) => line.includes('EFBIG')))
  assert.deepEqual(logged('fault'), [])
  server.process.kill('SIGTERM')
  assert.equal(await server.ended, 0)
})

const noPrlimit = spawnSync('prlimit', ['--version']).error ? 'there is no prlimit(1)' : false

test(
  'no descriptor is left: 503, logged as trouble, and all is well when there are some (D72)',
  { skip: noPrlimit },
  async (t) => {
    const { logged, post, server } = await limited(t, ':')
    const allow = (files: number) =>
      execFileSync('prlimit', ['--pid', String(server.process.pid), `--nofile=${files}:`])
    assert.deepEqual(await post(1000), [201, undefined])
    allow(10)
    assert.deepEqual(await post(100_000), [503, 'overloaded'])
    assert.deepEqual(await post(1000), [201, undefined])
    await until(() => logged('problem_reported').some((line) => line.includes('EMFILE')))
    allow(1000)
    assert.deepEqual(await post(100_000), [201, undefined])
    assert.deepEqual(logged('fault'), [])
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)
  },
)
