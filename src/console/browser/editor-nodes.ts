// The nodes of the editor's text in addition to words: buttons, images and placeholders for images. Emails have styles
// in their elements, which the page's policy forbids. Therefore each style is a meaningless attribute in the editor,
// and becomes a style only in the text that is saved.
import { Node, type Editor } from '@tiptap/core'
import Image from '@tiptap/extension-image'
import { buttonStyle } from '../../campaigns/designs.ts'

/** The name of a style's attribute inside the editor. */
const CSS = 'data-css'
/** The style with which an image fits on a phone. */
const FITS = 'max-width:100%;height:auto'
/** The maximum width of an image in pixels, which is the width of a design. */
const WIDEST = 544

/** The colour of buttons, from the form. */
export const look = { colour: '#1f5fd6' }

/** A link that looks like a button in every mail client. It is edited as a whole, by its text and its address. */
export const ButtonLink = Node.create({
  name: 'buttonLink',
  group: 'block',
  atom: true,
  addAttributes: () => ({ href: { default: '' }, label: { default: '' } }),
  parseHTML: () => [
    {
      tag: 'p[data-button]',
      // Higher than the rule of paragraphs.
      priority: 60,
      getAttrs: (element) => {
        const link = element.querySelector('a')
        return { href: link?.getAttribute('href') ?? '', label: link?.textContent ?? '' }
      },
    },
  ],
  renderHTML: ({ node }) => [
    'p',
    { 'data-button': '' },
    ['a', { href: String(node.attrs['href']), [CSS]: buttonStyle(look.colour) }, String(node.attrs['label'])],
  ],
  addNodeView:
    () =>
    ({ node }) => {
      const dom = document.createElement('p')
      dom.dataset['button'] = ''
      const face = document.createElement('span')
      face.className = 'mail-button'
      face.textContent = String(node.attrs['label'])
      face.title = String(node.attrs['href'])
      dom.append(face)
      return { dom }
    },
})

/**
 * The page's policy does not allow images from other hosts, so this server fetches them. If it cannot, it returns an
 * image that contains the reason.
 */
export const ShownImage = Image.extend({
  renderHTML: ({ HTMLAttributes }) => ['img', { ...HTMLAttributes, [CSS]: FITS }],
  addNodeView:
    () =>
    ({ node }) => {
      const dom = document.createElement('img')
      const src = String(node.attrs['src'] ?? '')
      dom.src = `/picture/of?${new URLSearchParams({ u: src, say: 'yes' }).toString()}`
      dom.alt = String(node.attrs['alt'] ?? '')
      for (const side of ['width', 'height'])
        if (/^\d{1,4}$/.test(String(node.attrs[side] ?? ''))) dom.setAttribute(side, String(node.attrs[side]))
      return { dom }
    },
})

/** The placeholder for an image that is not chosen yet. Mail clients do not show it. */
export const PicturePlace = Node.create<{ choose: (at: number) => void }>({
  name: 'picturePlace',
  group: 'block',
  atom: true,
  addOptions: () => ({ choose: () => undefined }),
  parseHTML: () => [{ tag: 'div[data-picture]' }],
  renderHTML: () => ['div', { 'data-picture': '' }],
  addNodeView() {
    const { choose } = this.options
    return ({ getPos }) => {
      const dom = document.createElement('button')
      dom.type = 'button'
      dom.className = 'place plain'
      dom.textContent = 'Choose an image'
      dom.addEventListener('click', () => choose(getPos() ?? 0))
      return { dom, stopEvent: (event) => event.type === 'click' || event.type === 'mousedown' }
    }
  },
})

/** The attributes of an image that fits into the text. */
export function fitting({ height, width }: { width?: number; height?: number }): { width?: number; height?: number } {
  if (!width || !height) return {}
  return width <= WIDEST ? { width, height } : { width: WIDEST, height: Math.round((height * WIDEST) / width) }
}

const inTags = (html: string, change: (tag: string) => string): string => html.replace(/<[a-z][^<>]*>/gi, change)

/** HTML whose styles and event handlers are meaningless attributes, because the browser would report each. */
export const inert = (html: string): string =>
  inTags(html, (tag) =>
    tag.replace(/([\s"'/])style(\s*=)/gi, `$1${CSS}$2`).replace(/([\s"'/])on[a-z]+(\s*=)/gi, '$1data-off$2'),
  )

/** The text of the editor in its saved form. */
export const htmlOf = (editor: Editor): string =>
  inTags(editor.getHTML(), (tag) => tag.replaceAll(` ${CSS}="`, ' style="'))

/** HTML in a form for comparison: without blanks, and without the styles that the editor adds. */
function plain(html: string): string {
  const { body } = new DOMParser().parseFromString(inert(html), 'text/html')
  for (const own of body.querySelectorAll('img, p[data-button] > a')) own.removeAttribute(CSS)
  return (
    body.innerHTML
      .replaceAll(/\s+/g, ' ')
      .replaceAll(/> </g, '><')
      // Blanks at the ends of a block are not displayed.
      .replaceAll(/ ?(<\/?(?:p|h[1-6]|li|ul|ol|blockquote|div|hr|img|br)\b[^<>]*>) ?/g, '$1')
      .replaceAll(/<p><\/p>/g, '')
      .trim()
  )
}

/** Whether the editor preserves some HTML, which it has just read. */
export const keeps = (editor: Editor, html: string): boolean => plain(editor.getHTML()) === plain(html)
