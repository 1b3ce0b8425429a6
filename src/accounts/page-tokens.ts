// Tokens for programs, and the programs that a person has given access over OAuth.
import { html } from 'hono/html'
import { isNameIn, namesIn } from '../base/one-of.ts'
import { connectPanel, waiting, type ReachedAt } from './page-connect.ts'
import { SCOPES } from '../identity/scopes.ts'
import { page } from '../webui/frame.ts'
import { button, choices, field, fieldMaker, form, secretShown } from '../webui/forms.ts'
import { counted, pageOf, pager, table, time, type Html } from '../webui/widgets.ts'
import { grants } from './api-grants.ts'
import { tokens } from './api.ts'
import { done, type Form, type Place } from '../webui/place.ts'
import { faultIn, text, texts, thingOf, type Answer, type Visit, type Thing } from '../webui/visit.ts'

const LABELS = { name: 'Name', duration: 'Ends after', scopes: 'What it may do' } as const

/** The rights that each scope gives, in words. */
const MEANINGS: Record<string, string> = {
  'tokens:write': 'make and revoke tokens',
  'emails:send': 'send mail, over HTTP and SMTP',
  'emails:read': 'see what was sent and what became of it',
  'emails:write': 'remove stored mail, pause agents',
  'campaigns:read': 'see campaigns',
  'campaigns:write': 'write, start and stop campaigns',
  'contacts:read': 'see audiences and contacts',
  'contacts:write': 'change audiences and contacts',
  'domains:read': 'see domains, records and inboxes',
  'domains:write': 'change domains and inboxes',
  'inbound:read': 'read received mail',
  'suppressions:read': 'see who must not be mailed',
  'suppressions:write': 'change who must not be mailed',
  'compliance:write': 'forget people, and export what is known of them',
  'webhooks:read': 'see webhooks and their deliveries',
  'webhooks:write': 'change webhooks',
}

/** What most programs need, as a choice in words. */
const PRESETS = {
  send: { words: 'Send mail', scopes: ['emails:send'] },
  watch: { words: 'Send mail, and see what became of it', scopes: ['emails:send', 'emails:read'] },
  news: {
    words: 'Newsletters: contacts and campaigns',
    scopes: ['contacts:read', 'contacts:write', 'campaigns:read', 'campaigns:write', 'suppressions:read'],
  },
  inbox: { words: 'Read received mail', scopes: ['inbound:read'] },
  all: { words: 'Everything', scopes: SCOPES },
} as const

function aboutOf({ starttls, tls }: ReachedAt['ports']): string {
  const ways = [
    ...(tls.length > 0 ? [`port ${tls.join(', ')} with TLS`] : []),
    ...(starttls.length > 0 ? [`port ${starttls.join(', ')} with STARTTLS`] : []),
  ]
  const smtp = ways.length > 0 ? `, and for SMTP on ${ways.join(' or ')}` : '; this server takes no mail by SMTP'
  return `A token is the password of a program: for the API${smtp}.`
}

async function show(visit: Visit, reached: ReachedAt, errors: Answer['errors'] = []): Promise<Response> {
  const about = aboutOf(reached.ports)
  if (visit.reading)
    return page(visit, {
      title: 'Tokens',
      about,
      errors,
      body: html`<p>
        You look at the account of ${visit.account.email}: its tokens and programs are shown to its owner.
      </p>`,
    })
  const { secret } = visit
  const made = visit.query('made')
  const [answer, programs, domains] = await Promise.all([
    visit.get(tokens, `/personal-access-tokens?${pageOf(visit)}`),
    visit.get(grants, '/grants'),
    made === '' ? [] : visit.names('/domains?filter%5Bstatus%5D=active'),
  ])
  const [first] = domains
  const fresh = answer.many.find(({ id }) => id === made)
  return page(visit, {
    title: 'Tokens',
    about,
    actions: NEW,
    errors,
    done: done(visit),
    body: html`${secret === undefined ? '' : secretShown('the new token', secret)}
      ${fresh ? connectPanel({ ...reached, token: secret, from: `hello@${first?.[1] ?? 'example.org'}`, to: visit.person.user.email }) : ''}
      ${fresh ? waiting(visit, fresh.attributes.last_used_at) : ''} ${tokensTable(visit, answer.many)}
      ${pager(visit, answer)}
      <h2>Connected programs</h2>
      ${programsTable(visit, programs.many)}`,
  })
}

const NEW = html`<a class="button" href="/tokens/new">New token</a>`

function tokensTable(visit: Visit, all: readonly Thing<typeof tokens>[]): Html {
  const rows = all.map((token) => [
    html`${text(token, 'name')} <span class="soft">…${text(token, 'last_four')}</span>`,
    html`<details>
      <summary>${counted(texts(token, 'scopes').length, 'scope')}</summary>
      ${texts(token, 'scopes').join(', ')}
    </details>`,
    time(token.attributes.expires_at),
    time(token.attributes.last_used_at),
    button(visit, 'revoke', 'Revoke', {
      fields: { id: token.id, name: text(token, 'name') },
      danger: true,
      confirm: `Programs that use the token ${text(token, 'name')} are refused from now on.`,
    }),
  ])
  return table(
    'Tokens',
    [
      'Name',
      { title: 'Access', wraps: true },
      { title: 'Expires', kind: 'time' },
      { title: 'Last used', kind: 'time' },
      { title: '', kind: 'action' },
    ],
    rows,
    html`<p>No token yet. Your program sends with one, over HTTP or SMTP.</p>
      ${NEW}`,
  )
}

/** The rights in a form: those of the choice in words, or the single ones. */
const scopesIn = (given: Form): readonly string[] => {
  const preset = given.get('preset')
  return isNameIn(PRESETS, preset) ? PRESETS[preset].scopes : given.all('scopes')
}

function newToken(visit: Visit, errors: Answer['errors'], typed: Form | undefined): Html {
  const entry = fieldMaker(LABELS, errors, typed)
  return form(
    visit,
    'make',
    html`${entry('name', { required: true, hint: 'What will use it.' })}
      ${entry('duration', {
        options: [
          ['12_months', '12 months'],
          ['6_months', '6 months'],
          ['1_month', '1 month'],
        ],
        value: '12_months',
      })}
      ${field({
        name: 'preset',
        label: LABELS.scopes,
        options: [
          ...namesIn(PRESETS).map((name) => [name, PRESETS[name].words] as const),
          ['', 'Exactly what is chosen below'] as const,
        ],
        value: typed ? typed.get('preset') : 'send',
      })}
      <details ${typed?.get('preset') === '' ? html`open` : ''}>
        <summary>Choose each right</summary>
        ${choices({
          name: 'scopes',
          label: LABELS.scopes,
          options: SCOPES.map((scope) => [scope, MEANINGS[scope] ?? ''] as const),
          chosen: typed?.all('scopes') ?? ['emails:send'],
          error: faultIn(errors, LABELS)('scopes'),
        })}
      </details>
      <button>Create token</button>`,
    { to: '/tokens' },
  )
}

const programsTable = (visit: Visit, programs: readonly Thing<typeof grants>[]): Html =>
  table(
    'Connected programs',
    ['Program', { title: 'Since', kind: 'time' }, { title: '', kind: 'action' }],
    programs.map((grant) => [
      text(grant, 'program'),
      time(grant.attributes.created_at),
      button(visit, 'disconnect', 'Disconnect', {
        fields: { id: grant.id, name: text(grant, 'program') },
        danger: true,
        confirm: 'It can no longer act for you.',
      }),
    ]),
    'No program is connected yet. AI assistants ask for access here when they connect to the address /mcp of this server.',
  )

/** The form for a new token, empty or as it was refused. */
const showNew = (visit: Visit, errors: Answer['errors'] = [], typed?: Form): Response | Promise<Response> =>
  page(visit, {
    title: 'New token',
    about: 'A program identifies itself with it. It is shown once, after this page.',
    crumbs: [['/tokens', 'Tokens']],
    errors,
    labels: LABELS,
    body: newToken(visit, errors, typed),
  })

export const newTokenPlace: Place = { path: '/tokens/new', changes: true, show: (visit) => showNew(visit) }

export const tokensPlace = (reached: ReachedAt): Place => ({
  path: '/tokens',
  show: (visit) => show(visit, reached),
  async act(visit, given) {
    if (given.action === 'revoke') {
      const gone = await visit.ask('DELETE', `/tokens/${given.get('id')}`)
      return gone.status === 204
        ? visit.say('/tokens', `The token ${given.get('name')} is revoked: programs that use it are refused.`)
        : show(visit, reached, gone.errors)
    }
    if (given.action === 'disconnect') {
      const gone = await visit.ask('POST', `/grants/${given.get('id')}/revoke`)
      return gone.status === 202
        ? visit.say('/tokens', `${given.get('name')} is disconnected: it can no longer act for you.`)
        : show(visit, reached, gone.errors)
    }
    const answer = await visit.ask('POST', '/tokens', {
      type: 'tokens',
      attributes: { name: given.get('name'), scopes: scopesIn(given), duration: given.get('duration') },
    })
    return answer.one
      ? visit.leadToSecret(`/tokens?made=${answer.one.id}`, text(thingOf(tokens, answer.one), 'token'))
      : showNew(visit, answer.errors, given)
  },
})
