// Stored images as a grid, and the form to which they are uploaded or dropped.
import { html } from 'hono/html'
import { icon } from './icons.ts'
import { field, form } from './forms.ts'
import type { Cell, Html } from './widgets.ts'
import type { Visit } from './visit.ts'

export interface GalleryPicture {
  /** Its path on this server. */
  path: string
  name: string
  width: number
  height: number
  /** The lines below its name. */
  facts: readonly Cell[]
  actions: Cell
}

/** A grid of images. `empty` names the next step if the grid is empty. */
export const gallery = (pictures: readonly GalleryPicture[], empty: Cell): Html =>
  pictures.length === 0
    ? html`<div class="empty" id="gallery">${empty}</div>`
    : html`<ul class="gallery" id="gallery">
        ${pictures.map(
          ({ actions, facts, height, name, path, width }) =>
            html`<li>
              <a class="shown" href="${path}" target="_blank" aria-label="Open ${name}"
                ><img src="${path}" alt="" width="${String(width)}" height="${String(height)}" loading="lazy"
              /></a>
              <p class="name" title="${name}">${name}</p>
              ${facts.map((fact) => html`<p class="soft">${fact}</p>`)}
              <div class="row">${actions}</div>
            </li>`,
        )}
      </ul>`

/** A form for files, which are uploaded one by one if scripts run (browser/uploads.ts). */
export const uploadForm = (
  visit: Visit,
  { accept, hint, label }: { label: string; hint: string; accept: string },
): Html =>
  html`<div class="dropzone" data-upload>
    ${icon('pictures')}
    ${form(
      visit,
      'upload',
      html`${field({ name: 'file', label, type: 'file', accept, hint, several: true, required: true })}<button>
          Upload
        </button>`,
      { multipart: true },
    )}
    <div role="status"></div>
  </div>`
