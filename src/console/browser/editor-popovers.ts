// Small forms of the editor next to the text: a link, a button, a merge tag. Cancel, Escape and a click elsewhere close
// one. A large form, such as that of images, is in the middle of the window, and a click elsewhere does not close it.
import type { Editor } from '@tiptap/core'

const make = <Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  look: Partial<HTMLElementTagNameMap[Name]> = {},
): HTMLElementTagNameMap[Name] => Object.assign(document.createElement(name), look)

export interface PopoverField {
  row: HTMLElement
  input: HTMLInputElement
  /** Shows an error next to the value. */
  fault: (words: string) => void
}

let fields = 0

/** A labelled field of a popover. */
export function fieldOf(label: string, value: string, more: Partial<HTMLInputElement> = {}): PopoverField {
  const id = `pop-${++fields}`
  const input = make('input', { id, value, autocomplete: 'off', ...more })
  const fault = make('p', { className: 'bad', id: `${id}-error`, hidden: true })
  input.setAttribute('aria-describedby', fault.id)
  const row = make('div', { className: 'field' })
  row.append(make('label', { htmlFor: id, textContent: label }), input, fault)
  return {
    row,
    input,
    fault(words) {
      fault.textContent = words
      fault.hidden = false
      input.setAttribute('aria-invalid', 'true')
      input.focus()
    },
  }
}

export interface Popover {
  dialog: HTMLDialogElement
  close: () => void
}

interface PopoverForm {
  /** The label of the button that sends it. */
  yes: string
  /** Called when it is sent. Returns whether it may close. */
  done: () => boolean
  /** Further buttons. */
  others?: readonly (readonly [words: string, run: () => void])[]
  /** It is too large to be next to the text. */
  large?: boolean
}

/** Opens a small form at the cursor, without moving the page. */
export function popover(
  editor: Editor,
  title: string,
  body: readonly HTMLElement[],
  { done, large = false, others = [], yes }: PopoverForm,
): Popover {
  document.querySelector<HTMLDialogElement>('dialog.pop')?.close()
  const dialog = make('dialog', { className: 'pop' })
  dialog.setAttribute('aria-label', title)
  const form = make('form', { method: 'dialog', noValidate: true })
  const row = make('div', { className: 'row' })
  const close = (): void => dialog.close()
  for (const [words, run] of [...others, ['Cancel', () => undefined] as const]) {
    const other = make('button', { type: 'button', className: 'plain small', textContent: words })
    other.addEventListener('click', () => (close(), run()))
    row.append(other)
  }
  row.append(make('button', { className: 'small', textContent: yes }))
  form.append(make('h2', { textContent: title }), ...body, row)
  dialog.append(form)
  form.addEventListener('submit', (event) => {
    if (!done()) event.preventDefault()
  })
  dialog.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') close()
  })
  const outside = (event: PointerEvent): void => {
    if (event.target instanceof globalThis.Node && !dialog.contains(event.target)) close()
  }
  dialog.addEventListener('close', () => {
    document.removeEventListener('pointerdown', outside)
    dialog.remove()
    editor.commands.focus(null, { scrollIntoView: false })
  })
  document.body.append(dialog)
  if (large) dialog.showModal()
  else {
    document.addEventListener('pointerdown', outside)
    dialog.show()
    place(dialog, editor)
  }
  return { dialog, close }
}

/** Moves it below the cursor and inside the window. */
function place(dialog: HTMLDialogElement, editor: Editor): void {
  const { bottom, left } = editor.view.coordsAtPos(editor.state.selection.to)
  const across = Math.max(8, Math.min(left, innerWidth - dialog.offsetWidth - 24))
  const down = Math.max(64, Math.min(bottom + 8, innerHeight - dialog.offsetHeight - 16))
  dialog.style.setProperty('left', `${across}px`)
  dialog.style.setProperty('top', `${down}px`)
}

/**
 * Completes an address: an email address gets mailto:, an address without a scheme https://. Returns undefined if it
 * cannot be a link in an email.
 */
export function wholeAddress(typed: string): string | undefined {
  if (typed.startsWith('{{') || /^(?:https?:\/\/[^\s/]|mailto:.|tel:.)/i.test(typed)) return typed
  if (/^[^\s@/:]+@[^\s@/:]+$/.test(typed)) return `mailto:${typed}`
  return /^[^\s/:?#]+\.[^\s]+$/.test(typed) ? `https://${typed}` : undefined
}

const NOWHERE = 'This is not a valid link. Enter a URL such as https://example.org/news.'

/**
 * Returns the completed address in a field, or '' if it is empty. If it is invalid, shows an error and returns
 * undefined.
 */
export function addressIn(field: PopoverField): string | undefined {
  const typed = field.input.value.trim()
  const whole = typed === '' ? '' : wholeAddress(typed)
  if (whole === undefined) field.fault(NOWHERE)
  return whole
}

export function askLink(editor: Editor): void {
  const had = editor.getAttributes('link')['href'] as string | undefined
  const { empty } = editor.state.selection
  const address = fieldOf('URL', had ?? '', { placeholder: 'https://example.org/news' })
  const words = fieldOf('Text', '')
  const own = had === undefined && empty
  const remove = (): void => void editor.chain().focus().extendMarkRange('link').unsetLink().run()
  popover(editor, 'Link', own ? [address.row, words.row] : [address.row], {
    yes: had === undefined ? 'Add link' : 'Change link',
    others: had === undefined ? [] : [['Remove link', remove]],
    done() {
      const href = addressIn(address)
      if (href === undefined) return false
      if (href === '') return (address.fault('Enter a URL.'), false)
      const chain = editor.chain().focus()
      if (had !== undefined) chain.extendMarkRange('link').setLink({ href }).run()
      else if (!own) chain.setLink({ href }).run()
      else {
        // Without selected text, the link gets its address as text.
        const text = words.input.value.trim() || href.replace(/^mailto:|^https?:\/\//, '')
        chain.insertContent([{ type: 'text', text, marks: [{ type: 'link', attrs: { href } }] }]).run()
      }
      return true
    },
  })
}

/** Inserts a block after the selection. The text continues after the block. */
export function insertBlock(editor: Editor, block: object): void {
  const { to } = editor.state.selection
  const size = editor.state.doc.content.size
  editor.chain().focus().insertContentAt(to, block).run()
  const { doc } = editor.state
  const behind = Math.min(to + doc.content.size - size, doc.content.size)
  if (doc.resolve(behind).parent.isTextblock) editor.commands.setTextSelection(behind)
  else editor.commands.insertContentAt(doc.content.size, { type: 'paragraph' })
}

export function askButton(editor: Editor): void {
  const chosen = editor.isActive('buttonLink') ? editor.getAttributes('buttonLink') : undefined
  const label = fieldOf('Label', chosen ? String(chosen['label']) : 'Read more')
  const address = fieldOf('URL', chosen ? String(chosen['href']) : '', { placeholder: 'https://example.org/news' })
  popover(editor, 'Button', [address.row, label.row], {
    yes: chosen ? 'Change button' : 'Add button',
    done() {
      const href = addressIn(address)
      const words = label.input.value.trim()
      if (href === undefined) return false
      if (href === '') return (address.fault('Enter a URL.'), false)
      if (words === '') return (label.fault('Enter a label.'), false)
      if (chosen) editor.chain().focus().updateAttributes('buttonLink', { href, label: words }).run()
      else insertBlock(editor, { type: 'buttonLink', attrs: { href, label: words } })
      return true
    },
  })
}

/** The merge tags of the chosen audience. */
export const tags = { names: [] as readonly string[] }

export function askTag(editor: Editor): void {
  const choice = make('select', { id: 'pop-tag' })
  choice.append(...tags.names.map((name) => new Option(name, name)))
  const row = make('div', { className: 'field' })
  row.append(make('label', { htmlFor: 'pop-tag', textContent: 'Contact field' }), choice)
  const otherwise = fieldOf('Fallback for contacts without a value', 'friend')
  const suggest = (): void => {
    const link = choice.value.startsWith('unsubscribe')
    otherwise.row.hidden = link || choice.value === 'email'
    otherwise.input.value = choice.value === 'name' ? 'friend' : ''
  }
  choice.addEventListener('change', suggest)
  suggest()
  popover(editor, 'Merge tag', [row, otherwise.row], {
    yes: 'Insert',
    done() {
      const text = otherwise.row.hidden ? '' : otherwise.input.value.replaceAll(/[{}|]/g, '').trim()
      editor
        .chain()
        .focus()
        .insertContent({ type: 'text', text: `{{${choice.value}${text === '' ? '' : `|${text}`}}}` })
        .run()
      return true
    },
  })
}
