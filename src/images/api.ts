// Pictures for campaigns: stored here, and served to the readers of mail under the public address (D141).
import { z } from 'zod'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, holding, words } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { base64, name } from '../jsonapi/schemas.ts'
import { valuesOf } from '../schema/tables.ts'
import { addImage, addressOf, removeImage, type StoredImage } from './images.ts'
import { IS_USED, usesOf } from './uses.ts'

/** A picture of the greatest size that the configuration may allow, as base64 in JSON. */
const MOST = 10 * 1024 * 1024
/** The campaigns that an answer names. */
const MOST_NAMED = 5
const time = (about: string) => field(z.iso.datetime(), { kind: 'time', sort: true, about })
const use = z.object({ id: z.string(), name: z.string(), status: z.string(), removed: z.boolean() })
/** A picture of one pixel, for the documentation. */
const EXAMPLE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

export const images = define('images', {
  table: 'images',
  about: `Pictures for campaigns, which mail programs load from this server. ${EXTENSION}`,
  attributes: {
    content: field(base64, {
      create: 'required',
      read: 'never',
      about:
        'The file as base64: PNG, JPEG, GIF or WebP. It is stored without texts, Exif and XMP. The same picture again is the one that is there.',
      example: EXAMPLE,
    }),
    name: field(name(), {
      create: 'required',
      sort: true,
      about: 'What you call it, such as the name of its file.',
      example: 'logo.png',
    }),
    url: words('Its public address, for the HTML of a campaign; it never changes.'),
    content_type: field(z.enum(valuesOf('images', 'content_type')), { about: 'Its kind, by its content.' }),
    width: count('Its width in pixels, as it is shown.'),
    height: count('Its height in pixels, as it is shown.'),
    size: field(z.int(), { sort: true, about: 'The bytes of its file.' }),
    campaigns_count: count('How many campaigns use it; drafts that were removed are not counted.'),
    campaigns: field(z.array(use), { about: `The newest ${MOST_NAMED} campaigns that use it.` }),
    created_at: time('When it was uploaded.'),
    updated_at: time('When it last changed.'),
  },
  filters: {
    search: holding('name'),
    used: {
      column: 'key',
      flag: true,
      sql: (value) => ({ sql: value === 'true' ? IS_USED : `not ${IS_USED}`, parameters: [] }),
      about: `Only those that a campaign uses, or that none uses. ${EXTENSION}`,
    },
  },
  extend(rows, { parts, reader }) {
    const { http } = (parts as ApiDeps).config
    for (const row of rows) {
      const uses = usesOf(reader, row.key, MOST_NAMED)
      Object.assign(row, {
        url: addressOf(http.public_url, row as unknown as StoredImage),
        campaigns_count: uses.count,
        campaigns: uses.newest,
      })
    }
  },
  actions: [
    {
      kind: 'create',
      path: '/images',
      scope: 'campaigns:write',
      bodyLimit: MOST,
      refuses: ['quota_exceeded'],
      about: `Upload a picture. ${EXTENSION}`,
      run: async ({ attributes: { content, name: called }, caller, parts }) => ({
        row: { ...(await addImage(parts, caller.userKey, { bytes: Buffer.from(content, 'base64'), name: called })) },
      }),
    },
    {
      kind: 'list',
      path: '/images',
      scope: 'campaigns:read',
      params: ['filter', 'sort', 'fields', 'page'],
      about: `List your pictures. ${EXTENSION}`,
    },
    { kind: 'show', path: '/images/:image', scope: 'campaigns:read', about: `Show a picture. ${EXTENSION}` },
    {
      kind: 'delete',
      path: '/images/:image',
      scope: 'campaigns:write',
      refuses: ['in_use'],
      about: `Remove a picture that no campaign uses. ${EXTENSION}`,
      run: ({ parts, row }) => removeImage(parts, row, false),
    },
    {
      kind: 'act',
      method: 'DELETE',
      path: '/images/:image/forced',
      id: 'deleteUsedImage',
      scope: 'campaigns:write',
      about: `Remove a picture although campaigns use it: their mail shows a gap in its place. ${EXTENSION}`,
      run: async ({ parts, row }) => {
        // As it was: what used it is known no more once it is gone.
        const before = { ...row }
        await removeImage(parts, row, true)
        return { row: before }
      },
    },
  ],
})
