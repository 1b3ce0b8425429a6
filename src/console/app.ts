// The routes of the console (D76): every page and form at its path. A page calls the API inside the process as the
// signed-in user. The rules are in the API, and the console has no rules of its own.
import { Hono, type Context } from 'hono'
import { deleteCookie, setCookie } from 'hono/cookie'
import { html } from 'hono/html'
import { refuse, Refusal } from '../base/errors.ts'
import { refusalOfTrouble } from '../base/local-trouble.ts'
import type { AppDeps } from '../http/app-deps.ts'
import type { Inside } from '../jsonapi/in-process-api.ts'
import { clientAddress } from '../net/client-address.ts'
import { People } from '../users/browser-session.ts'
import { MAX_FIELDS, withForm } from '../views/html/fields.ts'
import { preview } from './campaign-preview.ts'
import { countersOf } from './counters.ts'
import { Docs } from './docs.ts'
import { nameAssets, serveAsset } from './assets.ts'
import { find, keys } from './find.ts'
import { guard, page, plainPage } from '../views/html/frame.ts'
import { questionPage } from '../views/html/question.ts'
import { isChoice, LOOK_NAMES } from '../views/html/look.ts'
import { Live } from './live.ts'
import { isOurs, ownPath } from '../views/html/origin.ts'
import { Once } from '../views/html/once.ts'
import { accountPlace } from '../users/page-account.ts'
import { inboundEmails } from '../inbound/api-emails.ts'
import { outboundEmails } from '../mail/api.ts'
import { overview } from './overview.ts'
import { auditPlaces } from '../users/page-audit.ts'
import { memberPlaces } from '../users/page-members.ts'
import { peoplePlaces } from '../users/page-people.ts'
import { serverPlaces } from './page-server.ts'
import { tokenPlaces } from '../users/page-tokens.ts'
import { leadToPicture, pictureAddress, servePicture } from './pictures.ts'
import { found, type Form, type Place } from '../views/html/place.ts'
import { framed } from '../views/html/shown-html.ts'
import { samplesOf } from './reference/samples.ts'
import { createSignIn } from '../users/page-sign-in.ts'
import { signInPage } from '../users/sign-in-forms.ts'
import { text, Visit } from '../views/html/visit.ts'
import type { MenuEntry, Navigation } from '../views/html/navigation.ts'

export interface Console {
  app: Hono
  /** Ends the event streams of open pages. */
  close(): void
}

interface ConsoleParts {
  deps: AppDeps
  inside: Inside
  live: Live
  once: Once
  people: People
  navigation: Navigation
}

/** Makes the routes of the console. */
export function createConsole(deps: AppDeps, inside: Inside): Console {
  const app = new Hono()
  const shared: ConsoleParts = {
    deps,
    inside,
    live: new Live(deps),
    once: new Once(deps.clock),
    people: new People(deps),
    navigation: navigationOf(deps.subjects),
  }
  const { live, people } = shared
  nameAssets()
  app.get('/assets/:name', (context) => serveAsset(context, context.req.param('name')))
  const docs = new Docs(deps)
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
  app.get('/picture/of', (context) => (requireVisit(shared, context), leadToPicture(context, deps)))
  addFrames(app, shared)
  addDownloads(app, shared)
  app.get('/campaigns/:id/preview', (context) => preview(deps, requireVisit(shared, context), context.req.param('id')))
  for (const place of placesOf(shared)) addPlace(app, shared, place)
  app.get('*', (context, next) => {
    // Other clients get the plain answer of the application.
    if (!(context.req.header('accept') ?? '').includes('text/html')) return next()
    throw refuse('not_found', 'Page not found.')
  })
  app.onError((thrown, context) => errorPage(shared, context, thrown))
  return { app, close: () => live.close() }
}

/** Returns the visit of a request, or undefined without a session. */
function visitOf({ deps, inside, navigation, once, people }: ConsoleParts, context: Context): Visit | undefined {
  const person = people.signedIn(context)
  if (!person) return undefined
  const parts = {
    clock: deps.clock,
    inside,
    once,
    people,
    counters: countersOf,
    navigation,
    address: () => clientAddress(context, deps.config.http),
  }
  return new Visit(context, person, parts)
}

/** Returns the visit of a request. Throws a refusal (401) without a session. */
function requireVisit(shared: ConsoleParts, context: Context): Visit {
  const visit = visitOf(shared, context)
  if (!visit) throw refuse('unauthenticated', 'Sign in first.')
  return visit
}

function addPlace(app: Hono, shared: ConsoleParts, place: Place): void {
  const { deps, live } = shared
  app.get(place.path, async (context) => {
    const visit = visitOf(shared, context)
    if (visit && place.operator && !visit.operator) throw refuse('not_found', 'Page not found.')
    const { pathname, search } = new URL(context.req.url)
    if (!visit) return context.redirect(`/sign-in?next=${encodeURIComponent(pathname + search)}`, 303)
    if (visit.forbidden || (place.changes && visit.reading)) throw refuse('insufficient_scope', visit.denied)
    const begun = deps.clock.now()
    const shown = await place.show(visit)
    // htmx requests the live part of a page again after an event.
    if (context.req.header('hx-request') !== undefined) live.took(deps.clock.now() - begun)
    return shown
  })
  if (place.act) app.post(place.path, (context) => act(shared, context, place))
}

async function act(shared: ConsoleParts, context: Context, place: Place): Promise<Response> {
  const visit = visitOf(shared, context)
  // The session may expire while the form arrives, so the user is looked up again when it is complete.
  const answer = await withForm(shared.deps, context, visit, (given) =>
    perform(shared, context, { place, visit: visit && visitOf(shared, context), given }),
  )
  if (answer) return answer
  const body = visit
    ? html`<p>The form is larger than 8 MB or has more than ${MAX_FIELDS} fields. Go back and submit less.</p>`
    : html`<p>
        Your input is too long to be kept here. Sign in in another tab, go back to the form and submit it again.
      </p>`
  const [title, status] = visit ? (['Form too large', 413] as const) : (['Your session has expired', 401] as const)
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
    // Another site must not choose the typed text, so only a form that was written here is kept (D115).
    const kept = isOurs(deps, context) && people.wrote(context, given.get('proof'), 'console')
    return signInPage(context, people, new URL(context.req.url).pathname, {
      said: kept
        ? 'Your session has expired. Sign in to continue. Your input is kept.'
        : 'Your session has expired. Sign in and submit the form again.',
      held: kept ? JSON.stringify(given.entries()) : '',
      status: 401,
    })
  }
  if (!isOurs(deps, context) || !people.proves(context, given.get('proof'), visit.person, 'console'))
    return plainPage(context, {
      title: 'Try again',
      status: 403,
      body: html`<p>
        This form has expired, or it is for another account or browser. You are now in the account of
        ${visit.account.email}. Go back, reload the page and try again.
      </p>`,
    })
  if (place.operator && !visit.operator) throw refuse('not_found', 'Page not found.')
  if (visit.forbidden) throw refuse('insufficient_scope', visit.denied)
  if (given.get('question') !== '' && given.get('sure') !== 'yes')
    return questionPage(visit, given, given.get('question'), place.also?.(given))
  return place.act!(visit, given)
}

async function signOut(shared: ConsoleParts, context: Context): Promise<Response> {
  const { deps, people } = shared
  const visit = visitOf(shared, context)
  await withForm(deps, context, visit, async (given) => {
    // A form of an account that was shown before a switch signs out, too.
    if (isOurs(deps, context) && visit && people.wrote(context, given.get('proof'), 'console'))
      await people.signOut(context)
  })
  return context.redirect('/sign-in', 303)
}

/** How long a browser keeps the display settings, in seconds: the maximum for a cookie (RFC 6265bis §5.5). */
const KEPT = 400 * 24 * 3600

/** Stores a user's display settings in cookies of this browser. */
async function setLook(shared: ConsoleParts, context: Context): Promise<Response> {
  const { deps, people } = shared
  const visit = visitOf(shared, context)
  const back = await withForm(deps, context, visit, (given) => {
    if (isOurs(deps, context) && visit && people.wrote(context, given.get('proof'), 'console')) {
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

/** The HTML of received emails, for sandboxed frames. */
function addFrames(app: Hono, shared: ConsoleParts): void {
  const pictures = (context: Context) =>
    context.req.query('pictures') === 'yes' ? (url: string) => pictureAddress(shared.deps, url) : undefined
  for (const [path, resource] of [
    ['/mail/:id/html', outboundEmails],
    ['/inbound/:id/html', inboundEmails],
  ] as const)
    app.get(path, async (context) => {
      const { one } = found(
        await requireVisit(shared, context).get(resource, `/${resource.type}/${context.req.param('id')}`),
      )
      return framed(context, text(one, 'html'), { addressOf: pictures(context) })
    })
}

function addDownloads(app: Hono, shared: ConsoleParts): void {
  const download = async (context: Context, path: string): Promise<Response> => {
    const response = await requireVisit(shared, context).download(path)
    if (response.status !== 200) throw refuse('not_found', 'Page not found.')
    return response
  }
  app.get('/mail/:id/raw', (context) => download(context, `/outbound-emails/${context.req.param('id')}/raw`))
  app.get('/inbound/:id/raw', (context) => download(context, `/inbound-emails/${context.req.param('id')}/raw`))
  app.get('/inbound/:id/attachments/:file', (context) =>
    download(context, `/inbound-emails/${context.req.param('id')}/attachments/${context.req.param('file')}`),
  )
}

/** The entries of the console itself, and of users. */
const MENU: readonly MenuEntry[] = [
  // Marketers get the list of campaigns instead.
  { group: '', rank: 1, path: '/', key: 'o', name: 'Overview', icon: 'overview', scope: 'emails' },
  { group: 'Setup', rank: 2, path: '/tokens', key: 't', name: 'Tokens', icon: 'tokens', scope: 'tokens' },
  { group: 'Setup', rank: 5, path: '/members', key: 'e', name: 'Members', icon: 'people', scope: 'compliance' },
  { group: 'Admin', rank: 4, path: '/audit', key: 'j', name: 'Audit log', icon: 'history', scope: 'compliance' },
  { group: 'Setup', rank: 6, path: '/docs', key: 'h', name: 'API reference', icon: 'reference' },
  { group: 'Admin', rank: 1, path: '/people', key: 'p', name: 'Users', icon: 'people', operator: true },
  { group: 'Admin', rank: 2, path: '/server', key: 's', name: 'Server', icon: 'server', operator: true },
]

const navigationOf = (subjects: AppDeps['subjects']): Navigation => ({
  menu: [...MENU, ...subjects.flatMap(({ menu = [] }) => menu)].toSorted((one, other) => one.rank - other.rank),
  serverTabs: [
    ['/server', 'Health'],
    ['/server/load', 'Load'],
    ...subjects.flatMap(({ serverTabs = [] }) => serverTabs),
    ['/server/log', 'Log'],
  ],
})

const placesOf = (shared: ConsoleParts): readonly Place[] => [
  overview(shared.deps),
  find,
  keys,
  ...tokenPlaces({ ...shared.deps, programs: samplesOf }),
  ...serverPlaces,
  ...shared.deps.subjects.flatMap(({ pages = [] }) => (typeof pages === 'function' ? pages(shared.deps) : pages)),
  ...auditPlaces,
  ...memberPlaces({ ...shared.deps, people: shared.people }),
  ...peoplePlaces({ ...shared.deps, people: shared.people }),
  accountPlace({ ...shared.deps, people: shared.people }),
]

/** The search on the page for an unknown path. */
const SEARCH = html`<form class="search" method="get" action="/mail" role="search">
  <input type="hidden" name="from" value="anywhere" />
  <label for="q">Search emails</label>
  <div class="row">
    <input id="q" name="q" type="search" placeholder="Address or subject" autocomplete="off" />
    <button class="plain">Search</button>
  </div>
</form>`

function errorPage(shared: ConsoleParts, context: Context, thrown: unknown): Response | Promise<Response> {
  guard(context)
  const refusal = thrown instanceof Refusal ? thrown : refusalOfTrouble(thrown)
  if (refusal && refusal !== thrown) shared.deps.log.fault('console page', thrown)
  const status = refusal?.status ?? 500
  if (status === 401) return context.redirect('/sign-in', 303)
  const id = refusal ? '' : shared.deps.log.fault('console page', thrown)
  const words = refusal?.message ?? `An internal error occurred. The server log has the details under ${String(id)}.`
  const title = status === 404 ? 'Page not found' : 'Something went wrong'
  const visit = visitOf(shared, context)
  const body = html`<p>${words}</p>
    ${visit && status === 404 ? SEARCH : ''}
    <p><a href="/">Back to the overview</a></p>`
  return visit
    ? page(visit, { title, body, status })
    : plainPage(context, { title, body, status, server: shared.people.server })
}
