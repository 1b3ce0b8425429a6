// The data of a released version that was stopped with queued email and a running campaign: its database, spool and
// key. Made by the code of that version: one delivered email, two queued ones (one with a spool file), a received
// message, and a campaign of 30 contacts, of whom 5 have their email.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { temporaryDirectory } from './directory.ts'

export const RELEASED = ['0.1.0', '0.2.0'] as const

export interface Released {
  version: string
  /** A token of all scopes, of ann@owner.test. */
  token: string
  /** The ids of the delivered email, of the queued ones, of the inbox and of the campaign. */
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
  dataDir = temporaryDirectory('released'),
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
