// The document for a sandboxed frame that shows untrusted HTML (D81): made harmless in a worker thread (apart.ts), and
// shown under a policy that loads no resources.
import { randomBytes } from 'node:crypto'
import type { Context } from 'hono'
import { pageApart, type RenderSource } from './apart.ts'
import { assetPath } from './assets.ts'
import { guard } from './frame.ts'
import type { Html } from './widgets.ts'

const framePolicy = (images: string, styles: string, sandbox: string): string =>
  `default-src 'none'; img-src ${images}; style-src ${styles}; form-action 'none'; frame-ancestors 'self'; base-uri 'none'; sandbox ${sandbox}`

/**
 * The permissions of the document. In a frame of a page it has the page's origin, so that the page can measure its
 * height, and no scripts, popups or forms. In a window, it has an origin of its own, and its links open (D146).
 */
const sandboxOf = (context: Context): string =>
  context.req.header('sec-fetch-dest') === 'iframe'
    ? 'allow-same-origin'
    : 'allow-popups allow-popups-to-escape-sandbox'

export interface Framing {
  /** Returns the local path of a remote image. If it is absent, remote images are removed. */
  addressOf?: ((url: string) => string) | undefined
  /** Whether styles of elements are shown, as for a user's own campaign. */
  styled?: true
  /** Classes of the document (console/browser/frame.css). */
  look?: string
  /** The content above the email. */
  above?: Html
}

/** Responds with a document for a sandboxed frame. */
export async function framed(
  context: Context,
  source: RenderSource,
  { above, addressOf, look = '', styled }: Framing = {},
): Promise<Response> {
  const nonce = randomBytes(16).toString('base64')
  const place = randomBytes(16).toString('hex')
  const page = await pageApart(source, { pictures: addressOf ? place : null, styled: styled === true })
  const body = addressOf
    ? page.body.replace(new RegExp(`${place}-(\\d+)`, 'g'), (_, at) =>
        addressOf(page.urls[Number(at)]!).replaceAll('&', '&amp;'),
      )
    : page.body
  const styles = styled ? `<style nonce="${nonce}">${page.styles}</style>` : ''
  const [images, sheets] = [addressOf ? "data: 'self'" : 'data:', styled ? `'self' 'nonce-${nonce}'` : "'self'"]
  guard(context, framePolicy(images, sheets, sandboxOf(context)))
  context.header('X-Frame-Options', 'SAMEORIGIN')
  return context.html(
    `<!doctype html><html lang="en" class="${look}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Message</title><link rel="stylesheet" href="${assetPath('frame.css')}">${styles}</head><body>${above ? await above : ''}<div class="mail">${body}</div></body></html>`,
  )
}
