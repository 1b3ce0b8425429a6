// The public API reference at /docs, rendered from the OpenAPI document. A page changes only with the public URL, so it
// is rendered once per theme and cached compressed.
import { createHash } from 'node:crypto'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import type { Context } from 'hono'
import { html } from 'hono/html'
import type { AppDeps } from '../http/app-deps.ts'
import { must, refuse } from '../base/errors.ts'
import { openApi, resourcesOf } from '../http/server.ts'
import { guard, head } from '../views/html/frame.ts'
import { icon, mark } from '../views/html/icons.ts'
import { chosenLook } from '../views/html/look.ts'
import type { Html } from '../views/html/widgets.ts'
import { Reference, type Operation, type ReferencePage } from './reference/document.ts'
import { call } from './reference/pieces.ts'
import { quickStart, SECTIONS } from './reference/quick-start.ts'
import { eventsPage, resourcePage } from './reference/resource-page.ts'

interface KeptPage {
  tag: string
  packed: Uint8Array<ArrayBuffer>
}

/** A page, as the list of pages and the search need it. */
interface ListedPage extends Pick<ReferencePage, 'group' | 'name' | 'title'> {
  operations: Pick<Operation, 'id' | 'method' | 'path' | 'summary'>[]
}

/** A page to render. */
interface Shown {
  /** '' for the first page, undefined for search results. */
  name: string | undefined
  title: string
  about: string
  group: string
  body: Html
}

const FIRST = 'Quick start'
/** The indentation of the templates, which is half of a page. That of code samples is kept. */
const INDENTS = /(<pre[^]*?<\/pre>)|\n\s+/g

/** The pages of the reference, by theme and name. */
export class Docs {
  readonly #deps: Pick<AppDeps, 'config' | 'subjects'>
  #url = ''
  #kept = new Map<string, KeptPage>()
  /** The document itself is not kept, because it is large and only needed to render a page. */
  #pages: readonly ListedPage[] = []

  constructor(deps: Pick<AppDeps, 'config' | 'subjects'>) {
    this.#deps = deps
  }

  /** Returns a page by the last part of its path, '' for the first page. Throws 404 if it does not exist. */
  async show(context: Context, name: string): Promise<Response> {
    const key = `${chosenLook(context, 'theme')} ${name}`
    const pages = this.#list()
    if (name !== '' && !pages.some((page) => page.name === name))
      throw refuse('not_found', 'The reference has no page with this name. Open /docs for the list of pages.')
    const all = this.#kept
    const kept = all.get(key) ?? (await this.#make(context, name))
    all.set(key, kept)
    return answer(context, kept)
  }

  /** The pages for the current public URL, which can change after the start. */
  #list(): readonly ListedPage[] {
    const url = this.#deps.config.http.public_url
    if (this.#url !== url) {
      this.#url = url
      this.#kept = new Map()
      this.#pages = this.#reference().pages.map(({ group, name, operations, title }) => ({
        group,
        name,
        title,
        operations: operations.map(({ id, method, path, summary }) => ({ id, method, path, summary })),
      }))
    }
    return this.#pages
  }

  /** Returns the search results: pages and operations that contain all words. */
  async find(context: Context, asked: string): Promise<Response> {
    const pages = this.#list()
    const words = asked.toLowerCase().split(/\s+/).filter(Boolean)
    const found = pages
      .map((page) => {
        const has = (text: string): boolean => words.every((word) => text.toLowerCase().includes(word))
        const operations = page.operations.filter(({ path, summary }) => has(`${page.title} ${path} ${summary}`))
        return { page, operations }
      })
      .filter(({ operations }) => operations.length > 0)
    const body = html`${
      found.length === 0
        ? html`<p class="empty">No page or operation matches. Try other words, or choose a page from the list.</p>`
        : found.map(
            ({ operations, page }) =>
              html`<section>
                <h2><a href="/docs/${page.name}">${page.title}</a></h2>
                ${operations.map(
                  (each) =>
                    html`<p>
                        <a href="/docs/${page.name}#${anchorOf(page, each)}">${each.summary}</a>
                      </p>
                      ${call(each)}`,
                )}
              </section>`,
          )
    }`
    guard(context)
    const shown = {
      name: undefined,
      title: `Results for “${asked}”`,
      about: `Pages and operations that contain “${asked}”.`,
      group: '',
      body,
    }
    return context.html(framed(context, pages, shown, asked))
  }

  #reference(): Reference {
    return new Reference(openApi(resourcesOf(this.#deps.subjects), this.#deps.config.http.public_url))
  }

  async #make(context: Context, name: string): Promise<KeptPage> {
    const reference = this.#reference()
    const text = String(await framed(context, reference.pages, this.#shown(reference, name), ''))
    const bytes = Buffer.from(text.replaceAll(INDENTS, (_, program?: string) => program ?? '\n'))
    return {
      tag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`,
      packed: new Uint8Array(brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } })),
    }
  }

  #shown(reference: Reference, name: string): Shown {
    const { rate_burst, rate_limit } = this.#deps.config.api
    if (name === '')
      return {
        name,
        title: FIRST,
        group: '',
        about: 'From a token to your first email, and the conventions of all requests.',
        body: quickStart(reference, { rate_burst, rate_limit }),
      }
    const page = must(
      reference.pages.find((each) => each.name === name),
      `The page ${name} of the reference`,
    )
    return { ...page, body: name === 'events' ? eventsPage(reference, page) : resourcePage(reference, page) }
  }
}

/** The anchor of an operation on its page. */
const anchorOf = (page: ListedPage, { id, path }: ListedPage['operations'][number]): string =>
  page.name === 'events' ? path : id

function answer(context: Context, { packed, tag }: KeptPage): Response {
  guard(context)
  context.header('Cache-Control', 'no-cache')
  context.header('ETag', tag)
  // The theme is in a cookie.
  context.header('Vary', 'Accept-Encoding, Cookie')
  context.header('Content-Type', 'text/html; charset=UTF-8')
  if (context.req.header('if-none-match') === tag) return context.body(null, 304)
  if (!/\bbr\b/.test(context.req.header('accept-encoding') ?? ''))
    return context.body(new Uint8Array(brotliDecompressSync(packed)))
  context.header('Content-Encoding', 'br')
  return context.body(packed)
}

/** The list of pages, in groups. */
function sidebar(pages: readonly ListedPage[], here: string | undefined): Html {
  const link = (to: string, name: string, current: boolean): Html =>
    html`<li><a href="${to}" ${current ? html`aria-current="page"` : ''}>${name}</a></li>`
  const groups = [...Map.groupBy(pages, ({ group }) => group)]
  return html`<nav aria-label="Reference pages">
    <details class="menu" open>
      <summary>${icon('menu')} Pages</summary>
      <ul>
        ${link('/docs', FIRST, here === '')}
        ${SECTIONS.map(([id, title]) => html`<li class="below"><a href="/docs#${id}">${title}</a></li>`)}
        ${groups.map(
          ([group, entries]) =>
            html`<li class="group">${group}</li>
              ${entries.map(({ name, title }) => link(`/docs/${name}`, title, here === name))}`,
        )}
      </ul>
    </details>
  </nav>`
}

/** Links to the previous and the next page. */
function neighbours(pages: readonly ListedPage[], here: string | undefined): Html | '' {
  const order = [{ name: '', title: FIRST }, ...pages]
  const at = order.findIndex(({ name }) => name === here)
  if (at < 0) return ''
  const [before, after] = [order[at - 1], order[at + 1]]
  const to = (name: string): string => (name === '' ? '/docs' : `/docs/${name}`)
  return html`<nav class="neighbours" aria-label="Previous and next page">
    ${before ? html`<a class="button plain" rel="prev" href="${to(before.name)}">← ${before.title}</a>` : html`<span></span>`}
    ${after ? html`<a class="button plain" rel="next" href="${to(after.name)}">${after.title} →</a>` : ''}
  </nav>`
}

/** The theme that the user chose, as an attribute of the page. */
function themed(context: Context): Html | '' {
  const theme = chosenLook(context, 'theme')
  return theme === '' ? '' : html`data-theme="${theme}"`
}

const framed = (
  context: Context,
  pages: readonly ListedPage[],
  { about, body, group, name, title }: Shown,
  asked: string,
): Html =>
  html`<!doctype html>
    <html lang="en" ${themed(context)}>
      ${head(`${title} · API reference`, ['docs.js'], ['docs.css'])}
      <body>
        <a class="skip" href="#main">Skip to content</a>
        <header class="bar">
          <a class="brand" href="/docs" aria-label="Postrider, API reference">${mark()} <span>Postrider API</span></a>
          <form class="find" method="get" action="/docs" role="search" aria-label="Reference">
            ${icon('search')}
            <input
              id="find"
              name="q"
              type="search"
              value="${asked}"
              aria-label="Search the reference"
              placeholder="Search pages and operations"
              autocomplete="off"
            />
            <kbd aria-hidden="true">/</kbd>
          </form>
          <nav class="ways" aria-label="Other pages">
            <a href="/api/v1/openapi.json">OpenAPI</a> <a href="/">Console</a>
          </nav>
        </header>
        <div class="columns">
          ${sidebar(pages, name)}
          <main id="main" class="reference">
            ${group === '' ? '' : html`<p class="crumbs">${group}</p>`}
            <header class="head">
              <div>
                <h1>${title}</h1>
                <p class="soft">${about}</p>
              </div>
            </header>
            ${body} ${neighbours(pages, name)}
          </main>
        </div>
      </body>
    </html>`
