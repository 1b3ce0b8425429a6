// Improvements of the pages by a script: parts that are updated after events, local times, copy buttons, and a
// confirmation before an action that cannot be undone. Every page works without this script.
import htmx from 'htmx.org'
import './frame.ts'
import { fitFrames } from './frames.ts'
import './menus.ts'
import './palette.ts'
import { ask } from './questions.ts'
import { selected } from './rows.ts'
import { inUtc, localTimes, tellZone, ZONE } from './times.ts'
import { takeUploads } from './uploads.ts'

/** A point in time as the value of a field, in local time. */
const localValue = (at: Date): string =>
  new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)

/** A point in time is typed in local time and sent in UTC. */
function localInputs(): void {
  if (inUtc) return
  for (const input of document.querySelectorAll<HTMLInputElement>('input[type="datetime-local"]')) {
    const sent = document.createElement('input')
    sent.type = 'hidden'
    sent.name = input.name
    input.removeAttribute('name')
    input.after(sent)
    const hint = document.getElementById(`${input.id}-hint`)
    if (hint) hint.textContent = hint.textContent.replace('In UTC.', `Your time (${ZONE}).`)
    // The server wrote the time in UTC.
    const written = new Date(`${input.value}Z`)
    if (!Number.isNaN(written.getTime())) input.value = localValue(written)
    const send = (): void => {
      const at = new Date(input.value)
      sent.value = Number.isNaN(at.getTime()) ? '' : at.toISOString().slice(0, 16)
    }
    input.addEventListener('input', send)
    send()
  }
}

// The browser warns before it discards the input of a long form.
const typed = new Set<HTMLFormElement>()
document.addEventListener('input', ({ target }) => {
  const form = target instanceof Element ? target.closest<HTMLFormElement>('form.keep') : null
  if (form) typed.add(form)
})
addEventListener('beforeunload', (event) => typed.size > 0 && event.preventDefault())

document.addEventListener('submit', (event) => {
  const form = event.target
  if (!(form instanceof HTMLFormElement)) return
  const [question, sure] = ['question', 'sure'].map((name) =>
    form.querySelector<HTMLInputElement>(`input[name=${name}]`),
  )
  const button = event.submitter instanceof HTMLElement ? event.submitter : null
  const asked = button?.dataset['question'] ?? question?.value
  if (asked !== undefined && sure && sure.value === '') {
    event.preventDefault()
    const yes = button?.textContent.replaceAll(/\s+/g, ' ').trim() ?? 'Yes'
    void ask(`${yes}?`, `${startOf(form)}${asked}`, yes).then((isSure) => {
      if (!isSure) return button?.focus()
      sure.value = 'yes'
      form.requestSubmit(button)
    })
    return
  }
  typed.delete(form)
})

/** Returns the local start time in a form that has one, or '' for other forms. */
function startOf(form: HTMLFormElement): string {
  const input = form.querySelector<HTMLInputElement>('input[type="datetime-local"]')
  if (!input) return ''
  return `${input.value === '' ? 'Now' : `On ${new Date(input.value).toLocaleString(undefined, { dateStyle: 'full', timeStyle: 'short' })}`}: `
}

/** How long the page shows the result of an action, in ms. */
const SAID = 6000

// A cell whose text is cut off has the whole text as its title.
document.addEventListener('mouseover', ({ target }) => {
  const cell = target instanceof Element ? target.closest<HTMLElement>('td, .value, .why > span') : null
  if (cell && cell.title === '' && cell.scrollWidth > cell.clientWidth) cell.title = cell.textContent.trim()
})

/** The values of a bar are shown next to the pointer. */
const tip = document.createElement('div')
tip.className = 'tip'
document.addEventListener('pointermove', ({ clientX, target }) => {
  const bar = target instanceof Element ? target.closest<SVGGElement>('.chart [data-tip]') : null
  const chart = bar?.closest<HTMLElement>('.chart')
  if (!bar || !chart) return tip.remove()
  tip.textContent = bar.dataset['tip'] ?? ''
  chart.append(tip)
  const { left, width } = chart.getBoundingClientRect()
  const at = clientX - left
  const besides = at > width / 2 ? at - tip.offsetWidth - 12 : at + 12
  tip.style.setProperty('left', `${besides}px`)
  tip.style.setProperty('top', '36px')
})

/** Whether an update of the page would disturb the user: text is selected or a field has the focus. */
function busy(): boolean {
  const part = document.getElementById('live')
  if (!part || selected() > 0) return true
  const selection = document.getSelection()
  const selecting = selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode)
  return selecting || (part.contains(document.activeElement) && document.activeElement !== document.body)
}

let waiting = false
function changed(): void {
  if (document.hidden || busy()) {
    waiting = true
    return
  }
  waiting = false
  htmx.trigger(document.body, 'changed')
}
for (const name of ['visibilitychange', 'focusout', 'selectionchange'])
  document.addEventListener(name, () => {
    if (waiting && !document.hidden) setTimeout(() => waiting && changed(), 200)
  })

/** Opened details of the page stay open after an update, by their id or their position. */
const opened = new Set<string>()
const nameOf = ({ id }: Element, at: number): string => id || String(at)
document.addEventListener('htmx:beforeSwap', (event) => {
  // The user may have focused the live part while the answer was on its way.
  if (event instanceof CustomEvent && event.target === document.getElementById('live') && busy()) {
    event.detail.shouldSwap = false
    waiting = true
    return
  }
  opened.clear()
  document
    .querySelectorAll<HTMLDetailsElement>('#live details')
    .forEach((each, at) => each.open && opened.add(nameOf(each, at)))
})
document.addEventListener('htmx:afterSwap', () => {
  document
    .querySelectorAll<HTMLDetailsElement>('#live details')
    .forEach((each, at) => (each.open = opened.has(nameOf(each, at))))
  localTimes(document)
  document.dispatchEvent(new Event('drawn'))
})

// One tab of a browser holds the event stream and notifies the other tabs.
const channel = new BroadcastChannel('postrider')
channel.onmessage = () => changed()
function listen(): void {
  const source = new EventSource('/live')
  source.addEventListener('changed', () => {
    channel.postMessage('changed')
    changed()
  })
}
if (document.getElementById('live')) {
  if ('locks' in navigator) void navigator.locks.request('postrider live', () => (listen(), new Promise(() => {})))
  else listen()
}

localTimes(document)
localInputs()
tellZone()
takeUploads()
fitFrames()
// After a rejected form, the invalid field gets the focus.
document.querySelector<HTMLElement>('[aria-invalid="true"], fieldset:has(> .bad) input')?.focus()
for (const toast of document.querySelectorAll('.toast')) setTimeout(() => toast.remove(), SAID)
