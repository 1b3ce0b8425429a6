// The editor of a campaign: its text is written with a toolbar, saved by itself, and shown beside as a contact gets it.
// It opens only text that it can show and save without a change of meaning. Other HTML (tables, styles) is edited as
// source, so that none of it is lost.
import { Editor } from '@tiptap/core'
import StarterKit from '@tiptap/starter-kit'
import { ButtonLink, htmlOf, inert, keeps, look, PicturePlace, ShownImage } from './editor-nodes.ts'
import { askPicture, picturesIn } from './editor-pictures.ts'
import { tags } from './editor-popovers.ts'
import { Preview } from './editor-preview.ts'
import { Saving, type SavedDraft } from './editor-saving.ts'
import { addTools, SOURCE, toolButton } from './editor-tools.ts'
import { ask } from './questions.ts'
import { inkOn } from '../../campaigns/designs.ts'

/** The most characters of HTML that are pasted with their form; a newsletter has a tenth. */
const MOST_PASTED = 1024 * 1024

/** How long a sentence stands in the page, in ms. */
const SAID = 8000

/** Says something that the person cannot see in the text. */
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
          // Words typed behind a link are not part of it.
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
      attributes: { role: 'textbox', 'aria-multiline': 'true', 'aria-label': 'Text' },
      handleKeyDown: (_, event) => keys.on(event),
      handlePaste: (_, event) => takePictures(editor, event.clipboardData, event),
      handleDrop: (_, event) => takePictures(editor, event.dataTransfer, event),
      transformPastedHTML(html) {
        if (html.length <= MOST_PASTED) return inert(html)
        note('What you pasted has more than 1 MB, and was left out.')
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

/** Whether pictures were pasted or dropped, which are then uploaded. */
function takePictures(editor: Editor, data: DataTransfer | null, event: Event): boolean {
  const files = picturesIn(data)
  // Programs that copy text often add a picture of it.
  if (files.length === 0 || (data?.getData('text/html') ?? '') !== '') return false
  event.preventDefault()
  askPicture(editor, { files })
  return true
}

/** Whether the editor may open the source: it keeps all of it, or the person agrees to lose a part. */
async function mayShow(editor: Editor, source: HTMLTextAreaElement): Promise<boolean> {
  editor.commands.setContent(inert(source.value), { emitUpdate: false })
  return (
    keeps(editor, source.value) ||
    ask(
      'Open it in the editor?',
      'The editor does not know all of this HTML; what it does not know is lost when you change something.',
      'Open it',
    )
  )
}

interface Started {
  editor: Editor
  source: HTMLTextAreaElement
  /** Shows HTML that was put into the field. */
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
    // The browser cannot ask the person to fill in a hidden field.
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

/** The sentences and names that depend on what was saved. */
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

/** On small screens one of the two parts is shown. */
function panes(composer: HTMLElement): void {
  const bar = document.createElement('div')
  bar.className = 'segments panes'
  bar.setAttribute('role', 'group')
  bar.setAttribute('aria-label', 'Part')
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
    // What was typed just now is on the next page, too.
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
