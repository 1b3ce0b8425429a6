// Console pages of forms: the list, a new form, one form with its preview and its HTML, and its versions.
import { html } from 'hono/html'
import type { Actions } from '../views/actions.ts'
import type { FormView } from '../views/form.ts'
import { page } from '../views/html/frame.ts'
import { found, type Place } from '../views/html/place.ts'
import { flag, objects, record, relatedId, text, type Thing, type Visit } from '../views/html/visit.ts'
import {
  badge,
  codeShown,
  count,
  facts,
  percent,
  tabs,
  tile,
  time,
  type Cell,
  type Html,
} from '../views/html/widgets.ts'
import { listOf, type ListView } from '../views/list.ts'
import { listPlaces, onePlace, type ShownOne } from '../views/pages.ts'
import { forms, formVersions } from './api.ts'
import { formFields } from './hosted.ts'
import { editFields } from './page-texts.ts'
import type { FormTexts, FormWords } from './versions.ts'

type FormThing = Thing<typeof forms>

const PATH = '/forms'
const countOf = (one: FormThing, name: string): number => Number(record(one, 'counts')[name as never] ?? 0)
const isSignUp = (one: FormThing): boolean => relatedId(one, 'audience') !== undefined

/** Warns of a form that subscribes people without a confirmation, on every page that names it. */
const warning = (one: FormThing): Html | '' =>
  text(one, 'opt_in') === 'single'
    ? html`<p class="alert">
        This form subscribes people without a confirmation, so anybody can subscribe any address. Reason:
        ${text(one, 'single_reason')}
      </p>`
    : ''

const nameOf = (one: FormThing): Cell =>
  text(one, 'opt_in') === 'single' ? html`${text(one, 'name')} ${badge('no confirmation')}` : text(one, 'name')

const allForms = (): ListView<typeof forms> => ({
  of: forms,
  from: PATH,
  caption: 'Forms',
  search: 'Search forms',
  tabs: {
    label: 'Forms by status',
    name: 'status',
    options: [
      { value: '', name: 'All' },
      { value: 'open', name: 'Open' },
      { value: 'paused', name: 'Paused' },
      { value: 'draft', name: 'Drafts' },
      { value: 'closed', name: 'Closed' },
    ],
  },
  columns: [
    { title: 'Name', of: nameOf, to: ({ id }) => `${PATH}/${id}` },
    { title: 'Status', kind: 'status', of: 'status' },
    { title: 'Sign-ups', kind: 'figure', of: (one) => count(countOf(one, 'requested')) },
    { title: 'Confirmed', kind: 'figure', of: (one) => count(countOf(one, 'confirmed')) },
    { title: 'Stopped', kind: 'figure', of: (one) => count(countOf(one, 'stopped')) },
    { title: 'Created', kind: 'time', of: 'created_at' },
  ],
  empty: 'No forms yet. With a form, people subscribe to an audience or write to an inbox.',
  noMatch: 'No forms match.',
})

const newForm = (visit: Visit): FormView<typeof forms> => ({
  title: 'New form',
  about: 'A form leads either to an audience (people subscribe) or to an inbox (people write to you).',
  of: forms,
  fields: {
    name: { label: 'Name', hint: 'Only you see it.' },
    audience: { label: 'Audience', hint: 'For a sign-up form.' },
    ...(visit.allows('domains:read') && { inbox: { label: 'Inbox', hint: 'For a contact form.' } }),
    title: { label: 'Title', hint: 'People see it above the form.' },
  },
  button: 'Create form',
  done: (at, one) => at.say(`${PATH}/${one.id}`, 'Created as a draft. Add the texts, then open the form.'),
})

const list = listPlaces({
  path: PATH,
  title: 'Forms',
  about: 'Forms on your website on which people subscribe to an audience, or write to an inbox.',
  add: { label: 'New form', domain: true },
  form: newForm,
  list: allForms,
})

const isIn =
  (...states: readonly string[]) =>
  (one: FormThing): boolean =>
    states.includes(text(one, 'status'))

const ACTIONS: Actions<typeof forms> = {
  open: {
    label: 'Open form',
    when: isIn('draft', 'paused', 'closed'),
    ask: { attributes: { status: 'open' } },
    said: 'The form is open.',
  },
  pause: {
    label: 'Pause',
    when: isIn('open'),
    ask: { attributes: { status: 'paused' } },
    said: 'The form is paused. Sign-ups are stored, and their emails are sent when you open it again.',
  },
  close: {
    label: 'Close form',
    when: isIn('open', 'paused'),
    confirm: 'People can no longer use the form. Sign-ups that are not confirmed expire.',
    danger: true,
    ask: { attributes: { status: 'closed' } },
    said: 'The form is closed.',
  },
  remove: {
    label: 'Delete form',
    confirm:
      'The form stops working on every website. Sign-ups that are not confirmed expire. Contacts and their consents stay.',
    danger: true,
    deletes: true,
    said: (one) => `Deleted “${text(one, 'name')}”.`,
  },
}

/** The texts of a version, as the API shows them. */
const textsOf = (version: Thing<typeof formVersions>): FormTexts => ({
  language: text(version, 'language'),
  languages: record(version, 'languages') as Record<string, FormWords>,
  fields: objects(version, 'fields'),
  consent_checkbox: flag(version, 'consent_checkbox'),
  controller: text(version, 'controller') || null,
  privacy_url: text(version, 'privacy_url') || null,
})

/** A form as people see it. */
function preview(one: FormThing, texts: FormTexts, language: string): Html {
  const seen = { audience_key: isSignUp(one) ? 1 : null, honeypot: '', version: 0 }
  return html`<div class="form-preview" lang="${language}" inert>
    <h3 dir="auto">${texts.languages[language]?.title || '(no title)'}</h3>
    ${formFields(seen, { texts, language })}
  </div>`
}

/** The preview in the language of the tab. */
function previews(visit: Visit, one: FormThing, texts: FormTexts): Html {
  const tags = Object.keys(texts.languages)
  const language = tags.find((tag) => tag === visit.query('lang')) ?? texts.language
  const { path } = visit.context.req
  const links = tags.map((tag) => ({ to: `${path}?lang=${tag}`, name: tag, here: tag === language }))
  return html`${tags.length > 1 ? tabs('Languages', links) : ''} ${preview(one, texts, language)}`
}

const share = (part: number, of: number): string => (of === 0 ? '' : percent(part / of))

/** How many sign-ups there were, and their results. */
function results(one: FormThing): Html {
  const [requested, confirmed] = [countOf(one, 'requested'), countOf(one, 'confirmed')]
  return html`<div class="tiles">
    ${tile(isSignUp(one) ? 'Sign-ups' : 'Messages', count(requested))}
    ${isSignUp(one) ? html`${tile('Confirmed', count(confirmed), { note: share(confirmed, requested) })} ${tile('Refused', count(countOf(one, 'refused')))} ${tile('Expired', count(countOf(one, 'expired')))}` : ''}
    ${tile('Stopped as abuse', count(countOf(one, 'stopped')))}
  </div>`
}

/** The audience or the inbox of a form, as a link. */
async function target(visit: Visit, one: FormThing): Promise<[name: string, link: Cell]> {
  const audience = relatedId(one, 'audience')
  const path = audience === undefined ? `/inboxes/${relatedId(one, 'inbox') ?? ''}` : `/audiences/${audience}`
  const name = (await visit.ask('GET', path)).one?.attributes['name']
  const called = audience === undefined ? 'Inbox' : 'Audience'
  return [called, typeof name === 'string' ? html`<a href="${path}">${name}</a>` : 'deleted']
}

const SINCE = { draft: 'Draft since', open: 'Open since', paused: 'Paused since', closed: 'Closed since' } as const

async function about(visit: Visit, one: FormThing): Promise<Html> {
  const url = text(one, 'public_url')
  const reason = text(one, 'paused_reason')
  return facts([
    ['Status', badge(text(one, 'status'))],
    ...(reason === '' ? [] : [['Paused because', reason] as const]),
    ['Page', html`<a href="${url}">${url}</a>`],
    await target(visit, one),
    [SINCE[text(one, 'status') as keyof typeof SINCE], time(one.attributes.status_at)],
  ])
}

async function body({ form, here, one, visit }: ShownOne<typeof forms>): Promise<Html> {
  const { many } = await visit.get(formVersions, `${here}/versions?page%5Bsize%5D=1`)
  const [version] = many
  const edit = await form('save')
  return html`${warning(one)} ${await about(visit, one)} ${results(one)}
    <h2>Preview</h2>
    ${version ? previews(visit, one, textsOf(version)) : ''}
    <h2>HTML for your website</h2>
    <p class="soft">
      It needs no script. It has the texts of the default language: copy it again after you change them.
    </p>
    ${codeShown('embed', text(one, 'embed_html'))} ${edit === '' ? '' : html`<h2>Edit</h2>`} ${edit}`
}

const one = onePlace({
  path: `${PATH}/:id`,
  of: forms,
  list: [PATH, 'Forms'],
  title: 'name',
  actions: (_, form) => ({
    ...ACTIONS,
    save: { label: 'Save', fields: editFields(form), said: 'Saved.' },
  }),
  status: 422,
  head: ({ button: act, here }) =>
    html`<a class="button plain" href="${here}/versions">Versions</a> ${act('pause')} ${act('open')}`,
  body,
})

const versionList = (id: string): ListView<typeof formVersions> => ({
  of: formVersions,
  from: `${PATH}/${id}/versions`,
  caption: 'Versions',
  columns: [
    {
      title: 'Version',
      of: (each) => `Version ${text(each, 'version')}`,
      to: (each) => `${PATH}/${id}/versions?show=${text(each, 'version')}`,
    },
    { title: 'From', kind: 'time', of: 'created_at' },
    { title: 'Changed by', of: 'created_by' },
    { title: 'Languages', of: (each) => Object.keys(record(each, 'languages')).join(', ') },
  ],
  empty: 'No versions.',
})

const versions: Place = {
  path: `${PATH}/:id/versions`,
  async show(visit) {
    const { id } = visit.context.req.param() as { id: string }
    const { one: form } = found(await visit.get(forms, `${PATH}/${id}`))
    const { answer, body: table } = await listOf(visit, versionList(id))
    const chosen = answer.many.find((each) => text(each, 'version') === visit.query('show')) ?? answer.many[0]
    const texts = chosen && textsOf(chosen)
    return page(visit, {
      title: 'Versions',
      about: 'The texts that people agreed to. Each consent contains the number of its version.',
      crumbs: [
        [PATH, 'Forms'],
        [`${PATH}/${id}`, text(form, 'name')],
      ],
      body: html`${warning(form)} ${table} ${chosen ? html`<h2>Version ${text(chosen, 'version')}</h2>` : ''}
      ${
        texts &&
        Object.keys(texts.languages).map(
          (tag) =>
            html`<h3>${tag}</h3>
              ${preview(form, texts, tag)}`,
        )
      }`,
    })
  },
}

export const formPlaces: readonly Place[] = [...list, versions, one]
