// The editor of a campaign: writes and changes a draft, and never sends it.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { field, form } from '../webui/forms.ts'
import type { Html } from '../webui/widgets.ts'
import { done, found, lead, type Form, type Place } from '../webui/place.ts'
import { audiences, contacts } from './api-audiences.ts'
import { campaigns } from './api.ts'
import { audienceOptions } from './page-reach.ts'
import { faultIn, record, relatedId, text, type Answer, type Thing, type Visit } from '../webui/visit.ts'

const LABELS = {
  name: 'Name',
  audience: 'Audience',
  subject: 'Subject',
  body_html: 'Text',
  body_text: 'Plain text',
  from_address: 'From',
  reply_to: 'Replies go to',
} as const
type CampaignResource = Thing<typeof campaigns>
type AudienceResource = Thing<typeof audiences>
type Name = Exclude<keyof typeof LABELS, 'audience'>

/** The value of a field: as typed in a form that failed, else as stored. */
const valueOf = (name: Name, campaign: CampaignResource | undefined, typed: Form | undefined): string => {
  if (typed) return typed.get(name)
  if (!campaign) return name === 'body_html' ? '<p>Hello {{name|friend}},</p>\n<p></p>' : ''
  const value = campaign.attributes[name]
  return Array.isArray(value) ? value.join(', ') : typeof value === 'string' ? value : ''
}

interface Editing {
  /** The edited campaign; undefined for a new one. */
  campaign?: CampaignResource | undefined
  errors?: Answer['errors']
  /** Somebody else has saved another version. */
  clash?: true
  extra?: Html | ''
  /** The ETag of the version that the form shows. */
  tag?: string
  typed?: Form | undefined
}

async function editor(visit: Visit, editing: Editing): Promise<Response> {
  const { campaign, errors = [], extra = '' } = editing
  const all = campaign ? [] : await visit.all(audiences, '/audiences')
  return page(visit, {
    title: campaign ? `Edit ${text(campaign, 'name')}` : 'New campaign',
    about: 'Nothing is sent from here: a draft is started on its page.',
    status: editing.clash ? 409 : errors.length > 0 ? 422 : 200,
    errors,
    labels: LABELS,
    done: done(visit),
    scripts: ['editor.js'],
    body: html`${extra}
    ${
      !campaign && all.length === 0
        ? html`<div class="empty">A campaign goes to an audience: <a href="/audiences">make one first</a>.</div>`
        : editorForm(visit, editing, await audienceOptions(visit, all), await mergeTags(visit, campaign, all))
    }`,
  })
}

/** The most audiences whose contacts are asked for merge tags. */
const MAX_ASKED = 20

/**
 * The merge tags for which the first contacts of the campaign's audience have values; for a new campaign, of any
 * audience.
 */
async function mergeTags(
  visit: Visit,
  campaign: CampaignResource | undefined,
  all: readonly AudienceResource[],
): Promise<Set<string>> {
  const audience = campaign && relatedId(campaign, 'audience')
  const asked = audience === undefined ? all.map(({ id }) => id) : [audience]
  const first = await Promise.all(
    asked.slice(0, MAX_ASKED).map((id) => visit.get(contacts, `/audiences/${id}/contacts?page%5Bsize%5D=5`)),
  )
  const tags = new Set(['name', 'email', 'unsubscribe_url'])
  for (const each of first.flatMap(({ many }) => many))
    for (const name of Object.keys(record(each, 'custom_fields'))) tags.add(name)
  return tags
}

function editorForm(
  visit: Visit,
  { campaign, errors = [], tag = '', typed }: Editing,
  choice: readonly (readonly [id: string, words: string])[],
  tags: ReadonlySet<string>,
): Html {
  const fault = faultIn(errors, LABELS)
  const value = (name: Name): string => valueOf(name, campaign, typed)
  // A browser drops the first line break of a textarea.
  const source = `\n${value('body_html')}`
  return form(
    visit,
    'save',
    html`${tag === '' ? '' : html`<input type="hidden" name="tag" value="${tag}" />`}
      ${field({ name: 'name', label: LABELS.name, value: value('name'), required: true, hint: 'What you call it; nobody else sees it.', error: fault('name') })}
      ${campaign ? '' : field({ name: 'audience', label: LABELS.audience, required: true, options: choice, value: typed?.get('audience') ?? visit.query('audience') })}
      ${field({ name: 'subject', label: LABELS.subject, value: value('subject'), required: true, error: fault('subject') })}
      <div class="field">
        <label for="body_html">${LABELS.body_html}</label>
        <div class="editor" data-editor="body_html" data-tags="${JSON.stringify([...tags])}"></div>
        <textarea id="body_html" name="body_html" rows="16" class="source" required>${source}</textarea>
        <p class="soft">Merge tags: ${[...tags].map((name) => html`<code>{{${name}}}</code> `)}</p>
        ${fault('body_html') === undefined ? '' : html`<p class="bad">${fault('body_html')!}</p>`}
      </div>
      <details ${value('body_text') === '' ? '' : html`open`}>
        <summary>${LABELS.body_text}</summary>
        ${field({ name: 'body_text', label: LABELS.body_text, lines: 8, value: value('body_text'), hint: 'Made from the text above when it is empty.', error: fault('body_text') })}
      </details>
      <details ${value('from_address') === '' && value('reply_to') === '' ? '' : html`open`}>
        <summary>Sender</summary>
        ${field({ name: 'from_address', label: LABELS.from_address, value: value('from_address'), hint: 'When it is empty: noreply@ and the sending domain of the audience.', error: fault('from_address') })}
        ${field({ name: 'reply_to', label: LABELS.reply_to, value: value('reply_to'), error: fault('reply_to') })}
      </details>
      <button>Save the draft</button>`,
    { kind: 'wide keep', ...(campaign ? {} : { to: '/campaigns/new' }) },
  )
}

/** The attributes in a form. */
const attributesOf = (given: Form): Record<string, unknown> => ({
  name: given.get('name'),
  subject: given.get('subject'),
  body_html: given.get('body_html'),
  body_text: given.get('body_text') === '' ? null : given.get('body_text'),
  from_address: given.get('from_address') === '' ? null : given.get('from_address'),
  reply_to:
    given.get('reply_to') === ''
      ? null
      : given
          .get('reply_to')
          .split(',')
          .map((each) => each.trim()),
})

const fresh: Place = {
  path: '/campaigns/new',
  changes: true,
  show: (visit) => editor(visit, {}),
  async act(visit, given) {
    const answer = await visit.ask('POST', '/campaigns', {
      type: 'campaigns',
      attributes: attributesOf(given),
      relationships: { audience: { data: { type: 'audiences', id: given.get('audience') } } },
    })
    return answer.one
      ? lead(visit, `/campaigns/${answer.one.id}`, 'saved')
      : editor(visit, { errors: answer.errors, typed: given })
  },
}

/** Nothing that was typed is lost: the form makes a new campaign. */
const GONE = html`<div class="alert" role="alert">
  <p>
    Somebody has removed this campaign meanwhile. Your text is below: choose the audience; saving makes a new draft.
  </p>
</div>`

const edit: Place = {
  path: '/campaigns/:id/edit',
  changes: true,
  async show(visit) {
    const { headers, one } = found(await visit.get(campaigns, `/campaigns/${visit.context.req.param('id')!}`))
    return editor(visit, { campaign: one, tag: headers.get('etag') ?? '' })
  },
  async act(visit, given) {
    const id = visit.context.req.param('id')!
    const answer = await visit.ask(
      'PATCH',
      `/campaigns/${id}`,
      { type: 'campaigns', id, attributes: attributesOf(given) },
      { 'If-Match': given.get('tag') },
    )
    if (answer.one) return lead(visit, `/campaigns/${id}`, 'saved')
    if (answer.status === 404) return editor(visit, { typed: given, extra: GONE })
    const now = found(await visit.get(campaigns, `/campaigns/${id}`))
    const clash = answer.errors.some(({ code }) => code === 'changed_meanwhile')
    // After a conflict both versions are shown. The form then has the ETag of the present version, so a second save
    // replaces it.
    const extra = clash
      ? html`<div class="alert" role="alert">
          <p>Somebody has saved another version meanwhile. Yours is in the form below; theirs is:</p>
          <p><strong>${text(now.one, 'subject')}</strong></p>
          <pre tabindex="0">${text(now.one, 'body_html')}</pre>
          <p>Save once more to replace theirs, or <a href="/campaigns/${id}/edit">take theirs</a>.</p>
        </div>`
      : ''
    return editor(visit, {
      campaign: now.one,
      typed: given,
      // The two versions say what the API's sentence about ETags says to a program.
      errors: clash ? [] : answer.errors,
      ...(clash ? { clash } : {}),
      extra,
      tag: now.headers.get('etag') ?? '',
    })
  },
}

export const editorPlaces = [fresh, edit]
