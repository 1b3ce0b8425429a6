// How far a campaign is: its state in words, its progress while it is sent, and the sending domain of its audience.
import { html } from 'hono/html'
import { MINUTE, SECOND } from '../base/clock.ts'
import { count, type Html } from '../webui/widgets.ts'
import { domains } from '../domains/api.ts'
import { outboundEmails } from '../mail/api.ts'
import { audiences } from './api-audiences.ts'
import type { campaigns } from './api.ts'
import { number, objects, text, those, type Thing, type Visit } from '../webui/visit.ts'

type CampaignResource = Thing<typeof campaigns>

/** The name of the sending domain of an audience; '' when it is gone. */
export async function domainOf(visit: Visit, audience: Thing<typeof audiences> | undefined): Promise<string> {
  const { included } = audience
    ? await visit.get(audiences, `/audiences/${audience.id}?include=domain`)
    : { included: [] }
  const [domain] = those(domains, included)
  return domain ? text(domain, 'name') : ''
}

/** How many recipients are left whose mail has come to no end. */
export const leftOf = (campaign: CampaignResource): number =>
  Math.max(number(campaign, 'recipients') - number(campaign, 'concluded'), 0)

/** So few mails are looked at one by one; of more, a hundredth of all. */
const FEW = 100

/** The state of a campaign in words: when all mail that is left was tried and is tried again, it is finishing. */
export async function standing(visit: Visit, campaign: CampaignResource): Promise<string> {
  const status = text(campaign, 'status')
  const left = leftOf(campaign)
  if (status !== 'sending' || left === 0) return status
  const words = `finishing (${count(left)} waiting)`
  if (left > FEW) return left <= number(campaign, 'recipients') / 100 ? words : status
  const { many } = await visit.get(
    outboundEmails,
    `/outbound-emails?filter%5Bcampaign%5D=${campaign.id}&filter%5Bstatus%5D=queued,sent&page%5Bsize%5D=${FEW}`,
  )
  const putOff = many.filter((mail) =>
    objects(mail, 'recipients').some(({ attempts, next_attempt_at }) => attempts > 0 && next_attempt_at !== null),
  )
  return putOff.length === left ? words : status
}

/** From this share on no time is told: the rest may be mail that receivers put off, which is tried again much later. */
const TAIL = 0.95

/** The progress of a campaign and, while it is sent and nothing `waits` for days, its speed and the remaining time. */
export function progress(campaign: CampaignResource, state: string, at: number, waits: boolean): Html {
  const all = number(campaign, 'recipients')
  const ended = number(campaign, 'concluded')
  const started = Date.parse(text(campaign, 'started_at'))
  const going = state === 'sending' && !waits && ended > 0 && at - started >= SECOND
  const pace = going && ended < TAIL * all ? (ended / (at - started)) * MINUTE : 0
  const left = pace > 0 ? Math.ceil((all - ended) / pace) : 0
  return html`<progress max="${Math.max(all, 1)}" value="${ended}" aria-label="Finished">${ended} of ${all}</progress>
    <p>
      ${count(ended)} of ${count(all)}
      finished${left > 0 ? `, ${count(Math.round(pace))} a minute, about ${count(left)} ${left === 1 ? 'minute' : 'minutes'} left` : ''}.
      ${state.startsWith('finishing') && !waits ? 'Their receivers put the last ones off: they are tried again, so no time can be told.' : ''}
    </p>`
}
