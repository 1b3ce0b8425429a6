// Console page of images: upload, view, copy the URL, delete. Scripts (the campaign editor, dropped files) use the same
// URL with JSON.
import { html } from 'hono/html'
import { forLine } from '../base/clean-text.ts'
import { guard, page } from '../views/html/frame.ts'
import { gallery, uploadForm, type GalleryPicture } from '../views/html/gallery.ts'
import { button } from '../views/html/forms.ts'
import { count, counted, octets, pageOf, pager, search, tabs, type Cell } from '../views/html/widgets.ts'
import { done, type Form, type Place } from '../views/html/place.ts'
import { flag, number, objects, text, thingOf, type Answer, type Thing, type Visit } from '../views/html/visit.ts'
import { images } from './api.ts'
import { TYPES } from './read.ts'

const PATH = '/pictures'
const LABELS = { content: 'File', name: 'Name' } as const
/** Images per page. Each is loaded, and can be large. */
const ON_A_PAGE = 48
/** The maximum length of a name in the API, in bytes. */
const MOST_OF_A_NAME = 255
const KINDS = { 'image/png': 'PNG', 'image/jpeg': 'JPEG', 'image/gif': 'GIF', 'image/webp': 'WebP' } as const

type ImageThing = Thing<typeof images>

/** The path of an image. Its URL can contain another host name of this server. */
const pathOf = (image: ImageThing): string => new URL(text(image, 'url')).pathname

/** An image as JSON for scripts. */
const shownImage = (image: ImageThing): object => ({
  id: image.id,
  url: text(image, 'url'),
  path: pathOf(image),
  name: text(image, 'name'),
  type: text(image, 'content_type'),
  width: number(image, 'width'),
  height: number(image, 'height'),
  bytes: number(image, 'size'),
})

const isScript = ({ context }: Visit): boolean => (context.req.header('accept') ?? '').includes('application/json')

function json({ context }: Visit, status: 200 | 201 | 422, body: object): Response {
  guard(context)
  return context.json(body, status)
}

function usesOf(image: ImageThing): Cell {
  const sum = number(image, 'campaigns_count')
  if (sum === 0) return flag(image, 'logo') ? 'Logo of your brand' : 'Not used'
  const [newest] = objects(image, 'campaigns')
  const name = forLine(newest?.name ?? '')
  return html`In
  ${newest && !newest.removed ? html`<a href="/campaigns/${newest.id}">${name}</a>` : name}${sum > 1 ? ` and ${count(sum - 1)} more` : ''}`
}

/** The confirmation before an image is deleted. */
function question(image: ImageThing): string {
  const name = `“${forLine(text(image, 'name'))}”`
  const names = objects(image, 'campaigns').map((each) => `“${forLine(each.name)}”`)
  const more = number(image, 'campaigns_count') - names.length
  if (names.length === 0) return `This deletes ${name} permanently. No campaign uses it.`
  const all = more > 0 ? `${names.join(', ')} and ${count(more)} more` : names.join(', ')
  return `${all} ${names.length + more === 1 ? 'uses' : 'use'} ${name}. If you delete it, the image is missing in emails already sent and in emails sent later.`
}

function shown(visit: Visit, image: ImageThing): GalleryPicture {
  const address = `address-${image.id}`
  const kind = KINDS[image.attributes.content_type ?? 'image/png']
  return {
    path: pathOf(image),
    name: forLine(text(image, 'name')),
    width: number(image, 'width'),
    height: number(image, 'height'),
    facts: [
      `${count(number(image, 'width'))} × ${count(number(image, 'height'))} · ${octets(number(image, 'size'))} · ${kind}`,
      usesOf(image),
    ],
    actions: html`<span class="hidden" id="${address}">${text(image, 'url')}</span
      ><button class="plain small" type="button" data-copy="${address}">Copy URL</button>
      ${button(visit, 'delete', 'Delete', { confirm: question(image), fields: { id: image.id, used: number(image, 'campaigns_count') > 0 ? 'yes' : '' } })}`,
  }
}

async function list(visit: Visit): Promise<Answer<typeof images>> {
  const [q, used] = [visit.query('q'), visit.query('used')]
  const filters = [
    ...(q === '' ? [] : [`filter%5Bsearch%5D=${encodeURIComponent(q)}`]),
    ...(used === 'no' ? ['filter%5Bused%5D=false'] : []),
  ]
  return visit.get(images, `/images?${[pageOf(visit, ON_A_PAGE), ...filters].join('&')}`)
}

async function show(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const answer = await list(visit)
  if (isScript(visit)) return json(visit, 200, { pictures: answer.many.map(shownImage), next: answer.next })
  const unused = visit.query('used') === 'no'
  return page(visit, {
    title: 'Images',
    about: 'Images for campaigns. This server stores them, and email clients load them from it.',
    errors: [...errors, ...answer.errors],
    labels: LABELS,
    done: done(visit),
    status: errors.length > 0 ? 422 : 200,
    body: html`${visit.reading ? '' : uploadForm(visit, { label: 'Upload images, or drop them here', accept: Object.keys(TYPES).join(','), hint: 'PNG, JPEG, GIF or WebP. Photo metadata (location, time) is removed.' })}
    ${tabs('Images', [
      { to: PATH, name: 'All', here: !unused },
      { to: `${PATH}?used=no`, name: 'Not used', here: unused },
    ])}
    ${search(visit, 'Search names', '', unused ? { used: 'no' } : {})}
    ${gallery(
      answer.many.map((image) => shown(visit, image)),
      visit.query('q') !== '' || unused
        ? 'No images match.'
        : 'No images yet. Upload one above to use it in a campaign.',
    )}
    ${pager(visit, answer)}`,
  })
}

/** The name of an image from a file name: one line, without directories, and within the limit. */
function nameOf(given: string): string {
  let name = forLine(given.replace(/^.*[/\\]/s, '').slice(0, MOST_OF_A_NAME))
  while (Buffer.byteLength(name) > MOST_OF_A_NAME) name = name.slice(0, -1)
  return name.toWellFormed() || 'image'
}

async function add(visit: Visit, file: File): Promise<Answer> {
  const name = nameOf(file.name)
  const content = Buffer.from(await file.arrayBuffer()).toString('base64')
  const answer = await visit.ask('POST', '/images', { type: 'images', attributes: { name, content } })
  return { ...answer, errors: answer.errors.map((each) => ({ ...each, detail: `“${name}”: ${each.detail}` })) }
}

const NO_FILE: Answer['errors'] = [{ detail: 'Choose a file first.', field: 'content', code: 'required' }]

async function upload(visit: Visit, given: Form): Promise<Response> {
  const files = given.files('file')
  if (isScript(visit)) {
    const [file] = files
    const { errors, one } = file ? await add(visit, file) : { errors: NO_FILE, one: undefined }
    return one
      ? json(visit, 201, shownImage(thingOf(images, one)))
      : json(visit, 422, { errors: errors.map(({ detail }) => detail) })
  }
  const names: string[] = []
  const errors = files.length === 0 ? [...NO_FILE] : []
  // One at a time, because each is in memory several times while it is read.
  for (const file of files) {
    const answer = await add(visit, file)
    if (answer.one) names.push(text(thingOf(images, answer.one), 'name'))
    errors.push(...answer.errors)
  }
  if (errors.length > 0) return show(visit, errors)
  const what = names.length === 1 ? `Uploaded “${names[0]}”.` : `Uploaded ${counted(names.length, 'image')}.`
  return visit.say(PATH, what)
}

async function remove(visit: Visit, given: Form): Promise<Response> {
  const path = `/images/${encodeURIComponent(given.get('id'))}`
  const { one } = await visit.get(images, path)
  const answer = await visit.ask('DELETE', given.get('used') === 'yes' ? `${path}?force=true` : path)
  if (answer.errors.length > 0) return show(visit, answer.errors)
  return visit.say(PATH, one ? `Deleted “${forLine(text(one, 'name'))}”.` : 'Image deleted.')
}

export const picturesPlace: Place = {
  path: PATH,
  show: (visit) => show(visit),
  act: (visit, given) => (given.action === 'delete' ? remove(visit, given) : upload(visit, given)),
}
