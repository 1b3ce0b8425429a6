// The page "Brand": the look and the default sender of an account. With the part `images`, a logo can be uploaded.
import { html } from 'hono/html'
import { fieldsShown, labelsOf, valuesOf, type FormFields, type Refused } from '../views/form.ts'
import { form } from '../views/html/forms.ts'
import { page } from '../views/html/frame.ts'
import { done, found, type Form, type Place } from '../views/html/place.ts'
import { text, type Answer, type Thing, type Visit } from '../views/html/visit.ts'
import { facts, type Html } from '../views/html/widgets.ts'
import { IMAGES_PATH } from '../message/html-tokens.ts'
import { brands } from './api-brand.ts'
import { PLAIN_LOOK } from './designs.ts'

const PATH = '/brand'
const FILE_TYPES = 'image/png,image/jpeg,image/gif,image/webp'
const MOST_OF_A_NAME = 100

const takesImages = ({ navigation }: Visit): boolean => navigation.menu.some(({ path }) => path === '/pictures')

/** The logo, if this server stores it. The console loads no images from other hosts. */
function logoShown(brand: Thing<typeof brands>): Html | '' {
  const path = URL.parse(text(brand, 'logo'))?.pathname ?? ''
  return path.startsWith(`${IMAGES_PATH}/`) ? html`<p><img src="${path}" alt="Current logo" height="48" /></p>` : ''
}

const orNull = (name: string) => (given: Form) => given.get(name).trim() || null

const fieldsOf = (visit: Visit, brand: Thing<typeof brands>, domain: string | undefined): FormFields => ({
  sender_name: {
    label: 'Sender name',
    value: text(brand, 'sender_name'),
    hint: 'Recipients see it in the inbox, in designs without a logo, and on the unsubscribe page.',
    read: orNull('sender_name'),
  },
  from_address: {
    label: 'Default From',
    type: 'email',
    value: text(brand, 'from_address'),
    hint: `An address on a verified domain, such as news@${domain ?? 'your domain'}.`,
    read: orNull('from_address'),
  },
  ...(takesImages(visit) && {
    content: { label: 'Upload a logo', type: 'file' as const, accept: FILE_TYPES, hint: 'PNG, JPEG, GIF or WebP.' },
  }),
  logo: {
    label: takesImages(visit) ? 'Logo URL' : 'Logo',
    type: 'url',
    value: text(brand, 'logo'),
    hint: 'URL of an image about 80 pixels high. Empty it to remove the logo.',
    read: orNull('logo'),
  },
  colour: {
    label: 'Colour',
    type: 'color',
    value: text(brand, 'colour') || PLAIN_LOOK.colour,
    hint: 'For header bands and buttons. Text on it is black or white, whichever is easier to read.',
  },
  postal_address: {
    label: 'Postal address',
    value: text(brand, 'postal_address'),
    lines: 3,
    hint: 'Shown in the footer. Many countries require it in newsletters.',
    read: orNull('postal_address'),
  },
})

/** The values for users who cannot change them. */
const valuesShown = (brand: Thing<typeof brands>): Html =>
  facts(
    (
      [
        ['Sender name', 'sender_name'],
        ['Default From', 'from_address'],
        ['Logo', 'logo'],
        ['Colour', 'colour'],
        ['Postal address', 'postal_address'],
      ] as const
    ).map(([label, name]) => [label, text(brand, name) || 'Not set']),
  )

async function show(visit: Visit, refused: Refused = {}): Promise<Response> {
  const { one } = found(await visit.get(brands, PATH))
  const [domain] = await visit.names('/sender-domains')
  const fields = fieldsOf(visit, one, domain?.[1])
  const { errors = [] } = refused
  return page(visit, {
    title: 'Brand',
    about: 'How your campaigns and the pages for recipients look. New campaigns start with these values.',
    errors,
    labels: labelsOf(fields),
    status: errors.length > 0 ? 422 : 200,
    done: done(visit),
    body: visit.reading
      ? html`${logoShown(one)} ${valuesShown(one)}`
      : form(
          visit,
          'save',
          html`${logoShown(one)} ${await fieldsShown(visit, fields, refused)} <button>Save</button>`,
          { multipart: true },
        ),
  })
}

/** Stores an uploaded logo among the images of the account. Returns its URL, or the errors of the API. */
async function storedLogo(visit: Visit, file: File): Promise<{ logo?: string; errors: Answer['errors'] }> {
  const content = Buffer.from(await file.arrayBuffer()).toString('base64')
  const name = `Logo ${file.name}`.replaceAll(/[^\w .-]/g, '').slice(0, MOST_OF_A_NAME)
  const { errors, one } = await visit.ask('POST', '/images', { type: 'images', attributes: { name, content } })
  const url: unknown = one?.attributes['url' as never]
  return typeof url === 'string' ? { logo: url, errors } : { errors }
}

async function act(visit: Visit, given: Form): Promise<Response> {
  const { one } = found(await visit.get(brands, PATH))
  const file = given.file('content')
  const { errors, ...uploaded } = file ? await storedLogo(visit, file) : { errors: [] }
  if (errors.length > 0) return show(visit, { errors, typed: given })
  const { content: _, ...values } = valuesOf(fieldsOf(visit, one, undefined), given)
  const attributes = { ...values, ...uploaded }
  const answer = await visit.ask('PATCH', PATH, { type: brands.type, id: one.id, attributes })
  return answer.errors.length > 0
    ? show(visit, { errors: answer.errors, typed: given })
    : visit.say(PATH, 'Saved. New campaigns use this brand.')
}

export const brandPlace: Place = { path: PATH, show: (visit) => show(visit), act }
