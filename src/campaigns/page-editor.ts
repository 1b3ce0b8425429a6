// The campaign editor: creates a campaign from a design, and changes and saves drafts. This page never sends.
import { html } from 'hono/html'
import { guard, page } from '../views/html/frame.ts'
import { fieldMaker, form } from '../views/html/forms.ts'
import type { Html } from '../views/html/widgets.ts'
import { done, found, tagIn, type Form, type Place } from '../views/html/place.ts'
import { faultIn, relatedId, text, type Answer, type Thing, type Visit } from '../views/html/visit.ts'
import { audiences } from './api-audiences.ts'
import { brands } from './api-brand.ts'
import { audienceOptions } from './page-reach.ts'
import { campaigns } from './api.ts'
import { bodyOf, lookOf } from './body-parts.ts'
import { FIRST_TEXT, type Look } from './designs.ts'
import {
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

/** The look of the brand. */
async function brandLook(visit: Visit): Promise<Look> {
  const { colour, logo, postal_address, sender_name } = found(await visit.get(brands, '/brand')).one.attributes
  return lookOf({ brand: sender_name, logo, colour, postal: postal_address })
}

/** The page that creates a campaign. */
async function beginning(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const all = await visit.all(audiences, '/audiences?sort=name')
  const asked = typed?.get('audience') || visit.query('audience')
  const audience = asked === '' && all.length === 1 ? all[0]!.id : asked
  return page(visit, {
    title: 'New campaign',
    crumbs: [['/campaigns', 'Campaigns']],
    about: 'Nothing is sent yet. You write the email on the next page, then review and send it.',
    status: errors.length > 0 ? 422 : 200,
    errors,
    labels: LABELS,
    done: done(visit),
    body:
      all.length === 0
        ? html`<div class="empty">
            A campaign is sent to an audience. <a href="/audiences/new">Create an audience first</a>.
          </div>`
        : await beginningForm(visit, all, { audience, errors, typed }),
  })
}

async function beginningForm(
  visit: Visit,
  all: readonly Thing<typeof audiences>[],
  { audience, errors, typed }: { audience: string; errors: Answer['errors']; typed: Form | undefined },
): Promise<Html> {
  const entry = fieldMaker(LABELS, errors, typed)
  const { colour } = await brandLook(visit)
  return form(
    visit,
    'save',
    html`${entry('name', { required: true, hint: 'For your reference. Recipients do not see it.' })}
      ${entry('subject', { required: true, hint: 'You can change it later.' })}
      ${entry('audience', { required: true, value: audience, options: choiceOf(await audienceOptions(visit, all), audience) })}
      ${designCards(typed ? partsIn(typed).design : 'letter', colour)}
      <p class="soft">
        The sender, the logo, the colour and the postal address come from your <a href="/brand">brand</a>. You can
        change them for this campaign on the next page.
      </p>
      <button>Create draft</button>`,
  )
}

const fresh: Place = {
  path: '/campaigns/new',
  changes: true,
  show: (visit) => beginning(visit),
  async act(visit, given) {
    // The page that creates a campaign has no text yet. Without a sender, the API takes that of the brand.
    const begins = given.get('body_html') === ''
    const parts = begins ? { ...partsIn(given), look: await brandLook(visit) } : partsIn(given)
    const link = `https://${await siteOf(visit, given.get('audience'))}/`
    const first = FIRST_TEXT[parts.design || 'letter']({ colour: parts.look.colour, link })
    const { from_address, ...typed } = attributesOf(given)
    const answer = await visit.ask('POST', '/campaigns', {
      type: 'campaigns',
      attributes: begins ? { ...typed, body_html: bodyOf({ ...parts, text: first }) } : { ...typed, from_address },
      relationships: { audience: { data: { type: 'audiences', id: given.get('audience') } } },
    })
    if (answer.one)
      return begins
        ? visit.context.redirect(`/campaigns/${answer.one.id}/edit`, 303)
        : visit.say(`/campaigns/${answer.one.id}`, `Saved “${given.get('name')}” as a draft.`)
    return begins ? beginning(visit, answer.errors, given) : composer(visit, { errors: answer.errors, typed: given })
  },
}

const REMOVED = 'This campaign was deleted in the meantime.'

/** Why a campaign cannot be changed, or undefined for a draft. */
function ended(campaign: CampaignResource): string | undefined {
  const status = text(campaign, 'status')
  switch (status) {
    case 'draft':
      return undefined
    case 'scheduled':
      return 'The campaign is scheduled. Unschedule it to edit it.'
    case 'sending':
      return 'The campaign is being sent and can no longer be edited.'
    default:
      return `The campaign is ${status} and can no longer be edited.`
  }
}

/** Shows the form again as a new campaign, so that no input is lost. */
const again = (visit: Visit, typed: Form, why: string): Promise<Response> =>
  composer(visit, {
    typed,
    extra: html`<div class="alert" role="alert">
      <p>${why} Your content is below. Choose an audience and save it as a new draft.</p>
    </div>`,
  })

const segmentIn = (given: Form) => {
  const id = given.get('segment')
  return { segment: { data: id === '' ? null : { type: 'segments', id } } }
}

interface Saved {
  answer: Answer
  /** Another user has saved another version. */
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
    {
      type: 'campaigns',
      id,
      attributes: moves ? content : { ...content, from_address, reply_to },
      // A segment belongs to its audience, so a new audience comes without one.
      ...(given.has('segment') && !moves && { relationships: segmentIn(given) }),
    },
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

/** Responds to the autosave of the editor's script. */
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
      // The ETag of this version: the next save must not replace a newer version of another user.
      tag: answer.headers.get('etag') ?? now.headers.get('etag') ?? '',
      tags: tags.names,
      reach: tags.reach,
      people: await peopleOf(visit, relatedId(now.one, 'audience') ?? ''),
      warnings: await tagWarnings(content, tags),
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
    <p>Another version was saved in the meantime. Yours is in the form below. The other version:</p>
    <p><strong>${text(theirs, 'subject')}</strong></p>
    <div class="previews">
      <iframe sandbox src="/campaigns/${id}/preview" title="Other version" class="desk"></iframe>
    </div>
    <details>
      <summary>HTML source</summary>
      <pre tabindex="0">${text(theirs, 'body_html')}</pre>
    </details>
    <p>Save again to replace it, or <a href="/campaigns/${id}/edit" data-theirs>use the other version</a>.</p>
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
    if (answer.one) return visit.say(`/campaigns/${id}`, `Saved “${given.get('name')}”.`)
    const now = found(await visit.get(campaigns, `/campaigns/${id}`))
    const why = ended(now.one)
    if (why !== undefined) return again(visit, given, why)
    return composer(visit, {
      campaign: now.one,
      typed: given,
      // The two versions replace the API's error about ETags, which is meant for applications.
      errors: clash ? [] : answer.errors,
      ...(clash ? { clash } : {}),
      // The form then has the ETag of the present version, so a second save replaces it.
      extra: clash ? bothVersions(id, now.one) : '',
      tag: now.headers.get('etag') ?? '',
    })
  },
}

export const editorPlaces = [fresh, edit]
