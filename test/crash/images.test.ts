// Images that are uploaded and removed while the server is killed: images answered with 201 exist and are complete,
// removed ones are gone, and no file stays without a row (D141).
//
// The servers are separate processes, `postrider serve`.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { faultsOf } from '../../src/archive/integrity.ts'
import { openInstance } from '../../src/store/instance.ts'
import { raw } from '../../src/store/query.ts'
import { Spool } from '../../src/store/spool.ts'
import { newPicture } from '../images/pictures.ts'
import { document, JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { ManualClock } from '../kit/clock.ts'

const ROUNDS = Number(process.env['POSTRIDER_CRASH_ROUNDS'] ?? 6)
const AT_ONCE = 6

interface Answered {
  path: string
  octets: Buffer
}

test('a server killed during image uploads and deletions keeps each image whole or not at all', async () => {
  const dataDir = temporaryDirectory('images-crash')
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
  const { token } = setUp
  await setUp.appliance.stop()
  const config = configFor(dataDir, setUp.dns)
  const answered: Answered[] = []
  const removed: string[] = []
  let sent = 0
  let server: Server | undefined
  const upload = async (url: string): Promise<void> => {
    const octets = newPicture(10, 10 + ++sent, (sent % 3) * 700_000)
    const body = document('images', { name: `${sent}.png`, content: octets.toString('base64') })
    const response = await fetch(`${url}/api/v1/images`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': JSON_API },
      body: JSON.stringify(body),
    })
    assert.equal(response.status, 201)
    const { data } = (await response.json()) as { data: { id: string; attributes: { url: string } } }
    const path = new URL(data.attributes.url).pathname
    if (octets.length % 3 > 0) return void answered.push({ path, octets })
    const headers = { authorization: `Bearer ${token}` }
    assert.equal((await fetch(`${url}/api/v1/images/${data.id}`, { method: 'DELETE', headers })).status, 204)
    removed.push(path)
  }
  try {
    for (let round = 1; round <= ROUNDS; round++) {
      server = await startServer(config)
      const { ended, process, url } = server
      const enough = answered.length + 2 + round
      const uploads = Array.from({ length: AT_ONCE }, async () => {
        for (;;) {
          await upload(url)
          if (answered.length >= enough) process.kill('SIGKILL')
        }
      })
      const ends = await Promise.allSettled(uploads)
      assert.equal(await ended, 'SIGKILL')
      for (const each of ends)
        assert.match(String(each.status === 'rejected' && each.reason), /fetch failed|terminated/)
    }
    server = await startServer(config)
    for (const { octets, path } of answered) {
      const response = await fetch(server.url + path)
      assert.equal(response.status, 200, path)
      assert.deepEqual(Buffer.from(await response.arrayBuffer()), octets)
    }
    assert.ok(removed.length > 0)
    for (const path of removed) assert.equal((await fetch(server.url + path)).status, 404, path)
    const { keyring, store } = openInstance(dataDir)
    try {
      assert.deepEqual(await faultsOf({ keyring, store, spool: new Spool(dataDir) }), [])
      const named = store.all(raw<{ spool: string }>('select spool from images')).map(({ spool }) => spool)
      const files = readdirSync(join(dataDir, 'spool'), { withFileTypes: true }).filter((each) => each.isFile())
      assert.deepEqual(files.map(({ name }) => name).toSorted(), named.toSorted())
      assert.ok(named.length >= answered.length)
    } finally {
      store.close()
    }
  } finally {
    server?.process.kill('SIGKILL')
    await server?.ended
    await setUp[Symbol.asyncDispose]()
  }
})
