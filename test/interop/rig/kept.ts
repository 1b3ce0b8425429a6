// Checks which accepted emails a data directory contains, as complete rows and files. It must not be open in another
// process.
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { readProven } from '../../../src/base/spooled.ts'
import { scanLog } from '../../../src/store/log.ts'
import { HEAD, type Promised } from './promises.ts'

/** One sentence for each promise that the directory does not hold, and for each damage. */
export function missing(dataDir: string, promises: readonly Promised[]): string[] {
  const file = join(dataDir, 'postrider.db')
  const behind = scanLog(file) ? ['committed frames of the log lie behind damaged ones'] : []
  const database = new Database(file, { readonly: true })
  try {
    const sound = String(database.pragma('integrity_check', { simple: true }))
    const damage = sound === 'ok' ? behind : [...behind, sound]
    const mail = database.prepare<[string], { content: string | null; spool: string | null }>(
      `select content, spool from outbound_emails e join outbound_bodies b on b.email_key = e.key
       where e.id = ? and exists (select 1 from deliveries d where d.email_key = e.key)`,
    )
    const messages = database
      .prepare<[], { content: Buffer | null; spool: string }>('select content, spool from inbound_messages')
      .all()
      .map(({ content, spool }) => (content ?? bytesOf(dataDir, spool))?.subarray(0, HEAD))
    const kept = ({ kind, name }: Promised): boolean => {
      if (kind === 'message') return messages.some((bytes) => bytes?.includes(name))
      const row = mail.get(name)
      const files = row?.spool ? (JSON.parse(row.spool) as string[]) : []
      return (
        row !== undefined && (row.content !== null || files.length > 0) && files.every((each) => bytesOf(dataDir, each))
      )
    }
    return [...damage, ...promises.filter((each) => !kept(each)).map(({ kind, name }) => `${kind} ${name} is lost`)]
  } finally {
    database.close()
  }
}

/** A file of the spool; undefined when it is not there, or not whole. */
function bytesOf(dataDir: string, name: string): Buffer | undefined {
  try {
    return readProven(join(dataDir, 'spool', name))
  } catch {
    return undefined
  }
}
