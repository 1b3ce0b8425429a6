// The toolbar of the editor: icons with names, their keys, and whether each format applies at the cursor.
import type { Editor } from '@tiptap/core'
import { askPicture } from './editor-pictures.ts'
import { askButton, askLink, askTag } from './editor-popovers.ts'

const SVG = 'http://www.w3.org/2000/svg'

export interface Tool {
  name: string
  icon: string
  /**
   * The keys, as the user reads them. The editor handles them, except those with `press`, which matches their event.
   */
  keys?: string
  press?: (event: KeyboardEvent) => boolean
  run: (editor: Editor) => void
  active?: (editor: Editor) => boolean
  /** Whether it can be used now. */
  can?: (editor: Editor) => boolean
}

const withKey =
  (key: string, shift = false) =>
  (event: KeyboardEvent) =>
    (event.ctrlKey || event.metaKey) && !event.altKey && event.shiftKey === shift && event.key.toLowerCase() === key

/** The tools, in groups. */
const TOOLS: readonly (readonly Tool[])[] = [
  [
    {
      name: 'Bold',
      icon: 'M5 3h4a2.5 2.5 0 0 1 0 5H5zM5 8h4.6a2.6 2.6 0 0 1 0 5.2H5z',
      keys: 'Ctrl+B',
      run: (editor) => editor.chain().focus().toggleBold().run(),
      active: (editor) => editor.isActive('bold'),
    },
    {
      name: 'Italic',
      icon: 'M7 3h5M4 13h5M9.5 3l-3 10',
      keys: 'Ctrl+I',
      run: (editor) => editor.chain().focus().toggleItalic().run(),
      active: (editor) => editor.isActive('italic'),
    },
    {
      name: 'Link',
      icon: 'M6.8 9.2a2.6 2.6 0 0 0 3.8 0l2.2-2.3a2.7 2.7 0 0 0-3.8-3.8l-.9.9M9.2 6.8a2.6 2.6 0 0 0-3.8 0L3.2 9.1A2.7 2.7 0 0 0 7 12.9l.9-.9',
      keys: 'Ctrl+K',
      press: withKey('k'),
      run: askLink,
      active: (editor) => editor.isActive('link'),
    },
  ],
  [
    {
      name: 'Heading',
      icon: 'M3 3v10M9 3v10M3 8h6M12 6.5l1.5-1V13',
      keys: 'Ctrl+Alt+1',
      run: (editor) => editor.chain().focus().toggleHeading({ level: 1 }).run(),
      active: (editor) => editor.isActive('heading', { level: 1 }),
    },
    {
      name: 'Smaller heading',
      icon: 'M2.5 3v10M8 3v10M2.5 8H8M10.8 8.2c.3-1.6 3.2-1.6 3.2.2 0 1.6-3.2 2.4-3.2 4.6H14',
      keys: 'Ctrl+Alt+2',
      run: (editor) => editor.chain().focus().toggleHeading({ level: 2 }).run(),
      active: (editor) => editor.isActive('heading', { level: 2 }),
    },
    {
      name: 'List',
      icon: 'M6.5 4H14M6.5 8H14M6.5 12H14M2.6 4h.1M2.6 8h.1M2.6 12h.1',
      keys: 'Ctrl+Shift+8',
      run: (editor) => editor.chain().focus().toggleBulletList().run(),
      active: (editor) => editor.isActive('bulletList'),
    },
    {
      name: 'Quote',
      icon: 'M3 3v10M6.5 5H14M6.5 8H14M6.5 11H11',
      keys: 'Ctrl+Shift+B',
      run: (editor) => editor.chain().focus().toggleBlockquote().run(),
      active: (editor) => editor.isActive('blockquote'),
    },
  ],
  [
    {
      name: 'Button',
      icon: 'M2 5h12v6H2zM5 8h6',
      run: askButton,
      active: (editor) => editor.isActive('buttonLink'),
    },
    {
      name: 'Image',
      icon: 'M2 3h12v10H2zM2 11l3.5-3.5 3 3L11 8l3 3M5.5 6h.1',
      run: (editor) => void askPicture(editor),
      active: (editor) => editor.isActive('image'),
    },
    {
      name: 'Divider',
      icon: 'M2 8h12M5 4h6M5 12h6',
      run: (editor) => editor.chain().focus().setHorizontalRule().run(),
    },
    {
      name: 'Merge tag',
      icon: 'M6 3C4 3 4.5 5 4.5 6.3S3 8 3 8s1.5.4 1.5 1.7S4 13 6 13M10 3c2 0 1.5 2 1.5 3.3S13 8 13 8s-1.5.4-1.5 1.7S12 13 10 13',
      run: askTag,
    },
  ],
  [
    {
      name: 'Undo',
      icon: 'M5.5 3.5L2.5 6.5l3 3M2.5 6.5H9a3.5 3.5 0 0 1 0 7H6',
      keys: 'Ctrl+Z',
      run: (editor) => editor.chain().focus().undo().run(),
      can: (editor) => editor.can().undo(),
    },
    {
      name: 'Redo',
      icon: 'M10.5 3.5l3 3-3 3M13.5 6.5H7a3.5 3.5 0 0 0 0 7h3',
      keys: 'Ctrl+Shift+Z',
      run: (editor) => editor.chain().focus().redo().run(),
      can: (editor) => editor.can().redo(),
    },
  ],
]

function iconOf(path: string): SVGElement {
  const svg = document.createElementNS(SVG, 'svg')
  const look = { width: '16', height: '16', viewBox: '0 0 16 16', fill: 'none', stroke: 'currentColor' }
  const strokes = {
    'stroke-width': '1.5',
    'stroke-linecap': 'round',
    'stroke-linejoin': 'round',
    'aria-hidden': 'true',
  }
  for (const [name, value] of Object.entries({ ...look, ...strokes })) svg.setAttribute(name, value)
  const line = document.createElementNS(SVG, 'path')
  line.setAttribute('d', path)
  svg.append(line)
  return svg
}

export function toolButton({ icon, keys, name }: Pick<Tool, 'icon' | 'keys' | 'name'>): HTMLButtonElement {
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'tool'
  button.setAttribute('aria-label', name)
  button.title = keys ? `${name} (${keys})` : name
  button.append(iconOf(icon))
  return button
}

export const SOURCE = { name: 'HTML source', icon: 'M5.5 4.5L2 8l3.5 3.5M10.5 4.5L14 8l-3.5 3.5' }

/** Fills the toolbar. Returns the listener for keys that the editor does not handle. */
export function addTools(bar: HTMLElement, editor: Editor): (event: KeyboardEvent) => boolean {
  const shown: (() => void)[] = []
  for (const group of TOOLS) {
    const box = document.createElement('span')
    box.className = 'group'
    for (const tool of group) {
      const button = toolButton(tool)
      button.addEventListener('click', () => tool.run(editor))
      shown.push(() => {
        if (tool.active) button.setAttribute('aria-pressed', String(tool.active(editor)))
        if (tool.can) button.setAttribute('aria-disabled', String(!tool.can(editor)))
      })
      box.append(button)
    }
    bar.append(box)
  }
  const show = (): void => shown.forEach((each) => each())
  editor.on('transaction', show)
  show()
  // The arrow keys move inside a toolbar (WAI-ARIA).
  bar.addEventListener('keydown', ({ key, target }) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key]
    const buttons = [...bar.querySelectorAll<HTMLButtonElement>('button:not([hidden])')]
    if (step && target instanceof HTMLButtonElement)
      buttons[(buttons.indexOf(target) + step + buttons.length) % buttons.length]?.focus()
  })
  return (event) => {
    const tool = TOOLS.flat().find(({ press }) => press?.(event))
    if (!tool) return false
    event.preventDefault()
    tool.run(editor)
    return true
  }
}
