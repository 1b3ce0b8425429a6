// The keyboard of a user of a real browser.
import assert from 'node:assert/strict'
import type { Browser } from './browser.ts'

export const ENTER = '\uE007'
const TAB = '\uE004'
/** The most presses of Tab to anything on a page, the menu included. */
const STOPS = 90
/** The text of an element as a screen reader reads it. */
const WORDS = `const one = document.activeElement
  return (one.getAttribute('aria-label') ?? (one.labels?.[0] ?? one).innerText ?? '').trim().replaceAll(/\\s+/g, ' ')`

export function keysOf(browser: Browser) {
  return {
    keys: async (text: string): Promise<void> => {
      for (const key of text) await browser.press(key)
    },
    /** Presses Tab until the focus is on what has these words. Each stop on the way is seen, and in the window. */
    tabTo: async (label: RegExp): Promise<void> => {
      const stops: string[] = []
      while (stops.length < STOPS) {
        await browser.press(TAB)
        const said: string = await browser.run(WORDS)
        stops.push(said)
        const [outline, inView] = (await browser.run(
          `const one = document.activeElement
           const { top, bottom } = one.getBoundingClientRect()
           const { boxShadow, outlineStyle } = getComputedStyle(one)
           return [outlineStyle !== 'none' || boxShadow !== 'none', one === document.body || (bottom > 0 && top < innerHeight)]`,
        )) as [boolean, boolean]
        assert.ok(outline && inView, `the focus on "${said}" is not seen`)
        if (label.test(said)) return
      }
      assert.fail(`Tab does not lead to ${String(label)}: ${stops.join(' | ')}`)
    },
  }
}
