// Images of the editor: chosen from those that are stored here, uploaded from a file, dropped, pasted, or linked by
// their web address. The form has a field for the alternative text.
import type { Editor } from '@tiptap/core'
import { fitting } from './editor-nodes.ts'
import { addressIn, fieldOf, insertBlock, popover, type Popover } from './editor-popovers.ts'

interface StoredPicture {
  url: string
  path?: string
  name?: string
  width?: number
  height?: number
}

const PLACE = '/pictures'
const FAILED = 'The upload failed. Try again, or enter the URL of an image.'
/** The errors for answers that are not JSON. */
const BY_STATUS: Readonly<Record<number, string>> = {
  401: 'Your session has expired. Sign in again in another tab, then retry.',
  403: 'This page was open for too long. Reload it and try again.',
  404: 'This server does not store images. Enter the URL of an image.',
  413: 'The image is larger than 8 MB.',
  507: 'This server has no space left for images. Enter the URL of an image.',
}

const isJson = (response: Response): boolean =>
  (response.headers.get('content-type') ?? '').startsWith('application/json')

/** Returns the images that are stored here, or an empty list if the request fails. */
async function stored(): Promise<StoredPicture[]> {
  try {
    const response = await fetch(PLACE, { headers: { accept: 'application/json' } })
    const body: unknown = response.ok && isJson(response) ? await response.json() : {}
    return (body as { pictures?: StoredPicture[] }).pictures ?? []
  } catch {
    return []
  }
}

/** Uploads a file. Throws an error with a sentence for the user. */
async function upload(file: File): Promise<StoredPicture> {
  const data = new FormData()
  data.set('proof', document.querySelector<HTMLInputElement>('input[name=proof]')?.value ?? '')
  data.set('action', 'upload')
  data.set('file', file)
  const response = await fetch(PLACE, { method: 'POST', headers: { accept: 'application/json' }, body: data }).catch(
    () => undefined,
  )
  if (!response) throw new Error('No connection to the server. The image was not uploaded.')
  if (!isJson(response)) throw new Error(BY_STATUS[response.status] ?? FAILED)
  const body = (await response.json()) as StoredPicture & { errors?: string[] }
  if (!response.ok) throw new Error(body.errors?.join(' ') || BY_STATUS[response.status] || FAILED)
  return body
}

/**
 * The images of any type among files that were pasted or dropped. The server rejects unsupported types with a reason.
 */
export const picturesIn = (data: DataTransfer | null): File[] =>
  Array.from(data?.files ?? []).filter(({ type }) => type.startsWith('image/'))

/** The parts of the form that change if an image is chosen. */
class PictureChoice {
  readonly address = fieldOf('Or enter its URL', '', { placeholder: 'https://example.org/image.png' })
  readonly alt = fieldOf('Alternative text (describes the image to screen readers)', '')
  readonly grid = document.createElement('div')
  readonly said = document.createElement('p')
  readonly upload = document.createElement('label')
  chosen: StoredPicture | undefined

  constructor() {
    this.grid.className = 'pictures'
    this.said.className = 'soft'
    this.said.setAttribute('role', 'status')
    const file = document.createElement('input')
    Object.assign(file, { type: 'file', accept: 'image/png,image/jpeg,image/gif,image/webp', className: 'hidden' })
    this.upload.className = 'drop'
    this.upload.append('Choose a file, or drop it here', file)
    file.addEventListener('change', () => {
      for (const each of file.files ?? []) void this.take(each)
    })
    this.upload.addEventListener('dragover', (event) => event.preventDefault())
    this.upload.addEventListener('drop', (event) => {
      event.preventDefault()
      for (const each of event.dataTransfer?.files ?? []) void this.take(each)
    })
    this.address.input.addEventListener('input', () => this.choose(undefined))
  }

  async list(): Promise<void> {
    for (const each of await stored()) this.grid.append(this.#tile(each))
  }

  #tile(picture: StoredPicture): HTMLElement {
    const tile = document.createElement('button')
    tile.type = 'button'
    tile.title = picture.name ?? ''
    const image = document.createElement('img')
    Object.assign(image, { src: picture.path ?? picture.url, alt: picture.name ?? 'Image', loading: 'lazy' })
    tile.append(image)
    tile.addEventListener('click', () => this.choose(picture, tile))
    return tile
  }

  choose(picture: StoredPicture | undefined, tile?: HTMLElement): void {
    this.chosen = picture
    for (const each of this.grid.children) each.setAttribute('aria-pressed', String(each === tile))
    if (!picture) return
    this.address.input.value = ''
    this.said.textContent = `Selected: ${picture.name ?? picture.url}`
    this.alt.input.focus()
  }

  async take(file: File): Promise<void> {
    this.said.textContent = `Uploading ${file.name} …`
    this.said.className = 'soft'
    try {
      const picture = await upload(file)
      const tile = this.#tile(picture)
      this.grid.prepend(tile)
      this.choose(picture, tile)
    } catch (fault) {
      this.said.textContent = fault instanceof Error ? fault.message : FAILED
      this.said.className = 'bad'
    }
  }
}

/**
 * Shows the form for an image and inserts it. `replace` is the position of the image or placeholder that it replaces,
 * `files` are the pasted or dropped files.
 */
export function askPicture(
  editor: Editor,
  { files = [], replace }: { files?: File[]; replace?: number } = {},
): Popover {
  const had = editor.isActive('image') ? editor.getAttributes('image') : undefined
  const choice = new PictureChoice()
  if (had) {
    choice.address.input.value = String(had['src'] ?? '')
    choice.alt.input.value = String(had['alt'] ?? '')
  }
  const decoration = document.createElement('label')
  decoration.className = 'check'
  const box = Object.assign(document.createElement('input'), { type: 'checkbox', checked: had?.['alt'] === '' })
  decoration.append(box, ' Decorative image')
  const body = [choice.upload, choice.grid, choice.said, choice.address.row, choice.alt.row, decoration]
  const opened = popover(editor, 'Image', body, {
    large: true,
    yes: had ? 'Change image' : 'Add image',
    done() {
      const src = choice.chosen?.url ?? addressIn(choice.address)
      const alt = choice.alt.input.value.trim()
      if (src === undefined) return false
      if (!/^https?:/i.test(src)) return (choice.address.fault('Choose an image or enter its URL.'), false)
      if (alt === '' && !box.checked)
        return (choice.alt.fault('Enter alternative text, or mark the image as decorative.'), false)
      const size = choice.chosen ? fitting(choice.chosen) : had?.['src'] === src ? {} : { width: null, height: null }
      const attrs = { ...size, src, alt: box.checked ? '' : alt }
      if (had) editor.chain().focus().updateAttributes('image', attrs).run()
      else if (replace === undefined) insertBlock(editor, { type: 'image', attrs })
      else
        editor
          .chain()
          .focus()
          .insertContentAt({ from: replace, to: replace + 1 }, { type: 'image', attrs })
          .run()
      return true
    },
  })
  void choice.list()
  for (const file of files.slice(0, 1)) void choice.take(file)
  return opened
}
