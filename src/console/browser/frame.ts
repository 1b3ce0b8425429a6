// The script of every page and of the API reference: copy buttons, the key "/", and the menu behind a button on small
// screens.

// Copies the text of the element that a button names.
document.addEventListener('click', (event) => {
  const button = event.target instanceof Element && event.target.closest<HTMLButtonElement>('[data-copy]')
  const text = button && document.getElementById(button.dataset['copy']!)?.textContent
  if (!button || !text) return
  void navigator.clipboard.writeText(text).then(() => {
    const before = button.textContent
    button.textContent = 'Copied'
    setTimeout(() => (button.textContent = before), 1500)
  })
})

// The key "/" moves to the search box, as in many applications.
document.addEventListener('keydown', (event) => {
  const box = document.getElementById('q') ?? document.getElementById('find')
  const { target } = event
  const typing =
    target instanceof HTMLElement && (/^(?:input|textarea|select)$/i.test(target.tagName) || target.isContentEditable)
  if (event.key !== '/' || !box || typing || event.ctrlKey || event.metaKey || event.altKey) return
  event.preventDefault()
  box.focus()
})

// On a small screen the menu is behind a button, even after the window was resized.
const menu = document.querySelector<HTMLDetailsElement>('details.menu')
const small = matchMedia('(max-width: 52rem)')
const fold = (): void => {
  if (menu) menu.open = !small.matches
}
small.addEventListener('change', fold)
fold()

export {}
