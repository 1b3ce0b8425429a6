// Unsubscribe links (RFC 8058, D45, D60). GET shows a page and changes nothing, because scanners follow links. A POST
// unsubscribes immediately, without a redirect, if it is the one-click request of a mail client or comes from the
// page's button. Any other POST shows the page. The page can also undo it.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import type { Clock } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import { readUnsubscribeToken, type Leaving, hasLeft, leave, rejoin, senderOf } from '../campaigns/unsubscribe.ts'
import type { Store } from '../store/database.ts'
import { withBytes } from '../jsonapi/body.ts'
import { IMAGES_PATH } from '../message/html-tokens.ts'
import { page, strangers, withinMost, type PlainPageDeps } from '../views/html/plain-page.ts'

export interface UnsubscribeDeps extends PlainPageDeps {
  store: Store
  clock: Clock
  keyring: Keyring
}

const MAX_TOKEN = 1000
const MAX_BODY = 4096

export function createUnsubscribe(deps: UnsubscribeDeps): Hono {
  const app = new Hono()
  const leavingOf = (context: Context): Leaving | undefined => {
    const token = context.req.param('token') ?? ''
    return token.length <= MAX_TOKEN ? readUnsubscribeToken(deps.keyring, token) : undefined
  }
  const unknown = (context: Context) =>
    page(
      context,
      404,
      'Invalid link',
      html`<p>
        The link is incomplete or was not created by this server. Copy the whole link from the email, or reply to the
        email and ask to be unsubscribed.
      </p>`,
    )
  app.get('/u/:token', (context) => {
    const leaving = leavingOf(context)
    return leaving ? show(deps, context, leaving) : unknown(context)
  })
  app.post('/u/:token', async (context) => {
    const leaving = leavingOf(context)
    if (!leaving) return unknown(context)
    const wish = await wishOf(deps, context)
    if (wish === 'subscribe') await rejoin(deps, leaving)
    else if (wish === 'unsubscribe') await leave(deps, leaving)
    return show(deps, context, leaving)
  })
  return app
}

/** The action of a form, urlencoded or multipart: RFC 8058's one click, or `action` of the page's own form. */
async function wishOf(deps: UnsubscribeDeps, context: Context): Promise<'subscribe' | 'unsubscribe' | undefined> {
  const { raw } = context.req
  const body = await withinMost(withBytes(raw, strangers(context, deps, MAX_BODY), (read) => read))
  if (body === undefined) return undefined
  const type = raw.headers.get('content-type') ?? ''
  try {
    const form = await new Response(body, { headers: { 'Content-Type': type } }).formData()
    if (form.get('List-Unsubscribe') === 'One-Click') return 'unsubscribe'
    const action = form.get('action')
    return action === 'subscribe' || action === 'unsubscribe' ? action : undefined
  } catch {
    return undefined
  }
}

function show(deps: UnsubscribeDeps, context: Context, leaving: Leaving): Response | Promise<Response> {
  const { brand, name, title } = senderOf(deps.store, leaving)
  const from = html`<strong>${name}</strong>`
  const sender = { name, colour: brand.colour, logo: ownImage(deps, brand.logo) }
  if (hasLeft(deps, leaving))
    return page(
      context,
      200,
      'You are unsubscribed',
      html`<p role="status">${leaving.email} will no longer receive newsletters from ${from}.</p>
        <p class="soft">You may still receive transactional email, such as receipts.</p>
        <form method="post">
          <input type="hidden" name="action" value="subscribe" /><button class="plain">Subscribe again</button>
        </form>`,
      { sender },
    )
  return page(
    context,
    200,
    'Unsubscribe?',
    html`<p>
        ${leaving.email} is subscribed to ${title === null ? 'email' : html`<strong>${title}</strong>`} from ${from}.
      </p>
      <form method="post"><input type="hidden" name="action" value="unsubscribe" /><button>Unsubscribe</button></form>`,
    { sender },
  )
}

/** The path of an image that this server stores. Images of other hosts are not shown: they could track the reader. */
function ownImage({ config }: UnsubscribeDeps, url: string | null): string | undefined {
  const images = `${config.http.public_url}${IMAGES_PATH}/`
  return url?.startsWith(images) ? url.slice(config.http.public_url.length) : undefined
}
