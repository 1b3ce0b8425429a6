// Icons: strokes on a grid of 16, in the colour of the text next to them. They only supplement words, so a screen
// reader skips them.
import { html, raw } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'

type Drawn = HtmlEscapedString | Promise<HtmlEscapedString>

const PATHS = {
  overview: 'M2.5 9.5h4v4h-4zM9.5 2.5h4v6h-4zM2.5 2.5h4v4h-4zM9.5 11.5h4v2h-4z',
  mail: 'M2 4.5h12v8H2zM2.3 5l5.7 4.2L13.7 5',
  receivers: 'M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM1.5 8h13M8 1.5c4 4 4 9 0 13M8 1.5c-4 4-4 9 0 13',
  queue: 'M2.5 4h11M2.5 8h11M2.5 12h7M12.5 10.5V14l2-1.2',
  suppressions: 'M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM3.5 3.5l9 9',
  campaigns: 'M2.5 6.5v3h2.3l6.7 3.5V3L4.8 6.5zM5 9.8l.8 3.7h1.7L6.8 10.8M13.5 6.5v3',
  audiences:
    'M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1.5 13.5c0-6 9-6 9 0M10.5 2.9a2.3 2.3 0 0 1 0 4.4M12 9.6c1.6.6 2.5 1.9 2.5 3.9',
  pictures: 'M2 3h12v10H2zM2 11l3.5-3.5 3 3 2-2 3.5 3M10.5 6h.1',
  forms: 'M3 2h10v12H3zM5.2 5h5.6M5.2 7.5h5.6M5.2 10.5h3v1.5h-3z',
  brand: 'M8 14.5a6.5 6.5 0 1 1 6.5-6.5c0 3-4.5 1-5 3-.3 1.5.8 3.5-1.5 3.5zM5 6.2h.1M8 4.6h.1M11 6.2h.1M4.6 9.5h.1',
  inboxes: 'M2 9.5l2-6.5h8l2 6.5v4H2zM2 9.5h3.5l1 1.8h3l1-1.8H14',
  domains: 'M2 3h12v10H2zM2 6.2h12M4 4.6h.1M6 4.6h.1',
  tokens: 'M6 10a3 3 0 1 1-.1-6A3 3 0 0 1 6 10zM8.5 8.5L13.5 13.5M11 11l1.6-1.6',
  webhooks: 'M9.5 2L4.5 9h3l-1 5 5-7h-3z',
  agents: 'M3 6h10v7H3zM8 6V3M8 3h.1M5.8 9h.1M10.2 9h.1M6.2 11.3h3.6',
  people: 'M8 7.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2.5 14c0-7 11-7 11 0',
  server: 'M2.5 2.5h11v4.5h-11zM2.5 9h11v4.5h-11zM5 4.7h.1M5 11.2h.1',
  privacy: 'M8 1.5l5.5 2v4c0 3.6-2.3 5.8-5.5 7-3.2-1.2-5.5-3.4-5.5-7v-4zM5.7 8l1.7 1.7L10.5 6.4',
  history: 'M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM8 4.5V8l2.5 1.5',
  reference: 'M5.5 4.5L2 8l3.5 3.5M10.5 4.5L14 8l-3.5 3.5',
  search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3l3.5 3.5',
  keys: 'M1.5 4h13v8h-13zM4 6.5h.1M6.7 6.5h.1M9.3 6.5h.1M12 6.5h.1M5 9.5h6',
  menu: 'M2 4.5h12M2 8h12M2 11.5h12',
  attachment: 'M11 4.5L5.8 9.7a1.6 1.6 0 0 0 2.3 2.3l5-5a3.2 3.2 0 0 0-4.6-4.5L3.4 7.7a4.7 4.7 0 0 0 6.7 6.6',
  account:
    'M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM8 8.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM4.3 12.6c1-2.7 6.4-2.7 7.4 0',
  leave: 'M6 2.5H2.5v11H6M10 5l3 3-3 3M13 8H6',
  warning: 'M8 2L14.5 13.5h-13zM8 6.5v3.3M8 11.6h.1',
  problem: 'M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM8 4.5v4.3M8 11.2h.1',
  open: 'M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13z',
  done: 'M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM5.2 8.2l2 2 3.8-4.2',
} as const

export type Icon = keyof typeof PATHS

export const icon = (name: Icon): Drawn =>
  html`<svg
    width="16"
    height="16"
    viewBox="0 0 16 16"
    fill="none"
    stroke="currentColor"
    stroke-width="1.5"
    stroke-linecap="round"
    stroke-linejoin="round"
    aria-hidden="true"
  >
    <path d="${PATHS[name]}" />
  </svg>`

/** The logo: an envelope on its way. */
const MARK =
  '<rect width="32" height="32" rx="8" fill="#1d5bd8"/><path d="M8 11.5h14l-2.6 10H5.4zM8.4 12l5.4 5 7.6-5M23.5 14H27M22.6 17.5H26M21.7 21H24" fill="none" stroke="#fff" stroke-width="1.9" stroke-linejoin="round" stroke-linecap="round"/>'

export const mark = (): Drawn => html`<svg viewBox="0 0 32 32" aria-hidden="true">${raw(MARK)}</svg>`

/** The logo as an icon of browser tabs. */
export const FAVICON = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${MARK}</svg>`)}`
