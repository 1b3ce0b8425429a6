// Rows of tables: a click on a free area of a row follows its link, and checkboxes select rows for the bar below the
// table. Without this script the link covers its row, and the bar is always there.

/** The link of a row: the first one at the start of a cell. */
export const linkOf = (row: Element): HTMLAnchorElement | null => row.querySelector('td > a:first-child')

function follow(event: MouseEvent): void {
  const { button, ctrlKey, metaKey, shiftKey, target } = event
  // Links, buttons and fields handle their own clicks. The click that ends a text selection opens nothing.
  if (!(target instanceof Element) || target.closest('a, button, input, label, summary, [popover], .k-box')) return
  const row = target.closest('tbody tr')
  if (!row || button > 1 || document.getSelection()?.isCollapsed === false) return
  linkOf(row)?.dispatchEvent(
    new MouseEvent('click', { cancelable: true, ctrlKey: ctrlKey || button === 1, metaKey, shiftKey }),
  )
}
document.addEventListener('click', follow)
document.addEventListener('auxclick', follow)

const boxes = (): HTMLInputElement[] => [...document.querySelectorAll<HTMLInputElement>('td input[name=row]')]

/** How many rows are selected. An update of the page would lose them. */
export const selected = (): number => boxes().filter(({ checked }) => checked).length

function count(): void {
  for (const each of document.querySelectorAll('[data-chosen]')) each.textContent = String(selected())
  for (const each of document.querySelectorAll<HTMLInputElement>('[data-all]')) {
    each.checked = selected() === boxes().length
    each.indeterminate = selected() > 0 && !each.checked
  }
}
document.addEventListener('change', ({ target }) => {
  if (!(target instanceof HTMLInputElement) || !target.matches('[data-all], [name=row]')) return
  if (target.matches('[data-all]')) for (const each of boxes()) each.checked = target.checked
  count()
})
// A browser restores the checkboxes of a page that is opened again.
addEventListener('pageshow', () => selected() > 0 && count())
