// HTML from strangers, made harmless (D81): only allowed elements and attributes stay. Styles are removed, except those
// of elements in a person's own campaign. Remote pictures are removed too, unless a person asks for them (pictures.ts).
// It runs in a worker thread (apart.ts), because its work grows with what a stranger wrote.
import sanitize from 'sanitize-html'
import { isBeyondBounds } from '../message/html-bounds.ts'
import { escapeHtml } from '../message/template.ts'

/** The most remote pictures of a mail that are shown. */
export const MOST_PICTURES = 100

/** The most characters that are shown as HTML: the work grows with the length. */
const MOST = 2 * 1024 * 1024

const TAGS = (
  'a abbr address article aside b bdi bdo big blockquote br caption center cite code col colgroup dd del div dl dt em figcaption figure font ' +
  'footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd li main mark nav ol p pre q s samp section small span strike strong sub sup table tbody ' +
  'td tfoot th thead time tr tt u ul var wbr'
).split(' ')

/** Links that a mail may have. */
const ABSOLUTE = /^\s*(?:https?|mailto|tel):/i

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
    // A relative one would lead into the console itself, for a mail has no address of its own.
    a: (tagName, { href, ...attribs }) => ({
      tagName,
      attribs: {
        ...attribs,
        ...(href !== undefined && ABSOLUTE.test(href) ? { href } : {}),
        rel: 'noopener noreferrer nofollow',
        target: '_blank',
      },
    }),
  },
  exclusiveFilter: ({ attribs, tag }) => tag === 'img' && !OWN.test(attribs['src'] ?? ''),
}
OPTIONS.allowedAttributes = { ...(OPTIONS.allowedAttributes as Record<string, string[]>), a: ['href', 'rel', 'target'] }

export interface HarmlessOptions {
  /** The local path of a remote picture; without it remote pictures are removed. */
  addressOf?: ((url: string) => string) | undefined
  /** The class for a style; without it styles are removed. */
  classOf?: ((style: string) => string | undefined) | undefined
}

/** Why a page is shown as text. */
const AS_TEXT =
  'This mail has more tags, or more of them in each other, than the console shows as a page; this is its source.'

/** The source of a page, as text, below the reason why it is not shown as a page. */
export const asText = (html: string, why = AS_TEXT): string =>
  `<p>${why}</p><pre>${escapeHtml(html.slice(0, MOST))}</pre>`

/** The harmless form of a mail's HTML; its source as text where it has more tags than the library is given. */
export function harmless(html: string, { addressOf, classOf }: HarmlessOptions = {}): string {
  const text = html.slice(0, MOST)
  if (isBeyondBounds(text)) return asText(text)
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
const DECLARATION =
  /^\s*[a-z-]{1,40}\s*:(?!.*(?:\/\*|(?:url|image|image-set|cross-fade|src|element|expression)\s*\())[^{}<>@\\;]{1,200}$/i
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

export interface PageJob {
  html: string
  /** Begins each place of a picture; null: remote pictures are removed. Nobody can have written it before. */
  pictures: string | null
  /** Whether styles of elements are shown: for a person's own campaign. */
  styled: boolean
}

export interface HarmlessPage {
  body: string
  /** The rules of a style sheet. */
  styles: string
  /** The remote pictures, whose places in the body are `pictures`, a hyphen and their index. */
  urls: string[]
}

/** The parts of the document that shows a page. */
export function harmlessPage({ html, pictures, styled }: PageJob): HarmlessPage {
  const sheet = styled ? styleSheet() : undefined
  const urls: string[] = []
  const addressOf = pictures === null ? undefined : (url: string) => `${pictures}-${urls.push(url) - 1}`
  const body = harmless(html, { addressOf, classOf: sheet?.classOf })
  return { body, styles: sheet?.rules() ?? '', urls }
}
