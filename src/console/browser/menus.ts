// Menus of rows open next to their button, and forms of filters are sent when an option is chosen. Without this script
// a menu opens in the middle of the window, and a form has its button.

/** The height that a menu may need, in px. */
const RESERVE = 180

document.addEventListener(
  'beforetoggle',
  ({ target }) => {
    if (!(target instanceof HTMLElement) || !target.matches('.menu-of')) return
    const button = document.querySelector(`[popovertarget="${target.id}"]`)?.getBoundingClientRect()
    if (!button) return
    const { clientHeight, clientWidth } = document.documentElement
    const right = clientWidth - button.right
    const up = button.bottom + RESERVE > clientHeight
    target.style.inset = up
      ? `auto ${right}px ${clientHeight - button.top + 4}px auto`
      : `${button.bottom + 4}px ${right}px auto auto`
    target.style.margin = '0'
  },
  true,
)

document.addEventListener('change', ({ target }) => {
  if (target instanceof HTMLSelectElement && target.form?.matches('[data-auto]')) target.form.requestSubmit()
})
