// Find: every page, and the named things of the account whose name has the words. The script of the console shows it as
// a dialog (Ctrl-K). Mail is not searched here: it may be millions, and the search of mail is one key away.
import { html } from 'hono/html'
import { audiences } from '../campaigns/api-audiences.ts'
import { campaigns } from '../campaigns/api.ts'
import { domains } from '../domains/api.ts'
import { people } from '../http/api-people.ts'
import { inboxes } from '../inbound/api.ts'
import type { Resource } from '../jsonapi/resource.ts'
import { webhooks } from '../webhooks/api.ts'
import { page, placesFor } from '../webui/frame.ts'
import { icon, type Icon } from '../webui/icons.ts'
import type { Place } from '../webui/place.ts'
import { text, type Thing, type Visit } from '../webui/visit.ts'
import { search, type Html } from '../webui/widgets.ts'

interface Hit {
  to: string
  name: string
  icon: Icon
}

/** What is often begun, by its page. */
const BEGUN: readonly (Hit & { operator?: true })[] = [
  { to: '/campaigns/new', name: 'New campaign', icon: 'campaigns' },
  { to: '/audiences/new', name: 'New audience', icon: 'audiences' },
  { to: '/domains/new', name: 'Add domain', icon: 'domains' },
  { to: '/tokens/new', name: 'New token', icon: 'tokens' },
  { to: '/webhooks/new', name: 'New webhook', icon: 'webhooks' },
  { to: '/inboxes/new', name: 'Add inbox', icon: 'inboxes' },
  { to: '/suppressions/new', name: 'Add addresses to suppressions', icon: 'suppressions' },
  { to: '/people/new', name: 'Invite person', icon: 'people', operator: true },
]

/** How many things of a kind are looked at, the newest ones, and how many are shown. */
const LOOKED_AT = 100
const SHOWN = 6

const fits = (words: string, name: string): boolean => name.toLowerCase().includes(words)

/** The things of a resource that fit, by a name that `hit` gives them. */
async function things<R extends Resource>(
  visit: Visit,
  resource: R,
  words: string,
  hit: (thing: Thing<R>) => Hit,
): Promise<Hit[]> {
  const { many } = await visit.get(resource, `/${resource.type}?page%5Bsize%5D=${LOOKED_AT}`)
  return many.map(hit).filter(({ name }) => fits(words, name))
}

async function named(visit: Visit, words: string): Promise<[group: string, hits: Hit[]][]> {
  if (words === '') return []
  const [theDomains, theCampaigns, theAudiences, theInboxes, theWebhooks, thePeople] = await Promise.all([
    things(visit, domains, words, (each) => ({
      to: `/domains/${text(each, 'name')}`,
      name: text(each, 'name'),
      icon: 'domains',
    })),
    things(visit, campaigns, words, (each) => ({
      to: `/campaigns/${each.id}`,
      name: text(each, 'name'),
      icon: 'campaigns',
    })),
    things(visit, audiences, words, (each) => ({
      to: `/audiences/${each.id}`,
      name: text(each, 'name'),
      icon: 'audiences',
    })),
    things(visit, inboxes, words, (each) => ({
      to: `/inboxes/${each.id}`,
      name: text(each, 'address'),
      icon: 'inboxes',
    })),
    things(visit, webhooks, words, (each) => ({
      to: `/webhooks/${each.id}`,
      name: text(each, 'name'),
      icon: 'webhooks',
    })),
    visit.operator
      ? things(visit, people, words, (each) => ({ to: '/people', name: text(each, 'email'), icon: 'people' }))
      : [],
  ])
  return [
    ['Domains', theDomains],
    ['Campaigns', theCampaigns],
    ['Audiences', theAudiences],
    ['Inboxes', theInboxes],
    ['Webhooks', theWebhooks],
    ['People', thePeople],
  ]
}

async function hitsOf(visit: Visit, words: string): Promise<[group: string, hits: Hit[]][]> {
  const low = words.toLowerCase()
  const pages = placesFor(visit).flatMap(({ entries }) =>
    entries.map(({ icon: sign, name, path }): Hit => ({ to: path, name, icon: sign })),
  )
  const begun = visit.reading ? [] : BEGUN.filter(({ operator }) => !operator || visit.operator)
  const mail: Hit = { to: `/mail?q=${encodeURIComponent(words)}`, name: `Search mail for “${words}”`, icon: 'search' }
  const groups: [string, Hit[]][] = [
    ...(await named(visit, low)),
    ['Pages', pages.filter(({ name }) => fits(low, name))],
    ['Create', begun.filter(({ name }) => fits(low, name))],
    ['Mail', words === '' ? [] : [mail]],
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
    title: 'Go to anything',
    about: 'Pages, domains, campaigns, audiences, inboxes, webhooks and people by their names.',
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

/** What the keys of the console do, beside those that lead to pages. */
const KEYS: readonly (readonly [keys: string, does: string])[] = [
  ['Ctrl K', 'Go to anything'],
  ['/', 'Search mail'],
  ['j, k', 'The next and the previous row of a list'],
  ['Enter', 'Open the row'],
  ['?', 'This page'],
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
      title: 'Keys',
      about: 'What the keyboard does on every page, while no field has the focus.',
      body: html`<div id="keys-shown">
        <dl class="keys">${KEYS.map(([each, does]) => keyRow(each, does))}</dl>
        <h2>Pages</h2>
        <dl class="keys">
          ${placesFor(visit).flatMap(({ entries }) => entries.map(({ key, name }) => keyRow(`g ${key}`, name)))}
        </dl>
      </div>`,
    }),
}
