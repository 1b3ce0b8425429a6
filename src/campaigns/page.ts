// Campaigns: write, test and start them, watch their progress, and list every recipient with the state of the mail.
import { html } from 'hono/html'
import { MINUTE } from '../base/clock.ts'
import { isOneOf } from '../base/one-of.ts'
import { page } from '../webui/frame.ts'
import { button, field, form } from '../webui/forms.ts'
import {
  counted,
  badge,
  count,
  figures,
  live,
  pageOf,
  pager,
  search,
  table,
  time,
  type Html,
} from '../webui/widgets.ts'
import { done, found, lead, type Place } from '../webui/place.ts'
import { outboundEmails } from '../mail/api.ts'
import { audiences } from './api-audiences.ts'
import { campaigns, campaignStats } from './api.ts'
import {
  answerOf,
  namesOf,
  number,
  objects,
  relatedId,
  text,
  those,
  type Answer,
  type Thing,
  type Visit,
} from '../webui/visit.ts'
import { activity } from './page-activity.ts'
import { domainOf, factsOf, funnel, progress } from './page-figures.ts'
import { copyOf } from './page-copy.ts'
import { download, STATUSES } from './page-recipients.ts'
import { checksOf, type Check } from './page-checks.ts'
import { slowChecks } from './page-slow-checks.ts'

const list: Place = {
  path: '/campaigns',
  async show(visit) {
    const q = visit.query('q')
    const answer = await visit.get(
      campaigns,
      `/campaigns?include=audience&${pageOf(visit)}${q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`}`,
    )
    const names = namesOf(answer.included)
    const rows = answer.many.map((campaign) => [
      html`<a href="/campaigns/${campaign.id}">${text(campaign, 'name')}</a>`,
      badge(text(campaign, 'status')),
      names.get(relatedId(campaign, 'audience') ?? '') ?? '',
      campaign.attributes.recipients === null ? '–' : count(number(campaign, 'recipients')),
      time(campaign.attributes.started_at ?? campaign.attributes.scheduled_at),
    ])
    return page(visit, {
      title: 'Campaigns',
      about: 'One mail to an audience: written as a draft, tried, and started by a person.',
      errors: answer.errors,
      done: done(visit),
      actions: visit.reading ? '' : html`<a class="button" href="/campaigns/new">Write a campaign</a>`,
      body: html`${search(visit, 'Search a name or a subject')}
      ${live(
        visit,
        html`${table('Campaigns', ['Name', { title: 'Status', kind: 'status' }, 'Audience', ...figures('Recipients'), { title: 'Started', kind: 'time' }], rows, q === '' ? html`No campaign yet. It needs an <a href="/audiences">audience</a> first.` : 'Nothing fits.')}
        ${pager(visit, answer)}`,
      )}`,
    })
  },
}

type CampaignResource = Thing<typeof campaigns>
type AudienceResource = Thing<typeof audiences>

const LABELS = { email: 'Send one mail to', at: 'When' } as const
const PAST = 'That time is past, so that nothing was started. Leave the field empty to start now.'

async function showOne(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const id = visit.context.req.param('id')!
  const { included, one } = found(await visit.get(campaigns, `/campaigns/${id}?include=audience`))
  const [audience] = those(audiences, included)
  const status = text(one, 'status')
  const draft = status === 'draft'
  const filter = isOneOf(STATUSES, visit.query('status')) ? visit.query('status') : ''
  const [domain, stats, mails, checks] = await Promise.all([
    domainOf(visit, audience),
    visit.get(campaignStats, `/campaigns/${id}/stats`),
    draft || status === 'scheduled'
      ? undefined
      : visit.get(
          outboundEmails,
          `/outbound-emails?filter%5Bcampaign%5D=${id}${filter === '' ? '' : `&filter%5Bstatus%5D=${filter}`}&${pageOf(visit)}`,
        ),
    draft ? checksOf(visit, one) : [],
  ])
  return page(visit, {
    title: text(one, 'name'),
    crumbs: [['/campaigns', 'Campaigns']],
    errors,
    labels: LABELS,
    done: done(visit),
    body: html`${live(
      visit,
      html`${factsOf(one, audience, domain)}
      ${
        mails && stats.one
          ? html`${status === 'sending' || status === 'paused' ? progress(one, visit.now()) : ''}
              ${funnel(one, stats.one)}
              <p>
                <a href="/campaigns/${id}/activity">Opens and clicks over time, and the links that were followed</a>
              </p>`
          : ''
      }`,
    )}
    ${visit.reading ? '' : actions(visit, one, audience, checks)}
    ${status === 'scheduled' ? html`<p class="soft">What is scheduled is not edited any more. To change it, copy it, cancel this one, and start the copy.</p>` : ''}
    ${
      draft
        ? html`${checksOfDraft(checks, await slowChecks(visit, id))} ${preview(id)}`
        : html`<details>
            <summary>The mail as it looks</summary>
            ${preview(id)}
          </details>`
    }
    ${mails ? recipients(visit, id, filter, mails) : ''}`,
  })
}

const checksOfDraft = (checks: readonly Check[], slow: Html): Html =>
  html`<h2>Checks</h2>
    <ul class="checks">
      ${checks.map(({ ok, words }) => html`<li>${badge(ok ? 'ok' : 'warn')} ${words}</li>`)}
    </ul>
    ${slow}`

const preview = (id: string): Html =>
  html`<h2>Preview</h2>
    <p class="soft">
      With the data of the audience’s newest contact. The links to unsubscribe are made when it is sent, and style
      blocks (&lt;style&gt;) are not shown here.
    </p>
    <div class="previews">
      <iframe sandbox src="/campaigns/${id}/preview" title="On a desk" class="desk" loading="lazy"></iframe>
      <iframe sandbox src="/campaigns/${id}/preview" title="On a phone" class="phone" loading="lazy"></iframe>
    </div>`

function recipients(visit: Visit, id: string, filter: string, mails: Answer<typeof outboundEmails>): Html {
  return html`<h2 id="recipients">Every recipient</h2>
    <p>
      <a href="/campaigns/${id}/recipients.csv${filter === '' ? '' : `?status=${filter}`}"
        >Export ${filter === '' ? 'all' : filter} as CSV</a
      >
    </p>
    <nav class="tabs" aria-label="Status">
      ${['', ...STATUSES].map(
        (each) =>
          html`<a
            href="/campaigns/${id}${each === '' ? '' : `?status=${each}`}#recipients"
            ${each === filter ? html`aria-current="true"` : ''}
            >${each === '' ? 'all' : each}</a
          >`,
      )}
    </nav>
    ${table(
      'Recipients',
      [
        { title: 'Address', width: 30 },
        { title: 'Status', kind: 'status' },
        { title: 'Delivered', kind: 'time' },
        { title: 'Opened', kind: 'time' },
        'Answer',
      ],
      mails.many.map((mail) => {
        const [recipient] = objects(mail, 'recipients')
        return [
          html`<a href="/mail/${mail.id}">${text(mail, 'to')}</a>`,
          badge(text(mail, 'status')),
          time(mail.attributes.delivered_at),
          time(mail.attributes.first_opened_at),
          recipient ? answerOf(recipient) : '',
        ]
      }),
      'Nobody with that status.',
    )}
    ${pager(visit, mails)}`
}

function actions(
  visit: Visit,
  campaign: CampaignResource,
  audience: AudienceResource | undefined,
  checks: readonly Check[],
): Html {
  const { id } = campaign
  const status = text(campaign, 'status')
  const move = (to: string, label: string, options: { confirm?: string; danger?: true } = {}): Html | '' =>
    button(visit, 'move', label, { fields: { to }, ...options })
  return html`<div class="row">
      ${status === 'draft' ? html`<a class="button plain" href="/campaigns/${id}/edit">Edit</a>` : ''}
      ${status === 'sending' ? move('paused', 'Pause') : ''} ${status === 'paused' ? move('sending', 'Resume') : ''}
      ${status === 'draft' ? '' : button(visit, 'copy', 'Copy as a draft', {})}
      ${['scheduled', 'paused'].includes(status) ? move('cancelled', 'Cancel the campaign', { danger: true, confirm: 'Mail that was not sent is never sent. This cannot be undone.' }) : ''}
      ${['draft', 'cancelled', 'sent', 'failed'].includes(status) ? button(visit, 'remove', 'Remove', { danger: true, confirm: 'The campaign is removed; what it has sent stays on record.' }) : ''}
    </div>
    ${
      status === 'draft'
        ? html`<h2>Try it</h2>
            ${form(visit, 'test', html`${field({ name: 'email', label: LABELS.email, type: 'email', value: visit.person.user.email, required: true })}<button class="plain">Send the test</button>`)}
            <h2>Start it</h2>
            ${form(
              visit,
              'start',
              html`${field({ name: 'at', label: LABELS.at, type: 'datetime-local', hint: 'In UTC. Leave it empty to start now.' })}<button>
                  Start or schedule
                </button>`,
              { confirm: sentence(campaign, audience, checks) },
            )}`
        : ''
    }`
}

/** What starting does, as a question before it. */
function sentence(
  campaign: CampaignResource,
  audience: AudienceResource | undefined,
  checks: readonly Check[],
): string {
  const doubts = checks.filter(({ ok }) => !ok).map(({ words }) => `\nCheck: ${words}`)
  return `"${text(campaign, 'subject')}" goes to every subscribed contact of ${
    audience
      ? `"${text(audience, 'name')}" (${counted(number(audience, 'contacts_count'), 'contact')}, those who left included)`
      : 'the audience'
  }.${doubts.join('')}`
}

const one: Place = {
  path: '/campaigns/:id',
  show: (visit) => showOne(visit),
  also: (given) =>
    given.action !== 'start'
      ? ''
      : given.get('at') === ''
        ? 'It starts now.'
        : `It starts on ${given.get('at').replace('T', ' ')} UTC.`,
  async act(visit, given) {
    const id = visit.context.req.param('id')!
    const here = `/campaigns/${id}`
    const patch = (attributes: Record<string, unknown>) =>
      visit.ask('PATCH', `/campaigns/${id}`, { type: 'campaigns', id, attributes })
    switch (given.action) {
      case 'test': {
        const answer = await visit.ask('POST', `/campaigns/${id}/test`, {
          type: 'campaign-tests',
          attributes: { email: given.get('email') },
        })
        return answer.one ? lead(visit, here, 'sent') : showOne(visit, answer.errors)
      }
      case 'start': {
        const at = given.get('at') === '' ? {} : { scheduled_at: `${given.get('at')}:00Z` }
        // The API starts a campaign with a past time at once (D43). In this form a past time is treated as a typing
        // mistake.
        if (at.scheduled_at !== undefined && Date.parse(at.scheduled_at) < visit.now() - MINUTE)
          return showOne(visit, [{ detail: PAST, field: 'at', code: 'invalid_value' }])
        const answer = await patch({ ...at, status: 'scheduled' })
        return answer.one ? lead(visit, here, 'started') : showOne(visit, answer.errors)
      }
      case 'copy': {
        const answer = await visit.ask('POST', '/campaigns', copyOf(found(await visit.get(campaigns, here)).one))
        return answer.one ? lead(visit, `/campaigns/${answer.one.id}`, 'copied') : showOne(visit, answer.errors)
      }
      case 'remove': {
        const gone = await visit.ask('DELETE', `/campaigns/${id}`)
        return gone.status === 204 ? lead(visit, '/campaigns', 'removed') : showOne(visit, gone.errors)
      }
      default: {
        const answer = await patch({ status: given.get('to') })
        return answer.one ? lead(visit, here, 'moved') : showOne(visit, answer.errors)
      }
    }
  },
}

export const campaignPlaces = [download, activity, one, list]
