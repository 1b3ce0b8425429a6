// Improvements of the pages by a script: parts that are updated after events, times in the reader's time zone, copy
// buttons, and a confirmation before an action that cannot be undone. Every page works without this script.
import htmx from 'htmx.org'
import './frame.ts'
import { fitFrames } from './frames.ts'
import './menus.ts'
import './palette.ts'
import { ask } from './questions.ts'
import { inUtc, localTimes, tellZone, ZONE } from './times.ts'
import { takeUploads } from './uploads.ts'

/** A point in time as the value of a field, in the reader's own zone. */
const localValue = (at: Date): string =>
  new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)

/** A point in time is given in the reader's own zone, and sent in UTC. */
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
    // A time that stands there already was written in UTC.
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

// What was typed into a long form is not lost without a question.
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
  if (question && sure && sure.value === '') {
    event.preventDefault()
    const button = event.submitter instanceof HTMLElement ? event.submitter : null
    const yes = button?.textContent.trim() ?? 'Yes'
    void ask(`${yes}?`, `${startOf(form)}${question.value}`, yes).then((isSure) => {
      if (!isSure) return button?.focus()
      sure.value = 'yes'
      form.requestSubmit(button)
    })
    return
  }
  typed.delete(form)
})

/** When a form that has a point in time starts something, in the reader's own zone; '' for other forms. */
function startOf(form: HTMLFormElement): string {
  const input = form.querySelector<HTMLInputElement>('input[type="datetime-local"]')
  if (!input) return ''
  return `${input.value === '' ? 'Now' : `On ${new Date(input.value).toLocaleString(undefined, { dateStyle: 'full', timeStyle: 'short' })}`}: `
}

/** How long the page says what was done, in ms. */
const SAID = 6000

// What a cell cuts off is its title.
document.addEventListener('mouseover', ({ target }) => {
  const cell = target instanceof Element ? target.closest<HTMLElement>('td, .value') : null
  if (cell && cell.title === '' && cell.scrollWidth > cell.clientWidth) cell.title = cell.textContent.trim()
})

/** The figures of a bar stand beside the pointer. */
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

/** Whether an update of the page would disturb the person: text is selected or a field has the focus. */
function busy(): boolean {
  const part = document.getElementById('live')
  if (!part) return true
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

/** Opened details of the page stay open after an update. */
const opened = new Set<string>()
document.addEventListener('htmx:beforeSwap', (event) => {
  // Somebody may have come to the live part while the answer was on its way.
  if (event instanceof CustomEvent && event.target === document.getElementById('live') && busy()) {
    event.detail.shouldSwap = false
    waiting = true
    return
  }
  opened.clear()
  document
    .querySelectorAll<HTMLDetailsElement>('#live details')
    .forEach((each, at) => each.open && opened.add(String(at)))
})
document.addEventListener('htmx:afterSwap', () => {
  document
    .querySelectorAll<HTMLDetailsElement>('#live details')
    .forEach((each, at) => (each.open = opened.has(String(at))))
  localTimes(document)
  document.dispatchEvent(new Event('drawn'))
})

// One tab of a browser holds the event stream and informs the other tabs.
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
// After a refused form the person is led to the field.
document.querySelector<HTMLElement>('[aria-invalid="true"], fieldset:has(> .bad) input')?.focus()
for (const toast of document.querySelectorAll('.toast')) setTimeout(() => toast.remove(), SAID)
