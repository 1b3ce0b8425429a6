// The editor of a campaign's text: headings, text, pictures, links, buttons and merge tags. It is there only for text
// that it can show and give back unchanged in meaning; other HTML (tables, styles) is edited as its source, so that
// nothing of it is lost.
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

function start(box: HTMLElement): void {
  const source = document.getElementById(box.dataset['editor']!) as HTMLTextAreaElement
  const bar = document.createElement('div')
  const area = document.createElement('div')
  bar.className = 'toolbar'
  bar.setAttribute('role', 'toolbar')
  bar.setAttribute('aria-label', 'Format')
  area.className = 'area'
  box.append(bar, area)
  const editor = new Editor({
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
  // What the editor would not give back stays source.
  const faithful = plain(editor.getHTML()) === plain(source.value)
  const ask = (question: string, before = ''): string | null => prompt(question, before)
  const chain = () => editor.chain().focus()
  const actions: [string, () => void, (() => boolean)?][] = [
    ['Bold', () => chain().toggleBold().run(), () => editor.isActive('bold')],
    ['Italic', () => chain().toggleItalic().run(), () => editor.isActive('italic')],
    ['Heading', () => chain().toggleHeading({ level: 2 }).run(), () => editor.isActive('heading')],
    ['List', () => chain().toggleBulletList().run(), () => editor.isActive('bulletList')],
    ['Quote', () => chain().toggleBlockquote().run(), () => editor.isActive('blockquote')],
    [
      'Link',
      () => {
        const href = ask('Where does the link lead?', String(editor.getAttributes('link')['href'] ?? 'https://'))
        if (href === '') chain().unsetLink().run()
        else if (href !== null) chain().setLink({ href }).run()
      },
      () => editor.isActive('link'),
    ],
    [
      'Button',
      () => {
        const href = ask('Where does the button lead?', 'https://')
        const label = href === null ? null : ask('What stands on it?', 'Read more')
        if (href && label)
          chain()
            .insertContent({ type: 'buttonLink', attrs: { href }, content: [{ type: 'text', text: label }] })
            .run()
      },
    ],
    [
      'Picture',
      () => {
        const src = ask('Address of the picture', 'https://')
        const alt = src === null ? null : ask('What does it show, for who cannot see it?')
        if (src && alt !== null) chain().setImage({ src, alt }).run()
      },
    ],
    ['Undo', () => chain().undo().run()],
  ]
  const buttons = actions.map(([label, run, active]) => {
    const button = document.createElement('button')
    button.type = 'button'
    button.className = 'plain small'
    button.textContent = label
    button.addEventListener('click', run)
    bar.append(button)
    return () => active && button.setAttribute('aria-pressed', String(active()))
  })
  editor.on('transaction', () => buttons.forEach((show) => show()))
  const tags = document.createElement('select')
  tags.setAttribute('aria-label', 'Insert a merge tag')
  tags.append(
    new Option('Merge tag…', ''),
    ...(JSON.parse(box.dataset['tags'] ?? '[]') as string[]).map((tag) => new Option(`{{${tag}}}`, tag)),
  )
  tags.addEventListener('change', () => {
    if (tags.value !== '') chain().insertContent(`{{${tags.value}}}`).run()
    tags.value = ''
  })
  const toggle = document.createElement('button')
  toggle.type = 'button'
  toggle.className = 'plain small'
  let visual = faithful
  const show = (): void => {
    area.hidden = !visual
    for (const each of bar.children) if (each !== toggle) (each as HTMLElement).hidden = !visual
    source.hidden = visual
    // A hidden field cannot be asked to be filled in.
    source.required = !visual
    toggle.textContent = visual ? 'HTML source' : 'Editor'
  }
  toggle.addEventListener('click', () => {
    if (!visual) {
      editor.commands.setContent(source.value)
      if (
        plain(editor.getHTML()) !== plain(source.value) &&
        !confirm(
          'The editor does not know all of this HTML; what it does not know is lost when you change something. Go on?',
        )
      )
        return
    }
    visual = !visual
    show()
  })
  bar.append(tags, toggle)
  show()
}

for (const box of document.querySelectorAll<HTMLElement>('[data-editor]')) start(box)
