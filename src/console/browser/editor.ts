// The editor of a campaign's text: headings, text, pictures, links, buttons and merge tags. It opens only text that it
// can show and save without a change of meaning. Other HTML (tables, styles) is edited as source, so that none of it is
// lost.
import { Editor, Node, mergeAttributes } from '@tiptap/core'
import Image from '@tiptap/extension-image'
import StarterKit from '@tiptap/starter-kit'

const BUTTON =
  'display:inline-block;padding:12px 20px;border-radius:6px;background:#1f5fd6;color:#ffffff;text-decoration:none'

/** A link that looks like a button in every mail program. */
const ButtonLink = Node.create({
  name: 'buttonLink',
  group: 'block',
  content: 'text*',
  marks: '',
  addAttributes: () => ({ href: { default: '' } }),
  parseHTML: () => [
    {
      tag: 'p[data-button]',
      getAttrs: (element) => ({ href: element.querySelector('a')?.getAttribute('href') ?? '' }),
      contentElement: 'a',
    },
  ],
  renderHTML: ({ HTMLAttributes, node }) => [
    'p',
    { 'data-button': '' },
    ['a', mergeAttributes({ href: String(node.attrs['href']), style: BUTTON }, HTMLAttributes), 0],
  ],
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

type Action = readonly [label: string, run: () => void, active?: () => boolean]

function editorIn(area: HTMLElement, source: HTMLTextAreaElement): Editor {
  const editor: Editor = new Editor({
    element: area,
    injectCSS: false,
    extensions: [
      StarterKit.configure({
        link: {
          openOnClick: false,
          protocols: ['http', 'https', 'mailto', 'tel'],
          HTMLAttributes: { rel: null, target: null },
        },
      }),
      Image,
      ButtonLink,
    ],
    content: source.value,
    editorProps: { attributes: { role: 'textbox', 'aria-multiline': 'true', 'aria-label': 'Text' } },
    onUpdate: () => (source.value = editor.getHTML()),
  })
  return editor
}

/** The actions of the toolbar's buttons. */
function actionsOf(editor: Editor): readonly Action[] {
  const chain = () => editor.chain().focus()
  return [
    ['Bold', () => chain().toggleBold().run(), () => editor.isActive('bold')],
    ['Italic', () => chain().toggleItalic().run(), () => editor.isActive('italic')],
    ['Heading', () => chain().toggleHeading({ level: 2 }).run(), () => editor.isActive('heading')],
    ['List', () => chain().toggleBulletList().run(), () => editor.isActive('bulletList')],
    ['Quote', () => chain().toggleBlockquote().run(), () => editor.isActive('blockquote')],
    ['Link', () => askLink(editor), () => editor.isActive('link')],
    ['Button', () => askButton(editor)],
    ['Picture', () => askPicture(editor)],
    ['Undo', () => chain().undo().run()],
  ]
}

function askLink(editor: Editor): void {
  const href = prompt('Where does the link lead?', String(editor.getAttributes('link')['href'] ?? 'https://'))
  if (href === '') editor.chain().focus().unsetLink().run()
  else if (href !== null) editor.chain().focus().setLink({ href }).run()
}

function askButton(editor: Editor): void {
  const href = prompt('Where does the button lead?', 'https://')
  const label = href === null ? null : prompt('What stands on it?', 'Read more')
  if (href && label)
    editor
      .chain()
      .focus()
      .insertContent({ type: 'buttonLink', attrs: { href }, content: [{ type: 'text', text: label }] })
      .run()
}

function askPicture(editor: Editor): void {
  const src = prompt('Address of the picture', 'https://')
  const alt = src === null ? null : prompt('What does it show? (text for people who cannot see it)', '')
  if (src && alt !== null) editor.chain().focus().setImage({ src, alt }).run()
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
  editor.commands.setContent(source.value)
  return (
    plain(editor.getHTML()) === plain(source.value) ||
    confirm(
      'The editor does not know all of this HTML; what it does not know is lost when you change something. Go on?',
    )
  )
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
