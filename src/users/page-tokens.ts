// The pages of API tokens with their requests, and of the applications that have access over OAuth.
import { html } from 'hono/html'
import { isNameIn, namesIn } from '../base/one-of.ts'
import { connectPanel, waiting, type ReachedAt } from './page-connect.ts'
import { SCOPES, type Scope } from '../jsonapi/scopes.ts'
import { actionButton, type Actions } from '../views/actions.ts'
import type { FormView } from '../views/form.ts'
import { listOf } from '../views/list.ts'
import { listPlaces, onePlace, type ShownList } from '../views/pages.ts'
import { tableOf } from '../views/table.ts'
import { choices, field, secretShown } from '../views/html/forms.ts'
import { counted, exactTime, facts, time, type Html } from '../views/html/widgets.ts'
import { grants } from './oauth/api-grants.ts'
import { tokenRequests, tokens } from './api-tokens.ts'
import { found, type Form, type Place } from '../views/html/place.ts'
import { number, text, texts, type Visit } from '../views/html/visit.ts'

const ACCESS = 'Access'

/** The permissions that each scope gives, in words. */
const MEANINGS: Record<string, string> = {
  'tokens:write': 'create and revoke tokens',
  'emails:send': 'send email',
  'emails:read': 'view sent email and delivery results',
  'emails:write': 'delete stored email, pause agents',
  'campaigns:read': 'view campaigns',
  'campaigns:write': 'create, send and stop campaigns',
  'contacts:read': 'view audiences and contacts',
  'contacts:write': 'edit audiences and contacts',
  'domains:read': 'view domains, DNS records and inboxes',
  'domains:write': 'edit domains and inboxes',
  'inbound:read': 'read received messages',
  'suppressions:read': 'view suppressions',
  'suppressions:write': 'edit suppressions',
  'compliance:write': 'export and erase personal data',
  'webhooks:read': 'view webhooks and their deliveries',
  'webhooks:write': 'edit webhooks',
}

/** The scopes that most applications need, as choices. */
const PRESETS = {
  send: { words: 'Send email', scopes: ['emails:send'] },
  watch: { words: 'Send email and read delivery results', scopes: ['emails:send', 'emails:read'] },
  news: {
    words: 'Newsletters: contacts and campaigns',
    scopes: ['contacts:read', 'contacts:write', 'campaigns:read', 'campaigns:write', 'suppressions:read'],
  },
  inbox: { words: 'Read received messages', scopes: ['inbound:read'] },
  all: { words: 'Full access', scopes: SCOPES },
} as const

function aboutOf({ starttls, tls }: ReachedAt['ports']): string {
  const ways = [
    ...(tls.length > 0 ? [`port ${tls.join(', ')} with TLS`] : []),
    ...(starttls.length > 0 ? [`port ${starttls.join(', ')} with STARTTLS`] : []),
  ]
  return ways.length > 0
    ? `Applications authenticate with a token: for the API, and for SMTP on ${ways.join(' or ')}.`
    : 'Applications authenticate to the API with a token. SMTP submission is off on this server.'
}

const ACTIONS: Actions<typeof tokens> = {
  revoke: {
    label: 'Revoke',
    look: 'danger',
    confirm: (token) => `Requests with the token ${text(token, 'name')} are rejected from now on.`,
    said: (_, given) => `The token ${given.get('name')} was revoked.`,
  },
}

const GRANT_ACTIONS: Actions<typeof grants> = {
  disconnect: {
    label: 'Disconnect',
    look: 'danger',
    confirm: 'It loses access to your account at once.',
    ask: ({ id }) => ({ method: 'POST', path: `/grants/${id}/revoke` }),
    said: (_, given) => `${given.get('name')} was disconnected.`,
  },
}

/** The new secret, and how to connect an application with the new token. */
async function connected(reached: ReachedAt, { answer, visit }: ShownList<typeof tokens>): Promise<Html> {
  const { secret } = visit
  const fresh = answer.many.find(({ id }) => id === visit.query('made'))
  const [first] = fresh ? await visit.names('/sender-domains?filter%5Bstatus%5D=active') : []
  return html`${secret === undefined ? '' : secretShown('the new token', secret)}
  ${fresh ? connectPanel({ ...reached, token: secret, from: `hello@${first?.[1] ?? 'example.org'}`, to: visit.person.user.email }) : ''}
  ${fresh ? waiting(visit, fresh.attributes.last_used_at) : ''}`
}

/** The applications that have access over OAuth. */
async function applications(visit: Visit): Promise<Html> {
  const { many } = await visit.get(grants, '/grants')
  return html`<h2>Connected applications</h2>
    ${tableOf<typeof grants>(
      'Connected applications',
      [
        { title: 'Application', of: 'program' },
        { title: 'Connected', kind: 'time', of: 'created_at' },
        {
          title: '',
          kind: 'action',
          of: (grant) =>
            actionButton(visit, GRANT_ACTIONS, 'disconnect', grant, { fields: { name: text(grant, 'program') } }),
        },
      ],
      many,
      'No connected applications. AI assistants request access when they connect to /mcp on this server.',
    )}`
}

/** The scopes that the signed-in user has: a token cannot have others. */
const scopesFor = ({ rights }: Visit, scopes: readonly Scope[] = SCOPES): readonly Scope[] =>
  scopes.filter((scope) => rights.scopes.has(scope))

/** The rights in a form: those of the choice in words, or the single ones. */
const scopesIn = (visit: Visit, given: Form): readonly string[] => {
  const preset = given.get('preset')
  return isNameIn(PRESETS, preset) ? scopesFor(visit, PRESETS[preset].scopes) : given.all('scopes')
}

const scopeChoices = (visit: Visit, typed: Form | undefined, error: string | undefined): Html =>
  html`${field({
      name: 'preset',
      label: ACCESS,
      options: [...namesIn(PRESETS).map((name) => [name, PRESETS[name].words] as const), ['', 'Custom'] as const],
      value: typed ? typed.get('preset') : 'send',
    })}
    <details ${typed?.get('preset') === '' ? html`open` : ''}>
      <summary>Choose scopes</summary>
      ${choices({
        name: 'scopes',
        label: ACCESS,
        options: scopesFor(visit).map((scope) => [scope, MEANINGS[scope] ?? ''] as const),
        chosen: typed?.all('scopes') ?? ['emails:send'],
        error,
      })}
    </details>`

const newToken = (visit: Visit): FormView<typeof tokens> => ({
  title: 'New token',
  about: 'Your application authenticates with it. It is shown once, on the next page.',
  of: tokens,
  fields: {
    name: { label: 'Name', hint: 'Where it will be used, for example "shop".' },
    duration: {
      label: 'Expires after',
      options: [
        ['12_months', '12 months'],
        ['6_months', '6 months'],
        ['1_month', '1 month'],
      ],
      value: '12_months',
    },
    scopes: {
      label: ACCESS,
      show: (typed, error) => scopeChoices(visit, typed, error),
      read: (given) => scopesIn(visit, given),
    },
  },
  button: 'Create token',
  done: (_, one) => visit.leadToSecret(`/tokens?made=${one.id}`, text(one, 'token')),
})

export function tokenPlaces(reached: ReachedAt): Place[] {
  const [about, title] = [aboutOf(reached.ports), 'Tokens']
  const places = listPlaces({
    path: '/tokens',
    title,
    about,
    add: { label: 'New token' },
    form: newToken,
    actions: { ...ACTIONS, ...(GRANT_ACTIONS as object) },
    above: (shown) => connected(reached, shown),
    list: (visit) => ({
      of: tokens,
      from: '/personal-access-tokens',
      caption: 'Tokens',
      columns: [
        {
          title: 'Name',
          to: ({ id }) => `/tokens/${id}`,
          of: (token) => html`${text(token, 'name')} <span class="soft">…${text(token, 'last_four')}</span>`,
        },
        {
          title: 'Access',
          wraps: true,
          of: (token) =>
            html`<details>
              <summary>${counted(texts(token, 'scopes').length, 'scope')}</summary>
              ${texts(token, 'scopes').join(', ')}
            </details>`,
        },
        { title: 'Expires', kind: 'time', of: 'expires_at' },
        { title: 'Last used', kind: 'time', of: 'last_used_at' },
        {
          title: '',
          kind: 'action',
          of: (token) => actionButton(visit, ACTIONS, 'revoke', token, { fields: { name: text(token, 'name') } }),
        },
      ],
      empty: 'No tokens yet. Create one to send email from your application.',
    }),
    below: ({ visit }) => applications(visit),
  })
  return [...places, tokenPlace]
}

/** The page of one token, with its API requests. */
const tokenPlace = onePlace({
  path: '/tokens/:id',
  of: tokens,
  list: ['/tokens', 'Tokens'],
  async find(visit) {
    const id = encodeURIComponent(visit.context.req.param('id') ?? '')
    return found(await visit.get(tokens, `/personal-access-tokens/${id}`)).one
  },
  title: 'name',
  actions: {
    revoke: {
      ...ACTIONS['revoke']!,
      deletes: true,
      danger: true,
      said: (token) => `The token ${text(token, 'name')} was revoked.`,
    },
  },
  async body({ one, visit }) {
    const requests = await listOf(visit, {
      of: tokenRequests,
      from: `/personal-access-tokens/${one.id}/requests`,
      caption: 'API requests',
      size: 30,
      columns: [
        { title: 'Request', width: 40, of: (each) => html`<b>${text(each, 'method')}</b> ${text(each, 'path')}` },
        { title: 'Status', kind: 'status', of: (each) => statusOf(number(each, 'status')) },
        { title: 'Error', of: 'error' },
        { title: 'Time', kind: 'time', of: (each) => exactTime(each.attributes.created_at) },
      ],
      tabs: {
        label: 'Result',
        name: 'failed',
        options: [
          { value: '', name: 'All' },
          { value: 'true', name: 'Failed' },
        ],
      },
      live: true,
      empty: 'No API requests in the last 30 days.',
      noMatch: 'No failed requests.',
    })
    return html`${facts([
        ['Access', texts(one, 'scopes').join(', ')],
        ['Ends in', html`<code>…${text(one, 'last_four')}</code>`],
        ['Created', time(one.attributes.created_at)],
        ['Expires', time(one.attributes.expires_at)],
        ['Last used', time(one.attributes.last_used_at)],
      ])}
      <h2>API requests</h2>
      <p class="soft">
        The last 1,000 requests of 30 days, about a second after each. Addresses and secrets are masked. Requests with
        an invalid token and email over SMTP are not listed.
      </p>
      ${requests.body}`
  },
})

const statusOf = (status: number): Html => html`<span class="badge ${status < 400 ? 'good' : 'bad'}">${status}</span>`
