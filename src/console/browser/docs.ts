// Improvements of the API reference by a script: a language that is chosen for one sample applies to all and is kept,
// and the menu shows the pages that match the typed text. All content is there without this script.
import './frame.ts'

const KEY = 'postrider language'

/** Shows the samples in this language, if there are any. */
function choose(language: string): void {
  for (const input of document.querySelectorAll<HTMLInputElement>('.languages > input'))
    if (input.value === language) input.checked = true
}

const kept = localStorage.getItem(KEY)
if (kept !== null) choose(kept)
document.addEventListener('change', ({ target }) => {
  if (!(target instanceof HTMLInputElement) || !target.matches('.languages > input')) return
  // The height of the content above changes, so the page scrolls to keep the tabs under the pointer.
  const before = target.getBoundingClientRect().top
  localStorage.setItem(KEY, target.value)
  choose(target.value)
  scrollBy(0, target.getBoundingClientRect().top - before)
})

const find = document.querySelector<HTMLInputElement>('#find')
find?.addEventListener('input', () => {
  const words = find.value.toLowerCase().split(/\s+/)
  for (const entry of document.querySelectorAll<HTMLElement>('.menu li'))
    entry.hidden = find.value !== '' && !words.every((word) => entry.textContent.toLowerCase().includes(word))
})
// The menu scrolls to the entry of this page.
document.querySelector('.menu [aria-current]')?.scrollIntoView({ block: 'nearest' })
