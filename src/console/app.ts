// The routes of the console (D76): every page and form at its address. A page calls the API inside the process as the
// signed-in person. The API applies the rules; the console has none of its own.
import { Hono, type Context } from 'hono'
import { deleteCookie, setCookie } from 'hono/cookie'
import { html } from 'hono/html'
import { refuse, Refusal } from '../base/errors.ts'
import { refusalOfTrouble } from '../base/local-trouble.ts'
import { listUsers, userByKey } from '../identity/users.ts'
import { openAs } from '../identity/sessions.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import type { Inside } from '../jsonapi/in-process-api.ts'
import { People } from '../webui/browser-session.ts'
import { MAX_FIELDS, withForm } from '../webui/fields.ts'
import { preview } from './campaign-preview.ts'
import { countersOf } from './counters.ts'
import { Docs } from './docs.ts'
import { serveAsset } from './assets.ts'
import { find, keys } from './find.ts'
import { form } from '../webui/forms.ts'
import { guard, page, plainPage } from '../webui/frame.ts'
import { isChoice, LOOK_NAMES } from '../webui/look.ts'
import { Live } from './live.ts'
import { isOurs, ownPath } from '../webui/origin.ts'
import { Once } from '../webui/once.ts'
import { accountPlace } from '../accounts/page.ts'
import { agentsPlace } from '../reputation/page.ts'
import { audiencePlaces } from '../lists/page.ts'
import { editorPlaces } from '../campaigns/page-editor.ts'
import { picturesPlace } from '../images/page.ts'
import { campaignPlaces } from '../campaigns/page.ts'
import { contact } from '../campaigns/page-contacts.ts'
import { domainPlaces } from '../domains/page.ts'
import { inboundEmails } from '../inbound/api-emails.ts'
import { inboxPlaces } from '../inbound/page.ts'
import { outboundEmails } from '../mail/api.ts'
import { mailPlaces } from '../mail/page.ts'
import { overview } from './overview.ts'
import { privacy } from '../privacy/page.ts'
import { queue } from '../delivery/page.ts'
import { domainDays } from '../reputation/page-domain.ts'
import { reportPlaces, reportsPanel } from '../reports/page.ts'
import { receiverPlaces } from '../reputation/page-receivers.ts'
import { whyPlace } from '../why/page.ts'
import { peoplePlaces } from './page-people.ts'
import { serverPlaces, serverTabs } from './page-server.ts'
import { suppressionPlaces } from '../lists/page-suppressions.ts'
import { newTokenPlace, tokensPlace } from '../accounts/page-tokens.ts'
import { warmupPlaces } from '../warmup/page.ts'
import { webhookPlaces } from '../webhooks/page.ts'
import { leadToPicture, pictureAddress, servePicture } from './pictures.ts'
import { found, type Form, type Place } from '../webui/place.ts'
import { framed } from '../webui/shown-html.ts'
import { createSignIn } from './sign-in.ts'
import { signInPage } from './sign-in-forms.ts'
import { READS, text, Visit } from '../webui/visit.ts'

export interface Console {
  app: Hono
  /** Ends the event streams of open pages. */
  close(): void
}

interface ConsoleParts {
  deps: ApiDeps
  inside: Inside
  live: Live
  once: Once
  people: People
}

/** Makes the routes of the console. */
export function createConsole(deps: ApiDeps, inside: Inside): Console {
  const app = new Hono()
  const shared: ConsoleParts = {
    deps,
    inside,
    live: new Live(deps),
    once: new Once(deps.clock),
    people: new People(deps),
  }
  const { live, people } = shared
  app.get('/assets/:name', (context) => serveAsset(context, context.req.param('name')))
  const docs = new Docs(deps.config)
  app.get('/docs', (context) => {
    const asked = context.req.query('q') ?? ''
    return asked === '' ? docs.show(context, '') : docs.find(context, asked)
  })
  app.get('/docs/:page', (context) => docs.show(context, context.req.param('page')))
  app.route('/', createSignIn({ deps, ours: (context) => isOurs(deps, context), people }))
  app.post('/sign-out', (context) => signOut(shared, context))
  app.post('/look', (context) => setLook(shared, context))
  app.get('/live', (context) => live.stream(context, people.stillSignedIn(context)))
  app.get('/picture', (context) => servePicture(context, deps))
  app.get('/picture/of', (context) => (must(shared, context), leadToPicture(context, deps)))
  addFrames(app, shared)
  addDownloads(app, shared)
  app.get('/campaigns/:id/preview', (context) => preview(deps, must(shared, context), context.req.param('id')))
  for (const place of placesOf(shared)) addPlace(app, shared, place)
  app.get('*', (context, next) => {
    // Programs get the bare answer of the whole application.
    if (!(context.req.header('accept') ?? '').includes('text/html')) return next()
    throw refuse('not_found', 'No page has this address.')
  })
  app.onError((thrown, context) => errorPage(shared, context, thrown))
  return { app, close: () => live.close() }
}

/** The visit of a request; undefined when nobody is signed in. */
function visitOf({ deps, inside, once, people }: ConsoleParts, context: Context): Visit | undefined {
  const person = people.signedIn(context)
  return person && new Visit(context, person, { deps, inside, once, people, counters: countersOf })
}

/** The visit of a request. Throws a refusal (401) when nobody is signed in. */
function must(shared: ConsoleParts, context: Context): Visit {
  const visit = visitOf(shared, context)
  if (!visit) throw refuse('unauthenticated', 'Sign in first.')
  return visit
}

/** Adds the routes of a place: its page and its forms. */
function addPlace(app: Hono, shared: ConsoleParts, place: Place): void {
  const { deps, live } = shared
  app.get(place.path, async (context) => {
    const visit = visitOf(shared, context)
    if (visit && place.operator && !visit.operator) throw refuse('not_found', 'There is nothing here.')
    const { pathname, search } = new URL(context.req.url)
    if (!visit) return context.redirect(`/sign-in?next=${encodeURIComponent(pathname + search)}`, 303)
    if (place.changes && visit.reading) throw refuse('insufficient_scope', READS)
    const begun = deps.clock.now()
    const shown = await place.show(visit)
    // htmx asks again for the live part of a page after an event.
    if (context.req.header('hx-request') !== undefined) live.took(deps.clock.now() - begun)
    return shown
  })
  if (place.act) app.post(place.path, (context) => act(shared, context, place))
}

/** Checks a form of a place and performs its action. */
async function act(shared: ConsoleParts, context: Context, place: Place): Promise<Response> {
  const visit = visitOf(shared, context)
  // The session may end while the form is on its way: whose it is, is asked again when all of it is there.
  const answer = await withForm(shared.deps, context, visit, (given) =>
    perform(shared, context, { place, visit: visit && visitOf(shared, context), given }),
  )
  if (answer) return answer
  const body = visit
    ? html`<p>The form has more than 8 MB, or more than ${MAX_FIELDS} fields. Go back, and send less.</p>`
    : html`<p>
        What you sent is too long to be kept here. Sign in on another page of the browser, go back to the form, and send
        it again.
      </p>`
  const [title, status] = visit ? (['Too large', 413] as const) : (['Your session has ended', 401] as const)
  return plainPage(context, { title, status, body })
}

interface SentForm {
  place: Place
  visit: Visit | undefined
  given: Form
}

async function perform(shared: ConsoleParts, context: Context, { given, place, visit }: SentForm): Promise<Response> {
  const { deps, people } = shared
  if (!visit) {
    // Another site must not put words into this person's mouth: only a form that was written here is kept (D115).
    const kept = isOurs(deps, context) && people.wrote(context, given.get('proof'), 'console')
    return signInPage(context, people, new URL(context.req.url).pathname, {
      said: kept
        ? 'Your session has ended. Sign in; what you typed is kept.'
        : 'Your session has ended. Sign in, and send the form again.',
      held: kept ? JSON.stringify(given.entries()) : '',
      status: 401,
    })
  }
  if (!isOurs(deps, context) || !people.proves(context, given.get('proof'), visit.person, 'console'))
    return plainPage(context, {
      title: 'Please try again',
      status: 403,
      body: html`<p>
        This form was not written by this server for your browser, or it was open for too long. Go back, reload the page
        and try again.
      </p>`,
    })
  if (place.operator && !visit.operator) throw refuse('not_found', 'There is nothing here.')
  if (given.get('question') !== '' && given.get('sure') !== 'yes')
    return questionPage(visit, given, place.also?.(given) ?? '')
  return place.act!(visit, given)
}

/** The question of a form that a browser without scripts did not ask; its answer sends the form. */
function questionPage(visit: Visit, given: Form, more: string): Response | Promise<Response> {
  const fields = given.entries().filter(([name]) => name !== 'action' && name !== 'sure' && name !== 'question')
  return page(visit, {
    title: 'Are you sure?',
    body: html`<p>${given.get('question')}</p>
      <p>${more}</p>
      ${form(
        visit,
        given.action,
        html`${fields.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}<input
            type="hidden"
            name="sure"
            value="yes"
          /><button>Yes, go on</button>`,
      )}
      <p><a href="${visit.context.req.path}">No, go back</a></p>`,
  })
}

async function signOut(shared: ConsoleParts, context: Context): Promise<Response> {
  const { deps, people } = shared
  const visit = visitOf(shared, context)
  await withForm(deps, context, visit, async (given) => {
    if (isOurs(deps, context) && visit && people.proves(context, given.get('proof'), visit.person, 'console'))
      await people.signOut(context)
  })
  return context.redirect('/sign-in', 303)
}

/** How long a browser keeps the chosen look, in seconds: as long as browsers keep a cookie (RFC 6265bis §5.5). */
const KEPT = 400 * 24 * 3600

/** Notes what a person chose for the look of pages in cookies of this browser. */
async function setLook(shared: ConsoleParts, context: Context): Promise<Response> {
  const { deps, people } = shared
  const visit = visitOf(shared, context)
  const back = await withForm(deps, context, visit, (given) => {
    if (isOurs(deps, context) && visit && people.proves(context, given.get('proof'), visit.person, 'console')) {
      const options = { path: '/', sameSite: 'Lax', secure: deps.config.http.public_url.startsWith('https:') } as const
      for (const name of LOOK_NAMES) {
        const value = given.get(name)
        if (isChoice(name, value)) setCookie(context, name, value, { ...options, maxAge: KEPT })
        else if (given.has(name)) deleteCookie(context, name, options)
      }
    }
    return given.get('back')
  })
  return context.redirect(ownPath(back), 303)
}

/** The HTML of mails from strangers, for sandboxed frames. */
function addFrames(app: Hono, shared: ConsoleParts): void {
  const pictures = (context: Context) =>
    context.req.query('pictures') === 'yes' ? (url: string) => pictureAddress(shared.deps, url) : undefined
  for (const [path, resource] of [
    ['/mail/:id/html', outboundEmails],
    ['/inbound/:id/html', inboundEmails],
  ] as const)
    app.get(path, async (context) => {
      const { one } = found(await must(shared, context).get(resource, `/${resource.type}/${context.req.param('id')}`))
      return framed(context, text(one, 'html'), { addressOf: pictures(context) })
    })
}

/** Files of mail. */
function addDownloads(app: Hono, shared: ConsoleParts): void {
  const download = async (context: Context, path: string): Promise<Response> => {
    const response = await must(shared, context).download(path)
    if (response.status !== 200) throw refuse('not_found', 'There is nothing here.')
    return response
  }
  app.get('/mail/:id/raw', (context) => download(context, `/outbound-emails/${context.req.param('id')}/raw`))
  app.get('/inbound/:id/raw', (context) => download(context, `/inbound-emails/${context.req.param('id')}/raw`))
  app.get('/inbound/:id/attachments/:file', (context) =>
    download(context, `/inbound-emails/${context.req.param('id')}/attachments/${context.req.param('file')}`),
  )
}

/** Opens another person's account for the operator; with null, the operator's own account. */
async function openAccount({ deps }: ConsoleParts, visit: Visit, id: string | null): Promise<Response> {
  if (!visit.operator) throw refuse('not_found', 'There is nothing here.')
  const other = id === null ? undefined : listUsers(deps.store).find((user) => user.id === id)
  if (id !== null && !other) throw refuse('not_found', 'There is no such person.')
  await openAs(deps, visit.person.session, other?.key ?? null)
  deps.log.info('account opened', { operator: visit.person.user.email, account: (other ?? visit.person.user).email })
  return visit.say('/', other ? `You look at the account of ${other.email}.` : 'This is your own account again.')
}

/** Opens a new session for a person whose sessions have ended. */
async function signInAgain({ deps, people }: ConsoleParts, visit: Visit): Promise<void> {
  const user = userByKey(deps.store, visit.person.user.key)
  if (user) await people.signIn(visit.context, user)
}

const placesOf = (shared: ConsoleParts): readonly Place[] => [
  overview(shared.deps),
  find,
  keys,
  ...mailPlaces,
  ...receiverPlaces,
  whyPlace,
  queue,
  ...editorPlaces,
  ...campaignPlaces,
  contact,
  ...audiencePlaces,
  picturesPlace,
  ...inboxPlaces,
  ...suppressionPlaces,
  ...domainPlaces({ reputation: domainDays, reports: reportsPanel }),
  ...reportPlaces,
  ...webhookPlaces,
  newTokenPlace,
  tokensPlace(shared.deps),
  agentsPlace,
  privacy,
  ...serverPlaces,
  ...warmupPlaces(serverTabs),
  ...peoplePlaces(shared.deps, (visit, id) => openAccount(shared, visit, id)),
  accountPlace(shared.deps, (visit) => signInAgain(shared, visit)),
]

/** What somebody may have looked for at an address that leads nowhere. */
const SEARCH = html`<form class="search" method="get" action="/mail" role="search">
  <input type="hidden" name="from" value="anywhere" />
  <label for="q">Search mail</label>
  <div class="row">
    <input id="q" name="q" type="search" placeholder="Address or subject" autocomplete="off" />
    <button class="plain">Search</button>
  </div>
</form>`

/** The page for a refusal or an error. */
function errorPage(shared: ConsoleParts, context: Context, thrown: unknown): Response | Promise<Response> {
  guard(context)
  const refusal = thrown instanceof Refusal ? thrown : refusalOfTrouble(thrown)
  if (refusal && refusal !== thrown) shared.deps.log.fault('a page of the console', thrown)
  const status = refusal?.status ?? 500
  if (status === 401) return context.redirect('/sign-in', 303)
  const id = refusal ? '' : shared.deps.log.fault('a page of the console', thrown)
  const words =
    refusal?.message ?? `Something is wrong on this server. Its operator finds it in the log under ${String(id)}.`
  const title = status === 404 ? 'There is nothing here' : 'This does not work'
  const visit = visitOf(shared, context)
  const body = html`<p>${words}</p>
    ${visit && status === 404 ? SEARCH : ''}
    <p><a href="/">To the overview</a></p>`
  return visit
    ? page(visit, { title, body, status })
    : plainPage(context, { title, body, status, server: shared.people.server })
}
