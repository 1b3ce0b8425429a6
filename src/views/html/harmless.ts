// Untrusted HTML, made harmless (D81): only allowed elements and attributes stay. Styles are removed, except those of
// elements in a user's own campaign. Remote images are removed too, unless the user requests them (pictures.ts). It
// runs in a worker thread (apart.ts), because its work grows with the untrusted input.
import sanitize from 'sanitize-html'
import { escapeHtml } from '../../message/template.ts'
import { isBeyondBounds } from '../../message/html-bounds.ts'

/** The maximum number of remote images in an email that are shown. */
export const MOST_PICTURES = 100

/** The maximum number of characters that are shown as HTML, because the work grows with the length. */
const MOST = 2 * 1024 * 1024

const TAGS = (
  'a abbr address article aside b bdi bdo big blockquote br caption center cite code col colgroup dd del div dl dt em figcaption figure font ' +
  'footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd li main mark nav ol p pre q s samp section small span strike strong sub sup table tbody ' +
  'td tfoot th thead time tr tt u ul var wbr'
).split(' ')

/** Links that an email may have. */
const ABSOLUTE = /^\s*(?:https?|mailto|tel):/i

/** Images contained in the email itself. */
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
    // A link in an email opens outside the frame, in a page without a reference to this one. A relative link would lead
    // into the console, because an email has no base URL.
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
  /** Returns the local path of a remote image. If it is absent, remote images are removed. */
  addressOf?: ((url: string) => string) | undefined
  /** Returns the class for a style. If it is absent, styles are removed. */
  classOf?: ((style: string) => string | undefined) | undefined
}

/** The reason why an email is shown as text. */
const AS_TEXT = 'The HTML of this email is too large or too deeply nested to render. Its source is shown instead.'

/** The source of a page as text, below the reason why it is not shown as HTML. */
export const asText = (html: string, why = AS_TEXT): string =>
  `<p>${why}</p><pre>${escapeHtml(html.slice(0, MOST))}</pre>`

/** Returns the sanitised HTML of an email, or its source as text if it exceeds the limits of the library. */
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

/** One declaration of a style attribute that loads no resource and stays within its rule. */
const DECLARATION =
  /^\s*[a-z-]{1,40}\s*:(?!.*(?:\/\*|(?:url|image|image-set|cross-fade|src|element|expression)\s*\())[^{}<>@\\;]{1,200}$/i
/** The maximum number of different styles in a campaign that are shown. */
const MOST_STYLES = 500

/**
 * Styles of elements as rules of a style sheet, because the policy allows no style attributes. `classOf` returns the
 * class of a style, or undefined for an empty one.
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
  /**
   * The prefix of each placeholder for an image, which the untrusted input cannot contain. Null: remote images are
   * removed.
   */
  pictures: string | null
  /** Whether styles of elements are shown, as for a user's own campaign. */
  styled: boolean
}

export interface HarmlessPage {
  body: string
  /** The rules of a style sheet. */
  styles: string
  /** The remote images, whose placeholders in the body are `pictures`, a hyphen and their index. */
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
