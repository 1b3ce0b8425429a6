// The common style of the pages that need no account: no scripts, no requests to other hosts, light and dark mode,
// usable with keyboard, screen reader and phone.
import { hash } from 'node:crypto'
import type { Context } from 'hono'
import { html, raw } from 'hono/html'
import type { Config } from '../../base/config.ts'
import { Refusal } from '../../base/errors.ts'
import type { Budget } from '../../base/memory.ts'
import { withBytes, type BodyLimits } from '../../jsonapi/body.ts'
import { inkOn, readableOn } from './colours.ts'
import type { Html } from './widgets.ts'
import { rateKey } from '../../net/client-address.ts'

const STYLE = `
:root { color-scheme: light dark; --ink: #1c1d21; --soft: #5b5e66; --paper: #fff; --ground: #f3f4f6; --line: #d5d8de; --edge: #7f848e; --accent: #1f5fd6; --on: #fff; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --ink: #eceef2; --soft: #a9adb8; --paper: #1d1f24; --ground: #121316; --line: #3a3d45; --edge: #7f8490; --accent: #8ab4ff; --on: #10131a; --bad: #ffb4ab } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.25rem; background: var(--ground); color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif }
main { width: 100%; max-width: 28rem; padding: 2rem; background: var(--paper); border: 1px solid var(--line); border-radius: .75rem }
h1 { margin: 0 0 .75rem; font-size: 1.35rem; line-height: 1.3; overflow-wrap: anywhere }
h2 { margin: 1.75rem 0 .5rem; font-size: 1.05rem; line-height: 1.3; overflow-wrap: anywhere }
p { margin: 0 0 1rem; overflow-wrap: anywhere }
main > :last-child, section > :last-child { margin-bottom: 0 }
.soft { color: var(--soft); font-size: .925rem }
a { color: var(--accent) }
.bad { color: var(--bad) }
label { display: block; margin: 0 0 .35rem; font-weight: 600 }
input, select, textarea { width: 100%; margin: 0 0 1rem; padding: .65rem .75rem; border: 1px solid var(--edge); border-radius: .5rem; background: var(--paper); color: inherit; font: inherit }
textarea { resize: vertical }
[aria-invalid] { border-color: var(--bad) }
.text { white-space: pre-line }
.errors { margin: 0 0 1.25rem; padding: .85rem 1rem 0; border: 2px solid var(--bad); border-radius: .5rem }
.errors a { color: var(--bad) }
.error { margin: 0 0 .35rem }
.tick { display: flex; gap: .65rem; align-items: center; min-height: 2.75rem; font-weight: 400 }
.tick input { flex: none; width: 1.5rem; height: 1.5rem; margin: 0 }
.unseen { position: absolute; left: -9999px; width: 1px; height: 1px; overflow: hidden }
.after { margin-top: 1.25rem }
button { display: block; width: 100%; margin: .5rem 0 0; padding: .75rem 1rem; border: 1px solid var(--accent); border-radius: .5rem; background: var(--fill, var(--accent)); color: var(--on-fill, var(--on)); font: inherit; font-weight: 600; cursor: pointer }
button.plain { background: transparent; color: var(--accent) }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px }
ul { margin: 0 0 1rem; padding-left: 1.2rem }
nav { display: flex; flex-wrap: wrap; justify-content: center; max-width: 28rem; padding: 1rem 0 0 }
nav a { padding: .65rem .5rem; color: var(--soft); font-size: .925rem }
nav a[aria-current] { color: var(--ink); font-weight: 600; text-decoration: none }
code { font-size: .9em }
.sender { font-weight: 600 }
.sender img { display: block; max-width: 100%; max-height: 4rem; border-radius: .35rem; background: #fff }
`
const LIGHT_PAPER = '#ffffff'
const DARK_PAPER = '#1d1f24'

/** The colour of a sender: on buttons as it is, and as a text colour changed until it can be read. */
const styleOf = (colour: string): string => `
:root { --fill: ${colour}; --on-fill: ${inkOn(colour)}; --accent: ${readableOn(LIGHT_PAPER, colour)} }
@media (prefers-color-scheme: dark) { :root { --accent: ${readableOn(DARK_PAPER, colour)} } }
`

/** The sender whose page it is: their name, the path of their logo on this server, and their colour (#rrggbb). */
export interface PageSender {
  name: string
  logo?: string | undefined
  colour: string | null
}

const signOf = ({ logo, name }: PageSender): Html =>
  html`<p class="sender">${logo === undefined ? name : html`<img src="${logo}" alt="${name}" />`}</p>`

export type PageStatus = 200 | 202 | 400 | 403 | 404 | 408 | 410 | 413 | 415 | 422 | 429 | 503

interface PageOptions {
  /** An origin to which a form of the page is sent, or leads by a redirect. */
  formTo?: string
  heading?: Html | Promise<Html>
  sender?: PageSender
  /** The language of the words. */
  lang?: string
  /** With "no-referrer", browsers send "Origin: null" with the forms of the page. */
  referrer?: 'no-referrer' | 'same-origin'
  /** Follows the content. */
  below?: Html
}

/**
 * Responds with a whole page that cannot be framed. Its forms can be sent to this server, or to the origin `formTo`.
 */
export function page(
  context: Context,
  status: PageStatus,
  title: string,
  body: Html | Promise<Html>,
  {
    below,
    formTo = "'self'",
    heading = html`${title}`,
    lang = 'en',
    referrer = 'no-referrer',
    sender,
  }: PageOptions = {},
): Response | Promise<Response> {
  const style = STYLE + (sender?.colour ? styleOf(sender.colour) : '')
  context.header('Cache-Control', 'no-store')
  context.header('Referrer-Policy', referrer)
  context.header('X-Robots-Tag', 'noindex')
  context.header('X-Content-Type-Options', 'nosniff')
  context.header('X-Frame-Options', 'DENY')
  context.header(
    'Content-Security-Policy',
    `default-src 'none'; style-src 'sha256-${hash('sha256', style, 'base64')}'; ${sender?.logo === undefined ? '' : "img-src 'self'; "}form-action ${formTo}; frame-ancestors 'none'; base-uri 'none'`,
  )
  return context.html(
    html`<!doctype html>
      <html lang="${lang}">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <title>${title}</title>
          ${raw(`<style>${style}</style>`)}
        </head>
        <body>
          <main>
            ${sender ? signOf(sender) : ''}
            <h1>${heading}</h1>
            ${body}
          </main>
          ${below ?? ''}
        </body>
      </html> `,
    status,
  )
}

/** The dependencies of the readers below: the budget of all bodies (D74), and the trusted proxies. */
export interface PlainPageDeps {
  bodies: Budget
  config: Pick<Config, 'http'>
}

/** Returns a request's body as text, or undefined if it has more than `max` bytes. */
export const readText = (context: Context, deps: PlainPageDeps, max: number): Promise<string | undefined> =>
  withinMost(withBytes(context.req.raw, strangers(context, deps, max), (bytes) => bytes.toString('utf8')))

/**
 * Returns the JSON object in a request's body of at most `max` bytes, {} without a body, or undefined if it is longer
 * or not a JSON object.
 */
export async function readObject(
  context: Context,
  deps: PlainPageDeps,
  max: number,
): Promise<Record<string, unknown> | undefined> {
  const text = await readText(context, deps, max)
  if (text === '') return {}
  try {
    const value: unknown = JSON.parse(text ?? '')
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined
  } catch {
    return undefined
  }
}

/** The limits of a body without a session: the client address has a part of the budget (D112). */
export const strangers = (context: Context, { bodies, config }: PlainPageDeps, most: number): BodyLimits => ({
  most,
  budget: bodies,
  owner: `from ${rateKey(context, config.http)}`,
})

/** The result of a reading, or undefined if the body is too long for its route. */
export async function withinMost<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading
  } catch (thrown) {
    if (thrown instanceof Refusal && thrown.status === 413) return undefined
    throw thrown
  }
}
