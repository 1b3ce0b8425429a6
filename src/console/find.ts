// The search: every page, and the resources of the account whose name contains the words. The script of the console
// shows it as a dialog (Ctrl-K). It excludes email, of which there may be millions. The search of email is one key
// away.
import { html } from 'hono/html'
import { audiences } from '../campaigns/api-audiences.ts'
import { campaigns } from '../campaigns/api.ts'
import { domains } from '../domains/api.ts'
import { people } from '../users/api-people.ts'
import { inboxes } from '../inbound/api.ts'
import type { Resource } from '../jsonapi/resource.ts'
import { webhooks } from '../webhooks/api.ts'
import { page, placesFor } from '../views/html/frame.ts'
import { icon, type Icon } from '../views/html/icons.ts'
import type { Place } from '../views/html/place.ts'
import { text, type Thing, type Visit } from '../views/html/visit.ts'
import { search, type Html } from '../views/html/widgets.ts'

interface Hit {
  to: string
  name: string
  icon: Icon
}

/** Frequent actions, by the page on which they start. */
const BEGUN: readonly Hit[] = [
  { to: '/campaigns/new', name: 'New campaign', icon: 'campaigns' },
  { to: '/audiences/new', name: 'New audience', icon: 'audiences' },
  { to: '/domains/new', name: 'Add domain', icon: 'domains' },
  { to: '/tokens/new', name: 'New token', icon: 'tokens' },
  { to: '/webhooks/new', name: 'New webhook', icon: 'webhooks' },
  { to: '/inboxes/new', name: 'Add inbox', icon: 'inboxes' },
  { to: '/suppressions/new', name: 'Add suppressions', icon: 'suppressions' },
  { to: '/members/new', name: 'Invite member', icon: 'people' },
  { to: '/people/new', name: 'Invite user', icon: 'people' },
]

/** The number of newest resources of a kind that are searched, and the number that is shown. */
const LOOKED_AT = 100
const SHOWN = 6

const fits = (words: string, name: string): boolean => name.toLowerCase().includes(words)

/** A kind of resource that is found by its name. */
const kind = <R extends Resource>(
  group: string,
  of: R,
  sign: Icon,
  nameOf: (each: Thing<R>) => string,
  pathOf: (each: Thing<R>) => string = ({ id }) => `/${of.type}/${id}`,
) => ({
  group,
  async find(visit: Visit, words: string): Promise<Hit[]> {
    if (!visit.opens(`/${of.type}`)) return []
    const { many } = await visit.get(of, `/${of.type}?page%5Bsize%5D=${LOOKED_AT}`)
    return many
      .map((each) => ({ to: pathOf(each), name: nameOf(each), icon: sign }))
      .filter(({ name }) => fits(words, name))
  },
})

const KINDS = [
  kind(
    'Domains',
    domains,
    'domains',
    (each) => text(each, 'name'),
    (each) => `/domains/${text(each, 'name')}`,
  ),
  kind('Campaigns', campaigns, 'campaigns', (each) => text(each, 'name')),
  kind('Audiences', audiences, 'audiences', (each) => text(each, 'name')),
  kind('Inboxes', inboxes, 'inboxes', (each) => text(each, 'address')),
  kind('Webhooks', webhooks, 'webhooks', (each) => text(each, 'name')),
  kind('Users', people, 'people', (each) => text(each, 'email')),
]

const named = (visit: Visit, words: string): Promise<[group: string, hits: Hit[]][]> =>
  Promise.all(
    KINDS.map(async (each): Promise<[string, Hit[]]> => [
      each.group,
      words === '' ? [] : await each.find(visit, words),
    ]),
  )

async function hitsOf(visit: Visit, words: string): Promise<[group: string, hits: Hit[]][]> {
  const low = words.toLowerCase()
  const pages = placesFor(visit).flatMap(({ entries }) =>
    entries.map(({ icon: sign, name, path }): Hit => ({ to: path, name, icon: sign })),
  )
  const begun = BEGUN.filter(({ to }) => visit.opens(to, true))
  const mail: Hit = { to: `/mail?q=${encodeURIComponent(words)}`, name: `Search emails for “${words}”`, icon: 'search' }
  const groups: [string, Hit[]][] = [
    ...(await named(visit, low)),
    ['Pages', pages.filter(({ name }) => fits(low, name))],
    ['Create', begun.filter(({ name }) => fits(low, name))],
    ['Emails', words === '' ? [] : [mail]],
  ]
  return groups.flatMap(([group, hits]): [string, Hit[]][] => {
    const shown = words === '' ? hits : hits.slice(0, SHOWN)
    return shown.length === 0 ? [] : [[group, shown]]
  })
}

const MOST_WORDS = 100

async function show(visit: Visit): Promise<Response> {
  const words = visit.query('q').trim().slice(0, MOST_WORDS)
  const groups = await hitsOf(visit, words)
  return page(visit, {
    title: 'Search or jump to',
    about: 'Find pages, domains, campaigns, audiences, inboxes, webhooks and users by name.',
    body: html`${search(visit, 'Name')}
      <div id="found" class="found">
        ${groups.map(
          ([group, hits]): Html =>
            html`<h2>${group}</h2>
              <ul>
                ${hits.map(
                  ({ icon: sign, name, to }) =>
                    html`<li>
                      <a href="${to}">${icon(sign)} <span>${name}</span></a>
                    </li>`,
                )}
              </ul>`,
        )}
      </div>`,
  })
}

export const find: Place = { path: '/find', show }

/** The keys of the console, except those that lead to pages. */
const KEYS: readonly (readonly [keys: string, does: string])[] = [
  ['Ctrl K', 'Search or jump to'],
  ['/', 'Search emails'],
  ['j, k', 'Next and previous row of a list'],
  ['Enter', 'Open the row'],
  ['?', 'Show this list'],
]

const keyRow = (keys: string, does: string): Html =>
  html`<div>
    <dt><kbd>${keys}</kbd></dt>
    <dd>${does}</dd>
  </div>`

export const keys: Place = {
  path: '/keys',
  show: (visit) =>
    page(visit, {
      title: 'Keyboard shortcuts',
      about: 'These work on every page when no field has the focus.',
      body: html`<div id="keys-shown">
        <dl class="keys">${KEYS.map(([each, does]) => keyRow(each, does))}</dl>
        <h2>Pages</h2>
        <dl class="keys">
          ${placesFor(visit).flatMap(({ entries }) => entries.map(({ key, name }) => keyRow(`g ${key}`, name)))}
        </dl>
      </div>`,
    }),
}
