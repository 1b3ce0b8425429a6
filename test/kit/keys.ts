// DKIM keys for test domains. A new key takes a tenth of a second of CPU time, so a few keys are made once, kept in a
// file, and used in turn, each time with a new selector. The selectors distinguish domains that share a key.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeKeyPair, newSelector, type KeyPair } from '../../src/domains/keys.ts'

const FILE = fileURLToPath(new URL('../../.tests/keys.json', import.meta.url))
/** The number of keys of each length: more than a domain has at a time. */
const COUNT = 4
const LENGTHS = [1024, 2048] as const

type Length = (typeof LENGTHS)[number]
type Keys = Record<Length, KeyPair[]>

let kept: Promise<Keys> | undefined
let next = 0

/** A key pair that other domains may have too, with a new selector. */
export async function usedKeyPair(length: Length): Promise<KeyPair> {
  const keys = (await (kept ??= keep()))[length]
  return { ...keys[next++ % COUNT]!, selector: newSelector() }
}

async function keep(): Promise<Keys> {
  try {
    return JSON.parse(readFileSync(FILE, 'utf8')) as Keys
  } catch {
    const made = LENGTHS.map(async (length) => [
      length,
      await Promise.all(Array.from({ length: COUNT }, () => makeKeyPair(length))),
    ])
    const keys = Object.fromEntries(await Promise.all(made)) as Keys
    mkdirSync(dirname(FILE), { recursive: true })
    // Other processes may do the same: because of the rename, the file is complete at any time.
    writeFileSync(`${FILE}.${process.pid}`, JSON.stringify(keys))
    renameSync(`${FILE}.${process.pid}`, FILE)
    return keys
  }
}
