// Whom a campaign reaches, in words and links: before its start, and where an audience is chosen.
import { html } from 'hono/html'
import { count, counted, table, tile, type Html } from '../webui/widgets.ts'
import { page } from '../webui/frame.ts'
import { found, type Place } from '../webui/place.ts'
import { number, text, type Thing, type Visit } from '../webui/visit.ts'
import type { audiences } from './api-audiences.ts'
import { audienceReaches, suppressedContacts, type campaignReaches } from './api-reach.ts'
import { LEFT_OUT } from './walk.ts'

/** Of a campaign, or of an audience. */
export type Reachable = Thing<typeof campaignReaches> | Thing<typeof audienceReaches>

/** The reasons as they stand behind a number. */
const WORDS = { unsubscribed: 'left', bounced: 'bounced', complained: 'complained', suppressed: 'suppressed' } as const

export const leftOutOf = (reach: Reachable): number => LEFT_OUT.reduce((sum, why) => sum + number(reach, why), 0)

/** "303 get it." */
export const getIt = (reach: Reachable): string =>
  number(reach, 'gets') === 1 ? '1 gets it.' : `${count(number(reach, 'gets'))} get it.`

/** "303 get it; 13 left out: 12 bounced, 1 complained." */
export function reachWords(reach: Reachable): string {
  const out = leftOutOf(reach)
  if (out === 0) return getIt(reach)
  const why = LEFT_OUT.filter((each) => number(reach, each) > 0)
  return `${getIt(reach).slice(0, -1)}; ${count(out)} left out: ${why.map((each) => `${count(number(reach, each))} ${WORDS[each]}`).join(', ')}.`
}

/** Who gets it and who does not, each number with its list. */
export function reachTiles(reach: Reachable, audience: string | undefined): Html {
  const list = (status: string): string =>
    status === 'suppressed' ? `/audiences/${audience}/suppressed` : `/audiences/${audience}?status=${status}`
  const out = LEFT_OUT.filter((each) => number(reach, each) > 0).map((each) => {
    const words = `${count(number(reach, each))} ${WORDS[each]}`
    return audience === undefined ? words : html`<a href="${list(each)}">${words}</a>`
  })
  return html`<div class="tiles">
    ${tile('Get it', count(number(reach, 'gets')), {
      note: html`<span>subscribed, and nothing keeps mail away</span>`,
      ...(audience === undefined ? {} : { to: list('subscribed') }),
    })}
    ${tile('Left out', count(leftOutOf(reach)), {
      note: html`<span
        >${out.length === 0 ? 'nobody' : out.map((each, at) => html`${at === 0 ? '' : ', '}${each}`)}</span
      >`,
    })}
  </div>`
}

/** So many contacts in all are counted to name the audiences of a choice; a larger one is named by its contacts. */
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
    const one = room < 0 ? undefined : (await visit.get(audienceReaches, `/audiences/${audience.id}/reach`)).one
    const words = one ? getIt(one).slice(0, -1) : counted(held, 'contact')
    options.push([audience.id, `${text(audience, 'name')} (${words})`])
  }
  return options
}

/** The contacts that are subscribed, and get nothing because their address is suppressed. */
export const suppressedPlace: Place = {
  path: '/audiences/:id/suppressed',
  async show(visit) {
    const id = visit.context.req.param('id')!
    const reach = found(await visit.get(audienceReaches, `/audiences/${id}/reach`)).one
    const answer = await visit.all(suppressedContacts, `/audiences/${id}/suppressed-contacts`)
    const all = number(reach, 'suppressed')
    return page(visit, {
      title: 'Suppressed contacts',
      about:
        'They are subscribed, and get no campaign: their address is suppressed. The list of suppressions says why, and until when.',
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
          html`<a href="/suppressions?q=${encodeURIComponent(text(each, 'email'))}">Why</a>`,
        ]),
        'Nobody.',
      )}
      ${all > answer.length ? html`<p class="soft">The first ${count(answer.length)} of ${count(all)}.</p>` : ''}`,
    })
  },
}
