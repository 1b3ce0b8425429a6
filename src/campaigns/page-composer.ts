// The page on which a campaign is written: its fields and text at the left, the mail as a contact gets it at the right.
// With a script it is saved and shown while somebody writes (console/browser/editor.ts); without one, when it is saved.
import { html } from 'hono/html'
import { isOneOf, namesIn } from '../base/one-of.ts'
import { page } from '../webui/frame.ts'
import { field, fieldMaker, form, type FormField } from '../webui/forms.ts'
import { time, type Html } from '../webui/widgets.ts'
import { done, type Form } from '../webui/place.ts'
import { faultIn, relatedId, text, those, type Answer, type Thing, type Visit } from '../webui/visit.ts'
import { domains } from '../domains/api.ts'
import { campaignSender } from '../message/identity.ts'
import { audiences, contacts } from './api-audiences.ts'
import { campaigns } from './api.ts'
import { lookOf, MAX_PREVIEW, partsOf, type BodyParts } from './body-parts.ts'
import { DESIGN_WORDS, DESIGNS, inkOn, PLAIN_LOOK, type Design, type Look } from './designs.ts'
import { tagsOfAudience, tagWarnings, type Tags } from './page-tags.ts'

export type CampaignResource = Thing<typeof campaigns>

export const LABELS = {
  name: 'Name',
  audience: 'Audience',
  subject: 'Subject',
  preview_text: 'Preview text',
  body_html: 'Text',
  body_text: 'Plain text',
  from_address: 'From',
  reply_to: 'Replies go to',
  design: 'Design',
  brand: 'Name of the sender',
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
  /** The edited campaign; undefined for one that has to be made again. */
  campaign?: CampaignResource | undefined
  errors?: Answer['errors']
  /** Somebody else has saved another version. */
  clash?: true
  extra?: Html | ''
  /** The ETag of the version that the form shows. */
  tag?: string
  typed?: Form | undefined
}

/** The values of the form: as typed in a form that failed, else as stored. */
interface ComposedValues {
  name: string
  subject: string
  body_text: string
  from_address: string
  reply_to: string
  audience: string
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
    parts: partsOf(campaign ? text(campaign, 'body_html') : ''),
  }
}

export async function composer(visit: Visit, composing: Composing): Promise<Response> {
  const { campaign, clash, errors = [], extra = '' } = composing
  const values = valuesIn(composing, visit.query('audience'))
  const [all, tags] = await Promise.all([
    visit.all(audiences, '/audiences?sort=name'),
    tagsOfAudience(visit, values.audience),
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
        ${await composerForm(visit, composing, values, all, tags)}
        ${campaign ? previewPane(visit, campaign, await peopleOf(visit, values.audience)) : ''}
      </div>`,
  })
}

/** The sending domain of an audience; '' when it is gone. */
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

/** Audiences with their words; one that is gone is not replaced by the first of the list, but chosen by the person. */
export const choiceOf = (options: readonly AudienceOption[], chosen: string): readonly AudienceOption[] => [
  ...(options.some(([id]) => id === chosen) ? [] : [['', 'Choose …'] as const]),
  ...options,
]
type AudienceOption = readonly [id: string, words: string]

const namedAudiences = (all: readonly Thing<typeof audiences>[]): AudienceOption[] =>
  all.map((each) => [each.id, text(each, 'name')])

async function composerForm(
  visit: Visit,
  { campaign, errors = [], tag = '' }: Composing,
  values: ComposedValues,
  all: readonly Thing<typeof audiences>[],
  tags: Tags,
): Promise<Html> {
  const fault = faultIn(errors, LABELS)
  const entry = fieldMaker(LABELS, errors)
  const shown = (
    name: keyof typeof LABELS & Exclude<keyof ComposedValues, 'parts'>,
    more: Partial<FormField> = {},
  ): Html => entry(name, { value: values[name], ...more })
  const { look, preview, text: body } = values.parts
  const site = await siteOf(visit, values.audience)
  const warnings = tagWarnings({ subject: values.subject, body_html: body, body_text: values.body_text }, tags)
  return form(
    visit,
    'save',
    html`${tag === '' ? '' : html`<input type="hidden" name="tag" value="${tag}" />`}
      <div class="pair">
        ${shown('name', { required: true, hint: 'What you call it; nobody else sees it.' })}
        ${shown('audience', { required: true, options: choiceOf(namedAudiences(all), values.audience), hint: tags.reach === '' ? 'Who gets it.' : tags.reach, error: fault('audience') ?? fault('audience_id') })}
        ${shown('from_address', { hint: `When it is empty: ${campaignSender(null, site || 'the sending domain of the audience')}` })}
        ${shown('reply_to', { hint: 'When it is empty: to the sender.' })}
      </div>
      ${shown('subject', { required: true })}
      ${entry('preview_text', { value: preview, hint: 'Inboxes show it beside the subject: one sentence that makes somebody open the mail.' })}
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
        ${shown('body_text', { lines: 8, hint: 'Made from the text above when it is empty.' })}
      </details>
      <button>Save the draft</button>`,
    { kind: 'wide', ...(campaign ? {} : { to: '/campaigns/new' }) },
  )
}

/** The design can be changed at any time: it stands around the text. */
export const designChoice = (chosen: BodyParts['design']): Html =>
  field({
    name: 'design',
    label: LABELS.design,
    value: chosen,
    options: [
      ...DESIGNS.map((each) => [each, `${DESIGN_WORDS[each][0]}: ${DESIGN_WORDS[each][1]}`] as const),
      ['', 'None: the text is the whole HTML'],
    ],
  })

/** What each design looks like, on a sheet of 96 by 72. */
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

/** The look of the sender, asked once: a new campaign begins with that of the last one. */
export const brandFields = (look: Look): Html =>
  html`<div class="pair">
    ${field({ name: 'brand', label: LABELS.brand, value: look.brand, hint: 'Stands in place of the logo where there is none.' })}
    <div class="field">
      <label for="colour">${LABELS.colour}</label>
      <input id="colour" name="colour" type="color" value="${look.colour}" />
      <p class="soft">Of the band at the top, and of buttons.</p>
    </div>
    ${field({ name: 'logo', label: LABELS.logo, type: 'url', value: look.logo, hint: 'The web address of a picture, about 80 pixels high.' })}
    ${field({ name: 'postal', label: LABELS.postal, value: look.postal, lines: 2, hint: 'Stands at the end. Many countries demand it in a newsletter.' })}
  </div>`

/** The forms in which the preview shows a mail. */
const FORMS = [
  ['', 'Desk'],
  ['phone', 'Phone'],
  ['dark', 'Dark'],
  ['plain', 'Plain text'],
] as const

function previewPane(visit: Visit, { id }: CampaignResource, people: readonly string[]): Html {
  const as = FORMS.find(([each]) => each === visit.query('as'))?.[0] ?? ''
  return html`<section class="seen" id="preview" aria-label="Preview">
    <div class="row">
      <nav class="segments" aria-label="Show it as">
        ${FORMS.map(([each, words]) => html`<a href="?as=${each}#preview" data-as="${each}" ${each === as ? html`aria-current="true"` : ''}>${words}</a>`)}
      </nav>
      <input
        type="email"
        data-contact
        hidden
        aria-label="The contact who gets it"
        placeholder="As the newest contact"
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
          title="The mail as a contact gets it"
          data-as="${as}"
        ></iframe>
      </div>
    </div>
    <p class="soft">
      ${
        as === 'dark'
          ? 'As programs show it that turn the colours of every mail round.'
          : 'With the data of one contact. Links to unsubscribe are made when it is sent.'
      }
    </p>
  </section>`
}
