// The API resource of images for campaigns, which are stored here and served at the public URL (D141).
import { z } from 'zod'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, holding, words } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { base64, name } from '../jsonapi/schemas.ts'
import { valuesOf } from '../store/schema/tables.ts'
import { addImage, addressOf, removeImage, type StoredImage } from './images.ts'
import { IS_USED, isLogo, usesOf } from './uses.ts'

/** The maximum request body, for an image of the maximum size that the configuration permits. */
const MOST = 10 * 1024 * 1024
/** The number of campaigns that a response names. */
const MOST_NAMED = 5
const time = (about: string) => field(z.iso.datetime(), { kind: 'time', sort: true, about })
const use = z.object({ id: z.string(), name: z.string(), status: z.string(), removed: z.boolean() })
/** An image of one pixel, for the documentation. */
const EXAMPLE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

export const images = define('images', {
  table: 'images',
  path: '/images/:image',
  scope: 'campaigns',
  about: 'Images for campaigns. Email clients load them from this server.',
  extension: true,
  attributes: {
    content: field(base64, {
      create: 'required',
      read: 'never',
      about:
        'File in base64: PNG, JPEG, GIF or WebP. It is stored without embedded texts, Exif and XMP data. If the same image exists, it is returned.',
      example: EXAMPLE,
    }),
    name: field(name(), {
      create: 'required',
      sort: true,
      about: 'A name to recognise the image by, such as its file name.',
      example: 'logo.png',
    }),
    url: words('Public URL, for the HTML body of a campaign. It never changes.'),
    content_type: field(z.enum(valuesOf('images', 'content_type')), {
      about: 'Media type, detected from the content.',
    }),
    width: count('Width in pixels, as displayed.'),
    height: count('Height in pixels, as displayed.'),
    size: field(z.int(), { sort: true, about: 'File size in bytes.' }),
    campaigns_count: count('Number of campaigns that use the image, without deleted drafts.'),
    campaigns: field(z.array(use), { about: `Newest ${MOST_NAMED} campaigns that use the image.` }),
    logo: field(z.boolean(), { about: 'Whether the image is the logo of the brand.' }),
    created_at: time('Time when the image was uploaded.'),
    updated_at: time('Time of the last change.'),
  },
  filters: {
    search: holding('name'),
    used: {
      column: 'key',
      flag: true,
      sql: (value) => ({ sql: value === 'true' ? IS_USED : `not ${IS_USED}`, parameters: [] }),
      about: 'Filter by use: true for images that a campaign or the brand uses, false for all others.',
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
        logo: isLogo(reader, row.key),
      })
    }
  },
  actions: [
    {
      kind: 'create',
      bodyLimit: MOST,
      refuses: ['quota_exceeded'],
      about: 'Create an image by uploading its file.',
      run: async ({ attributes: { content, name: called }, caller, parts }) => ({
        row: { ...(await addImage(parts, caller.userKey, { bytes: Buffer.from(content, 'base64'), name: called })) },
      }),
    },
    { kind: 'list', params: ['filter', 'sort', 'fields', 'page'], about: 'List images.' },
    { kind: 'show', about: 'Get an image.' },
    {
      kind: 'delete',
      refuses: ['in_use'],
      params: ['force'],
      about:
        'Delete an image. If campaigns or the brand use it, `force=true` is required. The image is then missing in their emails.',
      run: ({ force, parts, row }) => removeImage(parts, row, force),
    },
  ],
})
