// The audit log (D237): who changed what, when and from where. The API adds an entry after each successful change,
// for the console and MCP too, and commands add their own. Entries are kept for 13 months. Changes of the whole server
// are in the log of the operator's account.
import { createHash } from 'node:crypto'
import { DAY, MINUTE } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { markOf } from '../store/erasing.ts'
import { db, raw } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { ListedRow } from '../store/list.ts'
import type { ActionOf, Caller, Resource } from './resource.ts'

const KEPT = 396 * DAY
/** Equal changes that can be merged are one entry within this time: the editor of campaigns saves every few seconds. */
const SAME = 10 * MINUTE
/** The maximum length of a name. */
const MOST = 200

type AuditEntry = Omit<RowOf<'audit_entries'>, 'key' | 'id' | 'created_at'>

/** Adds an entry. With `merge`, it is left out if the last entry of the account is equal and recent. */
export function addEntry(tx: Tx, entry: AuditEntry, now: number, merge = false): void {
  const last = tx.first(
    db.selectFrom('audit_entries').selectAll().where('user_key', '=', entry.user_key).orderBy('key', 'desc').limit(1),
  )
  const same =
    merge &&
    last &&
    now - last.created_at < SAME &&
    (['actor', 'via', 'action', 'subject_id', 'subject'] as const).every((name) => last[name] === entry[name])
  const short = (text: string): string => text.slice(0, MOST).toWellFormed()
  const named = { ...entry, actor: short(entry.actor), subject: entry.subject && short(entry.subject) }
  if (!same) tx.run(db.insertInto('audit_entries').values({ ...named, id: newId(now), created_at: now }))
}

/** The name of an action in the log: "campaigns.update", "members.invite". */
const nameOf = ({ type }: Pick<Resource, 'type'>, { kind, path }: Pick<ActionOf<never>, 'kind' | 'path'>): string =>
  `${type}.${kind === 'act' ? path.slice(path.lastIndexOf('/') + 1) : kind}`

const CHANGES: ReadonlySet<string> = new Set(['create', 'update', 'delete', 'act'])

/** The address of a signed-in user, or the name of the token or of the OAuth client. */
const actorOf = (reader: Reader, { person, tokenId }: Caller): string =>
  person?.email ??
  reader.first(
    raw<{ name: string }>(
      `select name from tokens where id = ? union all
       select c.name from oauth_grants g join oauth_clients c on c.key = g.client_key where g.id = ?`,
      [tokenId, tokenId],
    ),
  )?.name ??
  ''

const textOf = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null)

/** A user as the log names them. */
export type NamedUser = Record<'email' | 'id', string>

/** The user with this address before a change that may remove them, or undefined. */
export const namedUser = (reader: Reader, email: unknown): NamedUser | undefined =>
  reader.first(raw<NamedUser>('select id, email from users where email = ?', [textOf(email)]))

/** Hides the address of a user who was removed by the change that an entry is about. */
function forgetRemoved(tx: Tx, user: NamedUser): void {
  if (!tx.first(raw<{ id: string }>('select id from users where id = ?', [user.id]))) forgetUser(tx, user)
}

interface Audited {
  caller: Caller
  resource: Resource<never>
  action: ActionOf<never>
  /** The row after the change, or the deleted row. */
  row: ListedRow
  /** The user whom a deletion may have removed. */
  user?: NamedUser | undefined
}

/** Adds the entry of a successful request, if it changed something. */
export async function audit(
  store: Store,
  { action, caller, resource, row, user }: Audited,
  now: number,
): Promise<void> {
  const kept = action.audit !== 'never' && (action.audit !== 'people' || caller.person)
  if (!kept || caller.via === 'command' || !CHANGES.has(action.kind)) return
  const entry: AuditEntry = {
    user_key: action.operator && caller.person ? caller.person.key : caller.userKey,
    actor: actorOf(store, caller),
    via: caller.via,
    address: caller.address?.() ?? null,
    action: nameOf(resource, action),
    subject_type: resource.type,
    subject_id: textOf(row['id']),
    role: action.kind === 'delete' ? null : textOf(row['role']),
    subject: textOf(row['email']) ?? textOf(row['name']) ?? textOf(row['address']) ?? textOf(row['url']),
  }
  await store.write((tx) => {
    addEntry(tx, entry, now, action.audit === 'merge')
    if (user) forgetRemoved(tx, user)
  })
}

/** A command as it was typed: its name, its first argument, and the address of the account that it names. */
export interface TypedCommand {
  name: string
  subject: string | undefined
  user: string | undefined
  /** The role that it gives, if any. */
  role: string | undefined
}

/** Adds the entry of a command that has changed data. `named`: the user of its first argument, before the change. */
export async function auditCommand(
  store: Store,
  { name, role, subject, user }: TypedCommand,
  now: number,
  named?: NamedUser,
): Promise<void> {
  const account = store.first(
    raw<{ key: number }>('select key from users where email = ? or operator = 1 order by email = ? desc, key limit 1', [
      user ?? null,
      user ?? null,
    ]),
  )
  if (!account) return
  const actor = process.env['SUDO_USER'] ?? process.env['USER'] ?? `uid ${process.getuid?.()}`
  const entry: AuditEntry = {
    user_key: account.key,
    actor,
    via: 'command',
    address: null,
    action: name,
    subject_type: 'command',
    subject_id: null,
    role: role ?? null,
    subject: named?.email ?? subject ?? null,
  }
  await store.write((tx) => {
    addEntry(tx, entry, now)
    if (named) forgetRemoved(tx, named)
  })
}

/** Replaces the address of a removed user in all entries. */
export function forgetUser(tx: Tx, { email, id }: { email: string; id: string }): void {
  const mark = markOf(`#${createHash('sha256').update(`${id} ${email}`).digest('hex')}`)
  for (const column of ['actor', 'subject'] as const)
    tx.run(
      db
        .updateTable('audit_entries')
        .set({ [column]: mark })
        .where(column, '=', email),
    )
}

/** Deletes entries at the end of their retention time. */
export const forgetEntries = (store: Store, now: number): Promise<unknown> =>
  store.write((tx) => tx.run(db.deleteFrom('audit_entries').where('created_at', '<', now - KEPT)))
