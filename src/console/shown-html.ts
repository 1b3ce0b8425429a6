// HTML from strangers, made harmless (D81). The server keeps only allowed elements and attributes; the browser shows
// them in a sandboxed frame whose policy loads nothing. Styles are removed. Remote pictures are removed too, unless a
// person asks for them (pictures.ts).
import type { Context } from 'hono'
import sanitize from 'sanitize-html'
import { guard } from './frame.ts'
import { MOST_PICTURES } from './pictures.ts'

/** The most characters that are shown as HTML: the work grows with the length. */
const MOST = 2 * 1024 * 1024

const TAGS = (
  'a abbr address article aside b bdi bdo big blockquote br caption center cite code col colgroup dd del div dl dt em figcaption figure font ' +
  'footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd li main mark nav ol p pre q s samp section small span strike strong sub sup table tbody ' +
  'td tfoot th thead time tr tt u ul var wbr'
).split(' ')

/** Pictures contained in the mail itself. */
const OWN = /^data:image\/(?:png|jpeg|gif|webp);base64,/i

const OPTIONS: sanitize.IOptions = {
  allowedTags: TAGS,
  allowedAttributes: {
    '*': ['align', 'dir', 'lang', 'title', 'valign', 'bgcolor', 'width', 'height'],
    a: ['href'],
    img: ['src', 'alt', 'width', 'height'],
    font: ['color', 'size', 'face'],
    table: ['border', 'cellpadding', 'cellspacing'],
    td: ['colspan', 'rowspan'],
    th: ['colspan', 'rowspan', 'scope'],
    ol: ['start', 'type'],
  },
  allowedSchemes: ['http', 'https', 'mailto', 'tel'],
  allowedSchemesByTag: { img: ['data'] },
  allowedSchemesAppliedToAttributes: ['href', 'src'],
  allowProtocolRelative: false,
  disallowedTagsMode: 'discard',
  nestingLimit: 100,
  transformTags: {
    // A link in a mail opens outside the frame, in a page without a reference to this one.
    a: sanitize.simpleTransform('a', { rel: 'noopener noreferrer nofollow', target: '_blank' }),
  },
  exclusiveFilter: ({ attribs, tag }) => tag === 'img' && !OWN.test(attribs['src'] ?? ''),
}
OPTIONS.allowedAttributes = { ...(OPTIONS.allowedAttributes as Record<string, string[]>), a: ['href', 'rel', 'target'] }

/**
 * The harmless form of a mail's HTML. `addressOf` gives the local path of a remote picture; without it remote pictures
 * are removed.
 */
export function harmless(html: string, addressOf?: (url: string) => string): string {
  const text = html.slice(0, MOST)
  if (!addressOf) return sanitize(text, OPTIONS)
  let left = MOST_PICTURES
  const img: sanitize.Transformer = (tagName, attribs) => {
    const src = attribs['src'] ?? ''
    if (OWN.test(src)) return { tagName, attribs }
    const remote = /^https?:\/\//i.test(src) && URL.canParse(src) && left-- > 0
    return { tagName, attribs: { ...attribs, src: remote ? addressOf(src) : '' } }
  }
  return sanitize(text, {
    ...OPTIONS,
    transformTags: { ...OPTIONS.transformTags, img },
    exclusiveFilter: ({ attribs, tag }) => tag === 'img' && (attribs['src'] ?? '') === '',
  })
}

const framePolicy = (images: string): string =>
  `default-src 'none'; img-src ${images}; style-src 'self'; form-action 'none'; frame-ancestors 'self'; base-uri 'none'; sandbox allow-popups allow-popups-to-escape-sandbox`

/** Answers a document for a sandboxed frame. */
export function framed(
  context: Context,
  html: string,
  addressOf?: (url: string) => string,
): Response | Promise<Response> {
  guard(context, framePolicy(addressOf ? "data: 'self'" : 'data:'))
  context.header('X-Frame-Options', 'SAMEORIGIN')
  return context.html(
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Message</title><link rel="stylesheet" href="/assets/frame.css"></head><body>${harmless(html, addressOf)}</body></html>`,
  )
}
