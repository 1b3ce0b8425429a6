// Audiences, their contacts, and imports of many contacts at once.
import { z } from 'zod'
import { firstIssue } from '../base/issues.ts'
import { newId } from '../base/ids.ts'
import { isObject } from '../base/json.ts'
import { refuse } from '../base/errors.ts'
import { schemaOf } from '../jsonapi/openapi-schemas.ts'
import { field, parentOf, type Call } from '../jsonapi/resource.ts'
import { addAudience, audienceById, changeAudience, removeAudience } from './audiences.ts'
import { addContact, changeContact, removeContact } from './contacts.ts'
import { importContacts, LONE_SURROGATE, MAX_KEYS, MAX_OBJECT, type ImportItem } from './import-with-status.ts'
import { nameOfCaller } from '../identity/users.ts'
import { normalised } from '../suppressions/stops.ts'
import { findOwned, type ListedRow } from '../store/list.ts'
import { holding } from '../jsonapi/fields.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { line, text, nameField } from '../jsonapi/schemas.ts'
import { valuesOf } from '../schema/tables.ts'

const time = (about: string) => field(z.iso.datetime(), { kind: 'time', sort: true, about })
const params = ['filter', 'sort', 'include', 'fields', 'page'] as const
export const MAX_IMPORT = 1000

/** The domain that a new audience belongs to. Throws 404. */
function domainOf({
  caller,
  parts,
  related,
}: Pick<Call<ApiDeps>, 'caller' | 'parts' | 'related'>): ListedRow | undefined {
  const id = related['domain']
  if (id === undefined) return undefined
  const row = findOwned(parts.store, 'domains', caller.userKey, id, 'deleted_at is null')
  if (!row) throw refuse('not_found', 'There is no such sending domain.', { pointer: '/data/relationships/domain' })
  return row
}

export const audiences = define('audiences', {
  table: 'audiences',
  only: 'deleted_at is null',
  about: 'Lists of contacts, each for one sending domain.',
  attributes: {
    name: nameField('Readers'),
    description: field(text(10_000).nullable(), { create: 'optional', update: true, about: 'What it is for.' }),
    contacts_count: field(z.int(), { about: 'How many contacts it holds.' }),
    created_at: time('When it was made.'),
    updated_at: time('When it last changed.'),
  },
  relationships: { domain: { type: 'domains', column: 'domain_key', create: true } },
  actions: [
    {
      kind: 'create',
      path: '/audiences',
      scope: 'contacts:write',
      refuses: ['not_found'],
      about: 'Make an audience for a sending domain.',
      before: (call) => void domainOf(call),
      run: async (call) => {
        const domain = domainOf(call)
        if (!domain) throw refuse('required', 'Name the sending domain in relationships.domain.', { pointer: '/data' })
        const owner = { key: domain.key, user_key: call.caller.userKey }
        return { row: { ...(await addAudience(call.parts, owner, call.attributes)) } }
      },
    },
    {
      kind: 'list',
      path: '/audiences',
      scope: 'contacts:read',
      params: ['sort', 'include', 'fields', 'page'],
      about: 'List your audiences.',
    },
    { kind: 'show', path: '/audiences/:audience', scope: 'contacts:read', about: 'Show an audience.' },
    {
      kind: 'update',
      path: '/audiences/:audience',
      scope: 'contacts:write',
      about: 'Rename an audience.',
      run: async ({ parts, row, attributes }) => ({ row: { ...(await changeAudience(parts, row.key, attributes)) } }),
    },
    {
      kind: 'delete',
      path: '/audiences/:audience',
      scope: 'contacts:write',
      about: 'Remove an audience with its contacts.',
      run: async ({ parts, row }) => {
        await removeAudience(parts, row.key)
        parts.bells.campaigns()
      },
    },
  ],
})

/** An object with any members, limited in size. */
const object = (maxKeys: number) =>
  z
    .custom<Record<string, unknown>>(isObject, 'must be an object or null')
    .refine((value) => Object.keys(value).length <= maxKeys, `must have at most ${maxKeys} keys`)
    .refine((value) => Buffer.byteLength(JSON.stringify(value)) <= MAX_OBJECT, {
      message: `must be at most ${MAX_OBJECT / 1024} KB as JSON`,
      params: { code: 'too_long' },
    })
    .refine(
      (value) => !LONE_SURROGATE.test(JSON.stringify(value)),
      'must be Unicode text without lone surrogates throughout',
    )
    .refine(
      (value) => Object.keys(value).every((key) => key !== '' && key.length <= 200),
      'must have keys of 1 to 200 characters',
    )
    .meta({ type: 'object', additionalProperties: true, maxProperties: maxKeys })
    .nullable()

const contactFields = {
  email: line(320),
  name: line(255).nullable(),
  preferences: object(MAX_KEYS),
  custom_fields: object(MAX_KEYS),
}

export const contacts = define('contacts', {
  table: 'contacts',
  only: 'audience_key in (select key from audiences where deleted_at is null)',
  about: 'The people of an audience. An address is in an audience once.',
  attributes: {
    email: field(contactFields.email, {
      create: 'required',
      update: true,
      sort: true,
      about: 'The address, kept trimmed and in lower case.',
      example: 'ann@example.net',
    }),
    name: field(contactFields.name, {
      create: 'optional',
      update: true,
      sort: true,
      about: 'The name of the person: {{name}}.',
      example: 'Ann',
    }),
    preferences: field(contactFields.preferences, {
      create: 'optional',
      update: true,
      kind: 'json',
      about: 'Your own notes about the person.',
    }),
    custom_fields: field(contactFields.custom_fields, {
      create: 'optional',
      update: true,
      kind: 'json',
      about: 'Values for merge tags of these names.',
      example: { city: 'Ghent' },
    }),
    status: field(z.enum(valuesOf('contacts', 'status')), {
      update: true,
      sort: true,
      about: 'Only subscribed contacts receive campaigns.',
    }),
    created_at: time('When they were added.'),
    updated_at: time('When they last changed.'),
  },
  relationships: { audience: { type: 'audiences', column: 'audience_key' } },
  filters: {
    status: { column: 'status' },
    email: { column: 'email', forms: (value) => [normalised(value)] },
    search: holding('email', 'name'),
  },
  actions: [
    {
      kind: 'list',
      path: '/audiences/:audience/contacts',
      scope: 'contacts:read',
      params,
      within: { type: 'audiences', column: 'audience_key' },
      about: 'List the contacts of an audience.',
    },
    {
      kind: 'create',
      path: '/audiences/:audience/contacts',
      scope: 'contacts:write',
      within: { type: 'audiences', column: 'audience_key' },
      refuses: ['already_exists'],
      about: 'Add a contact.',
      run: async (call) => ({ row: { ...(await addContact(call.parts, parentOf(audiences, call), call.attributes)) } }),
    },
    { kind: 'show', path: '/contacts/:contact', scope: 'contacts:read', about: 'Show a contact.' },
    {
      kind: 'update',
      path: '/contacts/:contact',
      scope: 'contacts:write',
      refuses: ['already_exists', 'permanent_suppression'],
      about: 'Change a contact; a status of unsubscribed adds a suppression for campaigns, subscribed takes it back.',
      run: async ({ parts, row, attributes }) => ({
        row: { ...(await changeContact(parts, row.key, attributes)) },
      }),
    },
    {
      kind: 'delete',
      path: '/contacts/:contact',
      scope: 'contacts:write',
      about: 'Remove a contact from its audience; no suppression is added.',
      run: ({ parts, row }) => removeContact(parts, row.key),
    },
  ],
})

export const contactItem = z.strictObject({
  email: contactFields.email,
  name: contactFields.name.optional(),
  preferences: contactFields.preferences.optional(),
  custom_fields: contactFields.custom_fields.optional(),
})

/** An item in its checked form, or its error: a bad item is skipped and reported, and the others are imported. */
const importItem = z
  .unknown()
  .meta(schemaOf(contactItem, 'input'))
  .transform((value): ImportItem => {
    const result = contactItem.safeParse(value)
    if (result.success) return { contact: result.data }
    const { message, path } = firstIssue(result.error)
    const email = isObject(value) && typeof value['email'] === 'string' ? value['email'].slice(0, 320) : null
    return { problem: `${path.join('.') || 'the item'}: ${message}`, email }
  })

export const contactImports = define('contact-imports', {
  table: 'audiences',
  about: 'The result of an import of many contacts.',
  attributes: {
    contacts: field(
      z
        .array(importItem, 'must be a list of contacts')
        .min(1, 'must hold at least one contact')
        .max(MAX_IMPORT, `must hold at most ${MAX_IMPORT} contacts`),
      {
        create: 'required',
        read: 'never',
        about: `1 to ${MAX_IMPORT} contacts: email, name, preferences, custom_fields.`,
        example: [{ email: 'ann@example.net', name: 'Ann' }],
      },
    ),
    created: field(z.int(), { about: 'How many were added.' }),
    skipped: field(z.int(), { about: 'How many were not added: they existed, were twice in the list, or were wrong.' }),
    errors: field(z.array(z.object({ index: z.int(), email: z.string().nullable(), detail: z.string() })), {
      about: 'What was wrong, by the place in the list from 0.',
    }),
  },
  actions: [
    {
      kind: 'create',
      path: '/audiences/:audience/contacts/import',
      scope: 'contacts:write',
      within: { type: 'audiences', column: 'audience_key' },
      id: 'importContacts',
      accepts: 'contacts',
      status: 200,
      bodyLimit: 25 * 1024 * 1024,
      about: 'Add many contacts; those that are there already are skipped.',
      run: async (call) => {
        const { contacts: items } = call.attributes
        const audience = parentOf(audiences, call)
        const { store } = call.parts
        const there = audienceById(store, audience.id) ?? audience
        const result = await importContacts(call.parts, there, items, nameOfCaller(store, call.caller))
        return { row: { key: 0, id: newId(call.now), ...result } }
      },
    },
  ],
})
