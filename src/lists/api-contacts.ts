// Lists of people over the API (D71, D127, D143): contacts with their standing in another program's list, or rows whose
// columns are read by their titles or as the request says; what an import would do; and the history of imports. The
// specification's import of contacts knows no standing.
import { z } from 'zod'
import { refuse, type Refusal } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { contactItem, audiences, MAX_IMPORT } from '../campaigns/api-audiences.ts'
import { audienceById } from '../campaigns/audiences.ts'
import { contactAddress } from '../campaigns/contacts.ts'
import { nameForHistory, refusedOf, type ImportNote } from '../campaigns/import-history.ts'
import {
  importContactsWithStatus,
  STANDINGS,
  type ContactWithStatus,
  type Standing,
} from '../campaigns/import-with-status.ts'
import { nameOfCaller } from '../identity/users.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, time, timeOrNull, words } from '../jsonapi/fields.ts'
import { field, parentOf, type Call } from '../jsonapi/resource.ts'
import { findOwned } from '../store/list.ts'
import { csvLine } from '../webui/csv.ts'
import { USE } from './chosen-columns.ts'
import { contactsIn } from './contact-columns.ts'
import { checkOneOf, givenIn, listed, understood, type GivenRows } from './given-rows.ts'
import { PRESETS } from './programs.ts'
import { plain } from './words.ts'

const item = contactItem.extend({
  email: contactItem.shape.email.refine((email) => contactAddress(email) !== undefined, 'is not an email address'),
  standing: z.enum(STANDINGS, { error: `must be one of ${STANDINGS.join(', ')}` }).optional(),
  // Its line in the list, by which the history names what is wrong with it.
  line: z.int().min(1).optional(),
})

/** The most columns and words of a request, and refused lines with their cells. */
const MAX_COLUMNS = 200
const MAX_WORDS = 100
const MAX_REFUSED = 1000
const MAX_CELL = 2000
/** The most rows that a list may have left out: the sums of the history stay whole numbers. */
const MAX_ROWS = 1_000_000_000

const named = <Value extends z.ZodType>(value: Value, most: number, what: string) =>
  z
    .record(z.string().max(MAX_CELL), value)
    .refine((all) => Object.keys(all).length <= most, `must name at most ${most} ${what}`)

const ways = {
  columns: field(
    named(
      z.string().max(MAX_CELL).regex(USE, 'must be email, name, first_name, last_name, status, none or field:NAME'),
      MAX_COLUMNS,
      'columns',
    ),
    {
      create: 'optional',
      read: 'never',
      about: `With rows: what each column is, by its title, in place of what the titles say: email, name, first_name, last_name, status, none, or field:NAME for a custom field. A column that is not named is left out. ${EXTENSION}`,
      example: { 'E-Mail': 'email', Ort: 'field:city', Zustand: 'status' },
    },
  ),
  words: field(named(z.enum(STANDINGS), MAX_WORDS, 'words'), {
    create: 'optional',
    read: 'never',
    about: `With rows: what words of a status column mean that are not known: ${STANDINGS.join(', ')}.`,
    example: { pending: 'unconfirmed' },
  }),
  existing: field(z.enum(['update', 'keep']), {
    create: 'optional',
    read: 'never',
    about: 'update (the default): contacts that are there get the new name and fields; keep: they stay as they are.',
  }),
  dry_run: field(z.boolean(), {
    create: 'optional',
    read: 'never',
    about: 'Answer what the import would do, and write nothing.',
  }),
}

const history = {
  continues: field(z.uuid(), {
    create: 'optional',
    read: 'never',
    about:
      'The id of the import to which these contacts belong, when a list is sent in parts: the history has one entry.',
  }),
  titles: field(z.array(z.string().max(MAX_CELL)).max(MAX_COLUMNS), {
    create: 'optional',
    read: 'never',
    about: 'The titles of the cells of the refused lines.',
  }),
  refused: field(
    z
      .array(
        z.strictObject({
          line: z.int().min(1),
          detail: z.string().max(MAX_CELL),
          cells: z.array(z.string().max(MAX_CELL)).max(MAX_COLUMNS),
        }),
      )
      .max(MAX_REFUSED, `must hold at most ${MAX_REFUSED} lines`),
    {
      create: 'optional',
      read: 'never',
      about: 'With contacts: lines of the list that you left out because they are wrong, for the history.',
    },
  ),
  left_out: field(z.int().min(0).max(MAX_ROWS), {
    create: 'optional',
    read: 'never',
    about: 'With contacts: how many rows of the list you left out, the refused ones included; they are skipped.',
  }),
}

type WaysOf<Names extends keyof (typeof ways & typeof history)> = {
  [Name in Names]?: z.output<(typeof ways & typeof history)[Name]['schema']>
}
type ContactAttributes = WaysOf<keyof typeof ways | keyof typeof history> & {
  contacts?: z.output<typeof item>[]
  rows?: Record<string, unknown>[]
  file?: string
  from?: keyof typeof PRESETS
  refused_count?: number
}

function contactsOf(
  attributes: ContactAttributes,
): GivenRows<ContactWithStatus> | Promise<GivenRows<ContactWithStatus>> {
  checkOneOf('contacts', attributes)
  const { columns, contacts = [], file = '', from, rows, words: said } = attributes
  const preset = from === undefined ? undefined : PRESETS[from]
  if (rows) {
    const meanings = Object.entries(said ?? {}).map(([word, standing]) => [plain(word), standing] as const)
    return givenIn(
      rows,
      file,
      contactsIn({
        preset,
        map: new Map(),
        page: true,
        ...(columns === undefined ? {} : { uses: new Map(Object.entries(columns)) }),
        words: new Map<string, Standing>(meanings),
      }),
    )
  }
  return understood(
    contacts.map(({ custom_fields, email, name, preferences, standing = 'subscribed' }) => ({
      email: contactAddress(email)!,
      name,
      preferences,
      custom_fields,
      standing,
    })),
  )
}

const unknownImport = (): Refusal =>
  refuse('not_found', 'This audience has no such import.', { pointer: '/data/attributes/continues' })

/** What the history notes of a request. Throws 404 for an import that it cannot continue. */
function noteOf(
  { attributes, caller, parts }: Call<ApiDeps, ContactAttributes>,
  audienceKey: number,
  { errors, items, skipped }: GivenRows<ContactWithStatus>,
): ImportNote {
  const { continues, file = '', left_out, refused = [], refused_count = refused.length, titles } = attributes
  const before = continues === undefined ? undefined : findOwned(parts.store, 'list_imports', caller.userKey, continues)
  if (continues !== undefined && before?.audience_key !== audienceKey) throw unknownImport()
  const rows = attributes.rows ?? []
  const wrong = errors.map(({ detail, index }) => ({
    line: index + 1,
    detail,
    cells: Object.values(rows[index] ?? {}).map((cell) => (typeof cell === 'string' ? cell : JSON.stringify(cell))),
  }))
  return {
    by: nameOfCaller(parts.store, caller),
    file: nameForHistory(file),
    continues: before?.key,
    refused: [...refused, ...wrong],
    refusedCount: refused_count + wrong.length,
    passed: Math.max(left_out ?? 0, refused_count) + skipped + wrong.length,
    titles: attributes.rows ? Object.keys(rows[0] ?? {}) : titles,
    lines: items.map(({ line }, at) => attributes.contacts?.[at]?.line ?? line),
  }
}

async function bring(call: Call<ApiDeps, ContactAttributes>) {
  const { attributes, caller, parts } = call
  const given = await contactsOf(attributes)
  const contacts = given.items.map(({ item: contact }) => contact)
  const suppresses = contacts.some(({ standing }) => standing !== 'subscribed' && standing !== 'unconfirmed')
  if (suppresses && !caller.scopes.has('suppressions:write'))
    throw refuse('insufficient_scope', 'People who left get a suppression, which needs suppressions:write.')
  const parent = parentOf(audiences, call)
  const audience = audienceById(parts.store, parent.id) ?? parent
  const note = noteOf(call, audience.key, given)
  const { counts, past, problems } = await importContactsWithStatus(parts, audience, contacts, {
    keep: attributes.existing === 'keep',
    ...(attributes.dry_run ? { dry: true } : { note }),
  })
  const errors = [
    ...given.errors,
    ...problems.map(({ index, reason }) => ({
      index: given.items[index]!.line - 1,
      email: contacts[index]!.email,
      detail: reason,
    })),
  ]
  // The history counts an import of several parts; an answer, what became of its own part.
  const skipped = counts.skipped + given.skipped + errors.length
  const row = past ?? {
    id: newId(call.now),
    audience_key: audience.key,
    made_by: note.by,
    file: note.file,
    created_at: call.now,
    refused_until: null,
  }
  return { row: { ...row, key: 0, ...counts, skipped, refused_count: errors.length }, once: { errors } }
}

const { errors, file, from, rows } = listed('contacts', PRESETS)

export const listImports = define('list-imports', {
  table: 'list_imports',
  about: `Imports of lists of people, with those who left them, and their history. ${EXTENSION}`,
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
    made_by: words('Who imported: the address of a person, the name of a token, or "the command line".'),
    created: count('How many were added as subscribed.'),
    updated: count('How many were there already and have a new name or field.'),
    unsubscribed: count('How many were added or kept as unsubscribed.'),
    suppressed: count('How many got a suppression: blocked, bounced or complained.'),
    skipped: count('How many changed nothing, never confirmed that they want mail, or were refused.'),
    refused_count: field(z.int().min(0).max(MAX_ROWS), {
      create: 'optional',
      about:
        'How many rows were refused. In a request with contacts: how many you refused, when you give not all of them.',
    }),
    refused_until: timeOrNull('Until when the refused lines can be had; null: there are none.'),
    ...ways,
    ...history,
    rows,
    from,
    file: { ...file, read: 'always' as const },
    errors: { ...errors, read: 'once' as const },
    created_at: time('When it began.'),
  },
  relationships: { audience: { type: 'audiences', column: 'audience_key' } },
  actions: [
    {
      kind: 'create',
      path: '/audiences/:audience/list-imports',
      scope: 'contacts:write',
      within: { type: 'audiences', column: 'audience_key' },
      accepts: 'contacts',
      status: 200,
      bodyLimit: 25 * 1024 * 1024,
      refuses: ['insufficient_scope', 'not_found'],
      about: `Add many contacts as another program had them; nobody who left is subscribed. ${EXTENSION}`,
      run: bring,
    },
    {
      kind: 'list',
      path: '/audiences/:audience/list-imports',
      scope: 'contacts:read',
      params: ['sort', 'fields', 'page'],
      within: { type: 'audiences', column: 'audience_key' },
      about: `List the imports of an audience; an audience keeps the last 500. ${EXTENSION}`,
    },
    { kind: 'show', path: '/list-imports/:import', scope: 'contacts:read', about: `Show an import. ${EXTENSION}` },
    {
      kind: 'download',
      path: '/list-imports/:import/refused',
      scope: 'contacts:read',
      id: 'downloadRefusedLines',
      about: `The refused lines of an import as CSV, with the reason of each; kept for 30 days, at most 1,000 lines and 256 KB. ${EXTENSION}`,
      run: ({ row }) => {
        const { lines, titles } = refusedOf(row)
        if (lines.length === 0) throw refuse('not_found', 'No refused line of this import is kept.')
        const text = [
          ['line', 'reason', ...titles],
          ...lines.map(({ cells, detail, line }) => [String(line), detail, ...cells]),
        ]
        return Promise.resolve(
          new Response(text.map(csvLine).join(''), {
            headers: {
              'Content-Type': 'text/csv; charset=utf-8',
              'Content-Disposition': 'attachment; filename="refused.csv"',
              'X-Content-Type-Options': 'nosniff',
            },
          }),
        )
      },
    },
  ],
})
