// The page behind every unsubscribe link (RFC 8058, D45, D60). GET shows it and changes nothing, because scanners
// follow links. A POST acts at once, without a redirect or a question, if it is the one-click request of a mail client
// or comes from a button of the page. Any other POST shows the page. Whoever has the link, such as the reader of a
// forwarded email, can undo each action here, and sees nothing else about the recipient.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import type { Clock } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import { readUnsubscribeToken, type Leaving } from '../campaigns/unsubscribe.ts'
import type { Store } from '../store/database.ts'
import type { PlainPageDeps } from '../views/html/plain-page.ts'
import type { Html } from '../views/html/widgets.ts'
import { dataUrl } from './data-link.ts'
import { sendToRecipient, type RecipientEmailDeps, type RecipientEmailResult } from './email.ts'
import { DATA_LINK } from './limits.ts'
import { LANGUAGES, languageIn, textsFor, textsIn, type Texts } from './languages.ts'
import { buttonForm, formIn, recipientPage, senderOf, valueIn } from './recipient-page.ts'
import {
  chooseLanguage,
  subscribeAgain,
  subscriberOf,
  unsubscribeFrom,
  type LeavingScope,
  type Subscriber,
} from './subscriber.ts'

export interface SubscriberPageDeps extends PlainPageDeps, Pick<RecipientEmailDeps, 'ring'> {
  config: PlainPageDeps['config'] & RecipientEmailDeps['config']
  store: Store
  clock: Clock
  keyring: Keyring
}

/** What the page says was done, in the language of the page. */
type Said = (shown: ShownSubscriber) => string

interface ShownSubscriber extends Subscriber {
  texts: Texts
  /** The name of the sender, and that of the audience for subscribers. */
  from: string
  list: string
}

export function createSubscriberPage(deps: SubscriberPageDeps): Hono {
  const app = new Hono()
  const leavingOf = (context: Context): Leaving | undefined =>
    readUnsubscribeToken(deps.keyring, context.req.param('token') ?? '')
  app.get('/u/:token', (context) => {
    const leaving = leavingOf(context)
    return leaving ? show(deps, context, leaving) : unknownLink(context, 'not_found_text')
  })
  app.post('/u/:token', async (context) => {
    const leaving = leavingOf(context)
    if (!leaving) return unknownLink(context, 'not_found_text')
    const { lang, said } = await act(deps, context, leaving)
    return show(deps, context, leaving, said, lang)
  })
  return app
}

/** The page of a link that does not work. */
export function unknownLink(context: Context, text: string): Response | Promise<Response> {
  const texts = textsFor(context)
  return recipientPage(context, texts, {
    status: 404,
    title: texts.t('not_found_title'),
    body: html`<p>${texts.t(text)}</p>`,
  })
}

/** Performs the action of a form. */
async function act(
  deps: SubscriberPageDeps,
  context: Context,
  leaving: Leaving,
): Promise<{ said?: Said; lang?: Texts }> {
  const form = await formIn(context, deps)
  const oneClick = valueIn(form, 'List-Unsubscribe') === 'One-Click'
  const scope = !oneClick && valueIn(form, 'scope') === 'audience' ? 'audience' : 'domain'
  switch (oneClick ? 'unsubscribe' : (valueIn(form, 'action') ?? '')) {
    case 'unsubscribe':
      await unsubscribeFrom(deps, leaving, scope)
      return { said: scope === 'audience' ? leftList : leftAll }
    case 'subscribe':
      await subscribeAgain(deps, leaving, scope)
      return { said: undone(scope) }
    case 'language': {
      const lang = languageIn(valueIn(form, 'language'))
      if (!lang) return {}
      await chooseLanguage(deps, leaving, lang)
      return { said: ({ texts }) => texts.t('saved'), lang: textsIn(lang) }
    }
    case 'link':
      return { said: await emailLink(deps, context, leaving) }
    default:
      return {}
  }
}

const leftList: Said = ({ list, texts }) => texts.t('unsubscribed_list', { list })
const leftAll: Said = ({ domain, texts }) => texts.t('unsubscribed_all', { domain: domain?.name ?? '' })

/** What an undo says: the address may be blocked, or the contact may be deleted. */
const undone =
  (scope: LeavingScope): Said =>
  ({ from, isBlocked, leaving, receives, texts: { t } }) =>
    receives[scope]
      ? t('undone')
      : isBlocked
        ? t('address_blocked', { address: leaving.email, sender: from })
        : t('saved')

/** What the page says about the email with the link, by its result. */
const LINK_SAID = {
  sent: 'data_sent',
  limited: 'data_limited',
  suppressed: 'address_blocked',
  refused: 'data_unavailable',
} as const satisfies Record<RecipientEmailResult['result'], string>

/** Emails the link to the data about the recipient, to the recipient. */
async function emailLink(deps: SubscriberPageDeps, context: Context, leaving: Leaving): Promise<Said> {
  const { audience, contact, domain, email: address } = subscriberOf(deps, leaving)
  if (!domain) return ({ texts: { t } }) => t('data_unavailable')
  const { clock, config, keyring, store } = deps
  const { lang, t } = textsFor(context, { contact, audience })
  const now = clock.now()
  const url = dataUrl(keyring, config.http.public_url, { domain, email: address }, now)
  const email = {
    domain,
    to: leaving.email,
    lang,
    subject: t('email_link_subject'),
    text: [t('email_link_text', { sender: senderOf(deps, domain.user_key, domain.name).name })],
    button: { label: t('email_link_button'), url },
    tag: DATA_LINK,
    limit: { audience: leaving.audience },
  }
  const { result } = await store.write((tx) => sendToRecipient(tx, deps, email, now))
  return ({ from, texts }) => texts.t(LINK_SAID[result], { address, sender: from })
}

function show(
  deps: SubscriberPageDeps,
  context: Context,
  leaving: Leaving,
  said?: Said,
  chosen?: Texts,
): Response | Promise<Response> {
  const subscriber = subscriberOf(deps, leaving)
  const { audience, contact, domain, title } = subscriber
  const texts = chosen ?? textsFor(context, { contact, audience })
  const sender = domain && senderOf(deps, domain.user_key, domain.name)
  const from = sender?.name ?? ''
  const shown = { ...subscriber, texts, from, list: title ?? from }
  return recipientPage(context, texts, {
    status: 200,
    title: texts.t('page_title'),
    sender,
    body: html`${said ? html`<p role="status">${said(shown)}</p>` : ''}
      <p>${stateOf(shown)}</p>
      ${subscriptionOf(shown)} ${subscriber.audiences > 0 ? languageOf(shown) : ''} ${dataOf(shown)}`,
  })
}

/** The subscription as a sentence. The sender is named even if its list has no name for subscribers. */
function stateOf({
  from: sender,
  leaving: { email: address },
  receives,
  texts: { t },
  title,
}: ShownSubscriber): string {
  if (receives.audience && title !== null) return t('page_receives_list', { address, list: title, sender })
  return receives.domain ? t('page_receives', { address, sender }) : t('page_address', { address })
}

/** Unsubscribing and its undo come first: no other content is needed for them. */
function subscriptionOf({ audiences, domain, leftAudience, leftDomain, list, texts: { t } }: ShownSubscriber): Html {
  const name = domain?.name ?? ''
  const undo = (scope: string): Html =>
    buttonForm(t('undo_button'), { action: 'subscribe', ...(scope === 'audience' && { scope }) }, 'plain')
  const all = buttonForm(t('unsubscribe_all', { domain: name }), { action: 'unsubscribe' })
  const audience = (): Html =>
    leftAudience
      ? html`<p>${t('unsubscribed_list', { list })}</p>
          ${undo('audience')}`
      : buttonForm(t('unsubscribe_list', { list }), { action: 'unsubscribe', scope: 'audience' })
  const chooses = leftAudience !== undefined && (audiences > 1 || leftAudience)
  return html`<section>
    <h2>${t('unsubscribe_title')}</h2>
    ${
      leftDomain
        ? html`<p>${t('unsubscribed_all', { domain: name })}</p>
            ${undo('domain')}`
        : html`${chooses ? audience() : ''} ${all}`
    }
  </section>`
}

const languageOf = ({ texts: { lang, t } }: ShownSubscriber): Html =>
  html`<section>
    <h2>${t('language_choice')}</h2>
    <form method="post">
      <input type="hidden" name="action" value="language" />
      <label for="language">${t('language_choice')}</label>
      <select id="language" name="language">
        ${LANGUAGES.map(
          (each) =>
            html`<option value="${each}" lang="${each}" ${each === lang ? html`selected` : ''}>
              ${textsIn(each).t('language_name')}
            </option>`,
        )}
      </select>
      <button class="plain">${t('save_button')}</button>
    </form>
  </section>`

const dataOf = ({ leaving, texts: { t } }: ShownSubscriber): Html =>
  html`<section>
    <h2>${t('data_title')}</h2>
    <p>${t('data_text', { address: leaving.email })}</p>
    ${buttonForm(t('data_button'), { action: 'link' }, 'plain')}
  </section>`
