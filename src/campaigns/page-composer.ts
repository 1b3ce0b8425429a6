// The campaign editor's page: fields and text on the left, the preview on the right. The script
// (console/browser/editor.ts) saves and updates the preview as the user types. Without it, both happen when the user
// saves.
import { html } from 'hono/html'
import { isOneOf, namesIn } from '../base/one-of.ts'
import { page } from '../views/html/frame.ts'
import { field, fieldMaker, form, type FormField } from '../views/html/forms.ts'
import { time, type Html } from '../views/html/widgets.ts'
import { done, type Form } from '../views/html/place.ts'
import { faultIn, relatedId, text, those, type Answer, type Thing, type Visit } from '../views/html/visit.ts'
import { domains } from '../domains/api.ts'
import { campaignSender } from '../message/identity.ts'
import { audiences, contacts } from './api-audiences.ts'
import { segments } from './api-segments.ts'
import { campaigns } from './api.ts'
import { lookOf, MAX_PREVIEW, partsOf, type BodyParts } from './body-parts.ts'
import { inkOn } from '../views/html/colours.ts'
import { DESIGN_WORDS, DESIGNS, PLAIN_LOOK, type Design, type Look } from './designs.ts'
import { tagsOfAudience, tagWarnings, type Tags } from './page-tags.ts'

export type CampaignResource = Thing<typeof campaigns>

export const LABELS = {
  name: 'Name',
  audience: 'Audience',
  segment: 'Segment',
  subject: 'Subject',
  preview_text: 'Preview text',
  body_html: 'Content',
  body_text: 'Plain-text version',
  from_address: 'From',
  reply_to: 'Reply-to',
  design: 'Design',
  brand: 'Sender name',
  logo: 'Logo',
  colour: 'Colour',
  postal: 'Postal address',
  audience_id: 'Audience',
} as const

/** The parts of the mail in a form. */
export function partsIn(given: Form): BodyParts {
  const design = given.get('design')
  return {
    design: isOneOf(DESIGNS, design) ? design : '',
    look: lookOf(Object.fromEntries(namesIn(PLAIN_LOOK).map((name) => [name, given.get(name)]))),
    preview: given.get('preview_text').replaceAll(/\s+/g, ' ').trim().slice(0, MAX_PREVIEW),
    text: given.get('body_html'),
  }
}

export interface Composing {
  /** The edited campaign, or undefined if the form creates a new one. */
  campaign?: CampaignResource | undefined
  errors?: Answer['errors']
  /** Another user has saved another version. */
  clash?: true
  extra?: Html | ''
  /** The ETag of the version that the form shows. */
  tag?: string
  typed?: Form | undefined
}

/** The values of the form: the input of a rejected form, or else the stored values. */
interface ComposedValues {
  name: string
  subject: string
  body_text: string
  from_address: string
  reply_to: string
  audience: string
  /** The id of the segment, or '' for all contacts. */
  segment: string
  parts: BodyParts
}

function valuesIn({ campaign, typed }: Composing, asked: string): ComposedValues {
  if (typed)
    return {
      name: typed.get('name'),
      subject: typed.get('subject'),
      body_text: typed.get('body_text'),
      from_address: typed.get('from_address'),
      reply_to: typed.get('reply_to'),
      audience: typed.get('audience') || (campaign && relatedId(campaign, 'audience')) || asked,
      segment: typed.get('segment'),
      parts: partsIn(typed),
    }
  const replies: unknown = campaign?.attributes.reply_to
  return {
    name: campaign ? text(campaign, 'name') : '',
    subject: campaign ? text(campaign, 'subject') : '',
    body_text: campaign ? text(campaign, 'body_text') : '',
    from_address: campaign ? text(campaign, 'from_address') : '',
    reply_to: Array.isArray(replies) ? replies.join(', ') : '',
    audience: (campaign && relatedId(campaign, 'audience')) ?? asked,
    segment: (campaign && relatedId(campaign, 'segment')) ?? '',
    parts: partsOf(campaign ? text(campaign, 'body_html') : ''),
  }
}

export async function composer(visit: Visit, composing: Composing): Promise<Response> {
  const { campaign, clash, errors = [], extra = '' } = composing
  const values = valuesIn(composing, visit.query('audience'))
  const [all, tags, choice] = await Promise.all([
    visit.all(audiences, '/audiences?sort=name'),
    tagsOfAudience(visit, values.audience),
    campaign ? segmentChoice(visit, relatedId(campaign, 'audience'), values.segment) : [],
  ])
  return page(visit, {
    title: campaign ? text(campaign, 'name') : 'New campaign',
    crumbs: [['/campaigns', 'Campaigns']],
    actions: campaign
      ? html`<p class="soft saved" role="status" data-saved>Saved ${time(campaign.attributes.updated_at)}</p>
          <a class="button plain" href="/campaigns/${campaign.id}/send" data-review>Review and send</a>`
      : '',
    status: clash ? 409 : errors.length > 0 ? 422 : 200,
    errors,
    labels: LABELS,
    done: done(visit),
    scripts: ['editor.js'],
    body: html`${extra}
      <div class="composer" ${composing.typed ? html`data-unsaved` : ''} ${clash ? html`data-hold` : ''}>
        ${await composerForm(visit, composing, values, { all, segments: choice, tags })}
        ${campaign ? previewPane(visit, campaign, await peopleOf(visit, values.audience)) : ''}
      </div>`,
  })
}

/** The sending domain of an audience, or '' if the audience was removed. */
export async function siteOf(visit: Visit, audience: string): Promise<string> {
  if (audience === '') return ''
  const { included } = await visit.get(audiences, `/audiences/${encodeURIComponent(audience)}?include=domain`)
  const [domain] = those(domains, included)
  return domain ? text(domain, 'name') : ''
}

/** The addresses of the newest contacts, to choose one for the preview. */
export async function peopleOf(visit: Visit, audience: string): Promise<string[]> {
  if (audience === '') return []
  const path = `/audiences/${encodeURIComponent(audience)}/contacts?page%5Bsize%5D=25&filter%5Bstatus%5D=subscribed`
  return (await visit.get(contacts, path)).many.map((each) => text(each, 'email'))
}

/** The audiences to choose from. If the chosen one was removed, the user must choose again. */
export const choiceOf = (options: readonly AudienceOption[], chosen: string): readonly AudienceOption[] => [
  ...(options.some(([id]) => id === chosen) ? [] : [['', 'Choose …'] as const]),
  ...options,
]
type AudienceOption = readonly [id: string, words: string]

const namedAudiences = (all: readonly Thing<typeof audiences>[]): AudienceOption[] =>
  all.map((each) => [each.id, text(each, 'name')])

interface ComposerChoices {
  all: readonly Thing<typeof audiences>[]
  /** The segments of the audience. Empty if it has none. */
  segments: readonly AudienceOption[]
  tags: Tags
}

/** The segments of an audience to choose from, or none if it has no segment. */
async function segmentChoice(visit: Visit, audience: string | undefined, chosen: string): Promise<AudienceOption[]> {
  if (audience === undefined) return []
  const found = await visit.all(segments, `/audiences/${audience}/segments?sort=name`)
  if (found.length === 0 && chosen === '') return []
  const options = found.map((each): AudienceOption => [each.id, text(each, 'name')])
  const gone = chosen !== '' && !found.some(({ id }) => id === chosen)
  return [['', 'All contacts'], ...options, ...(gone ? [[chosen, 'A deleted segment'] as const] : [])]
}

async function composerForm(
  visit: Visit,
  { campaign, errors = [], tag = '' }: Composing,
  values: ComposedValues,
  { all, segments: choice, tags }: ComposerChoices,
): Promise<Html> {
  const fault = faultIn(errors, LABELS)
  const entry = fieldMaker(LABELS, errors)
  const shown = (
    name: keyof typeof LABELS & Exclude<keyof ComposedValues, 'parts'>,
    more: Partial<FormField> = {},
  ): Html => entry(name, { value: values[name], ...more })
  const { look, preview, text: body } = values.parts
  const site = await siteOf(visit, values.audience)
  const warnings = await tagWarnings({ subject: values.subject, body_html: body, body_text: values.body_text }, tags)
  return form(
    visit,
    'save',
    html`${tag === '' ? '' : html`<input type="hidden" name="tag" value="${tag}" />`}
      <div class="pair">
        ${shown('name', { required: true, hint: 'For your reference. Recipients do not see it.' })}
        ${shown('audience', { required: true, options: choiceOf(namedAudiences(all), values.audience), hint: tags.reach === '' ? 'The contacts to send to.' : tags.reach, error: fault('audience') ?? fault('audience_id') })}
        ${choice.length === 0 ? '' : shown('segment', { options: choice, hint: 'Only contacts who match when the campaign starts. If you choose another audience, save first.' })}
        ${shown('from_address', { hint: `Defaults to ${campaignSender(null, site || 'the audience’s sending domain')}.` })}
        ${shown('reply_to', { hint: 'Defaults to the From address.' })}
      </div>
      ${shown('subject', { required: true })}
      ${entry('preview_text', { value: preview, hint: 'Shown next to the subject in the inbox. One sentence is enough.' })}
      <div class="field">
        <label for="body_html">${LABELS.body_html}</label>
        <div
          class="editor"
          data-editor="body_html"
          data-tags="${JSON.stringify(tags.names)}"
          data-colour="${look.colour}"
          data-ink="${inkOn(look.colour)}"
        ></div>
        <textarea id="body_html" name="body_html" rows="16" class="source" required>${`\n${body}`}</textarea>
        <p class="soft" data-tag-list>Merge tags: ${tags.names.map((name) => html`<code>{{${name}}}</code> `)}</p>
        <ul class="warnings" data-warnings>
          ${warnings.map((words) => html`<li>${words}</li>`)}
        </ul>
        ${fault('body_html') === undefined ? '' : html`<p class="bad">${fault('body_html')!}</p>`}
      </div>
      <details ${values.parts.design === '' ? '' : html`open`}>
        <summary>Design, logo, colour and postal address</summary>
        ${designChoice(values.parts.design)} ${brandFields(look)}
      </details>
      <details ${values.body_text === '' ? '' : html`open`}>
        <summary>${LABELS.body_text}</summary>
        ${shown('body_text', { lines: 8, hint: 'Leave empty to generate it from the content above.' })}
      </details>
      <button>Save draft</button>`,
    { kind: 'wide', ...(campaign ? {} : { to: '/campaigns/new' }) },
  )
}

/** The design can be changed at any time, because it is separate from the text. */
export const designChoice = (chosen: BodyParts['design']): Html =>
  field({
    name: 'design',
    label: LABELS.design,
    value: chosen,
    options: [
      ...DESIGNS.map((each) => [each, `${DESIGN_WORDS[each][0]}: ${DESIGN_WORDS[each][1]}`] as const),
      ['', 'None: the content is the complete HTML'],
    ],
  })

/** A sketch of each design, 96 by 72 pixels. */
const SKETCHES: Readonly<Record<Design, string>> = {
  letter: 'M16 16h26M16 26h56M16 32h60M16 38h48M16 48h58M16 54h30',
  newsletter: 'M28 16h18M28 38h40M28 44h36M28 50h40',
  notice: 'M36 16h24M30 36h36M30 44h36M30 50h24',
}

/** The choice of a design for a new campaign. */
export const designCards = (chosen: BodyParts['design'], colour: string): Html =>
  html`<fieldset class="cards">
    <legend>${LABELS.design}</legend>
    ${DESIGNS.map(
      (each) =>
        html`<label class="card">
          <input type="radio" name="design" value="${each}" ${each === chosen ? html`checked` : ''} />
          <svg viewBox="0 0 96 72" aria-hidden="true">
            ${each === 'newsletter' ? html`<rect x="20" y="8" width="56" height="3" fill="${colour}" /><rect class="picture" x="28" y="21" width="40" height="12" /><rect x="28" y="55" width="16" height="6" rx="1" fill="${colour}" />` : ''}
            ${each === 'notice' ? html`<rect x="20" y="8" width="56" height="18" fill="${colour}" /><rect x="30" y="55" width="20" height="6" rx="1" fill="${colour}" />` : ''}
            <path d="${SKETCHES[each]}" />
          </svg>
          <strong>${DESIGN_WORDS[each][0]}</strong>
          <span class="soft">${DESIGN_WORDS[each][1]}</span>
        </label>`,
    )}
  </fieldset>`

/** The sender's look. A new campaign copies it from the brand. */
const brandFields = (look: Look): Html =>
  html`<div class="pair">
    ${field({ name: 'brand', label: LABELS.brand, value: look.brand, hint: 'Shown if there is no logo.' })}
    ${field({ name: 'colour', label: LABELS.colour, type: 'color', value: look.colour, hint: 'For the header band and buttons.' })}
    ${field({ name: 'logo', label: LABELS.logo, type: 'url', value: look.logo, hint: 'URL of an image about 80 pixels high.' })}
    ${field({ name: 'postal', label: LABELS.postal, value: look.postal, lines: 2, hint: 'Shown in the footer. Many countries require it in newsletters.' })}
  </div>`

/** The display sizes of the preview. */
const FORMS = [
  ['', 'Desktop'],
  ['phone', 'Phone'],
  ['dark', 'Dark'],
  ['plain', 'Plain text'],
] as const

function previewPane(visit: Visit, { id }: CampaignResource, people: readonly string[]): Html {
  const as = FORMS.find(([each]) => each === visit.query('as'))?.[0] ?? ''
  return html`<section class="seen" id="preview" aria-label="Preview">
    <div class="row">
      <nav class="segments" aria-label="Preview as">
        ${FORMS.map(([each, words]) => html`<a href="?as=${each}#preview" data-as="${each}" ${each === as ? html`aria-current="true"` : ''}>${words}</a>`)}
      </nav>
      <input
        type="email"
        data-contact
        hidden
        aria-label="Preview with the data of this contact"
        placeholder="Newest contact"
        list="people"
        autocomplete="off"
      />
      <datalist id="people">${people.map((each) => html`<option value="${each}"></option>`)}</datalist>
    </div>
    <div class="paper">
      <div class="sheet">
        <iframe
          sandbox="allow-same-origin allow-popups allow-popups-to-escape-sandbox"
          src="/campaigns/${id}/preview?head=yes&as=${as}"
          title="Email preview"
          data-as="${as}"
        ></iframe>
      </div>
    </div>
    <p class="soft">
      ${
        as === 'dark'
          ? 'As shown by email clients that invert colours.'
          : 'Uses the data of one contact. Unsubscribe links are created when the email is sent.'
      }
    </p>
  </section>`
}
