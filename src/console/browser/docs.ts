// Improvements of the API reference by a script: the language of programs is chosen once for all of them and kept, and
// the pages at the side are those that fit what is typed. Everything is there without this script.
import './frame.ts'

const KEY = 'postrider language'

/** Shows every program in this language, where there is one. */
function choose(language: string): void {
  for (const input of document.querySelectorAll<HTMLInputElement>('.languages > input'))
    if (input.value === language) input.checked = true
}

const kept = localStorage.getItem(KEY)
if (kept !== null) choose(kept)
document.addEventListener('change', ({ target }) => {
  if (!(target instanceof HTMLInputElement) || !target.matches('.languages > input')) return
  // What is above changes its height: the tabs stay where they are under the pointer.
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
// The page that is shown is in sight at the side.
document.querySelector('.menu [aria-current]')?.scrollIntoView({ block: 'nearest' })
