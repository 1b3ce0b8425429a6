// Imports contacts, optionally with their status in another application (D71): an import never resubscribes an
// unsubscribed contact and never removes a suppression. Unsubscribed contacts stay unsubscribed. Blocked, bounced and
// complained contacts get a suppression. As the specification requires (D42), valid contacts are added, duplicates are
// skipped, and invalid contacts are skipped and listed. Each batch is one transaction, so a contact is never half
// imported.
import type { Keyring } from '../base/keyring.ts'
import { importSuppression } from '../suppressions/import-with-status.ts'
import { normalised } from '../suppressions/stops.ts'
import { keptForm, type Reason } from '../suppressions/suppressions.ts'
import type { Tx, Reader, Store } from '../store/database.ts'
import { db, statement, raw } from '../store/query.ts'
import type { Audience } from './audiences.ts'
import { refusalsOf, type NewConsent } from './consents.ts'
import { contactAddress, insert, type Contact, type ContactDeps, type NewContact } from './contacts.ts'
import { DAY } from '../base/clock.ts'
import { forLine } from '../base/clean-text.ts'
import { newId } from '../base/ids.ts'
import { jsonOf } from '../base/json.ts'
import type { RowOf } from '../store/schema/tables.ts'

/** The status of a contact in an imported list (D71). Each blocks at least as much mail as the one before it. */
export const STANDINGS = ['subscribed', 'unconfirmed', 'unsubscribed', 'blocked', 'bounced', 'complained'] as const
export type Standing = (typeof STANDINGS)[number]

/** The status that blocks more mail. */
export const stricter = (one: Standing, other: Standing): Standing =>
  STANDINGS.indexOf(one) < STANDINGS.indexOf(other) ? other : one

/** `email` is in the form of `contactAddress`. */
export interface ContactWithStatus extends NewContact {
  status: Standing
  /** When the contact agreed (ms), if the list has it. */
  consent_at?: number
}

/**
 * What an import counts, each contact once. `updated`: already in the audience, with a changed name or field.
 * `unsubscribed`: added or kept as unsubscribed. `suppressed`: got a suppression.
 */
const COUNTS = ['created', 'updated', 'unsubscribed', 'suppressed', 'skipped'] as const
export type ImportCounts = Record<(typeof COUNTS)[number], number>

export const noCounts = (): ImportCounts => ({ created: 0, updated: 0, unsubscribed: 0, suppressed: 0, skipped: 0 })

/** The suppression that each status adds. */
export const SUPPRESSIONS: Partial<Record<Standing, { reason: Reason; scope: 'all' | 'marketing' }>> = {
  unsubscribed: { reason: 'unsubscribe', scope: 'marketing' },
  blocked: { reason: 'list_import', scope: 'all' },
  bounced: { reason: 'hard_bounce', scope: 'all' },
  complained: { reason: 'complaint', scope: 'all' },
}

export interface ImportedLot {
  counts: ImportCounts
  /** The contacts that could not be imported, by their index in the batch. */
  problems: { index: number; reason: string }[]
  past?: PastImport
}

export interface ImportWays {
  /** The consent of all contacts, except its time. */
  consent: NewConsent
  /** Only returns the counts that an import would have. */
  dry?: boolean
  /** Existing contacts keep their name and fields. Their suppressions are added nevertheless. */
  keep?: boolean
  /** Written to the history, if present. */
  note?: ImportNote | undefined
}

/** Limits of custom fields and preferences, the same as in the API. */
export const MAX_KEYS = 100
export const MAX_OBJECT = 64 * 1024
/** A lone surrogate, escaped in JSON. After an escaped backslash the same letters are plain text. */
export const LONE_SURROGATE = /(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]/

class Undone extends Error {
  readonly lot: ImportedLot
  constructor(lot: ImportedLot) {
    super('only tried')
    this.lot = lot
  }
}

/** Imports a batch in one transaction. `dry` rolls it back, so the preview equals the import. */
export async function importContactsWithStatus(
  { clock, keyring, store }: ContactDeps,
  audience: Audience,
  lot: readonly ContactWithStatus[],
  { consent, dry = false, keep = false, note }: ImportWays,
): Promise<ImportedLot> {
  try {
    return await store.write((tx) => {
      const now = clock.now()
      const done: ImportedLot = { counts: noCounts(), problems: [] }
      for (const [index, contact] of lot.entries()) {
        const outcome = importOne(tx, { audience, consent, keep, keyring, now }, contact)
        if (typeof outcome === 'string') done.counts[outcome]++
        else done.problems.push({ index, ...outcome })
      }
      if (dry) throw new Undone(done)
      if (note) {
        const noted = { counts: done.counts, problems: refusedIn(lot, done, note) }
        done.past = noteImport(tx, audience, note, noted, now)
      }
      return done
    })
  } catch (thrown) {
    if (thrown instanceof Undone) return thrown.lot
    throw thrown
  }
}

/** The problems of a batch as rejected lines. */
const refusedIn = (
  lot: readonly ContactWithStatus[],
  { problems }: ImportedLot,
  { lines }: ImportNote,
): RefusedLine[] =>
  problems.map(({ index, reason }) => ({
    line: lines?.[index] ?? index + 1,
    detail: reason,
    row: [lot[index]!.email],
  }))

interface Importing {
  keyring: Keyring
  audience: Audience
  consent: NewConsent
  keep: boolean
  now: number
}

function importOne(
  tx: Tx,
  { audience, consent, keep, keyring, now }: Importing,
  { consent_at, status: standing, ...contact }: ContactWithStatus,
): keyof ImportCounts | { reason: string } {
  const { domain_key, user_key } = audience
  const { email } = contact
  const suppression = SUPPRESSIONS[standing]
  const news =
    suppression && importSuppression(tx, keyring, { user_key, domain_key, address: email, ...suppression }, now)
  if (standing === 'unconfirmed') return 'skipped'
  // No status of a contact means "blocked". And an erased address must not be stored again.
  if (standing === 'blocked' || keptForm(tx, keyring, domain_key, email) !== normalised(email))
    return news === undefined || news === 'skipped' ? 'skipped' : 'suppressed'
  if (standing === 'subscribed' && isRefused(tx, { audience, keyring, now }, email)) return { reason: REFUSED }
  const added = insert(
    tx,
    keyring,
    audience,
    { ...contact, consent: { ...consent, confirmed_at: consent_at ?? null } },
    now,
  )
  if (added) return countOf(added.status)
  const changed = keep ? false : renew(tx, audience, contact, now)
  if (typeof changed === 'object') return changed
  if (news === 'created' || news === 'updated') return standing === 'unsubscribed' ? 'unsubscribed' : 'suppressed'
  return changed ? 'updated' : 'skipped'
}

const REFUSED = 'refused a sign-up for this audience in the last 90 days'

/** Whether an import must not add an address: its owner has refused this audience (AU43), and it is not in there. */
const isRefused = (
  tx: Tx,
  { audience: { key, user_key }, keyring, now }: Pick<Importing, 'audience' | 'keyring' | 'now'>,
  email: string,
): boolean =>
  refusalsOf(tx, keyring, user_key, email, now).includes(key) && !tx.first(byAddress({ audience_key: key, email }))

const countOf = (status: Contact['status']): keyof ImportCounts =>
  status === 'subscribed' ? 'created' : status === 'unsubscribed' ? 'unsubscribed' : 'suppressed'

const byAddress = statement<{ audience_key: number; email: string }>()((arg) =>
  db
    .selectFrom('contacts')
    .select(['key', 'name', 'preferences', 'custom_fields'])
    .where('audience_key', '=', arg.audience_key)
    .where('email', '=', arg.email),
)

/** Overwrites the contact's values with those of the file and keeps the others. Returns false if no value changed. */
function renew(
  tx: Tx,
  audience: Audience,
  given: Omit<NewContact, 'language'>,
  now: number,
): boolean | { reason: string } {
  const there = tx.one(byAddress({ audience_key: audience.key, email: given.email }))
  const name = given.name?.trim()
  const set = {
    ...(name && name !== there.name?.trim() ? { name } : {}),
    ...merged('preferences', there.preferences, given.preferences),
    ...merged('custom_fields', there.custom_fields, given.custom_fields),
  }
  if (Object.keys(set).length === 0) return false
  for (const column of ['preferences', 'custom_fields'] as const) {
    const text = set[column]
    if (text && (Buffer.byteLength(text) > MAX_OBJECT || Object.keys(JSON.parse(text) as object).length > MAX_KEYS))
      return { reason: `with what the contact has already, its ${column} are over 64 KB or ${MAX_KEYS} fields` }
  }
  tx.run(
    db
      .updateTable('contacts')
      .set({ ...set, updated_at: now })
      .where('key', '=', there.key),
  )
  return true
}

function merged(
  column: 'preferences' | 'custom_fields',
  before: string | null,
  given: Record<string, unknown> | null | undefined,
): { preferences?: string; custom_fields?: string } {
  const old = new Map(Object.entries(JSON.parse(before ?? '{}') as Record<string, unknown>))
  const news = Object.entries(given ?? {}).filter(
    ([key, value]) => JSON.stringify(old.get(key)) !== JSON.stringify(value),
  )
  if (news.length === 0) return {}
  for (const [key, value] of news) old.set(key, value)
  return { [column]: JSON.stringify(Object.fromEntries(old)) }
}

interface ImportProblem {
  /** Index in the list, from 0. */
  index: number
  email: string | null
  detail: string
}

interface ImportResult {
  created: number
  skipped: number
  errors: ImportProblem[]
}

/** One item as it was sent, or the reason why it is invalid. */
export type ImportItem = { contact: NewContact } | { problem: string; email: string | null }

/** The maximum number of errors in a response. */
const MAX_ERRORS = 1000

export function importContacts(
  { clock, keyring, store }: ContactDeps,
  audience: Audience,
  items: readonly ImportItem[],
  { by, consent }: { by: string; consent: NewConsent },
): Promise<ImportResult> {
  return store.write((tx) => {
    const now = clock.now()
    const result: ImportResult = { created: 0, skipped: 0, errors: [] }
    const refused: RefusedLine[] = []
    for (const [index, item] of items.entries()) {
      const email = 'contact' in item ? contactAddress(item.contact.email) : undefined
      const isRefusal = email !== undefined && isRefused(tx, { audience, keyring, now }, email)
      if ('contact' in item && email !== undefined && !isRefusal) {
        if (insert(tx, keyring, audience, { ...item.contact, email, consent }, now)) result.created++
        else result.skipped++
        continue
      }
      const given = 'contact' in item ? item.contact.email : item.email
      const detail = isRefusal ? REFUSED : 'contact' in item ? 'is not an email address' : item.problem
      if (result.errors.length < MAX_ERRORS) result.errors.push({ index, email: given, detail })
      refused.push({ line: index + 1, detail, row: [given ?? ''] })
    }
    const counts = { ...noCounts(), created: result.created, skipped: result.skipped }
    noteImport(tx, audience, { by, file: '' }, { counts, problems: refused }, now)
    return { ...result, skipped: result.skipped + refused.length }
  })
}

// The history of imports into an audience: the user, the results of the rows, and the rejected lines. It is written in
// the transaction that writes the contacts, so that both always agree.
//
// Guarantees: an audience keeps at most 500 imports for 30 days, each with at most 1,000 rejected lines and 256 KB of
// them. Rejected lines are personal data: they are deleted with their audience, and an erasure marks the address in
// them.

export type PastImport = RowOf<'list_imports'>

/** A row of a list that was not imported. */
export interface RefusedLine {
  line: number
  detail: string
  /** The original cells, or an empty array if they are unknown. */
  row: string[]
}

/** The data that an import writes to the history. */
export interface ImportNote {
  by: string
  file: string
  /** The import to which this batch belongs, or undefined for a new import. */
  continues?: number | undefined
  /** Rows that were skipped before the batch was created, and how many of them were rejected. */
  passed?: number | undefined
  refusedCount?: number | undefined
  /** The known rejected rows, and the titles of their cells. */
  refused?: readonly RefusedLine[] | undefined
  titles?: readonly string[] | undefined
  /** The line of each entry of the batch, which identifies a problem. */
  lines?: readonly number[] | undefined
}

const KEPT_IMPORTS = 500
const MAX_LINES = 1000
const MAX_BYTES = 256 * 1024
const KEPT = 30 * DAY

/** The lines as JSON, up to the limits, or null if there are no lines. */
function keptLines(before: string | null, lines: readonly RefusedLine[]): string | null {
  const kept = ((before === null ? undefined : jsonOf(before)) ?? []) as RefusedLine[]
  let bytes = Buffer.byteLength(before ?? '')
  for (const line of lines) {
    bytes += Buffer.byteLength(JSON.stringify(line)) + 1
    if (kept.length >= MAX_LINES || bytes > MAX_BYTES) break
    kept.push(line)
  }
  return kept.length === 0 ? null : JSON.stringify(kept)
}

const byKey = statement<{ key: number }>()((arg) =>
  db.selectFrom('list_imports').selectAll().where('key', '=', arg.key),
)

export const pastByKey = (reader: Reader, key: number): PastImport | undefined => reader.first(byKey({ key }))

/** A file name without characters that do not fit on one line. */
export const nameForHistory = (name: string): string => forLine(name).slice(0, MAX_NAME)
const MAX_NAME = 255

/** Records a batch: creates a new import, or adds to the one that it continues. `problems` are those of the batch. */
export function noteImport(
  tx: Tx,
  { key: audience_key, user_key }: { key: number; user_key: number },
  note: ImportNote,
  { counts, problems }: { counts: ImportCounts; problems: readonly RefusedLine[] },
  now: number,
): PastImport {
  const { by, continues, file, refused = [], titles } = note
  const { passed = refused.length, refusedCount = refused.length } = note
  const before = continues === undefined ? undefined : pastByKey(tx, continues)
  const lines = keptLines(before?.rejected ?? null, [...refused, ...problems])
  const sums = Object.fromEntries(COUNTS.map((name) => [name, (before?.[name] ?? 0) + counts[name]])) as ImportCounts
  const set = {
    ...sums,
    skipped: sums.skipped + passed + problems.length,
    rejected_count: (before?.rejected_count ?? 0) + refusedCount + problems.length,
    titles: before?.titles ?? (lines === null ? null : JSON.stringify(titles ?? ['email'])),
    rejected: lines,
    rejected_until: lines === null ? null : (before?.rejected_until ?? now + KEPT),
    updated_at: now,
  }
  if (before) return tx.one(db.updateTable('list_imports').set(set).where('key', '=', before.key).returningAll())
  const row = { id: newId(now), user_key, audience_key, created_by: by, file, ...set, created_at: now }
  const made = tx.one(db.insertInto('list_imports').values(row).returningAll())
  tx.run(
    raw(
      `delete from list_imports where audience_key = ? and key <=
         (select key from list_imports where audience_key = ? order by key desc limit 1 offset ${KEPT_IMPORTS})`,
      [audience_key, audience_key],
    ),
  )
  return made
}

/** Deletes rejected lines after their retention time. */
export const forgetRefused = (store: Store, now: number): Promise<unknown> =>
  store.write((tx) =>
    tx.run(
      db
        .updateTable('list_imports')
        .set({ rejected: null, titles: null, rejected_until: null })
        .where('rejected_until', '<=', now),
    ),
  )

/** The rejected lines that an import still keeps, with the titles of their cells. */
export function refusedOf({ rejected, titles }: Pick<PastImport, 'rejected' | 'titles'>): {
  titles: string[]
  lines: RefusedLine[]
} {
  const read = (text: string | null): unknown[] => {
    const value = text === null ? undefined : jsonOf(text)
    return Array.isArray(value) ? value : []
  }
  return { titles: read(titles) as string[], lines: read(rejected) as RefusedLine[] }
}
