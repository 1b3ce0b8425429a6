// The recipients of a campaign as tiles and links: before its start, and where an audience is chosen.
import { html } from 'hono/html'
import { count, counted, table, tile, type Html } from '../views/html/widgets.ts'
import { page } from '../views/html/frame.ts'
import { found, type Place } from '../views/html/place.ts'
import { number, text, type Thing, type Visit } from '../views/html/visit.ts'
import type { audiences } from './api-audiences.ts'
import { audienceReach, suppressedContacts, type campaignReach } from './api-reach.ts'
import { LEFT_OUT } from './walk.ts'

/** Of a campaign, or of an audience. */
export type Reachable = Thing<typeof campaignReach> | Thing<typeof audienceReach>

/** The labels of the reasons, after a number. */
const WORDS = {
  unsubscribed: 'unsubscribed',
  bounced: 'bounced',
  complained: 'complained',
  pending: 'not confirmed',
  suppressed: 'suppressed',
} as const

export const leftOutOf = (reach: Reachable): number => LEFT_OUT.reduce((sum, why) => sum + number(reach, why), 0)

/** "303 recipients." */
export const getIt = (reach: Reachable): string => `${counted(number(reach, 'recipients'), 'recipient')}.`

/** "303 recipients, 13 excluded (12 bounced, 1 complained)." */
export function reachWords(reach: Reachable): string {
  const out = leftOutOf(reach)
  if (out === 0) return getIt(reach)
  const why = LEFT_OUT.filter((each) => number(reach, each) > 0)
  return `${getIt(reach).slice(0, -1)}, ${count(out)} excluded (${why.map((each) => `${count(number(reach, each))} ${WORDS[each]}`).join(', ')}).`
}

/** The number of recipients and of excluded contacts per reason, each with a link to its list. */
export function reachTiles(reach: Reachable, audience: string | undefined): Html {
  const list = (status: string): string =>
    status === 'suppressed' ? `/audiences/${audience}/suppressed` : `/audiences/${audience}?status=${status}`
  const out = LEFT_OUT.filter((each) => number(reach, each) > 0).map((each) => {
    const words = `${count(number(reach, each))} ${WORDS[each]}`
    return audience === undefined ? words : html`<a href="${list(each)}">${words}</a>`
  })
  return html`<div class="tiles">
    ${tile('Recipients', count(number(reach, 'recipients')), {
      note: html`<span>subscribed and not suppressed</span>`,
      ...(audience === undefined ? {} : { to: list('subscribed') }),
    })}
    ${tile('Excluded', count(leftOutOf(reach)), {
      note: html`<span
        >${out.length === 0 ? 'no contacts' : out.map((each, at) => html`${at === 0 ? '' : ', '}${each}`)}</span
      >`,
    })}
  </div>`
}

/**
 * Recipients are counted for a choice only up to this many contacts. Larger audiences show their number of contacts.
 */
const COUNTED = 200_000

/** Audiences as the options of a field, each with the number of contacts that would get a campaign. */
export async function audienceOptions(
  visit: Visit,
  all: readonly Thing<typeof audiences>[],
): Promise<[id: string, words: string][]> {
  let room = COUNTED
  const options: [string, string][] = []
  for (const audience of all) {
    const held = number(audience, 'contacts_count')
    room -= held
    const one = room < 0 ? undefined : (await visit.get(audienceReach, `/audiences/${audience.id}/reach`)).one
    const words = one ? getIt(one).slice(0, -1) : counted(held, 'contact')
    options.push([audience.id, `${text(audience, 'name')} (${words})`])
  }
  return options
}

/** Subscribed contacts that get no emails because their address is suppressed. */
export const suppressedPlace: Place = {
  path: '/audiences/:id/suppressed',
  async show(visit) {
    const id = visit.context.req.param('id')!
    const reach = found(await visit.get(audienceReach, `/audiences/${id}/reach`)).one
    const answer = await visit.all(suppressedContacts, `/audiences/${id}/suppressed-contacts`)
    const all = number(reach, 'suppressed')
    return page(visit, {
      title: 'Suppressed contacts',
      about:
        'Subscribed contacts that get no campaigns because their address is suppressed. See Suppressions for the reason and the duration.',
      crumbs: [
        ['/audiences', 'Audiences'],
        [`/audiences/${id}`, 'Audience'],
      ],
      body: html`${table(
        'Suppressed contacts',
        ['Address', 'Name', ''],
        answer.map((each) => [
          html`<a href="/audiences/${id}/contacts/${each.id}">${text(each, 'email')}</a>`,
          text(each, 'name'),
          html`<a href="/suppressions?q=${encodeURIComponent(text(each, 'email'))}">Why?</a>`,
        ]),
        'No suppressed contacts.',
      )}
      ${all > answer.length ? html`<p class="soft">Showing the first ${count(answer.length)} of ${count(all)}.</p>` : ''}`,
    })
  },
}
