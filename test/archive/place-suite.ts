// What every place for backups does, whatever keeps the objects: one suite for all kinds (B8).
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import type { BackupPlace } from '../../src/archive/places/place.ts'
import { PlaceFault } from '../../src/archive/places/place-fault.ts'

export async function* pieces(octets: Uint8Array, size = 60_001): AsyncIterable<Uint8Array> {
  for (let at = 0; at < octets.length; at += size) yield octets.subarray(at, at + size)
}

export const sha256 = (octets: Uint8Array): string => createHash('sha256').update(octets).digest('hex')

export const namesIn = async (place: BackupPlace): Promise<string[]> => {
  const names: string[] = []
  for await (const { name } of place.list()) names.push(name)
  return names.sort()
}

/** A stream that fails after its octets, as a disk does. */
export async function* failing(octets: Uint8Array): AsyncIterable<Uint8Array> {
  yield* pieces(octets)
  throw new Error('the disk failed')
}

/** Whether something is a PlaceFault with this reason, and one sentence with what fixes it. */
export const faultOf =
  (reason: PlaceFault['reason'], words = /./) =>
  (thrown: unknown): boolean => {
    assert.ok(thrown instanceof PlaceFault, String(thrown))
    assert.equal(thrown.reason, reason, thrown.message)
    assert.match(thrown.message, words)
    assert.match(thrown.message, /^[^\n]+; [^\n]+\.$/)
    return true
  }

const DOCUMENT = readFileSync(new URL('../../docs/backup.md', import.meta.url), 'utf8')
/** The script of docs/backup.md, for "exec:/bin/sh SCRIPT FOLDER {action} {name} {from}". */
export const keepScript =
  /<!-- run by test\/archive\/places\.test\.ts -->\n```sh\n(.*?)```/s.exec(DOCUMENT)?.[1] ?? 'exit 64'

const MB = 1024 * 1024

export interface Kept {
  place: () => BackupPlace
  /** Names of everything that lies where the place keeps its objects, unfinished parts included. */
  everything: () => Promise<string[]> | string[]
}

/** The suite; its tests need no one another. */
export function placeSuite({ everything, place }: Kept): void {
  for (const size of [0, 1, 70_000, 8 * MB, 8 * MB + 1, 20 * MB + 17])
    test(`keeps ${size} octets and gives them back (B8)`, async () => {
      const octets = randomBytes(size)
      const name = `whole-${size}.age`
      assert.deepEqual(await place().put(name, pieces(octets)), { size, sha256: sha256(octets) })
      const found = await place().head(name)
      assert.equal(found?.size, size)
      assert.equal(found?.name, name)
      assert.ok((found?.at ?? 0) > Date.UTC(2026, 0, 1))
      assert.equal(sha256(await buffer(place().get(name))), sha256(octets))
      await place().remove(name)
    })

  test('gives the octets from one on (B8)', async () => {
    const octets = randomBytes(9 * MB)
    await place().put('range.age', pieces(octets))
    for (const from of [0, 1, 8 * MB - 1, 8 * MB, 8 * MB + 1, 9 * MB - 1, 9 * MB, 9 * MB + 5])
      assert.equal(sha256(await buffer(place().get('range.age', from))), sha256(octets.subarray(from)), `from ${from}`)
    // Who wants no more ends it.
    for await (const piece of place().get('range.age')) if (piece.length > 0) break
    await place().remove('range.age')
  })

  test('lists what it keeps with sizes, replaces and removes it (B8)', async () => {
    for (const name of ['list-a.age', 'list-b.age', 'list-b.json']) await place().put(name, pieces(Buffer.from(name)))
    await place().put('list-a.age', pieces(Buffer.from('replaced')))
    const found: Record<string, number> = {}
    for await (const { name, size } of place().list()) if (name.startsWith('list-')) found[name] = size
    assert.deepEqual(found, { 'list-a.age': 8, 'list-b.age': 10, 'list-b.json': 11 })
    assert.equal((await buffer(place().get('list-a.age'))).toString(), 'replaced')
    for (const name of Object.keys(found)) await place().remove(name)
    assert.deepEqual(
      (await namesIn(place())).filter((name) => name.startsWith('list-')),
      [],
    )
    assert.equal(await place().head('list-a.age'), undefined)
    // None is none.
    await place().remove('list-a.age')
  })

  test('an object that is not there is missing (B8)', async () => {
    assert.equal(await place().head('none.age'), undefined)
    await assert.rejects(buffer(place().get('none.age')), faultOf('missing', /no none\.age/))
  })

  test('of a stream that fails nothing is to be seen, and what had the name stays (B8)', async () => {
    await place().put('before.age', pieces(Buffer.from('before')))
    const before = await everything()
    for (const size of [10, 9 * MB, 17 * MB])
      for (const name of ['failed.age', 'before.age'])
        await assert.rejects(place().put(name, failing(randomBytes(size))), /the disk failed/)
    assert.equal(await place().head('failed.age'), undefined)
    assert.equal((await buffer(place().get('before.age'))).toString(), 'before')
    assert.deepEqual(await everything(), before)
    await place().remove('before.age')
  })

  test('a name that is none of ours is never asked for (B8)', async () => {
    for (const name of ['', '.hidden', '../up', 'a/b', 'a b', '-x\n', `${'a'.repeat(201)}`])
      await assert.rejects(async () => place().put(name, pieces(Buffer.from('x'))), /is not the name of a backup/)
  })
}
