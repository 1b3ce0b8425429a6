// The editor of a campaign's text: headings, text, pictures, links, buttons and merge tags. It opens only text that it
// can show and save without a change of meaning. Other HTML (tables, styles) is edited as source, so that none of it is
// lost.
import { Editor, Node } from '@tiptap/core'
import Image from '@tiptap/extension-image'
import StarterKit from '@tiptap/starter-kit'

const BUTTON =
  'display:inline-block;padding:12px 20px;border-radius:6px;background:#1f5fd6;color:#ffffff;text-decoration:none'

/** A link that looks like a button in every mail program. It is edited as a whole, by its words and its address. */
const ButtonLink = Node.create({
  name: 'buttonLink',
  group: 'block',
  atom: true,
  addAttributes: () => ({ href: { default: '' }, label: { default: '' } }),
  parseHTML: () => [
    {
      tag: 'p[data-button]',
      // Before the rule of paragraphs.
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
    ['a', { href: String(node.attrs['href']), style: BUTTON }, String(node.attrs['label'])],
  ],
})

/** Pictures come from other hosts, which the page's policy does not allow: this server fetches them. */
const ShownImage = Image.extend({
  addNodeView:
    () =>
    ({ node }) => {
      const dom = document.createElement('img')
      dom.src = `/picture/of?${new URLSearchParams({ u: String(node.attrs['src'] ?? '') }).toString()}`
      dom.alt = String(node.attrs['alt'] ?? '')
      return { dom }
    },
})

const plain = (html: string): string => {
  const box = document.createElement('template')
  box.innerHTML = html
  return box.innerHTML
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/> </g, '><')
    .replaceAll(/<p><\/p>/g, '')
    .trim()
}

type ToolbarAction = readonly [label: string, run: () => void, active?: () => boolean]

function editorIn(area: HTMLElement, source: HTMLTextAreaElement): Editor {
  const editor: Editor = new Editor({
    element: area,
    injectCSS: false,
    extensions: [
      StarterKit.configure({
        link: {
          openOnClick: false,
          // Words typed behind a link are not part of it.
          autolink: false,
          protocols: ['http', 'https', 'mailto', 'tel'],
          HTMLAttributes: { rel: null, target: null },
        },
      }),
      ShownImage,
      ButtonLink,
    ],
    content: source.value,
    editorProps: { attributes: { role: 'textbox', 'aria-multiline': 'true', 'aria-label': 'Text' } },
    onUpdate: () => (source.value = editor.getHTML()),
  })
  return editor
}

/** The actions of the toolbar's buttons. */
function actionsOf(editor: Editor): readonly ToolbarAction[] {
  const chain = () => editor.chain().focus()
  return [
    ['Bold', () => chain().toggleBold().run(), () => editor.isActive('bold')],
    ['Italic', () => chain().toggleItalic().run(), () => editor.isActive('italic')],
    ['Heading', () => chain().toggleHeading({ level: 2 }).run(), () => editor.isActive('heading')],
    ['List', () => chain().toggleBulletList().run(), () => editor.isActive('bulletList')],
    ['Quote', () => chain().toggleBlockquote().run(), () => editor.isActive('blockquote')],
    ['Link', () => askLink(editor), () => editor.isActive('link')],
    ['Button', () => askButton(editor), () => editor.isActive('buttonLink')],
    ['Picture', () => askPicture(editor)],
    ['Undo', () => chain().undo().run()],
  ]
}

/**
 * Asks for an address and completes it: an email address gets mailto:, an address without a scheme https://. Undefined
 * when nothing was given, or when the address can lead nowhere in a mail; '' when the person emptied it.
 */
function askAddress(question: string, given = 'https://'): string | undefined {
  const typed = prompt(question, given)?.trim()
  if (typed === undefined || typed === 'https://') return undefined
  if (typed === '' || typed.startsWith('{{') || /^(?:https?:\/\/|mailto:|tel:)/i.test(typed)) return typed
  if (/^[^\s@/:]+@[^\s@/:]+$/.test(typed)) return `mailto:${typed}`
  if (/^[^\s/:?#]+\.[^\s]+$/.test(typed)) return `https://${typed}`
  alert(`"${typed}" leads nowhere in a mail. Give an address such as https://example.org/news.`)
  return undefined
}

function askLink(editor: Editor): void {
  const had = editor.getAttributes('link')['href'] as string | undefined
  const href = askAddress('Where does the link lead? (An empty address removes it.)', had)
  if (href === undefined) return
  const chain = editor.chain().focus()
  if (href === '') chain.extendMarkRange('link').unsetLink().run()
  else if (had !== undefined) chain.extendMarkRange('link').setLink({ href }).run()
  else if (!editor.state.selection.empty) chain.setLink({ href }).run()
  else {
    // Without selected words, the link gets its own.
    const label = prompt('Which words are the link?', href.replace(/^mailto:|^https?:\/\//, ''))
    if (label) chain.insertContent([{ type: 'text', text: label, marks: [{ type: 'link', attrs: { href } }] }]).run()
  }
}

/** Inserts a block behind what is selected; the text goes on behind it. */
function insertBlock(editor: Editor, block: object): void {
  const { to } = editor.state.selection
  const size = editor.state.doc.content.size
  editor.chain().focus().insertContentAt(to, block).run()
  const { doc } = editor.state
  const behind = Math.min(to + doc.content.size - size, doc.content.size)
  if (doc.resolve(behind).parent.isTextblock) editor.commands.setTextSelection(behind)
  else editor.commands.insertContentAt(doc.content.size, { type: 'paragraph' })
}

function askButton(editor: Editor): void {
  const chosen = editor.isActive('buttonLink') ? editor.getAttributes('buttonLink') : undefined
  const href = askAddress('Where does the button lead?', chosen && String(chosen['href']))
  const label = href ? prompt('What stands on it?', chosen ? String(chosen['label']) : 'Read more') : null
  if (!label) editor.commands.focus()
  else if (chosen) editor.chain().focus().updateAttributes('buttonLink', { href, label }).run()
  else insertBlock(editor, { type: 'buttonLink', attrs: { href, label } })
}

function askPicture(editor: Editor): void {
  const src = askAddress('Address of the picture on the web')
  const alt = src ? prompt('What does it show? (text for people who cannot see it)', '') : null
  if (alt !== null) insertBlock(editor, { type: 'image', attrs: { src, alt } })
}

function addButtons(bar: HTMLElement, editor: Editor): void {
  const buttons = actionsOf(editor).map(([label, run, active]) => {
    const button = plainButton(label)
    button.addEventListener('click', run)
    bar.append(button)
    return () => active && button.setAttribute('aria-pressed', String(active()))
  })
  editor.on('transaction', () => buttons.forEach((show) => show()))
}

function plainButton(label: string): HTMLButtonElement {
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'plain small'
  button.textContent = label
  return button
}

function tagChoice(editor: Editor, names: readonly string[]): HTMLSelectElement {
  const tags = document.createElement('select')
  tags.setAttribute('aria-label', 'Insert a merge tag')
  tags.append(new Option('Merge tag…', ''), ...names.map((tag) => new Option(`{{${tag}}}`, tag)))
  tags.addEventListener('change', () => {
    if (tags.value !== '') editor.chain().focus().insertContent(`{{${tags.value}}}`).run()
    tags.value = ''
  })
  return tags
}

/** Whether the editor may open the source: it keeps all of it, or the person agrees to lose a part. */
function mayShow(editor: Editor, source: HTMLTextAreaElement): boolean {
  const typed = source.value
  editor.commands.setContent(typed, { emitUpdate: false })
  const may =
    plain(editor.getHTML()) === plain(typed) ||
    confirm(
      'The editor does not know all of this HTML; what it does not know is lost when you change something. Go on?',
    )
  source.value = typed
  return may
}

function start(box: HTMLElement): void {
  const source = document.getElementById(box.dataset['editor']!) as HTMLTextAreaElement
  const bar = document.createElement('div')
  const area = document.createElement('div')
  bar.className = 'toolbar'
  bar.setAttribute('role', 'toolbar')
  bar.setAttribute('aria-label', 'Format')
  area.className = 'area'
  box.append(bar, area)
  const editor = editorIn(area, source)
  addButtons(bar, editor)
  const toggle = plainButton('')
  // HTML that the editor would change is shown as source.
  let visual = plain(editor.getHTML()) === plain(source.value)
  const show = (): void => {
    area.hidden = !visual
    for (const each of bar.children) if (each !== toggle && each instanceof HTMLElement) each.hidden = !visual
    source.hidden = visual
    // The browser cannot ask the person to fill in a hidden field.
    source.required = !visual
    toggle.textContent = visual ? 'HTML source' : 'Editor'
  }
  toggle.addEventListener('click', () => {
    if (!visual && !mayShow(editor, source)) return
    visual = !visual
    show()
  })
  const names: string[] = JSON.parse(box.dataset['tags'] ?? '[]')
  bar.append(tagChoice(editor, names), toggle)
  show()
}

for (const box of document.querySelectorAll<HTMLElement>('[data-editor]')) start(box)
