// Pictures that are uploaded and removed while the server is killed: what was answered 201 is there and whole, what was
// removed is gone, and no file stays that no picture names (D141).
//
// The servers are processes of their own, `postrider serve`.
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { faultsOf } from '../../src/archive/integrity.ts'
import { openInstance } from '../../src/store/instance.ts'
import { raw } from '../../src/store/query.ts'
import { Spool } from '../../src/store/spool.ts'
import { newPicture } from '../images/pictures.ts'
import { document, JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { ManualClock } from '../kit/clock.ts'

const ROUNDS = Number(process.env['POSTRIDER_CRASH_ROUNDS'] ?? 6)
const AT_ONCE = 6

interface Answered {
  path: string
  octets: Buffer
}

test('a server that is killed while pictures come and go keeps each whole, or nothing of it', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'postrider-images-crash-'))
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
    rmSync(dataDir, { recursive: true, force: true })
  }
})
