// Audiences, their contacts, and imports of many contacts at once.
import { z } from 'zod'
import { firstIssue } from '../base/issues.ts'
import { refuse } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { isObject } from '../base/json.ts'
import { schemaOf } from '../jsonapi/openapi-schemas.ts'
import { relatedIn } from '../jsonapi/related.ts'
import { field, parentOf, type Filter } from '../jsonapi/resource.ts'
import { addAudience, audienceById, changeAudience, removeAudience } from './audiences.ts'
import {
  addContact,
  changeContact,
  removeContact,
  type Contact,
  UNSUBSCRIBED_FROM,
  unsubscribedFrom,
} from './contacts.ts'
import { importContacts, LONE_SURROGATE, MAX_KEYS, MAX_OBJECT, type ImportItem } from './import-with-status.ts'
import { nameOfCaller } from '../users/users.ts'
import type { Caller } from '../jsonapi/resource.ts'
import type { Reader } from '../store/database.ts'
import type { NewConsent } from './consents.ts'
import { normalised } from '../suppressions/stops.ts'
import { holding, selected } from '../jsonapi/fields.ts'
import { define } from '../jsonapi/define.ts'
import { findOwned } from '../store/list.ts'
import { languageTag, line, text, nameField, unlessBlank, visibleLine } from '../jsonapi/schemas.ts'
import { valuesOf } from '../store/schema/tables.ts'
import { segmentCondition } from './segments.ts'

const time = (about: string) => field(z.iso.datetime(), { kind: 'time', sort: true, about })
export const MAX_IMPORT = 1000

const domain = relatedIn('domain', 'domains')

export const audiences = define('audiences', {
  table: 'audiences',
  path: '/audiences/:audience',
  scope: 'contacts',
  only: 'deleted_at is null',
  about: 'Lists of contacts. Each audience belongs to one sending domain.',
  attributes: {
    name: nameField('Readers'),
    description: field(text(10_000).nullable(), {
      create: 'optional',
      update: true,
      about: 'Description of the audience. Null if absent.',
    }),
    title: field(unlessBlank(visibleLine(100, 'characters')), {
      create: 'optional',
      update: true,
      about:
        'Name that subscribers see, for example on the unsubscribe page. If null, they see the sender name of the brand or the sending domain. They never see the attribute `name`.',
      example: 'Acme News',
      extension: true,
    }),
    language: field(languageTag().nullable(), {
      create: 'optional',
      update: true,
      about:
        'Language of the subscribers, as a BCP 47 tag. Pages and emails of the server use it if the language of a contact is unknown. Null if absent.',
      example: 'de',
      extension: true,
    }),
    contacts_count: field(z.int(), { about: 'Number of contacts, including unsubscribed ones.' }),
    created_at: time('Time when the audience was created.'),
    updated_at: time('Time of the last change.'),
  },
  relationships: { domain: { type: 'domains', column: 'domain_key', create: true } },
  actions: [
    {
      kind: 'create',
      refuses: ['not_found'],
      about: 'Create an audience for a sending domain.',
      before: domain.before,
      run: async (call) => {
        const owner = { key: domain.of(call).key, user_key: call.caller.userKey }
        return { row: { ...(await addAudience(call.parts, owner, call.attributes)) } }
      },
    },
    { kind: 'list', about: 'List audiences.' },
    { kind: 'show', about: 'Get an audience.' },
    {
      kind: 'update',
      about: 'Update an audience.',
      run: async ({ parts, row, attributes }) => ({ row: { ...(await changeAudience(parts, row.key, attributes)) } }),
    },
    {
      kind: 'delete',
      about: 'Delete an audience and its contacts.',
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

/** A filter for the contacts that match a segment of the audience now. */
const inSegment: Filter = {
  column: 'key',
  whole: 100,
  sql(id, reader, { now, parent, userKey }) {
    const segment = findOwned(reader, 'segments', userKey, id, 'deleted_at is null')
    if (!segment || segment.audience_key !== parent)
      throw refuse('not_found', 'No such segment of the audience exists. Check the id in "filter[segment]".', {
        parameter: 'filter[segment]',
      })
    return segmentCondition(reader, segment.key, now)
  },
  about: 'Filter by the id of a segment of the audience.',
  extension: true,
}
/** The owner's proof of a consent. */
export const evidence = () => text(2000).refine((value) => value.trim() !== '', 'must not be empty')

const VIA = { console: 'console', api: 'api', mcp: 'api', command: 'cli' } as const

/** The consent of a contact that the owner adds, by the request. */
export const assertedBy = (
  { caller, parts }: { caller: Caller; parts: { store: Reader } },
  proof: string | undefined,
): NewConsent => ({
  state: 'asserted',
  source: VIA[caller.via],
  person: nameOfCaller(parts.store, caller),
  evidence: proof ?? null,
})

export const contacts = define('contacts', {
  table: 'contacts',
  path: '/contacts/:contact',
  scope: 'contacts',
  only: 'audience_key in (select key from audiences where deleted_at is null)',
  about: 'Recipients in an audience. Each email address occurs once per audience.',
  attributes: {
    email: field(contactFields.email, {
      create: 'required',
      update: true,
      sort: true,
      about: 'Email address. Spaces around it are removed, and it is stored in lower case.',
      example: 'ann@example.net',
    }),
    name: field(contactFields.name, {
      create: 'optional',
      update: true,
      sort: true,
      about: 'Name of the contact, for the merge tag {{name}}. Null if unknown.',
      example: 'Ann',
    }),
    preferences: field(contactFields.preferences, {
      create: 'optional',
      update: true,
      kind: 'json',
      about: 'Arbitrary data about the contact, for your own use. Null if absent.',
    }),
    custom_fields: field(contactFields.custom_fields, {
      create: 'optional',
      update: true,
      kind: 'json',
      about: 'Values for merge tags, by the name of the tag. Null if absent.',
      example: { city: 'Ghent' },
    }),
    status: field(z.enum(valuesOf('contacts', 'status')), {
      update: true,
      sort: true,
      about:
        'Subscription status. Only subscribed contacts receive campaigns. A pending contact has not confirmed its subscription.',
    }),
    unsubscribed_from: field(z.enum(UNSUBSCRIBED_FROM).nullable(), {
      update: true,
      read: 'always',
      about:
        'From what an unsubscribed contact unsubscribed: this `audience`, or all campaigns of the `domain` (the default of an update). Null for other contacts.',
      extension: true,
    }),
    language: field(languageTag().nullable(), {
      create: 'optional',
      update: true,
      about: 'Language of pages and emails of the server for the contact, as a BCP 47 tag. Null if unknown.',
      example: 'de',
      extension: true,
    }),
    subscribed_at: field(z.iso.datetime().nullable(), {
      kind: 'time',
      about: 'Time when the contact was subscribed, or added. Null until a pending contact confirms.',
      extension: true,
    }),
    consent_evidence: field(evidence(), {
      create: 'optional',
      update: true,
      read: 'never',
      about:
        'Why the contact agreed to be in the audience, in your words. It is kept as proof (consents). With it, the status `subscribed` can be set for a pending contact.',
      example: 'Signed up at our stand on 2026-05-04, paper form no. 17',
      extension: true,
    }),
    created_at: time('Time when the contact was added.'),
    updated_at: time('Time of the last change.'),
  },
  relationships: { audience: { type: 'audiences', column: 'audience_key' } },
  filters: {
    status: { column: 'status' },
    email: { column: 'email', forms: (value) => [normalised(value)] },
    search: holding('email', 'name'),
    id: selected,
    segment: inSegment,
  },
  extend(rows) {
    for (const row of rows) row['unsubscribed_from'] = unsubscribedFrom(row as unknown as Contact)
  },
  actions: [
    {
      kind: 'list',
      path: '/audiences/:audience/contacts',
      within: { type: 'audiences', column: 'audience_key' },
      about: 'List the contacts of an audience.',
    },
    {
      kind: 'create',
      path: '/audiences/:audience/contacts',
      within: { type: 'audiences', column: 'audience_key' },
      refuses: ['already_exists'],
      // Applications that keep an audience up to date would fill the log.
      audit: 'people',
      about: 'Create a contact.',
      run: async (call) => {
        const { consent_evidence, ...given } = call.attributes
        const consent = assertedBy(call, consent_evidence)
        return { row: { ...(await addContact(call.parts, parentOf(audiences, call), { ...given, consent })) } }
      },
    },
    { kind: 'show', about: 'Get a contact.' },
    {
      kind: 'update',
      audit: 'people',
      refuses: ['already_exists', 'permanent_suppression', 'confirmation_required'],
      about:
        'Update a contact. The status `unsubscribed` adds a suppression for campaigns, unless `unsubscribed_from` is `audience`. The status `subscribed` removes it.',
      run: async (call) => {
        const { unsubscribed_from, ...given } = call.attributes
        const consent = assertedBy(call, given.consent_evidence)
        const change = { ...given, consent, unsubscribed_from: unsubscribed_from ?? undefined }
        return { row: { ...(await changeContact(call.parts, call.row.key, change)) } }
      },
    },
    {
      kind: 'delete',
      audit: 'people',
      about: 'Delete a contact. This adds no suppression.',
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
    return { problem: `${path.join('.') || 'item'}: ${message}`, email }
  })

export const contactImports = define('contact-imports', {
  table: 'audiences',
  scope: 'contacts',
  about: 'Result of importing many contacts.',
  attributes: {
    contacts: field(
      z
        .array(importItem, 'must be a list of contacts')
        .min(1, 'must contain at least one contact')
        .max(MAX_IMPORT, `must contain at most ${MAX_IMPORT} contacts`),
      {
        create: 'required',
        read: 'never',
        about: `1 to ${MAX_IMPORT} contacts, each with email and optionally name, preferences and custom_fields.`,
        example: [{ email: 'ann@example.net', name: 'Ann' }],
      },
    ),
    evidence: field(evidence(), {
      create: 'optional',
      read: 'never',
      about: 'Why the contacts agreed to be in the audience, in your words. It is kept as proof with each of them.',
      extension: true,
    }),
    created: field(z.int(), { about: 'Number of contacts that were created.' }),
    skipped: field(z.int(), {
      about:
        'Number of items that were skipped because the contact exists, the address occurs twice in the list, its owner refused a sign-up for the audience in the last 90 days, or the item is invalid.',
    }),
    errors: field(z.array(z.object({ index: z.int(), email: z.string().nullable(), detail: z.string() })), {
      about:
        'Items that are invalid, or whose address refused a sign-up, each with its position in the list (from 0) and the reason.',
    }),
  },
  actions: [
    {
      kind: 'create',
      path: '/audiences/:audience/contacts/import',
      within: { type: 'audiences', column: 'audience_key' },
      id: 'importContacts',
      audit: 'people',
      accepts: 'contacts',
      status: 200,
      bodyLimit: 25 * 1024 * 1024,
      about: 'Import contacts. Existing contacts are skipped.',
      run: async (call) => {
        const { contacts: items } = call.attributes
        const audience = parentOf(audiences, call)
        const { store } = call.parts
        const there = audienceById(store, audience.id) ?? audience
        const consent = assertedBy(call, call.attributes.evidence)
        const by = nameOfCaller(store, call.caller)
        const result = await importContacts(call.parts, there, items, {
          by,
          consent: { ...consent, state: 'imported' },
        })
        return { row: { key: 0, id: newId(call.now), ...result } }
      },
    },
  ],
})
