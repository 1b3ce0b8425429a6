// The editor of a campaign: its text is written with a toolbar, saved automatically, and previewed next to it as a
// contact receives it. It opens only text that it can show and save without a change of meaning. Other HTML (tables,
// styles) is edited as source, so that it is not lost.
import { Editor } from '@tiptap/core'
import StarterKit from '@tiptap/starter-kit'
import { ButtonLink, htmlOf, inert, keeps, look, PicturePlace, ShownImage } from './editor-nodes.ts'
import { askPicture, picturesIn } from './editor-pictures.ts'
import { tags } from './editor-popovers.ts'
import { Preview } from './editor-preview.ts'
import { Saving, type SavedDraft } from './editor-saving.ts'
import { addTools, SOURCE, toolButton } from './editor-tools.ts'
import { ask } from './questions.ts'
import { inkOn } from '../../views/html/colours.ts'

/** Characters of HTML that are pasted with their format. A newsletter has a tenth. */
const MOST_PASTED = 1024 * 1024

/** How long a message stays in the page, in ms. */
const SAID = 8000

/** Shows a message about a change that the user cannot see in the text. */
function note(words: string): void {
  const toast = Object.assign(document.createElement('p'), { className: 'toast', textContent: words })
  toast.setAttribute('role', 'status')
  document.body.append(toast)
  setTimeout(() => toast.remove(), SAID)
}

function editorIn(
  area: HTMLElement,
  source: HTMLTextAreaElement,
  keys: { on: (event: KeyboardEvent) => boolean },
): Editor {
  const editor: Editor = new Editor({
    element: area,
    injectCSS: false,
    extensions: [
      StarterKit.configure({
        link: {
          openOnClick: false,
          // Words that are typed after a link are not part of it.
          autolink: false,
          protocols: ['http', 'https', 'mailto', 'tel'],
          HTMLAttributes: { rel: null, target: null },
        },
      }),
      ShownImage,
      ButtonLink,
      PicturePlace.configure({ choose: (at) => void askPicture(editor, { replace: at }) }),
    ],
    content: inert(source.value),
    editorProps: {
      attributes: { role: 'textbox', 'aria-multiline': 'true', 'aria-label': 'Content' },
      handleKeyDown: (_, event) => keys.on(event),
      handlePaste: (_, event) => takePictures(editor, event.clipboardData, event),
      handleDrop: (_, event) => takePictures(editor, event.dataTransfer, event),
      transformPastedHTML(html) {
        if (html.length <= MOST_PASTED) return inert(html)
        note('The pasted content is larger than 1 MB and was not inserted.')
        return ''
      },
    },
    onUpdate() {
      source.value = htmlOf(editor)
      source.dispatchEvent(new Event('input', { bubbles: true }))
    },
  })
  return editor
}

/** Whether images were pasted or dropped, which are then uploaded. */
function takePictures(editor: Editor, data: DataTransfer | null, event: Event): boolean {
  const files = picturesIn(data)
  // Many applications add an image to copied text.
  if (files.length === 0 || (data?.getData('text/html') ?? '') !== '') return false
  event.preventDefault()
  askPicture(editor, { files })
  return true
}

/** Whether the editor may open the source: it preserves all of it, or the user agrees to lose a part. */
async function mayShow(editor: Editor, source: HTMLTextAreaElement): Promise<boolean> {
  editor.commands.setContent(inert(source.value), { emitUpdate: false })
  return (
    keeps(editor, source.value) ||
    ask(
      'Open in the editor?',
      'The editor does not support all of this HTML. Unsupported parts are lost if you edit the content.',
      'Open',
    )
  )
}

interface Started {
  editor: Editor
  source: HTMLTextAreaElement
  /** Shows HTML that was inserted into the field. */
  reopen: () => void
}

function start(box: HTMLElement): Started {
  const source = document.getElementById(box.dataset['editor']!) as HTMLTextAreaElement
  const bar = document.createElement('div')
  const area = document.createElement('div')
  bar.className = 'toolbar'
  bar.setAttribute('role', 'toolbar')
  bar.setAttribute('aria-label', 'Format')
  area.className = 'area'
  box.append(bar, area)
  look.colour = box.dataset['colour'] ?? look.colour
  tags.names = JSON.parse(box.dataset['tags'] ?? '[]') as string[]
  const keys: { on: (event: KeyboardEvent) => boolean } = { on: () => false }
  const editor = editorIn(area, source, keys)
  keys.on = addTools(bar, editor)
  const toggle = toolButton(SOURCE)
  toggle.classList.add('last')
  bar.append(toggle)
  // HTML that the editor would change is shown as source.
  let visual = keeps(editor, source.value)
  const show = (): void => {
    area.hidden = !visual
    for (const each of bar.children) if (each !== toggle && each instanceof HTMLElement) each.hidden = !visual
    source.hidden = visual
    // The browser cannot focus a hidden field that is required.
    source.required = !visual
    toggle.setAttribute('aria-pressed', String(!visual))
  }
  toggle.addEventListener('click', () => {
    void (async () => {
      if (!visual && !(await mayShow(editor, source))) return
      visual = !visual
      show()
    })()
  })
  colours(area, editor, source)
  show()
  const reopen = (): void => {
    editor.commands.setContent(inert(source.value), { emitUpdate: false })
    visual = keeps(editor, source.value)
    show()
  }
  return { editor, source, reopen }
}

/** Buttons have the colour of the design. */
function colours(area: HTMLElement, editor: Editor, source: HTMLTextAreaElement): void {
  const field = document.getElementById('colour')
  const paint = (): void => {
    area.style.setProperty('--button', look.colour)
    area.style.setProperty('--button-ink', inkOn(look.colour))
  }
  field?.addEventListener('input', () => {
    if (field instanceof HTMLInputElement) look.colour = field.value
    paint()
    if (!area.hidden) source.value = htmlOf(editor)
  })
  paint()
}

/** Shows the sentences and names that depend on the saved version. */
function showSaved(form: HTMLFormElement, { reach, tags: names, warnings }: SavedDraft): void {
  const item = (words: string, name: 'code' | 'li'): HTMLElement => {
    const element = document.createElement(name)
    element.textContent = words
    return element
  }
  tags.names = names
  const list = form.querySelector('[data-tag-list]')
  list?.replaceChildren('Merge tags: ', ...names.flatMap((name) => [item(`{{${name}}}`, 'code'), ' ']))
  form.querySelector('[data-warnings]')?.replaceChildren(...warnings.map((words) => item(words, 'li')))
  const hint = document.getElementById('audience-hint')
  if (hint && reach !== '') hint.textContent = reach
}

/** Shows one of the two parts on small screens. */
function panes(composer: HTMLElement): void {
  const bar = document.createElement('div')
  bar.className = 'segments panes'
  bar.setAttribute('role', 'group')
  bar.setAttribute('aria-label', 'View')
  const buttons = ['Write', 'Preview'].map((words) => {
    const button = document.createElement('button')
    button.type = 'button'
    button.textContent = words
    button.addEventListener('click', () => choose(words))
    return button
  })
  const choose = (words: string): void => {
    composer.dataset['pane'] = words.toLowerCase()
    for (const each of buttons) each.setAttribute('aria-pressed', String(each.textContent === words))
  }
  bar.append(...buttons)
  composer.prepend(bar)
  choose('Write')
}

/** Puts values into the fields of a form. */
function fill(form: HTMLFormElement, values: Record<string, string>): void {
  for (const [name, value] of Object.entries(values)) {
    const field = form.elements.namedItem(name)
    if (field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement || field instanceof HTMLSelectElement)
      field.value = value
  }
}

for (const box of document.querySelectorAll<HTMLElement>('[data-editor]')) {
  const { reopen } = start(box)
  const form = box.closest('form')
  const composer = box.closest<HTMLElement>('.composer')
  const pane = document.getElementById('preview')
  const status = document.querySelector<HTMLElement>('[data-saved]')
  if (form && composer && pane && status) {
    panes(composer)
    const preview = new Preview(pane)
    const saving = new Saving(form, status, (draft) => {
      showSaved(form, draft)
      preview.people(draft.people)
      preview.refresh()
    })
    // The next page must show the latest text.
    const review = document.querySelector<HTMLAnchorElement>('a[data-review]')
    review?.addEventListener('click', (event) => {
      event.preventDefault()
      void saving.flush().then((all) => {
        if (all) location.assign(review.href)
      })
    })
    if (composer.hasAttribute('data-unsaved')) saving.unsaved(composer.hasAttribute('data-hold'))
    else
      saving.restore(composer, (values) => {
        fill(form, values)
        reopen()
      })
  }
}
