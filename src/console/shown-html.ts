// HTML from strangers, made harmless (D81). The server keeps only allowed elements and attributes; the browser shows
// them in a sandboxed frame whose policy loads nothing. Styles are removed, except those of elements in a person's own
// campaign. Remote pictures are removed too, unless a person asks for them (pictures.ts).
import { randomBytes } from 'node:crypto'
import type { Context } from 'hono'
import sanitize from 'sanitize-html'
import { isBeyondBounds } from '../message/html-bounds.ts'
import { escapeHtml } from '../message/template.ts'
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

interface Allowed {
  /** The local path of a remote picture; without it remote pictures are removed. */
  addressOf?: ((url: string) => string) | undefined
  /** The class for a style; without it styles are removed. */
  classOf?: ((style: string) => string | undefined) | undefined
}

/** Why a page is shown as text. */
const AS_TEXT =
  'This mail has more tags, or more of them in each other, than the console shows as a page; this is its source.'

/** The harmless form of a mail's HTML; its source as text where it has more tags than the library is given. */
export function harmless(html: string, { addressOf, classOf }: Allowed = {}): string {
  const text = html.slice(0, MOST)
  if (isBeyondBounds(text)) return `<p>${AS_TEXT}</p><pre>${escapeHtml(text)}</pre>`
  const options = classOf ? withClasses(OPTIONS, classOf) : OPTIONS
  if (!addressOf) return sanitize(text, options)
  let left = MOST_PICTURES
  const img: sanitize.Transformer = (tagName, attribs) => {
    const src = attribs['src'] ?? ''
    if (OWN.test(src)) return { tagName, attribs }
    const remote = /^https?:\/\//i.test(src) && URL.canParse(src) && left-- > 0
    return { tagName, attribs: { ...attribs, src: remote ? addressOf(src) : '' } }
  }
  return sanitize(text, {
    ...options,
    transformTags: { ...options.transformTags, img },
    exclusiveFilter: ({ attribs, tag }) => tag === 'img' && (attribs['src'] ?? '') === '',
  })
}

/** One declaration of a style attribute that loads nothing and stays within its rule. */
const DECLARATION = /^\s*[a-z-]{1,40}\s*:(?!.*(?:\/\*|(?:url|image|src|element|expression)\s*\())[^{}<>@\\;]{1,200}$/i
/** The most different styles of a campaign that are shown. */
const MOST_STYLES = 500

/**
 * Styles of elements as rules of a style sheet, because the policy allows no style attributes. `classOf` gives the
 * class of a style; undefined for an empty one.
 */
function styleSheet(): { classOf: (style: string) => string | undefined; rules: () => string } {
  const classes = new Map<string, string>()
  return {
    classOf(style) {
      const kept = style
        .split(';')
        .filter((each) => DECLARATION.test(each))
        .join(';')
      if (kept === '' || (!classes.has(kept) && classes.size >= MOST_STYLES)) return undefined
      if (!classes.has(kept)) classes.set(kept, `s${classes.size}`)
      return classes.get(kept)
    },
    rules: () => Array.from(classes, ([style, name]) => `.${name}{${style}}`).join('\n'),
  }
}

const framePolicy = (images: string, styles: string): string =>
  `default-src 'none'; img-src ${images}; style-src ${styles}; form-action 'none'; frame-ancestors 'self'; base-uri 'none'; sandbox allow-popups allow-popups-to-escape-sandbox`

/** Options that replace the style of an element by a class. */
function withClasses(options: sanitize.IOptions, classOf: (style: string) => string | undefined): sanitize.IOptions {
  const allowed = options.allowedAttributes as Record<string, string[]>
  return {
    ...options,
    allowedAttributes: { ...allowed, '*': [...allowed['*']!, 'class'] },
    transformTags: {
      ...options.transformTags,
      '*': (tagName, attribs) => {
        const name = attribs['style'] === undefined ? undefined : classOf(attribs['style'])
        const others = Object.entries(attribs).filter(([each]) => each !== 'class' && each !== 'style')
        return { tagName, attribs: { ...Object.fromEntries(others), ...(name === undefined ? {} : { class: name }) } }
      },
    },
  }
}

export interface Framing {
  /** As for `harmless`. */
  addressOf?: ((url: string) => string) | undefined
  /** Whether styles of elements are shown: for a person's own campaign. */
  styled?: true
}

/** Answers a document for a sandboxed frame. */
export function framed(
  context: Context,
  html: string,
  { addressOf, styled }: Framing = {},
): Response | Promise<Response> {
  const nonce = randomBytes(16).toString('base64')
  const sheet = styled && styleSheet()
  const body = harmless(html, { addressOf, classOf: sheet?.classOf })
  const styles = sheet ? `<style nonce="${nonce}">${sheet.rules()}</style>` : ''
  guard(context, framePolicy(addressOf ? "data: 'self'" : 'data:', sheet ? `'self' 'nonce-${nonce}'` : "'self'"))
  context.header('X-Frame-Options', 'SAMEORIGIN')
  return context.html(
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Message</title><link rel="stylesheet" href="/assets/frame.css">${styles}</head><body>${body}</body></html>`,
  )
}
