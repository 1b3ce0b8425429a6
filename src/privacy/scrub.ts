// Erases an address from every store of an account (D56): rows, bodies, files, payloads, the log, and then the places where SQLite keeps
// what is no longer there. It is done when no octet of the data directory says the address.
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { erasedForm } from '../base/recipient-hash.ts'
import type { Keyring } from '../base/keyring.ts'
import { forgetInNotices } from '../accounts/forget.ts'
import { forgetInCampaigns } from '../campaigns/forget.ts'
import { forgetInInbound } from '../inbound/forget.ts'
import { forgetInAgents, forgetInBodies, forgetInMails, forgetInSuppressions } from '../outbound/forget.ts'
import type { Store, Tx } from '../store/database.ts'
import { tracesOf, type Erasing } from '../store/erasing.ts'
import { forgetInEvents } from '../store/forget-events.ts'
import type { Spool } from '../store/spool.ts'
import { forgetInWebhooks } from '../webhooks/forget.ts'

export interface ScrubDesk {
  store: Store
  spool: Spool
  keyring: Keyring
  config: { data_dir: string }
}

const MARK_DIGITS = 12
const CHUNK = 1024 * 1024

export function erasingOf(keyring: Keyring, userKey: number, address: string): Erasing {
  const hash = erasedForm(keyring, address)
  return { userKey, address, hash, mark: `erased-${hash.slice(1, 1 + MARK_DIGITS)}@erased.invalid` }
}

/** Erases; some rows in each transaction, so that it holds up nobody. Returns the files that still say the address. */
export async function scrub(desk: ScrubDesk, erasing: Erasing): Promise<string[]> {
  const { spool, store } = desk
  const read = (file: string): Uint8Array =>
    existsSync(spool.path(file)) ? readFileSync(spool.path(file)) : new Uint8Array()
  const remove = (files: readonly string[]): Promise<unknown> => Promise.all(files.map((file) => spool.remove(file)))
  const until = async (step: (tx: Tx) => boolean): Promise<void> => {
    while (await store.write(step));
  }
  await store.write((tx) => forgetInSuppressions(tx, erasing))
  await store.write((tx) => forgetInAgents(tx, erasing))
  await until((tx) => forgetInCampaigns(tx, erasing))
  for (let more = true; more;) {
    const forgotten = await store.write((tx) => forgetInMails(tx, erasing))
    await remove(forgotten.files)
    more = forgotten.more
  }
  for (const walk of [forgetInBodies, forgetInInbound])
    for (let at: number | null = 0; at !== null;) {
      const from: number = at
      const { files, next } = await store.write((tx) => walk(tx, erasing, from, read))
      await remove(files)
      at = next
    }
  await until((tx) => forgetInWebhooks(tx, erasing))
  await until((tx) => forgetInNotices(tx, erasing))
  await until((tx) => forgetInEvents(tx, erasing))
  return forgetRemains(desk, erasing)
}

/** What SQLite left in its log and in free space goes as well: by a checkpoint, and where that is not enough by writing the file anew. */
async function forgetRemains({ config, store }: ScrubDesk, { address }: Erasing): Promise<string[]> {
  store.checkpoint()
  let left = await filesWith(config.data_dir, address)
  if (left.some((file) => file.includes('postrider.db'))) {
    store.rebuild()
    left = await filesWith(config.data_dir, address)
  }
  return left
}

/** The files of the data directory that hold the address, in plain text or as base64 or quoted-printable have it. */
export async function filesWith(dataDir: string, address: string): Promise<string[]> {
  const traces = tracesOf(address)
  const found: string[] = []
  for (const name of readdirSync(dataDir, { recursive: true }) as string[]) {
    const path = join(dataDir, name)
    if (statSync(path, { throwIfNoEntry: false })?.isFile() && (await fileHolds(path, traces))) found.push(name)
  }
  return found
}

async function fileHolds(path: string, traces: readonly Buffer[]): Promise<boolean> {
  const longest = Math.max(...traces.map((trace) => trace.length))
  let tail = Buffer.alloc(0)
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: CHUNK }) as AsyncIterable<Buffer>) {
      const bytes = Buffer.concat([tail, chunk])
      if (traces.some((trace) => bytes.includes(trace))) return true
      tail = bytes.subarray(-longest)
    }
  } catch {
    // Gone while it was looked at.
  }
  return false
}
