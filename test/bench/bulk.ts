// A large data directory in a short time: the newest delivered mail of a store is copied by SQL under other ids, with
// text that packs as prose does, and files of the spool next to it. Works on the database of a released version too.
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { provenName } from '../../src/base/spooled.ts'
import { defineDigest } from '../../src/store/digests.ts'
import { DATABASE } from '../../src/store/open.ts'
import { numbers, uuid } from './full-store.ts'

/** Emails that one transaction writes. */
const AT_ONCE = 10_000
/** Bytes of prose in each email, and of random data. */
const TEXT = 8000
const RANDOM = 500
/** One byte in so many is in the spool, in files of this size. */
const SPOOLED = 10
const FILE = 1024 * 1024
/** How ids of copied emails begin. */
const MAIL = 'a1000000'

export interface Filled {
  mails: number
  files: number
  octets: number
}

/** Bytes of English, as emails have them. */
function prose(): Buffer {
  const folder = new URL('../../docs/', import.meta.url)
  const texts = readdirSync(folder).filter((name) => name.endsWith('.md'))
  const text = texts.map((name) => readFileSync(new URL(name, folder), 'latin1')).join('')
  return Buffer.from(text.replace(/[^\x20-\x7e]/g, ' '))
}

/** Fills a data directory up to so many bytes, of which so many are in the spool. An email must be delivered in it. */
export function fillUp(dataDir: string, octets: number, spooled = octets / SPOOLED): Filled {
  const database = new Database(join(dataDir, DATABASE), { timeout: 60_000 })
  try {
    defineDigest(database)
    // Data that a power cut loses can be generated again.
    database.exec('pragma synchronous = off; pragma wal_autocheckpoint = 4000; pragma cache_size = -200000')
    return new Filling(database, dataDir).run(octets, spooled)
  } finally {
    database.close()
  }
}

class Filling {
  readonly #database: Database.Database
  readonly #dataDir: string
  readonly #prose = prose()
  readonly #mail: number
  /** Keys of copies begin behind it. */
  #last: number

  constructor(database: Database.Database, dataDir: string) {
    this.#database = database
    this.#dataDir = dataDir
    this.#mail = this.#number(
      `select max(key) from outbound_emails join outbound_bodies on email_key = key where status = 'delivered' and content is not null`,
    )
    // Behind all keys of all tables, so that one number serves for an email and its delivery.
    this.#last = Math.max(
      ...['outbound_emails', 'deliveries'].map((table) => this.#number(`select max(key) from ${table}`)),
    )
  }

  run(octets: number, spooled: number): Filled {
    const filled: Filled = { mails: 0, files: 0, octets: 0 }
    const wanted = octets - spooled
    mkdirSync(join(this.#dataDir, 'spool'), { recursive: true, mode: 0o700 })
    while (this.#size() < wanted) {
      this.#copy(AT_ONCE)
      filled.mails += AT_ONCE
    }
    for (; filled.files < spooled / FILE; filled.files++) this.#spool()
    this.#database.pragma('wal_checkpoint(PASSIVE)')
    return { ...filled, octets: statSync(join(this.#dataDir, DATABASE)).size + filled.files * FILE }
  }

  #number(sql: string): number {
    return Number(this.#database.prepare(sql).pluck().get())
  }

  #size(): number {
    return this.#number('pragma page_count') * this.#number('pragma page_size')
  }

  /** Copies of the mail with its rows. `body` gives the content and the spool of each. */
  #copy(count: number, body?: { content: null; spool: string }): void {
    const [from, mail] = [this.#last + 1, this.#mail]
    this.#last += count
    const html = `'<p>' || cast(substr(@prose, 1 + abs(random()) % (length(@prose) - ${TEXT}), ${TEXT}) as text) || hex(randomblob(${RANDOM / 2})) || '</p>'`
    const copies: [table: string, where: string, changed: Record<string, string>][] = [
      ['outbound_emails', `key = ${mail}`, { key: 'i', id: uuid(MAIL, 'i') }],
      [
        'outbound_bodies',
        `email_key = ${mail}`,
        {
          email_key: 'i',
          content: body ? 'null' : `json_set(content, '$.html', ${html})`,
          ...(body ? { spool: `'${body.spool}'` } : {}),
        },
      ],
      ['deliveries', `email_key = ${mail}`, { key: 'i', email_key: 'i' }],
    ]
    for (const event of this.#keys(`select key from events where email_key = ${mail}`))
      copies.push([
        'events',
        `key = ${event}`,
        { key: 'null', id: uuid(`e${event.toString(16).padStart(7, '0')}`, 'i'), email_key: 'i' },
      ])
    this.#database.exec('begin immediate')
    for (const [table, where, changed] of copies) {
      const names = this.#columns(table)
      const values = names.map((name) => changed[name] ?? `"${name}"`)
      const sql = `${numbers(from, from + count)} insert into ${table} (${names.map((name) => `"${name}"`).join(', ')}) select ${values.join(', ')} from n, ${table} where ${where}`
      this.#database.prepare(sql).run(...(sql.includes('@prose') ? [{ prose: this.#prose }] : []))
    }
    this.#database.exec('commit')
  }

  #keys(sql: string): number[] {
    return this.#database.prepare(sql).pluck().all() as number[]
  }

  #columns(table: string): string[] {
    return this.#database.prepare(`select name from pragma_table_info('${table}')`).pluck().all() as string[]
  }

  /** An email whose body is a file: prose, and a tenth that does not pack. */
  #spool(): void {
    const octets = Buffer.concat([this.#prose, this.#prose]).subarray(0, FILE - FILE / 10)
    const file = Buffer.concat([octets, randomBytes(FILE - octets.length)])
    const digest = createHash('sha256').update(file).digest()
    // A file of an email begins with its id.
    const id = this.#database
      .prepare(`select ${uuid(MAIL, String(this.#last + 1))}`)
      .pluck()
      .get() as string
    const name = provenName(`${id}-0`, file.length, digest)
    writeFileSync(join(this.#dataDir, 'spool', name), file, { mode: 0o600 })
    this.#copy(1, { content: null, spool: JSON.stringify([name]) })
  }
}
