// The frame of every page: head, navigation, and security headers.
import type { Context } from 'hono'
import { html } from 'hono/html'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Cell, Html } from './widgets.ts'
import { refusals } from './forms.ts'
import type { Answer, Labels, Visit } from './visit.ts'

/** The places of the console, and whether only operators see them. */
const PLACES: readonly (readonly [path: string, name: string, operator?: true])[] = [
  ['/', 'Overview'],
  ['/mail', 'Mail'],
  ['/receivers', 'Receivers'],
  ['/campaigns', 'Campaigns'],
  ['/audiences', 'Audiences'],
  ['/inboxes', 'Inboxes'],
  ['/suppressions', 'Suppressions'],
  ['/domains', 'Domains'],
  ['/webhooks', 'Webhooks'],
  ['/tokens', 'Tokens'],
  ['/agents', 'Agents'],
  ['/privacy', 'Privacy'],
  ['/queue', 'Queue', true],
  ['/server', 'Server', true],
  ['/people', 'People', true],
]

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

/** Headers of every answer of the console. */
export function guard(context: Context, policy = POLICY): void {
  context.header('Cache-Control', 'no-store')
  context.header('Referrer-Policy', 'same-origin')
  context.header('X-Robots-Tag', 'noindex')
  context.header('X-Content-Type-Options', 'nosniff')
  context.header('X-Frame-Options', 'DENY')
  context.header('Cross-Origin-Opener-Policy', 'same-origin')
  context.header('Content-Security-Policy', policy)
}

export interface Page {
  title: string
  /** One sentence about the page's purpose. */
  about?: string
  body: Cell
  /** The API's refusal of the last action. */
  errors?: Answer['errors']
  /** The labels of the fields of the page's form, by the names of their attributes. */
  labels?: Labels
  /** The sentence that confirms the last action. */
  done?: string | undefined
  status?: ContentfulStatusCode
  /** Additional scripts, by the name of their asset. */
  scripts?: readonly string[]
}

const head = (title: string, scripts: readonly string[]): Html =>
  html`<head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="htmx-config" content='{"allowEval":false,"includeIndicatorStyles":false,"historyCacheSize":0}' />
    <title>${title} · Postrider</title>
    <link rel="stylesheet" href="/assets/console.css" />
    <link rel="icon" href="data:," />
    ${['console.js', ...scripts].map((name) => html`<script type="module" src="/assets/${name}"></script>`)}
  </head>`

/** Places that show only to the owner of an account what they hold. */
const OWN = new Set(['/tokens', '/privacy'])

function menu({ context, operator, reading }: Visit): Html {
  const here = context.req.path
  const places = PLACES.filter(([path, , forOperators]) => (!forOperators || operator) && !(reading && OWN.has(path)))
  const isHere = (path: string): boolean => (path === '/' ? here === '/' : here === path || here.startsWith(`${path}/`))
  return html`<nav aria-label="Places">
    <details class="menu" open>
      <summary>Menu</summary>
      <ul>
        ${places.map(
          ([path, name]) =>
            html`<li><a href="${path}" ${isHere(path) ? html`aria-current="page"` : ''}>${name}</a></li>`,
        )}
        <li><a href="/docs">API reference</a></li>
      </ul>
    </details>
  </nav>`
}

const elsewhereNote = ({ account, proof }: Visit): Html =>
  html`<div class="alert">
    You look at the account of <strong>${account.email}</strong>.
    <form method="post" action="/people" class="inline">
      <input type="hidden" name="proof" value="${proof}" /><input type="hidden" name="action" value="leave" />
      <button class="plain">Back to yours</button>
    </form>
  </div>`

/** A page of a signed-in person. */
export function page(
  visit: Visit,
  { about, body, done, errors = [], labels, scripts = [], status = 200, title }: Page,
): Response | Promise<Response> {
  const { context, elsewhere, person } = visit
  guard(context)
  return context.html(
    html`<!doctype html>
      <html lang="en">
        ${head(title, scripts)}
        <body>
          <a class="skip" href="#main">To the content</a>
          <header>
            <a class="brand" href="/">Postrider</a>
            <form class="find" method="get" action="/mail" role="search" aria-label="Mail">
              <input type="hidden" name="from" value="anywhere" />
              <input
                id="find"
                name="q"
                type="search"
                aria-label="Search mail"
                placeholder="Search mail: address or subject"
                autocomplete="off"
              />
            </form>
            <div class="who">
              <a href="/account">${person.user.email}</a>
              <form method="post" action="/sign-out" class="inline">
                <input type="hidden" name="proof" value="${visit.proof}" /><button class="plain">Sign out</button>
              </form>
            </div>
          </header>
          <div class="columns">
            ${menu(visit)}
            <main id="main">
              ${elsewhere ? elsewhereNote(visit) : ''}
              <h1>${title}</h1>
              ${about === undefined ? '' : html`<p class="soft">${about}</p>`}
              ${done === undefined || done === '' || errors.length > 0 ? '' : html`<p class="done" role="status">${done}</p>`}
              ${refusals(errors, labels)} ${body}
            </main>
          </div>
        </body>
      </html>`,
    status,
  )
}

/** A page without a signed-in person. */
export function plainPage(
  context: Context,
  { body, status = 200, title }: Pick<Page, 'body' | 'status' | 'title'>,
): Response | Promise<Response> {
  guard(context)
  return context.html(
    html`<!doctype html>
      <html lang="en">
        ${head(title, [])}
        <body class="narrow">
          <main id="main">
            <h1>${title}</h1>
            ${body}
          </main>
        </body>
      </html>`,
    status,
  )
}
