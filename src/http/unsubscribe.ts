// Unsubscribe links (RFC 8058, D45, D60). GET shows a page and changes nothing, because scanners follow links. A POST
// unsubscribes at once, without a redirect, when it is a mail program's one-click request or comes from the page's
// button; any other POST shows the page. The page can also undo it.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import type { Clock } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import { readUnsubscribeToken, type Leaving } from '../campaigns/unsubscribe-token.ts'
import { hasLeft, leave, rejoin, senderOf } from '../campaigns/unsubscribe.ts'
import type { Store } from '../store/database.ts'
import { withOctets } from '../jsonapi/body.ts'
import { page, strangers, withinMost, type PlainPageDeps } from '../webui/plain-page.ts'

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
      'This link does not work',
      html`<p>
        It is not one of ours, or was cut on its way. Copy the whole link from the mail, or reply to the mail and say
        that you want no more.
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

/** The request in a form, urlencoded or multipart: RFC 8058's one click, or `action` of the page's own form. */
async function wishOf(deps: UnsubscribeDeps, context: Context): Promise<'subscribe' | 'unsubscribe' | undefined> {
  const { raw } = context.req
  const octets = await withinMost(withOctets(raw, strangers(context, deps, MAX_BODY), (read) => read))
  if (octets === undefined) return undefined
  const type = raw.headers.get('content-type') ?? ''
  try {
    const form = await new Response(octets, { headers: { 'Content-Type': type } }).formData()
    if (form.get('List-Unsubscribe') === 'One-Click') return 'unsubscribe'
    const action = form.get('action')
    return action === 'subscribe' || action === 'unsubscribe' ? action : undefined
  } catch {
    return undefined
  }
}

function show(deps: UnsubscribeDeps, context: Context, leaving: Leaving): Response | Promise<Response> {
  const { audience, domain } = senderOf(deps.store, leaving)
  const list =
    audience === null
      ? html`mail from <strong>${domain}</strong>`
      : html`<strong>${audience}</strong> from <strong>${domain}</strong>`
  if (hasLeft(deps, leaving))
    return page(
      context,
      200,
      'You are unsubscribed',
      html`<p role="status">${leaving.email} gets no more newsletters from <strong>${domain}</strong>.</p>
        <p class="soft">Mail that you ask for yourself, such as receipts, may still come.</p>
        <form method="post">
          <input type="hidden" name="action" value="subscribe" /><button class="plain">
            That was a mistake: subscribe again
          </button>
        </form>`,
    )
  return page(
    context,
    200,
    'Unsubscribe?',
    html`<p>${leaving.email} is subscribed to ${list}.</p>
      <form method="post"><input type="hidden" name="action" value="unsubscribe" /><button>Unsubscribe</button></form>`,
  )
}
