// The page of the data about a recipient: what the account stores, a copy of it, and its erasure. Its link is emailed
// to the recipient (data-link.ts). GET changes nothing.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import type { Consent } from '../campaigns/consents.ts'
import { unsubscribeFrom } from './subscriber.ts'
import { askFor, type AnswerDeps, type RecipientRequest } from '../privacy/recipient-requests.ts'
import type { PlainPageDeps } from '../views/html/plain-page.ts'
import type { Html } from '../views/html/widgets.ts'
import { dataHolderOf, type DataHolder } from './data-link.ts'
import { textsFor, type Texts } from './languages.ts'
import { dataOf, type RecipientData } from './recipient-data.ts'
import { buttonForm, formIn, inLanguage, recipientPage, senderOf, valueIn } from './recipient-page.ts'
import { unknownLink } from './subscriber-page.ts'

export type DataPageDeps = PlainPageDeps & AnswerDeps

export function createDataPage(deps: DataPageDeps): Hono {
  const app = new Hono()
  app.get('/me/:token', (context) => {
    const holder = dataHolderOf(deps, context.req.param('token'))
    return holder ? show(deps, context, holder) : unknownLink(context, 'data_link_expired')
  })
  app.post('/me/:token', async (context) => {
    const holder = dataHolderOf(deps, context.req.param('token'))
    if (!holder) return unknownLink(context, 'data_link_expired')
    return act(deps, context, holder, valueIn(await formIn(context, deps), 'action'))
  })
  return app
}

async function act(
  deps: DataPageDeps,
  context: Context,
  holder: DataHolder,
  action: string | undefined,
): Promise<Response> {
  const { domain, email } = holder
  if (action === 'unsubscribe') {
    await unsubscribeFrom(deps, { delivery: 0, domain: domain.key, audience: 0, email }, 'domain')
    return show(deps, context, holder, ({ t }) => t('unsubscribed_all', { domain: domain.name }))
  }
  if (action !== 'export' && action !== 'erasure') return show(deps, context, holder)
  const { lang: language } = textsOfData(context, dataOf(deps, holder))
  const asked = { user_key: domain.user_key, domain_key: domain.key, kind: action, language, email } as const
  const request = await askFor(deps, asked)
  return show(deps, context, holder, (texts, sender) => saidOf(request, texts, sender, email))
}

/** What a request has started. */
function saidOf(
  { due_at, kind, state }: RecipientRequest,
  { date, t }: Texts,
  sender: string,
  address: string,
): string {
  if (state === 'open') return t('request_sent', { sender, date: date(due_at) })
  return kind === 'export' ? t('export_started', { address }) : t('erased')
}

const textsOfData = (context: Context, { subscriptions }: RecipientData): Texts =>
  textsFor(context, { contact: subscriptions.find(({ language }) => language)?.language })

async function show(
  deps: DataPageDeps,
  context: Context,
  holder: DataHolder,
  said?: (texts: Texts, sender: string) => string,
): Promise<Response> {
  const { domain, email } = holder
  const data = dataOf(deps, holder)
  const texts = textsOfData(context, data)
  const { t } = texts
  const sender = senderOf(deps, domain.user_key, domain.name)
  return recipientPage(context, texts, {
    status: 200,
    title: t('data_page_title'),
    sender,
    body: html`${said ? html`<p role="status">${said(texts, sender.name)}</p>` : ''}
      <p class="soft">${t('page_address', { address: email })}</p>
      ${shownData(data, texts, sender.name)}
      <section>
        <h2>${t('data_title')}</h2>
        ${buttonForm(t('export_button'), { action: 'export' }, 'plain')}
        <p class="soft">${t('erase_text')}</p>
        ${buttonForm(t('erase_button'), { action: 'erasure' }, 'plain')}
        ${buttonForm(t('unsubscribe_all', { domain: domain.name }), { action: 'unsubscribe' }, 'plain')}
      </section>`,
  })
}

function shownData({ consents, details, numbers, subscriptions }: RecipientData, texts: Texts, sender: string): Html {
  const { date, t } = texts
  const isEmpty = subscriptions.length + consents.length + numbers.emails === 0
  if (isEmpty) return html`<p>${t('data_none')}</p>`
  const section = (title: string, items: readonly Html[]): Html | '' =>
    items.length === 0
      ? ''
      : html`<section>
          <h2>${t(title)}</h2>
          <ul>
            ${items.map((item) => html`<li>${item}</li>`)}
          </ul>
        </section>`
  const listed = subscriptions.map(
    ({ since, status, title }) =>
      html`${title ?? sender}: ${t(STATES[status])}, ${t('data_since', { date: date(since) })}`,
  )
  const named = details.map(([name, value]) => html`${name === '' ? t('name_label') : name}: ${value}`)
  return html`${section('data_lists', listed)} ${section('data_details', named)}
    ${section(
      'data_consents',
      consents.map((each) => shownConsent(each, texts)),
    )}
    <p>${t('data_figures', numbers)}</p>`
}

const STATES = {
  subscribed: 'state_subscribed',
  unsubscribed: 'state_unsubscribed',
  complained: 'state_unsubscribed',
  bounced: 'state_unreachable',
  pending: 'state_pending',
} as const

/** A consent with its text, which is in the language in which it was shown. */
function shownConsent({ confirmed_at, created_at, ended_at, language, text }: Consent, { date, t }: Texts): Html {
  const recorded = t('data_recorded', { date: date(created_at) })
  return html`${confirmed_at !== null && text !== null ? t('data_consent', { date: date(confirmed_at) }) : recorded}
  ${ended_at === null ? '' : t('data_withdrawn', { date: date(ended_at) })}
  ${text === null ? '' : html`<blockquote ${inLanguage(language)}>${text}</blockquote>`}`
}
