// Lists over the API (D71, D81, D127): contacts with their standing in another program's list, and suppressions. Both
// take entries that are understood already, or rows with the titles of any program, which are read as the commands read
// a file. The specification's import of contacts knows no standing, and its /suppressions is read and delete only.
import { z } from 'zod'
import { OperatorError, refuse } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { audienceById } from '../campaigns/audiences.ts'
import { importContactsWithStatus, STANDINGS, type ContactWithStatus } from '../campaigns/import-with-status.ts'
import { contactAddress } from '../campaigns/contacts.ts'
import { namesIn } from '../base/one-of.ts'
import { isObject } from '../base/json.ts'
import { domainById } from '../domains/find.ts'
import { parseAddress } from '../message/address.ts'
import { importSuppressions, type Entry } from '../suppressions/import-with-status.ts'
import { field, parentOf, type Call } from '../jsonapi/resource.ts'
import { audiences, contactItem, MAX_IMPORT } from '../campaigns/api-audiences.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, words } from '../jsonapi/fields.ts'
import { address, line } from '../jsonapi/schemas.ts'
import { contactsIn } from './contact-columns.ts'
import { judge, type Kind } from './import.ts'
import { PRESETS, SUPPRESSORS } from './programs.ts'
import { counted, rowsOf } from './rows.ts'
import { scopeOf, suppressionsIn } from './suppression-columns.ts'
import { valuesOf } from '../schema/tables.ts'

/** Attributes of a list as another program has it. `instead` is the attribute with entries that are understood. */
const listed = <const Programs extends object>(instead: string, programs: Programs) => ({
  rows: field(
    z
      .array(z.custom<Record<string, unknown>>(isObject, 'must be an object').meta({ type: 'object' }))
      .min(1, 'must hold at least one row')
      .max(MAX_IMPORT, `must hold at most ${MAX_IMPORT} rows`),
    {
      create: 'optional',
      read: 'never',
      about: `In place of ${instead}: 1 to ${MAX_IMPORT} rows by the titles of their columns, which are read as the commands read a file.`,
      example: [{ 'Email Address': 'ann@example.net', 'Opted out': 'yes' }],
    },
  ),
  file: field(line(255), {
    create: 'optional',
    read: 'never',
    about: 'The name of the file that the rows are from: some programs say there what a list is.',
    example: 'unsubscribed_export.csv',
  }),
  from: field(z.enum(namesIn(programs as Record<Extract<keyof Programs, string>, unknown>)), {
    create: 'optional',
    read: 'never',
    about: 'The program that wrote the rows.',
  }),
  errors: field(z.array(z.object({ index: z.int(), email: z.string().nullable(), detail: z.string() })), {
    about: 'What was wrong, by the place in the list from 0.',
  }),
})

interface RowFault {
  index: number
  email: string | null
  detail: string
}

/** The items of a request, the rows that are wrong, and how many rows say nothing. */
interface GivenRows<Item> {
  items: { line: number; item: Item }[]
  errors: RowFault[]
  skipped: number
}

/** Reads rows as a file. Throws a refusal when their columns are not understood. */
async function givenIn<Columns extends { headless: boolean }, Item>(
  list: readonly Record<string, unknown>[],
  file: string,
  kind: Kind<Columns, Item>,
): Promise<GivenRows<Item>> {
  const name = 'The list'
  try {
    const { errors, items, rows } = await judge(
      { source: { name, file }, rows: () => counted(name, rowsOf(name, list), 'send it in parts') },
      kind,
      Infinity,
    )
    const faults = errors.map(({ line: at, reason }) => ({ index: at - 1, email: null, detail: reason }))
    return { items, errors: faults, skipped: rows - items.length - faults.length }
  } catch (thrown) {
    if (thrown instanceof OperatorError) throw refuse('invalid', thrown.message, { pointer: '/data/attributes/rows' })
    throw thrown
  }
}

/** Items that are understood already. */
const understood = <Item>(items: readonly Item[]): GivenRows<Item> => ({
  items: items.map((item, at) => ({ line: at + 1, item })),
  errors: [],
  skipped: 0,
})

/** Refuses a request without entries, or with both kinds. */
function checkOneOf(name: string, given: object): void {
  if (name in given === 'rows' in given)
    throw refuse('required', `Give either ${name} or rows.`, { pointer: '/data/attributes' })
}

const item = contactItem.extend({
  email: contactItem.shape.email.refine((email) => contactAddress(email) !== undefined, 'is not an email address'),
  standing: z.enum(STANDINGS, { error: `must be one of ${STANDINGS.join(', ')}` }).optional(),
})

type ContactAttributes = Partial<Record<'file', string>> & {
  contacts?: z.output<typeof item>[]
  rows?: Record<string, unknown>[]
  from?: keyof typeof PRESETS
}

function contactsOf(
  attributes: ContactAttributes,
): GivenRows<ContactWithStatus> | Promise<GivenRows<ContactWithStatus>> {
  checkOneOf('contacts', attributes)
  const { contacts = [], file = '', from, rows } = attributes
  const preset = from === undefined ? undefined : PRESETS[from]
  if (rows) return givenIn(rows, file, contactsIn({ preset, map: new Map(), page: true }))
  return understood(
    contacts.map(({ standing = 'subscribed', ...contact }) => ({
      ...contact,
      email: contactAddress(contact.email)!,
      standing,
    })),
  )
}

export const listImports = define('list-imports', {
  table: 'audiences',
  about: `The result of an import of a list with people who left it. ${EXTENSION}`,
  attributes: {
    contacts: field(
      z
        .array(item)
        .min(1, 'must hold at least one contact')
        .max(MAX_IMPORT, `must hold at most ${MAX_IMPORT} contacts`),
      {
        create: 'optional',
        read: 'never',
        about: `1 to ${MAX_IMPORT} contacts, each with its standing (subscribed when absent): ${STANDINGS.join(', ')}.`,
        example: [{ email: 'ann@example.net', standing: 'unsubscribed' }],
      },
    ),
    created: count('How many were added as subscribed.'),
    updated: count('How many were there already and have a new name or field.'),
    unsubscribed: count('How many were added or kept as unsubscribed.'),
    suppressed: count('How many got a suppression: blocked, bounced or complained.'),
    skipped: count('How many changed nothing, or never confirmed that they want mail.'),
    ...listed('contacts', PRESETS),
  },
  actions: [
    {
      kind: 'create',
      path: '/audiences/:audience/list-imports',
      scope: 'contacts:write',
      within: { type: 'audiences', column: 'audience_key' },
      accepts: 'contacts',
      status: 200,
      bodyLimit: 25 * 1024 * 1024,
      refuses: ['insufficient_scope'],
      about: `Add many contacts as another program had them; nobody who left is subscribed. ${EXTENSION}`,
      run: async (call) => {
        const { caller, parts } = call
        const { errors, items, skipped: passed } = await contactsOf(call.attributes)
        const contacts = items.map(({ item }) => item)
        const suppresses = contacts.some(({ standing }) => standing !== 'subscribed' && standing !== 'unconfirmed')
        if (suppresses && !caller.scopes.has('suppressions:write'))
          throw refuse('insufficient_scope', 'People who left get a suppression, which needs suppressions:write.')
        const parent = parentOf(audiences, call)
        const audience = audienceById(parts.store, parent.id) ?? parent
        const { counts, problems } = await importContactsWithStatus(parts, audience, contacts)
        for (const { index, reason } of problems)
          errors.push({ index: items[index]!.line - 1, email: contacts[index]!.email, detail: reason })
        const skipped = counts.skipped + passed + errors.length
        return { row: { key: 0, id: newId(call.now), ...counts, skipped, errors } }
      },
    },
  ],
})

const MAX_ROWS = 10_000
const REASONS = ['manual', 'list_import', 'unsubscribe', 'hard_bounce', 'complaint'] as const
/** Rows in one transaction. */
const AT_ONCE = 200

const row = z.strictObject({
  email: address(),
  reason: z.enum(REASONS, { error: `must be one of ${REASONS.join(', ')}` }).optional(),
  scope: z.enum(valuesOf('suppressions', 'scope'), { error: 'must be marketing or all' }).optional(),
})

/** The sending domain that the entries are for. Throws 404. */
function domainOf({ caller, parts, related }: Pick<Call<ApiDeps>, 'caller' | 'parts' | 'related'>): number | undefined {
  const id = related['domain']
  if (id === undefined) return undefined
  const found = domainById(parts.store, id)
  if (found?.user_key !== caller.userKey || found.deleted_at !== null)
    throw refuse('not_found', 'There is no such domain.', { pointer: '/data/relationships/domain' })
  return found.key
}

type SuppressionAttributes = Partial<Record<'file', string>> & {
  suppressions?: z.output<typeof row>[]
  rows?: Record<string, unknown>[]
  from?: keyof typeof SUPPRESSORS
}

function entriesOf(attributes: SuppressionAttributes, now: number): GivenRows<Entry> | Promise<GivenRows<Entry>> {
  checkOneOf('suppressions', attributes)
  const { file = '', from, rows, suppressions = [] } = attributes
  if (rows) return givenIn(rows, file, suppressionsIn({ from, page: true }, now))
  return understood(
    suppressions.map(({ email, reason = 'manual', scope }) => ({
      email: parseAddress(email)!.address,
      reason,
      scope: scope ?? scopeOf(reason),
      expires_at: null,
    })),
  )
}

export const suppressionImports = define('suppression-imports', {
  table: 'suppressions',
  about: `Suppressions that are brought in. ${EXTENSION}`,
  attributes: {
    suppressions: field(z.array(row).min(1, 'must not be empty').max(MAX_ROWS, `must hold at most ${MAX_ROWS} rows`), {
      create: 'optional',
      read: 'never',
      about: 'Addresses with a reason (manual when absent) and a scope (marketing for unsubscribe, else all).',
      example: [{ email: 'ann@example.net', reason: 'manual' }],
    }),
    created: count('How many entries are new.'),
    updated: count('How many entries were widened.'),
    skipped: count('How many were there already.'),
    ...listed('suppressions', SUPPRESSORS),
    domain_name: words('The sending domain that they are for.'),
  },
  relationships: { domain: { type: 'domains', column: 'domain_key', create: true } },
  actions: [
    {
      kind: 'create',
      path: '/suppression-imports',
      scope: 'suppressions:write',
      bodyLimit: 2 * 1024 * 1024,
      refuses: ['not_found'],
      about: `Add suppressions for a sending domain; an entry that is there is never weakened. ${EXTENSION}`,
      before: (call) => void domainOf(call),
      async run(call) {
        const { attributes, caller, now, parts } = call
        const domain = domainOf(call)
        if (domain === undefined)
          throw refuse('required', 'Name the sending domain in relationships.domain.', { pointer: '/data' })
        const { errors, items, skipped } = await entriesOf(attributes, now)
        const entries = items.map(({ item: entry }) => entry)
        const counts = { created: 0, updated: 0, skipped: skipped + errors.length }
        const owner = { key: domain, user_key: caller.userKey }
        // What a person typed is not an import (D36).
        const source = ({ reason }: Entry) => (caller.person && reason !== 'list_import' ? 'manual' : 'import')
        for (let at = 0; at < entries.length; at += AT_ONCE) {
          const brought = await importSuppressions(parts, owner, entries.slice(at, at + AT_ONCE), source)
          for (const name of namesIn(counts)) counts[name] += brought[name]
        }
        const found = domainById(parts.store, call.related['domain']!)!
        return { row: { key: 0, id: newId(now), ...counts, errors, domain_name: found.name, domain_key: domain } }
      },
    },
  ],
})
