// The keyboard: Ctrl-K opens the search, "?" shows the keys, "g" and a letter lead to a page, "j" and "k" move through
// the rows of a list. The dialogs show the content of the pages /find and /keys, which need no script.
import { linkOf } from './rows.ts'

const typing = ({ target }: Event): boolean =>
  target instanceof HTMLElement && (/^(?:input|textarea|select)$/i.test(target.tagName) || target.isContentEditable)

/** Returns the part of a page of this server, or undefined if the request fails. */
async function partOf(path: string, id: string, signal: AbortSignal): Promise<HTMLElement | undefined> {
  const response = await fetch(path, { signal, headers: { Accept: 'text/html' } })
  if (!response.ok) return undefined
  const shown = new DOMParser().parseFromString(await response.text(), 'text/html')
  return shown.getElementById(id) ?? undefined
}

const notThere = (): HTMLElement => {
  const said = document.createElement('p')
  said.textContent = 'The server did not respond, or your session has expired. Reload the page.'
  return said
}

/** Opens a dialog of the page's width, one at a time. */
function open(name: string): HTMLDialogElement | undefined {
  if (document.querySelector('dialog[open]')) return undefined
  document.querySelector<HTMLElement>('#person:popover-open')?.hidePopover()
  const dialog = document.createElement('dialog')
  dialog.className = 'palette'
  dialog.setAttribute('aria-label', name)
  dialog.addEventListener('close', () => dialog.remove())
  // A press outside the dialog closes it.
  dialog.addEventListener('click', ({ target }) => target === dialog && dialog.close())
  document.body.append(dialog)
  dialog.showModal()
  return dialog
}

function showKeys(): void {
  const dialog = open('Keyboard shortcuts')
  if (!dialog) return
  void partOf('/keys', 'keys-shown', new AbortController().signal)
    .catch(() => undefined)
    .then((part) => dialog.append(part ?? notThere()))
}

/** The pause in typing after which the server is queried, in ms. */
const RESTS = 120

function showFind(): void {
  const dialog = open('Search or jump to')
  if (!dialog) return
  const box = document.createElement('input')
  box.type = 'search'
  box.placeholder = 'Page, domain, campaign …'
  box.setAttribute('aria-label', 'Search or jump to')
  box.autocomplete = 'off'
  const found = document.createElement('div')
  found.className = 'found'
  found.setAttribute('aria-live', 'polite')
  dialog.append(box, found)
  const links = (): HTMLAnchorElement[] => [...found.querySelectorAll('a')]
  const current = (): HTMLAnchorElement | undefined => links().find((each) => each.hasAttribute('aria-current'))
  const choose = (link: HTMLAnchorElement | undefined): void => {
    current()?.removeAttribute('aria-current')
    link?.setAttribute('aria-current', 'true')
    link?.scrollIntoView({ block: 'nearest' })
  }
  let asked = new AbortController()
  const ask = (): void => {
    asked.abort()
    const { signal } = (asked = new AbortController())
    void partOf(`/find?q=${encodeURIComponent(box.value)}`, 'found', signal)
      .then((part) => {
        found.replaceChildren(...(part ? part.childNodes : [notThere()]))
        choose(links()[0])
      })
      .catch(() => !signal.aborted && found.replaceChildren(notThere()))
  }
  let rests: ReturnType<typeof setTimeout> | undefined
  box.addEventListener('input', () => {
    clearTimeout(rests)
    rests = setTimeout(ask, RESTS)
  })
  box.addEventListener('keydown', (event) => {
    const all = links()
    const at = all.findIndex((each) => each === current())
    if (event.key === 'ArrowDown') choose(all[(at + 1) % all.length])
    else if (event.key === 'ArrowUp') choose(all[(at - 1 + all.length) % all.length])
    else if (event.key === 'Enter') current()?.click()
    else return
    event.preventDefault()
  })
  dialog.addEventListener('close', () => asked.abort())
  ask()
  box.focus()
}

/** Moves the focus through the rows of the page's list by their first links. */
function row(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLAnchorElement>('main tbody tr')].flatMap((each) => linkOf(each) ?? [])
  const at = rows.findIndex((each) => each === document.activeElement)
  rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by]?.focus()
}

/** Whether the key before was "g", which waits for the letter of a page. */
let going = false

document.addEventListener('keydown', (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === 'k') {
    event.preventDefault()
    return showFind()
  }
  if (typing(event) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return
  const went = going
  going = event.key === 'g' && !went
  if (went) document.querySelector<HTMLAnchorElement>(`.menu a[data-key="${CSS.escape(event.key)}"]`)?.click()
  else if (event.key === '?') showKeys()
  else if (event.key === 'j') row(1)
  else if (event.key === 'k') row(-1)
})

document.addEventListener('click', (event) => {
  const opener = event.target instanceof Element ? event.target.closest<HTMLElement>('[data-opens]') : null
  if (!opener || event.ctrlKey || event.metaKey || event.shiftKey) return
  event.preventDefault()
  if (opener.dataset['opens'] === 'keys') showKeys()
  else showFind()
})
