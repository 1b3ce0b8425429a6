// The mouse of a user of the console in a real browser. Its clicks are counted.
import { until } from '../../kit/until.ts'
import type { Browser } from './browser.ts'

export function mouseOf(browser: Browser) {
  const words = (): Promise<string> => browser.run('return document.querySelector("main")?.innerText ?? ""')
  const mouse = {
    /** The clicks so far. */
    clicks: 0,
    /** Clicks a link, a button or a summary with these words, as it is seen. */
    async click(label: string): Promise<void> {
      mouse.clicks++
      await until(
        () =>
          browser.run(
            `const all = document.querySelectorAll('dialog[open] button, a, button, summary')
             const it = [...all].find((each) => each.textContent.trim() === arguments[0] && each.checkVisibility())
             if (!it) return false
             it.setAttribute('data-clicked', '')
             return true`,
            label,
          ),
        `something to click: ${label}`,
      )
      await browser.click('[data-clicked]')
      await browser.run(
        `for (const each of document.querySelectorAll('[data-clicked]')) each.removeAttribute('data-clicked')`,
      )
    },
    async fill(selector: string, value: string): Promise<void> {
      mouse.clicks++
      await browser.click(selector)
      await browser.type(selector, value)
    },
    /** Waits for words of the page. */
    says: (what: RegExp): Promise<unknown> => until(async () => what.test(await words()), String(what), words),
  }
  return mouse
}
