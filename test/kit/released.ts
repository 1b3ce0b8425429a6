// What a released version left when it was stopped with mail in its queue and a campaign under way: its database, spool
// and key. Made by the code of that version: one delivered mail, two that wait (one with a file of the spool), a
// received message, and a campaign of 30 contacts of whom 5 have their mail.
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'

export const RELEASED = ['0.1.0', '0.2.0'] as const

export interface Released {
  version: string
  /** A token of all scopes, of ann@owner.test. */
  token: string
  /** The ids of the mail that was delivered, of those that wait, of the inbox and of the campaign. */
  done: string
  waits: string[]
  inbox: string
  campaign: string
  /** The content of each file, in base64. */
  files: Record<string, string>
}

/** Puts a released version's data into a new folder, or into `dataDir`. */
export function releasedData(
  version: (typeof RELEASED)[number],
  dataDir = mkdtempSync(join(tmpdir(), 'postrider-released-')),
): Released & { dataDir: string } {
  const packed = readFileSync(new URL(`../store/released/${version}.json.gz`, import.meta.url))
  const released = JSON.parse(gunzipSync(packed).toString()) as Released
  for (const [name, content] of Object.entries(released.files)) {
    const file = join(dataDir, name)
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    writeFileSync(file, Buffer.from(content, 'base64'), { mode: 0o600 })
  }
  return { ...released, dataDir }
}
