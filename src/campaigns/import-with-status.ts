// Imports contacts. With their status in another program (D71): an import subscribes nobody who has unsubscribed, and
// removes no suppression; unsubscribed contacts are kept as unsubscribed; blocked, bounced and complained contacts get
// a suppression. And as the specification has it (D42): valid contacts are added, contacts that are in the audience
// already or occur twice are skipped, invalid contacts are skipped and listed. A lot is one transaction, so that none
// is half imported.
import type { Keyring } from '../base/keyring.ts'
import { importSuppression } from '../suppressions/import-with-status.ts'
import { normalised } from '../suppressions/stops.ts'
import { keptForm, type Reason } from '../suppressions/suppressions.ts'
import type { Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { Audience } from './audiences.ts'
import { noteImport, type ImportNote, type PastImport, type RefusedLine } from './import-history.ts'
import { contactAddress, insert, type Contact, type ContactDeps, type NewContact } from './contacts.ts'

/** What a list says of a contact (D71), in order: each stops at least as much mail as the one before it. */
export const STANDINGS = ['subscribed', 'unconfirmed', 'unsubscribed', 'blocked', 'bounced', 'complained'] as const
export type Standing = (typeof STANDINGS)[number]

/** The standing that blocks more mail. */
export const graver = (one: Standing, other: Standing): Standing =>
  STANDINGS.indexOf(one) < STANDINGS.indexOf(other) ? other : one

/** `email` is in the form of `contactAddress`. */
export interface ContactWithStatus extends NewContact {
  standing: Standing
}

/** The counts of an import; each contact is counted once. */
export interface ImportCounts {
  /** Added as subscribed. */
  created: number
  /** In the audience already; the name or a field was changed. */
  updated: number
  /** Added or kept as unsubscribed. */
  unsubscribed: number
  /** Got a suppression: blocked, bounced or complained. */
  suppressed: number
  /** Nothing changed. */
  skipped: number
}

export const noCounts = (): ImportCounts => ({ created: 0, updated: 0, unsubscribed: 0, suppressed: 0, skipped: 0 })

/** What is written for who must not get mail. */
export const SUPPRESSIONS: Partial<Record<Standing, { reason: Reason; scope: 'all' | 'marketing' }>> = {
  unsubscribed: { reason: 'unsubscribe', scope: 'marketing' },
  blocked: { reason: 'list_import', scope: 'all' },
  bounced: { reason: 'hard_bounce', scope: 'all' },
  complained: { reason: 'complaint', scope: 'all' },
}

export interface ImportedLot {
  counts: ImportCounts
  /** The contacts that could not be imported, by their index in the lot. */
  problems: { index: number; reason: string }[]
  /** What the history says of the import. */
  past?: PastImport
}

export interface ImportWays {
  /** Nothing is written: the counts are those that an import would give. */
  dry?: boolean
  /** Contacts that are there keep their name and fields; who left is suppressed all the same. */
  keep?: boolean
  /** What the history notes; nothing without it. */
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

/** Imports a lot in one transaction. `dry` rolls it back, so that the preview is exactly what an import would do. */
export async function importContactsWithStatus(
  { clock, keyring, store }: ContactDeps,
  audience: Audience,
  lot: readonly ContactWithStatus[],
  { dry = false, keep = false, note }: ImportWays = {},
): Promise<ImportedLot> {
  try {
    return await store.write((tx) => {
      const now = clock.now()
      const done: ImportedLot = { counts: noCounts(), problems: [] }
      for (const [index, contact] of lot.entries()) {
        const outcome = importOne(tx, { audience, keep, keyring, now }, contact)
        if (typeof outcome === 'string') done.counts[outcome]++
        else done.problems.push({ index, ...outcome })
      }
      if (dry) throw new Undone(done)
      if (note) {
        const told = { counts: done.counts, problems: refusedIn(lot, done, note) }
        done.past = noteImport(tx, audience, note, told, now)
      }
      return done
    })
  } catch (thrown) {
    if (thrown instanceof Undone) return thrown.lot
    throw thrown
  }
}

/** The problems of a lot as refused lines. */
const refusedIn = (
  lot: readonly ContactWithStatus[],
  { problems }: ImportedLot,
  { lines }: ImportNote,
): RefusedLine[] =>
  problems.map(({ index, reason }) => ({
    line: lines?.[index] ?? index + 1,
    detail: reason,
    cells: [lot[index]!.email],
  }))

interface Importing {
  keyring: Keyring
  audience: Audience
  keep: boolean
  now: number
}

function importOne(
  tx: Tx,
  { audience, keep, keyring, now }: Importing,
  { standing, ...contact }: ContactWithStatus,
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
  const added = insert(tx, keyring, audience, contact, now)
  if (added) return countOf(added.status)
  const changed = keep ? false : renew(tx, audience, contact, now)
  if (typeof changed === 'object') return changed
  if (news === 'created' || news === 'updated') return standing === 'unsubscribed' ? 'unsubscribed' : 'suppressed'
  return changed ? 'updated' : 'skipped'
}

const countOf = (status: Contact['status']): keyof ImportCounts =>
  status === 'subscribed' ? 'created' : status === 'unsubscribed' ? 'unsubscribed' : 'suppressed'

const byAddress = statement<{ audience_key: number; email: string }>()((arg) =>
  db
    .selectFrom('contacts')
    .select(['key', 'name', 'preferences', 'custom_fields'])
    .where('audience_key', '=', arg.audience_key)
    .where('email', '=', arg.email),
)

/** Values of the file replace values of the contact; all other values stay. False when nothing changed. */
function renew(tx: Tx, audience: Audience, given: NewContact, now: number): boolean | { reason: string } {
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

/** The most errors that an answer lists. */
const MAX_ERRORS = 1000

export function importContacts(
  { clock, keyring, store }: ContactDeps,
  audience: Audience,
  items: readonly ImportItem[],
  by: string,
): Promise<ImportResult> {
  return store.write((tx) => {
    const now = clock.now()
    const result: ImportResult = { created: 0, skipped: 0, errors: [] }
    const refused: RefusedLine[] = []
    for (const [index, item] of items.entries()) {
      const email = 'contact' in item ? contactAddress(item.contact.email) : undefined
      if ('contact' in item && email !== undefined) {
        if (insert(tx, keyring, audience, { ...item.contact, email }, now)) result.created++
        else result.skipped++
        continue
      }
      const told = 'contact' in item ? item.contact.email : item.email
      const detail = 'contact' in item ? 'is not an email address' : item.problem
      if (result.errors.length < MAX_ERRORS) result.errors.push({ index, email: told, detail })
      refused.push({ line: index + 1, detail, cells: [told ?? ''] })
    }
    const counts = { ...noCounts(), created: result.created, skipped: result.skipped }
    noteImport(tx, audience, { by, file: '' }, { counts, problems: refused }, now)
    return { ...result, skipped: result.skipped + refused.length }
  })
}
