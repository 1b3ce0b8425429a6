// The link to an export (D57): signed, valid for 24 hours, and only while the bundle is kept.
import { DAY } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'

const LIFE = DAY
const MAC_BYTES = 16

const said = (id: string, until: number): string => `export ${id} ${until}`

export function exportUrl(keyring: Keyring, publicUrl: string, id: string, now: number): string {
  const until = now + LIFE
  return `${publicUrl}/exports/${id}/${until}/${keyring.mac('session', said(id, until), MAC_BYTES).toString('base64url')}`
}

/** The file behind a link; undefined when the link is forged or too old, or the bundle was deleted. */
export function exportFile(
  { keyring, store }: { keyring: Keyring; store: Reader },
  { id, mac, until }: { id: string; until: string; mac: string },
  now: number,
): string | undefined {
  const time = Number(until)
  if (
    !/^\d{1,15}$/.test(until) ||
    !keyring.proves('session', said(id, time), Buffer.from(mac, 'base64url'), MAC_BYTES) ||
    now >= time
  )
    return undefined
  return store.first(db.selectFrom('privacy_requests').select('file').where('id', '=', id))?.file ?? undefined
}
