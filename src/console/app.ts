// The console (D76): every page and form at its address. A page asks the API inside the process as the person who looks
// at it; nothing here has a rule of its own.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import { refuse, Refusal } from '../base/errors.ts'
import { listUsers, userByKey } from '../accounts/users.ts'
import { openAs } from '../accounts/sessions.ts'
import type { ApiDeps } from '../api/deps.ts'
import type { Inside } from '../api/inside.ts'
import { People } from '../api/person.ts'
import { readBytes } from '../api/pages.ts'
import { render, valuesOf } from '../campaigns/render.ts'
import { docsPage } from './docs.ts'
import { serveAsset } from './assets.ts'
import { guard, page, plainPage } from './frame.ts'
import { Live } from './live.ts'
import { accountPlace } from './pages/account.ts'
import { agents } from './pages/agents.ts'
import { audiencePlaces } from './pages/audiences.ts'
import { editorPlaces } from './pages/campaign-editor.ts'
import { campaignPlaces } from './pages/campaigns.ts'
import { contact } from './pages/contacts.ts'
import { domainPlaces } from './pages/domains.ts'
import { inboxPlaces } from './pages/inboxes.ts'
import { mailPlaces } from './pages/mail.ts'
import { overview } from './pages/overview.ts'
import { privacy } from './pages/privacy.ts'
import { queue } from './pages/queue.ts'
import { receivers } from './pages/receivers.ts'
import { peoplePlace, serverPlaces } from './pages/server.ts'
import { suppressionPlaces } from './pages/suppressions.ts'
import { tokens } from './pages/tokens.ts'
import { webhookPlaces } from './pages/webhooks.ts'
import { pictureAddress, servePicture } from './pictures.ts'
import { Form, found, lead, type Place } from './place.ts'
import { framed } from './shown-html.ts'
import { createSignIn, signInPage } from './sign-in.ts'
import { text, Visit } from './visit.ts'

/** A form with a file may be so large. */
const MAX_FORM = 8 * 1024 * 1024

export interface Console {
  app: Hono
  /** Ends the streams of pages that follow what happens. */
  close(): void
}

export function createConsole(deps: ApiDeps, inside: Inside, noticed: () => void): Console {
  const app = new Hono()
  const people = new People(deps)
  const live = new Live(deps)
  const visitOf = (context: Context): Visit | undefined => {
    const person = people.signedIn(context)
    return person && new Visit(context, person, { deps, inside, people })
  }
  const must = (context: Context): Visit => {
    const visit = visitOf(context)
    if (!visit) throw refuse('unauthenticated', 'Sign in first.')
    return visit
  }

  /** A request from a page of ours; browsers say where a form comes from (RFC 6454). */
  const ours = (context: Context): boolean => {
    const origin = context.req.header('origin')
    if (origin === undefined || origin === 'null') return context.req.header('sec-fetch-site') !== 'cross-site'
    const { host } = new URL(context.req.url)
    return (
      origin === new URL(deps.config.http.public_url).origin || (URL.canParse(origin) && new URL(origin).host === host)
    )
  }

  async function formOf(context: Context): Promise<Form | undefined> {
    const octets = await readBytes(context.req.raw, MAX_FORM)
    if (octets === undefined) return undefined
    const type = context.req.header('content-type') ?? ''
    return new Form(
      await new Response(octets, { headers: { 'Content-Type': type } }).formData().catch(() => new FormData()),
    )
  }

  async function act(context: Context, place: Place): Promise<Response> {
    const form = await formOf(context)
    if (!form)
      return plainPage(context, {
        title: 'Too large',
        status: 413,
        body: html`<p>The form has more than 8 MB. Go back, and send less.</p>`,
      })
    const visit = visitOf(context)
    if (!visit) {
      const held = JSON.stringify(form.entries())
      return signInPage(context, people, new URL(context.req.url).pathname, {
        said: 'Your session has ended. Sign in; what you typed is kept.',
        held,
        status: 401,
      })
    }
    if (!ours(context) || !people.proves(context, form.get('proof'), visit.person, 'console'))
      return plainPage(context, {
        title: 'Please try again',
        status: 403,
        body: html`<p>
          This form was not written by this server for your browser, or it was open for too long. Go back, reload the
          page and try again.
        </p>`,
      })
    if (place.operator && !visit.operator) throw refuse('not_found', 'There is nothing here.')
    return place.act!(visit, form)
  }

  const place = (each: Place): void => {
    app.get(each.path, async (context) => {
      const visit = visitOf(context)
      if (visit && each.operator && !visit.operator) throw refuse('not_found', 'There is nothing here.')
      const { pathname, search } = new URL(context.req.url)
      if (!visit) return context.redirect(`/sign-in?next=${encodeURIComponent(pathname + search)}`, 303)
      const begun = deps.clock.now()
      const shown = await each.show(visit)
      // A script asks again for the part that follows what happens.
      if (context.req.header('hx-request') !== undefined) live.took(deps.clock.now() - begun)
      return shown
    })
    if (each.act) app.post(each.path, (context) => act(context, each))
  }

  app.get('/assets/:name', (context) => serveAsset(context, context.req.param('name')))
  app.get('/docs', (context) => docsPage(context, deps.config.http.public_url))
  app.route('/', createSignIn({ deps, noticed, ours, people }))
  app.post('/sign-out', async (context) => {
    const form = await formOf(context)
    const person = people.signedIn(context)
    if (ours(context) && person && form && people.proves(context, form.get('proof'), person, 'console'))
      await people.signOut(context)
    return context.redirect('/sign-in', 303)
  })
  app.get('/live', (context) => (visitOf(context) ? live.stream(context) : context.text('Sign in first.\n', 401)))

  // What strangers wrote, for sandboxed frames.
  const pictures = (context: Context) =>
    context.req.query('pictures') === 'yes' ? (url: string) => pictureAddress(deps, url) : undefined
  app.get('/mail/:id/html', async (context) =>
    framed(
      context,
      text(found(await must(context).get(`/outbound-emails/${context.req.param('id')}`)).one, 'html'),
      pictures(context),
    ),
  )
  app.get('/inbound/:id/html', async (context) =>
    framed(
      context,
      text(found(await must(context).get(`/inbound-emails/${context.req.param('id')}`)).one, 'html'),
      pictures(context),
    ),
  )
  app.get('/picture', (context) => servePicture(context, deps))
  app.get('/inbound/:id/raw', (context) => download(context, `/inbound-emails/${context.req.param('id')}/raw`))
  app.get('/inbound/:id/attachments/:file', (context) =>
    download(context, `/inbound-emails/${context.req.param('id')}/attachments/${context.req.param('file')}`),
  )
  async function download(context: Context, path: string): Promise<Response> {
    const response = await must(context).download(path)
    if (response.status !== 200) throw refuse('not_found', 'There is nothing here.')
    return response
  }
  app.get('/campaigns/:id/preview', async (context) => {
    const visit = must(context)
    const { one } = found(await visit.get(`/campaigns/${context.req.param('id')}`))
    const audience = one.relationships?.['audience']?.data?.id
    const [contact] =
      audience === undefined ? [] : (await visit.get(`/audiences/${audience}/contacts?page%5Bsize%5D=1`)).many
    const content = { subject: text(one, 'subject'), body_html: text(one, 'body_html'), body_text: null }
    const values = valuesOf({
      email: contact ? text(contact, 'email') : 'ann@example.net',
      name: contact ? text(contact, 'name') : 'Ann',
      custom_fields: contact ? JSON.stringify(contact.attributes['custom_fields'] ?? {}) : null,
    })
    return framed(context, render(content, values).html)
  })

  const open = async (visit: Visit, id: string | null): Promise<Response> => {
    if (!visit.operator) throw refuse('not_found', 'There is nothing here.')
    const other = id === null ? undefined : listUsers(deps.store).find((user) => user.id === id)
    if (id !== null && !other) throw refuse('not_found', 'There is no such person.')
    await openAs(deps, visit.person.session, other?.key ?? null)
    deps.log.info('account opened', { operator: visit.person.user.email, account: (other ?? visit.person.user).email })
    return lead(visit, '/', 'moved')
  }
  const anew = async (visit: Visit): Promise<void> => {
    const user = userByKey(deps.store, visit.person.user.key)
    if (user) await people.signIn(visit.context, user)
  }
  const places: readonly Place[] = [
    overview,
    ...mailPlaces,
    receivers,
    queue,
    ...editorPlaces,
    ...campaignPlaces,
    contact,
    ...audiencePlaces,
    ...inboxPlaces,
    ...suppressionPlaces,
    ...domainPlaces,
    ...webhookPlaces,
    tokens,
    agents,
    privacy,
    ...serverPlaces,
    peoplePlace(open),
    accountPlace(deps, anew),
  ]
  for (const each of places) place(each)

  app.onError((thrown, context) => {
    guard(context)
    const refusal = thrown instanceof Refusal ? thrown : undefined
    const status = refusal?.status ?? 500
    if (status === 401) return context.redirect('/sign-in', 303)
    const id = refusal ? '' : deps.log.fault('a page of the console', thrown)
    const words =
      refusal?.message ?? `Something is wrong on this server. Its operator finds it in the log under ${String(id)}.`
    const title = status === 404 ? 'There is nothing here' : 'This does not work'
    const visit = visitOf(context)
    const body = html`<p>${words}</p>
      <p><a href="/">To the overview</a></p>`
    return visit ? page(visit, { title, body, status }) : plainPage(context, { title, body, status })
  })
  return { app, close: () => live.close() }
}
