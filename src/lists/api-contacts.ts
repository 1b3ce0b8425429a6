// Contact lists in the API (D71, D127, D143): contacts with their status in another system, or rows whose columns are
// mapped by their titles or by the request, the preview of an import, and the import history. The import of the
// specification has no status.
import { z } from 'zod'
import { refuse, type Refusal } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { assertedBy, contactItem, audiences, evidence, MAX_IMPORT } from '../campaigns/api-audiences.ts'
import { audienceById } from '../campaigns/audiences.ts'
import { contactAddress } from '../campaigns/contacts.ts'
import {
  nameForHistory,
  refusedOf,
  type ImportNote,
  importContactsWithStatus,
  STANDINGS,
  type ContactWithStatus,
  type Standing,
} from '../campaigns/import-with-status.ts'
import { nameOfCaller } from '../users/users.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, time, timeOrNull, words } from '../jsonapi/fields.ts'
import { field, parentOf, type Call } from '../jsonapi/resource.ts'
import { findOwned } from '../store/list.ts'
import { csvLine } from '../base/csv.ts'
import { USE, USES } from './columns.ts'
import { contactsIn } from './contact-columns.ts'
import { checkOneOf, givenIn, listed, understood, type GivenRows } from './given-rows.ts'
import { PRESETS } from './programs.ts'
import { plain } from './words.ts'

const item = contactItem.extend({
  email: contactItem.shape.email.refine((email) => contactAddress(email) !== undefined, 'is not an email address'),
  status: z.enum(STANDINGS, { error: `must be one of ${STANDINGS.join(', ')}` }).optional(),
  // Its line in the list, for the errors in the import history.
  line: z.int().min(1).optional(),
})

/** The maximum number of columns and status values in a request, and of rejected lines with their cells. */
const MAX_COLUMNS = 200
const MAX_WORDS = 100
const MAX_REFUSED = 1000
const MAX_CELL = 2000
/** The maximum number of skipped rows, so that the sums in the history stay exact integers. */
const MAX_ROWS = 1_000_000_000

const named = <Value extends z.ZodType>(value: Value, most: number, what: string) =>
  z
    .record(z.string().max(MAX_CELL), value)
    .refine((all) => Object.keys(all).length <= most, `must have at most ${most} ${what}`)

const ways = {
  columns: field(
    named(
      z
        .string()
        .max(MAX_CELL)
        .regex(USE, `must be ${USES.join(', ')} or field:NAME`),
      MAX_COLUMNS,
      'columns',
    ),
    {
      create: 'optional',
      read: 'never',
      about:
        'With `rows`: the meaning of each column, by its title. It replaces the meaning that the title suggests: `email`, `name`, `first_name`, `last_name`, `status` (a text), `subscribed` or `unsubscribed` (yes or no), `none`, or `field:NAME` for a custom field. Columns without an entry are ignored, except that a column that looks like a status is an error.',
      extension: true,
      example: { 'E-Mail': 'email', Ort: 'field:city', Zustand: 'status' },
    },
  ),
  statuses: field(named(z.enum(STANDINGS), MAX_WORDS, 'statuses'), {
    create: 'optional',
    read: 'never',
    about: `With \`rows\`: the meaning of texts in a status column that Postrider does not recognise: ${STANDINGS.join(', ')}.`,
    example: { pending: 'unconfirmed' },
  }),
  existing: field(z.enum(['update', 'keep']), {
    create: 'optional',
    read: 'never',
    about:
      'Handling of existing contacts. `update` (the default) changes their name and fields, `keep` leaves them unchanged.',
  }),
  dry_run: field(z.boolean(), {
    create: 'optional',
    read: 'never',
    about: 'Whether to return the result without importing anything.',
  }),
  evidence: field(evidence(), {
    create: 'optional',
    read: 'never',
    about: 'Why the contacts agreed to be in the audience, in your words. It is kept as proof with each of them.',
  }),
}

const history = {
  continues: field(z.uuid(), {
    create: 'optional',
    read: 'never',
    about:
      'Id of the import that these contacts belong to, if a list is sent in several requests. The history then has one entry for all of them.',
  }),
  headers: field(z.array(z.string().max(MAX_CELL)).max(MAX_COLUMNS), {
    create: 'optional',
    read: 'never',
    about: 'Column titles for the `row` of each rejected line.',
  }),
  rejected: field(
    z
      .array(
        z.strictObject({
          line: z.int().min(1),
          detail: z.string().max(MAX_CELL),
          row: z.array(z.string().max(MAX_CELL)).max(MAX_COLUMNS),
        }),
      )
      .max(MAX_REFUSED, `must contain at most ${MAX_REFUSED} lines`),
    {
      create: 'optional',
      read: 'never',
      about: 'With `contacts`: lines of the list that you left out because they are invalid, for the import history.',
    },
  ),
  omitted_count: field(z.int().min(0).max(MAX_ROWS), {
    create: 'optional',
    read: 'never',
    about:
      'With `contacts`: the number of rows that you left out of the list, including rejected ones. They count as skipped.',
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
  rejected_count?: number
}

function contactsOf(
  attributes: ContactAttributes,
): GivenRows<ContactWithStatus> | Promise<GivenRows<ContactWithStatus>> {
  checkOneOf('contacts', attributes)
  const { columns, contacts = [], file = '', from, rows, statuses: said } = attributes
  const preset = from === undefined ? undefined : PRESETS[from]
  if (rows) {
    const meanings = Object.entries(said ?? {}).map(([word, status]) => [plain(word), status] as const)
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
    contacts.map(({ custom_fields, email, name, preferences, status = 'subscribed' }) => ({
      email: contactAddress(email)!,
      name,
      preferences,
      custom_fields,
      status,
    })),
  )
}

const unknownImport = (): Refusal =>
  refuse('not_found', 'This audience has no such import. Check the id in "continues".', {
    pointer: '/data/attributes/continues',
  })

/** The history entry of a request. Throws 404 for an import that it cannot continue. */
function noteOf(
  { attributes, caller, parts }: Call<ApiDeps, ContactAttributes>,
  audienceKey: number,
  { errors, items, skipped }: GivenRows<ContactWithStatus>,
): ImportNote {
  const { continues, file = '', omitted_count, rejected = [], rejected_count = rejected.length, headers } = attributes
  const before = continues === undefined ? undefined : findOwned(parts.store, 'list_imports', caller.userKey, continues)
  if (continues !== undefined && before?.audience_key !== audienceKey) throw unknownImport()
  const rows = attributes.rows ?? []
  const wrong = errors.map(({ detail, index }) => ({
    line: index + 1,
    detail,
    row: Object.values(rows[index] ?? {}).map((cell) => (typeof cell === 'string' ? cell : JSON.stringify(cell))),
  }))
  return {
    by: nameOfCaller(parts.store, caller),
    file: nameForHistory(file),
    continues: before?.key,
    refused: [...rejected, ...wrong],
    refusedCount: rejected_count + wrong.length,
    passed: Math.max(omitted_count ?? 0, rejected_count) + skipped + wrong.length,
    titles: attributes.rows ? Object.keys(rows[0] ?? {}) : headers,
    lines: items.map(({ line }, at) => attributes.contacts?.[at]?.line ?? line),
  }
}

async function bring(call: Call<ApiDeps, ContactAttributes>) {
  const { attributes, caller, parts } = call
  const given = await contactsOf(attributes)
  const contacts = given.items.map(({ item: contact }) => contact)
  const suppresses = contacts.some(({ status }) => status !== 'subscribed' && status !== 'unconfirmed')
  if (suppresses && !caller.scopes.has('suppressions:write'))
    throw refuse(
      'insufficient_scope',
      'Importing contacts with this status adds suppressions. Use a token with the scope suppressions:write.',
    )
  const parent = parentOf(audiences, call)
  const audience = audienceById(parts.store, parent.id) ?? parent
  const note = noteOf(call, audience.key, given)
  const { counts, past, problems } = await importContactsWithStatus(parts, audience, contacts, {
    consent: { ...assertedBy(call, attributes.evidence), state: 'imported' },
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
  // The history counts all parts of an import, the response only its own part.
  const skipped = counts.skipped + given.skipped + errors.length
  const row = past ?? {
    id: newId(call.now),
    audience_key: audience.key,
    created_by: note.by,
    file: note.file,
    created_at: call.now,
    rejected_until: null,
  }
  return { row: { ...row, key: 0, ...counts, skipped, rejected_count: errors.length }, once: { errors } }
}

const { errors, file, from, rows } = listed('contacts', PRESETS)

export const listImports = define('list-imports', {
  table: 'list_imports',
  scope: 'contacts',
  about: 'Imports of contacts, including unsubscribed ones, with their history.',
  extension: true,
  attributes: {
    contacts: field(
      z
        .array(item)
        .min(1, 'must contain at least one contact')
        .max(MAX_IMPORT, `must contain at most ${MAX_IMPORT} contacts`),
      {
        create: 'optional',
        read: 'never',
        about: `1 to ${MAX_IMPORT} contacts, each with its \`status\` (subscribed if absent): ${STANDINGS.join(', ')}.`,
        example: [{ email: 'ann@example.net', status: 'unsubscribed' }],
      },
    ),
    created_by: words('Importer: the email address of a user, the name of a token, or "the command line".'),
    created: count('Number of contacts that were created as subscribed.'),
    updated: count('Number of existing contacts whose name or fields were changed.'),
    unsubscribed: count('Number of contacts that were created or kept as unsubscribed.'),
    suppressed: count('Number of contacts whose address was suppressed because it was blocked, bounced or complained.'),
    skipped: count('Number of rows without effect: unchanged contacts, unconfirmed contacts, and rejected rows.'),
    rejected_count: field(z.int().min(0).max(MAX_ROWS), {
      create: 'optional',
      about:
        'Number of rejected rows. In a request with `contacts`: the number that you rejected, if `rejected` does not list all of them.',
    }),
    rejected_until: timeOrNull('Time until which the rejected lines can be downloaded. Null if absent.'),
    ...ways,
    ...history,
    rows,
    from,
    file: { ...file, read: 'always' as const },
    errors: { ...errors, read: 'once' as const },
    created_at: time('Time when the import started.'),
  },
  relationships: { audience: { type: 'audiences', column: 'audience_key' } },
  actions: [
    {
      kind: 'create',
      path: '/audiences/:audience/list-imports',
      within: { type: 'audiences', column: 'audience_key' },
      accepts: 'contacts',
      status: 200,
      bodyLimit: 25 * 1024 * 1024,
      refuses: ['insufficient_scope', 'not_found'],
      about:
        'Import contacts with their subscription status from another system. Unsubscribed contacts are never subscribed again.',
      run: bring,
    },
    {
      kind: 'list',
      path: '/audiences/:audience/list-imports',
      params: ['sort', 'fields', 'page'],
      within: { type: 'audiences', column: 'audience_key' },
      about: 'List the imports of an audience. The last 500 are kept.',
    },
    { kind: 'show', path: '/list-imports/:import', about: 'Get an import.' },
    {
      kind: 'download',
      path: '/list-imports/:import/rejected',
      id: 'downloadRejectedRows',
      about:
        'Download the rejected lines of an import as CSV. Each line has its reason. They are kept for 30 days, up to 1,000 lines and 256 KB.',
      run: ({ row }) => {
        const { lines, titles } = refusedOf(row)
        if (lines.length === 0)
          throw refuse('not_found', 'No rejected lines of this import are stored. They are deleted after 30 days.')
        const text = [
          ['line', 'reason', ...titles],
          ...lines.map(({ detail, line, row }) => [String(line), detail, ...row]),
        ]
        return Promise.resolve(
          new Response(text.map(csvLine).join(''), {
            headers: {
              'Content-Type': 'text/csv; charset=utf-8',
              'Content-Disposition': 'attachment; filename="rejected.csv"',
              'X-Content-Type-Options': 'nosniff',
            },
          }),
        )
      },
    },
  ],
})
