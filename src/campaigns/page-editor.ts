// Where campaigns are written: a new one begins with a design, a draft is changed and saved. Nothing is sent from here.
import { html } from 'hono/html'
import { guard, page } from '../webui/frame.ts'
import { fieldMaker, form } from '../webui/forms.ts'
import type { Html } from '../webui/widgets.ts'
import { done, found, tagIn, type Form, type Place } from '../webui/place.ts'
import { faultIn, relatedId, text, type Answer, type Thing, type Visit } from '../webui/visit.ts'
import { audiences } from './api-audiences.ts'
import { audienceOptions } from './page-reach.ts'
import { campaigns } from './api.ts'
import { bodyOf, partsOf } from './body-parts.ts'
import { FIRST_TEXT, PLAIN_LOOK, type Look } from './designs.ts'
import {
  brandFields,
  choiceOf,
  composer,
  designCards,
  LABELS,
  partsIn,
  peopleOf,
  siteOf,
  type CampaignResource,
} from './page-composer.ts'
import { tagsOfAudience, tagWarnings } from './page-tags.ts'

/** The attributes in a form. */
const attributesOf = (given: Form) => ({
  name: given.get('name'),
  subject: given.get('subject'),
  body_html: bodyOf(partsIn(given)),
  body_text: given.get('body_text') === '' ? null : given.get('body_text'),
  ...senderOf(given),
})

const senderOf = (given: Form) => ({
  from_address: given.get('from_address') === '' ? null : given.get('from_address'),
  reply_to:
    given.get('reply_to') === ''
      ? null
      : given
          .get('reply_to')
          .split(',')
          .map((each) => each.trim()),
})

/** How many of the last campaigns are looked at for the look of a new one. */
const LAST = 4

/** The look of the last campaign of this audience that has one, else of any audience; with its sender. */
async function lastLook(visit: Visit, audience: string): Promise<{ look: Look; from: string; replies: string }> {
  for (const filter of [...(audience === '' ? [] : [`&filter%5Baudience%5D=${encodeURIComponent(audience)}`]), '']) {
    const { many } = await visit.get(campaigns, `/campaigns?page%5Bsize%5D=${LAST}${filter}`)
    for (const { id } of many) {
      const { one } = await visit.get(campaigns, `/campaigns/${id}`)
      const parts = one && partsOf(text(one, 'body_html'))
      if (!one || !parts || parts.design === '') continue
      // The sender belongs to the sending domain of the audience.
      const own = relatedId(one, 'audience') === audience
      const replies: unknown = one.attributes.reply_to
      return {
        look: parts.look,
        from: own ? text(one, 'from_address') : '',
        replies: own && Array.isArray(replies) ? replies.join(', ') : '',
      }
    }
  }
  return { look: PLAIN_LOOK, from: '', replies: '' }
}

/** The page on which a campaign begins. */
async function beginning(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const all = await visit.all(audiences, '/audiences?sort=name')
  const asked = typed?.get('audience') || visit.query('audience')
  const audience = asked === '' && all.length === 1 ? all[0]!.id : asked
  return page(visit, {
    title: 'New campaign',
    crumbs: [['/campaigns', 'Campaigns']],
    about: 'Nothing is sent from here: you write it on the next page, and start it when it is reviewed.',
    status: errors.length > 0 ? 422 : 200,
    errors,
    labels: LABELS,
    done: done(visit),
    body:
      all.length === 0
        ? html`<div class="empty">A campaign goes to an audience: <a href="/audiences/new">make one first</a>.</div>`
        : await beginningForm(visit, all, { audience, errors, typed }),
  })
}

async function beginningForm(
  visit: Visit,
  all: readonly Thing<typeof audiences>[],
  { audience, errors, typed }: { audience: string; errors: Answer['errors']; typed: Form | undefined },
): Promise<Html> {
  const entry = fieldMaker(LABELS, errors, typed)
  const { from, look, replies } = await lastLook(visit, audience)
  const parts = typed ? partsIn(typed) : { design: 'letter' as const, look, preview: '', text: '' }
  return form(
    visit,
    'save',
    html`${entry('name', { required: true, hint: 'What you call it; nobody else sees it.' })}
      ${entry('subject', { required: true, hint: 'You can change it later.' })}
      <div
        hx-get="/campaigns/new"
        hx-trigger="change from:#audience"
        hx-include="#audience"
        hx-select="#look"
        hx-target="#look"
        hx-swap="outerHTML"
      >
        ${entry('audience', { required: true, value: audience, options: choiceOf(await audienceOptions(visit, all), audience) })}
      </div>
      ${designCards(parts.design, parts.look.colour)}
      <fieldset id="look">
        <legend>Logo, colour and postal address</legend>
        <p class="soft">Asked once: the next campaign begins with the same.</p>
        ${brandFields(parts.look)}
        <input type="hidden" name="from_address" value="${typed?.get('from_address') ?? from}" />
        <input type="hidden" name="reply_to" value="${typed?.get('reply_to') ?? replies}" />
      </fieldset>
      <button>Create draft</button>`,
  )
}

const fresh: Place = {
  path: '/campaigns/new',
  changes: true,
  show: (visit) => beginning(visit),
  async act(visit, given) {
    // The page on which a campaign begins has no text yet.
    const begins = given.get('body_html') === ''
    const parts = partsIn(given)
    const site = await siteOf(visit, given.get('audience'))
    const first = FIRST_TEXT[parts.design || 'letter']({ colour: parts.look.colour, link: `https://${site}/` })
    const answer = await visit.ask('POST', '/campaigns', {
      type: 'campaigns',
      attributes: { ...attributesOf(given), ...(begins ? { body_html: bodyOf({ ...parts, text: first }) } : {}) },
      relationships: { audience: { data: { type: 'audiences', id: given.get('audience') } } },
    })
    if (answer.one)
      return begins
        ? visit.context.redirect(`/campaigns/${answer.one.id}/edit`, 303)
        : visit.say(`/campaigns/${answer.one.id}`, `“${given.get('name')}” is saved as a draft.`)
    return begins ? beginning(visit, answer.errors, given) : composer(visit, { errors: answer.errors, typed: given })
  },
}

const REMOVED = 'Somebody has removed this campaign meanwhile.'

/** Why a campaign cannot be changed any more; undefined for a draft. */
function ended(campaign: CampaignResource): string | undefined {
  const status = text(campaign, 'status')
  switch (status) {
    case 'draft':
      return undefined
    case 'scheduled':
      return 'The campaign is scheduled: unschedule it to change it.'
    case 'sending':
      return 'The campaign is being sent: it cannot be changed any more.'
    default:
      return `The campaign is ${status}: it cannot be changed any more.`
  }
}

/** Nothing that was typed is lost: the form makes a new campaign. */
const again = (visit: Visit, typed: Form, why: string): Promise<Response> =>
  composer(visit, {
    typed,
    extra: html`<div class="alert" role="alert">
      <p>${why} Your text is below: choose the audience; saving makes a new draft.</p>
    </div>`,
  })

interface Saved {
  answer: Answer
  /** Somebody else has saved another version. */
  clash: boolean
}

/** Saves a draft, and then gives it another audience where another one was chosen. */
async function save(visit: Visit, id: string, given: Form): Promise<Saved> {
  const before = found(await visit.get(campaigns, `/campaigns/${id}`)).one
  const audience = given.get('audience')
  const moves = audience !== '' && audience !== relatedId(before, 'audience')
  const { from_address, reply_to, ...content } = attributesOf(given)
  const answer = await visit.ask(
    'PATCH',
    `/campaigns/${id}`,
    // The sender must fit the sending domain, which is that of the audience: a new one comes with its audience.
    { type: 'campaigns', id, attributes: moves ? content : { ...content, from_address, reply_to } },
    { 'If-Match': tagIn(given) },
  )
  const clash = answer.errors.some(({ code }) => code === 'changed_meanwhile')
  if (!answer.one || !moves) return { answer, clash }
  const moved = await visit.ask('POST', `/campaigns/${id}/audience`, {
    type: 'campaign-audiences',
    attributes: { audience_id: audience, from_address, reply_to },
  })
  return { answer: moved, clash: false }
}

/** What a script is told that saves while somebody writes. */
async function savedInPassing(visit: Visit, id: string, given: Form): Promise<Response> {
  guard(visit.context)
  const known = await visit.get(campaigns, `/campaigns/${id}`)
  if (!known.one) return visit.context.json({ gone: REMOVED }, 404)
  const { answer, clash } = await save(visit, id, given)
  const now = found(await visit.get(campaigns, `/campaigns/${id}`))
  const gone = answer.one ? undefined : ended(now.one)
  if (gone !== undefined) return visit.context.json({ gone }, 409)
  if (clash) return visit.context.json({ clash: true }, 409)
  const tags = await tagsOfAudience(visit, relatedId(now.one, 'audience'))
  const content = {
    subject: given.get('subject'),
    body_html: given.get('body_html'),
    body_text: given.get('body_text') || null,
  }
  return visit.context.json(
    {
      // Of this version: a newer one of somebody else must not be replaced by the next.
      tag: answer.headers.get('etag') ?? now.headers.get('etag') ?? '',
      tags: tags.names,
      reach: tags.reach,
      people: await peopleOf(visit, relatedId(now.one, 'audience') ?? ''),
      warnings: tagWarnings(content, tags),
      errors: answer.one
        ? []
        : answer.errors.map((error) => ({
            field: error.field ?? '',
            words: faultIn([error], LABELS)(error.field ?? '') ?? error.detail,
          })),
    },
    answer.one ? 200 : 422,
  )
}

/** Both versions after a conflict. */
const bothVersions = (id: string, theirs: CampaignResource): Html =>
  html`<div class="alert" role="alert">
    <p>Somebody has saved another version meanwhile. Yours is in the form below; theirs is:</p>
    <p><strong>${text(theirs, 'subject')}</strong></p>
    <div class="previews">
      <iframe sandbox src="/campaigns/${id}/preview" title="Their version" class="desk"></iframe>
    </div>
    <details>
      <summary>Its HTML source</summary>
      <pre tabindex="0">${text(theirs, 'body_html')}</pre>
    </details>
    <p>Save once more to replace theirs, or <a href="/campaigns/${id}/edit" data-theirs>take theirs</a>.</p>
  </div>`

const edit: Place = {
  path: '/campaigns/:id/edit',
  changes: true,
  async show(visit) {
    const { headers, one } = found(await visit.get(campaigns, `/campaigns/${visit.context.req.param('id')!}`))
    const why = ended(one)
    if (why !== undefined) return visit.say(`/campaigns/${one.id}`, why)
    return composer(visit, { campaign: one, tag: headers.get('etag') ?? '' })
  },
  async act(visit, given) {
    const id = visit.context.req.param('id')!
    if (given.action === 'autosave') return savedInPassing(visit, id, given)
    const known = await visit.get(campaigns, `/campaigns/${id}`)
    if (!known.one) return again(visit, given, REMOVED)
    const { answer, clash } = await save(visit, id, given)
    if (answer.one) return visit.say(`/campaigns/${id}`, `“${given.get('name')}” is saved.`)
    const now = found(await visit.get(campaigns, `/campaigns/${id}`))
    const why = ended(now.one)
    if (why !== undefined) return again(visit, given, why)
    return composer(visit, {
      campaign: now.one,
      typed: given,
      // The two versions say what the API's sentence about ETags says to a program.
      errors: clash ? [] : answer.errors,
      ...(clash ? { clash } : {}),
      // The form then has the ETag of the present version, so a second save replaces it.
      extra: clash ? bothVersions(id, now.one) : '',
      tag: now.headers.get('etag') ?? '',
    })
  },
}

export const editorPlaces = [fresh, edit]
