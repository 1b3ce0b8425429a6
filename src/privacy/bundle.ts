// Writes all data about a recipient as a zip:
// records.json with every record, and each received mail as it arrived (D57).
import { must } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import { comparable, recipientHash } from '../base/recipient-hash.ts'
import { createWriteStream, lstatSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ZipFile } from 'yazl'
import { iso } from '../base/clock.ts'
import { makeDirectory, syncPath } from '../base/durable.ts'
import { jsonOf } from '../base/json.ts'
import { openPlainHandle } from '../base/plain-file.ts'
import { filesOf } from '../base/spooled.ts'
import { bodiesOf } from '../inbound/stored.ts'
import { storedBodyOf, withoutLinks } from '../mail/body.ts'
import { hideLinks } from '../message/secret-links.ts'
import { ownName, readProven } from '../base/spooled.ts'
import type { Reader } from '../store/database.ts'
import { EXPORTS } from './requests.ts'
import { about, names } from '../store/erasing.ts'
import { keysNaming, receivedFrom } from './held.ts'
import { raw } from '../store/query.ts'
import type { Spool } from '../store/spool.ts'

export interface BundleDeps {
  store: Reader
  keyring: Keyring
  spool: Spool
  config: { data_dir: string }
}

/** Not compressed, so that an address that is erased later can be found in it. */
const STORED = { compress: false }

type BundleRow = Record<string, unknown>

/**
 * Columns that are internal, or identify others: an SMTP transcript contains all recipients, including Bcc. A `person`
 * is a user.
 */
const HIDDEN = /^(?:key|.*_key|payload_hash|hash|spool|content|dialogue|person)$/

/** A readable row: without keys and tokens of links that only a recipient may use, times as timestamps, JSON parsed. */
function readable(row: BundleRow): BundleRow {
  const shown: BundleRow = {}
  for (const [name, stored] of Object.entries(row)) {
    if (HIDDEN.test(name) || stored === null) continue
    const value = typeof stored === 'string' ? hideLinks(stored) : stored
    if (/_at$|^at$/.test(name) && typeof value === 'number') shown[name] = iso(value)
    else if (typeof value === 'string' && /^[[{]/.test(value)) shown[name] = jsonOf(value) ?? value
    else if (!(value instanceof Uint8Array)) shown[name] = value
  }
  return shown
}

const KEYS = (keys: readonly number[]): string => `(${keys.join(', ')})`

/** The body of an email `e`: its own, or that of its batch. The first file of the spool has it if it is large. */
const BODIES = `left join outbound_bodies b on b.email_key = e.key left join outbound_batches t on t.key = e.batch_key`
const LARGE = `iif(t.syntax is null, b.content is null and b.spool is not null, t.content is null and t.spool is not null)`

/** The consents, sign-ups and requests of a recipient. `hash` has only hexadecimal digits. */
const consentsAbout = (all: (sql: string) => BundleRow[], hash: string): Record<string, BundleRow[]> => ({
  // Of contacts that are gone, too. `form_texts` is what the form showed, in every language.
  consents: all(
    `select c.*, a.title as audience, v.texts as form_texts from consents c join audiences a on a.key = c.audience_key
       left join form_versions v on v.form_key = c.form_key and v.version = c.form_version
     where c.user_key = asked.user and (c.recipient_hash = '${hash}'
       or c.contact_key in (select key from contacts where user_key = asked.user and email = asked.address))`,
  ),
  signups: all('select * from signups where user_key = asked.user and email = asked.address'),
  recipient_requests: all(
    `select * from recipient_requests where user_key = asked.user and recipient_hash = '${hash}'`,
  ),
})

/**
 * Every record of an account that is about an address. It is for the recipient: audiences have the title that
 * subscribers see, and names that only the account uses are left out.
 */
export function recordsAbout(
  { keyring, spool, store: reader }: Pick<BundleDeps, 'keyring' | 'spool' | 'store'>,
  userKey: number,
  address: string,
): Record<string, BundleRow[]> {
  const all = (sql: string): BundleRow[] => reader.all(about<BundleRow>(sql, userKey, address)).map(readable)
  const mails = KEYS(keysNaming(reader, 'outbound_emails', ['to', 'cc', 'bcc'], userKey, address))
  const written = reader.all(
    raw<{ key: number; address: string }>(`select key, address from deliveries where email_key in ${mails}`),
  )
  const own = KEYS(written.flatMap((row) => (comparable(row.address) === address ? [row.key] : [])))
  return {
    contacts: all(
      'select c.*, a.title as audience from contacts c join audiences a on a.key = c.audience_key where c.user_key = asked.user and c.email = asked.address',
    ),
    ...consentsAbout(all, recipientHash(keyring, address)),
    suppressions: all(
      'select s.*, d.name as domain from suppressions s join domains d on d.key = s.domain_key where s.user_key = asked.user and s.email = asked.address',
    ),
    // Other recipients of blind copies stay secret. A campaign's mail gets the campaign's texts.
    outbound_emails: reader
      .all(
        about<BundleRow & { key: number; large: 0 | 1 }>(
          `select e.*, ${LARGE} as large, c.subject as campaign_subject, c.body_html as campaign_body
           from outbound_emails e left join campaigns c on c.key = e.campaign_key ${BODIES} where e.key in ${mails}`,
          userKey,
          address,
        ),
      )
      .map(({ large, ...row }) => {
        const { bcc, ...shown } = readable(row)
        const body = large === 1 ? undefined : storedBodyOf(reader, spool, row.key)
        return {
          ...shown,
          ...(body && { body: withoutLinks(body) }),
          ...(Array.isArray(bcc) && { bcc: bcc.filter((each) => names(String(each), address)) }),
        }
      }),
    deliveries: all(
      `select e.id as email_id, v.* from deliveries v join outbound_emails e on e.key = v.email_key where v.key in ${own}`,
    ),
    // Only events of the recipient's own deliveries.
    events: all(
      `select e.id as email_id, v.type, v.data, v.created_at from events v join outbound_emails e on e.key = v.email_key
       where e.key in ${mails} and json_extract(v.data, '$.delivery') in ${own}`,
    ),
    inbound_emails: reader
      .all(
        about<BundleRow & { message_key: number }>(
          `select e.* from inbound_emails e where e.key in ${KEYS(receivedFrom(reader, userKey, address))}`,
          userKey,
          address,
        ),
      )
      .map((row) => readable({ ...row, ...bodiesOf(reader, [row.message_key], true).get(row.message_key) })),
  }
}

/** Writes the bundle. Returns its file name in the exports directory. */
export async function writeBundle(
  { config, keyring, spool, store }: BundleDeps,
  userKey: number,
  id: string,
  address: string,
): Promise<string> {
  const directory = join(config.data_dir, EXPORTS)
  makeDirectory(directory)
  const zip = new ZipFile()
  // For an unreadable file the zip emits an error event, which ends the process if it has no listener.
  const failed = Promise.withResolvers<never>()
  failed.promise.catch(() => {})
  zip.on('error', failed.reject)
  zip.addBuffer(
    Buffer.from(
      `${JSON.stringify({ recipient: address, ...recordsAbout({ keyring, spool, store }, userKey, address) }, null, 2)}\n`,
    ),
    'records.json',
    STORED,
  )
  addReceived(zip, { spool, store }, userKey, address)
  addSent(zip, { spool, store }, userKey, address)
  zip.end()
  const name = `${id}.zip`
  const draft = join(directory, `${name}.part`)
  const target = createWriteStream(draft, { mode: 0o600, flush: true })
  const written = pipeline(zip.outputStream, target)
  try {
    await Promise.race([written, failed.promise])
  } catch (thrown) {
    target.destroy()
    await written.catch(() => {})
    throw thrown
  }
  await rename(draft, join(directory, name))
  // The file must survive a power failure, because its owner is notified.
  for (const folder of [directory, config.data_dir]) syncPath(folder)
  return name
}

type Read = Pick<BundleDeps, 'spool' | 'store'>

/** Adds every received message of the address, as it came. */
function addReceived(zip: ZipFile, { spool, store }: Read, userKey: number, address: string): void {
  const messages = store.all(
    about<{ id: string; content: Uint8Array | null; spool: string | null; received: string }>(
      `select e.id, m.content, m.spool, m.received from inbound_emails e join inbound_messages m on m.key = e.message_key
       where e.key in ${KEYS(receivedFrom(store, userKey, address))} and m.virus is null`,
      userKey,
      address,
    ),
  )
  for (const message of messages) {
    const content = message.spool === null ? message.content : readProven(spool.path(message.spool))
    const bytes = must(content, 'The content of a message')
    zip.addBuffer(Buffer.concat([Buffer.from(message.received), bytes]), `received/${message.id}.eml`, STORED)
  }
}

/** Adds large bodies and the files of all emails to the address. Skips missing files. */
function addSent(zip: ZipFile, { spool, store }: Read, userKey: number, address: string): void {
  const all = store.all(
    about<{ key: number; id: string; spool: string; large: 0 | 1 }>(
      `select e.key, e.id, coalesce(b.spool, t.spool) as spool, ${LARGE} as large from outbound_emails e ${BODIES}
       where coalesce(b.spool, t.spool) is not null and e.key in ${KEYS(keysNaming(store, 'outbound_emails', ['to', 'cc', 'bcc'], userKey, address))}`,
      userKey,
      address,
    ),
  )
  for (const { id, key, large, spool: stored } of all) {
    const files = filesOf(stored)
    // Large bodies are read one at a time.
    if (large === 1)
      zip.addReadStreamLazy(`sent/${id}/body.json`, STORED, (give) => {
        const body = storedBodyOf(store, spool, key)
        give(null, Readable.from([JSON.stringify(body ? withoutLinks(body) : null)]))
      })
    for (const file of files.slice(large)) addFile(zip, spool.path(file), `sent/${id}/${ownName(file)}`)
  }
}

function addFile(zip: ZipFile, path: string, name: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found?.isFile()) return
  zip.addReadStreamLazy(name, { ...STORED, size: found.size }, (give) => {
    openPlainHandle(path).then(
      (handle) => give(null, handle.createReadStream()),
      (thrown: unknown) => give(thrown, null as never),
    )
  })
}
