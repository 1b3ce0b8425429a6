// The frame of every page: head, navigation, and security headers.
import type { Context } from 'hono'
import { html, raw } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { assetPath } from './assets.ts'
import { FAVICON, icon, mark } from './icons.ts'
import { chosenLook, LOOK, LOOK_NAMES, lookOf, type LookName } from './look.ts'
import { ROLES } from '../../jsonapi/roles.ts'
import { inZone, tabs, type Cell, type Html } from './widgets.ts'
import { refusals } from './forms.ts'
import type { Answer, Labels, MenuCounter, Visit } from './visit.ts'
import type { MenuEntry } from './navigation.ts'

/** The groups of the menu. */
const GROUPS: readonly MenuEntry['group'][] = ['', 'Delivery', 'Newsletters', 'Inbound', 'Setup', 'Admin']

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

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
  /** The pages above this one. */
  crumbs?: readonly (readonly [path: string, name: string])[]
  /** The main actions of the page: buttons and links at the right of its head. */
  actions?: Cell
  body: Cell
  /** The API's refusal of the last action. */
  errors?: Answer['errors']
  /** The labels of the fields of the page's form, by the names of their attributes. */
  labels?: Labels
  /** The sentence that confirms the last action. */
  done?: string | undefined
  status?: ContentfulStatusCode
  /** The name of the server, on a page without a signed-in user. */
  server?: string
  /** Additional scripts, by the name of their asset. */
  scripts?: readonly string[]
}

/** The head of a page, with its scripts and its additional styles. */
export const head = (title: string, scripts: readonly string[], styles: readonly string[] = []): Html =>
  html`<head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="htmx-config" content='{"allowEval":false,"includeIndicatorStyles":false,"historyCacheSize":0}' />
    <title>${title} · Postrider</title>
    <link rel="preload" href="${assetPath('inter-latin.woff2')}" as="font" type="font/woff2" crossorigin />
    ${['console.css', ...styles].map((name) => html`<link rel="stylesheet" href="${assetPath(name)}" />`)}
    <link rel="icon" href="${FAVICON}" />
    ${scripts.map((name) => html`<script type="module" src="${assetPath(name)}"></script>`)}
  </head>`

/** The menu entries that this user can see, in groups. */
export const placesFor = (visit: Visit): { group: string; entries: MenuEntry[] }[] =>
  GROUPS.map((group) => ({
    group,
    entries: visit.navigation.menu.filter((entry) => entry.group === group && visit.sees(entry)),
  })).filter(({ entries }) => entries.length > 0)

/** The tabs of the page "Server". */
export const serverTabs = (visit: Visit, here: string): Html =>
  tabs(
    'Server',
    visit.navigation.serverTabs.map(([to, name]) => ({ to, name, here: to === here })),
  )

const counterShown = (counter: MenuCounter | undefined): Html | '' =>
  counter === undefined
    ? ''
    : html`<span class="counter ${counter.bad ? 'bad' : ''}" title="${counter.means}"
        >${counter.shown}<span class="hidden"> ${counter.means}</span></span
      >`

async function menu(visit: Visit): Promise<HtmlEscapedString> {
  const counters = await visit.counters()
  const here = visit.context.req.path
  const isHere = (path: string): boolean => (path === '/' ? here === '/' : here === path || here.startsWith(`${path}/`))
  return html`<nav aria-label="Main">
    <details class="menu" open>
      <summary>${icon('menu')} Menu</summary>
      <ul>
        ${placesFor(visit).map(
          ({ entries, group }) =>
            html`${group === '' ? '' : html`<li class="group">${group}</li>`}
            ${entries.map(
              (entry) =>
                html`<li>
                  <a href="${entry.path}" data-key="${entry.key}" ${isHere(entry.path) ? html`aria-current="page"` : ''}
                    >${icon(entry.icon)} ${entry.name} ${counterShown(counters[entry.path])}</a
                  >
                </li>`,
            )}`,
        )}
      </ul>
    </details>
  </nav>`
}

/** One of the display settings, as buttons in a row. */
function lookChoice(context: Context, name: LookName): Html {
  const chosen = chosenLook(context, name)
  return html`<div class="segments">
    ${LOOK[name].map(
      ([value, words]) =>
        html`<button class="plain small" name="${name}" value="${value}" aria-pressed="${String(chosen === value)}">
          ${words}
        </button>`,
    )}
  </div>`
}

/** The menu of the user: the account, the display settings, and sign-out. */
function personMenu({ account, context, person, proof }: Visit): Html {
  const { role } = person
  const { email, name } = person.user
  return html`<div class="who">
    <button class="avatar" type="button" popovertarget="person" aria-label="Account of ${email}">
      ${(name || email).slice(0, 1)}
    </button>
    <div id="person" class="popover" popover>
      <p class="whose">
        <strong>${name || email}</strong>${name ? html`<br /><span class="soft">${email}</span>` : ''}
      </p>
      <a href="/account">${icon('account')} Your account</a>
      <a href="/accounts">${icon('people')} ${account.email} · ${ROLES[role].name}</a>
      <a href="/find" data-opens="find">${icon('search')} Search or jump to <kbd aria-hidden="true">Ctrl K</kbd></a>
      <a href="/keys" data-opens="keys">${icon('keys')} Keyboard shortcuts <kbd aria-hidden="true">?</kbd></a>
      <form method="post" action="/look" class="look">
        <input type="hidden" name="proof" value="${proof}" />
        <input type="hidden" name="back" value="${context.req.path}" />
        ${LOOK_NAMES.map((choice) => lookChoice(context, choice))}
      </form>
      <form method="post" action="/sign-out" class="inline">
        <input type="hidden" name="proof" value="${proof}" />
        <button class="entry">${icon('leave')} Sign out</button>
      </form>
    </div>
  </div>`
}

const elsewhereNote = ({ account, proof }: Visit): Html =>
  html`<div class="alert">
    You are viewing the account of <strong>${account.email}</strong>.
    <form method="post" action="/people" class="inline">
      <input type="hidden" name="proof" value="${proof}" /><input type="hidden" name="action" value="leave" />
      <button class="plain">Back to your account</button>
    </form>
  </div>`

/** A page of a signed-in user. */
export async function page(
  visit: Visit,
  { about, actions, body, crumbs = [], done, errors = [], labels, scripts = [], status = 200, title }: Page,
): Promise<Response> {
  const { context, elsewhere, zone } = visit
  guard(context)
  // A field shows the error about it, and has the focus.
  const shown = String(await body)
  const others = errors.filter(({ field }) => field === undefined || !shown.includes(`id="${field}-error"`))
  const whole = await html`<!doctype html>
    <html lang="en" ${lookOf(context)}>
      ${head(title, ['console.js', ...scripts])}
      <body>
        <a class="skip" href="#main">Skip to content</a>
        <header class="bar">
          <a class="brand" href="/" aria-label="Postrider, overview">${mark()} <span>Postrider</span></a>
          <form class="find" method="get" action="/mail" role="search" aria-label="Emails">
            ${icon('search')}
            <input type="hidden" name="from" value="anywhere" />
            <input
              id="find"
              name="q"
              type="search"
              aria-label="Search emails"
              placeholder="Search emails: address or subject"
              value="${context.req.path === '/mail' ? visit.query('q') : ''}"
              autocomplete="off"
            />
            <kbd aria-hidden="true">/</kbd>
          </form>
          ${personMenu(visit)}
        </header>
        <div class="columns">
          ${menu(visit)}
          <main id="main">
            ${elsewhere ? elsewhereNote(visit) : ''}
            ${
              crumbs.length === 0
                ? ''
                : html`<nav class="crumbs" aria-label="Breadcrumb">
                    ${crumbs.map(([path, name], at) => html`${at > 0 ? ' / ' : ''}<a href="${path}">${name}</a>`)}
                  </nav>`
            }
            <header class="head">
              <div>
                <h1>${title}</h1>
                ${about === undefined ? '' : html`<p class="soft">${about}</p>`}
              </div>
              ${actions === undefined || actions === '' ? '' : html`<div class="do" id="do">${actions}</div>`}
            </header>
            ${done === undefined || done === '' || errors.length > 0 ? '' : html`<p class="toast" role="status">${done}</p>`}
            ${refusals(others, labels)} ${raw(shown)}
            <noscript><p class="soft">Times are in ${zone}.</p></noscript>
          </main>
        </div>
      </body>
    </html>`
  return context.html(inZone(String(whole), zone), status)
}

/** A page without a signed-in user. */
export function plainPage(
  context: Context,
  { body, scripts = [], server, status = 200, title }: Pick<Page, 'body' | 'scripts' | 'server' | 'status' | 'title'>,
): Response | Promise<Response> {
  guard(context)
  return context.html(
    html`<!doctype html>
      <html lang="en" ${lookOf(context)}>
        ${head(title, ['console.js', ...scripts])}
        <body class="narrow">
          <main id="main">
            <p class="brand">
              ${mark()} <span>Postrider ${server === undefined ? '' : html`<small>${server}</small>`}</span>
            </p>
            <h1>${title}</h1>
            ${body}
          </main>
        </body>
      </html>`,
    status,
  )
}
