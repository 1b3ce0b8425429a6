// Tokens for programs, and the programs that a person has given access over OAuth.
import { html } from 'hono/html'
import type { ApiDeps } from '../jsonapi/define.ts'
import { SCOPES } from '../identity/scopes.ts'
import { page } from '../webui/frame.ts'
import { button, choices, field, form, secretShown } from '../webui/forms.ts'
import { counted, pageOf, pager, table, time, type Html } from '../webui/widgets.ts'
import { grants } from './api-grants.ts'
import { tokens } from './api.ts'
import { done, lead, type Form, type Place } from '../webui/place.ts'
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

/** The ports on which this server takes mail from programs. */
type Ports = ApiDeps['ports']

function aboutOf({ starttls, tls }: Ports): string {
  const ways = [
    ...(tls.length > 0 ? [`port ${tls.join(', ')} with TLS`] : []),
    ...(starttls.length > 0 ? [`port ${starttls.join(', ')} with STARTTLS`] : []),
  ]
  const smtp = ways.length > 0 ? `, and for SMTP on ${ways.join(' or ')}` : '; this server takes no mail by SMTP'
  return `A token is the password of a program: for the API${smtp}.`
}

async function show(visit: Visit, ports: Ports, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const about = aboutOf(ports)
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
  const [answer, programs] = await Promise.all([
    visit.get(tokens, `/personal-access-tokens?${pageOf(visit)}`),
    visit.get(grants, '/grants'),
  ])
  return page(visit, {
    title: 'Tokens',
    about,
    errors,
    labels: LABELS,
    done: done(visit),
    body: html`${secret === undefined ? '' : secretShown('the new token', secret)} ${tokensTable(visit, answer.many)}
      ${pager(visit, answer)}
      <h2>New token</h2>
      ${newToken(visit, errors, typed)}
      <h2>Connected programs</h2>
      ${programsTable(visit, programs.many)}`,
  })
}

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
      fields: { id: token.id },
      danger: true,
      confirm: `Programs that use the token ${text(token, 'name')} are refused from now on.`,
    }),
  ])
  return table(
    'Tokens',
    ['Name', 'May', 'Ends', 'Last used', ''],
    rows,
    'No token yet. Make one below for your program.',
  )
}

function newToken(visit: Visit, errors: Answer['errors'], typed: Form | undefined): Html {
  const fault = faultIn(errors, LABELS)
  return form(
    visit,
    'make',
    html`${field({ name: 'name', label: LABELS.name, value: typed?.get('name') ?? '', required: true, hint: 'What will use it.', error: fault('name') })}
      ${field({
        name: 'duration',
        label: LABELS.duration,
        options: [
          ['12_months', '12 months'],
          ['6_months', '6 months'],
          ['1_month', '1 month'],
        ],
        value: typed?.get('duration') || '12_months',
      })}
      ${choices({
        name: 'scopes',
        label: LABELS.scopes,
        options: SCOPES.map((scope) => [scope, MEANINGS[scope] ?? ''] as const),
        chosen: typed?.all('scopes') ?? ['emails:send'],
        error: fault('scopes'),
      })}<button>Make the token</button>`,
  )
}

const programsTable = (visit: Visit, programs: readonly Thing<typeof grants>[]): Html =>
  table(
    'Connected programs',
    ['Program', 'Since', ''],
    programs.map((grant) => [
      text(grant, 'program'),
      time(grant.attributes.created_at),
      button(visit, 'disconnect', 'Disconnect', {
        fields: { id: grant.id },
        danger: true,
        confirm: 'It can no longer act for you.',
      }),
    ]),
    'No program was let in over OAuth. AI agents connect to /mcp of this server.',
  )

export const tokensPlace = ({ ports }: Pick<ApiDeps, 'ports'>): Place => ({
  path: '/tokens',
  show: (visit) => show(visit, ports),
  async act(visit, given) {
    if (given.action === 'revoke') {
      const gone = await visit.ask('DELETE', `/tokens/${given.get('id')}`)
      return gone.status === 204 ? lead(visit, '/tokens', 'removed') : show(visit, ports, gone.errors)
    }
    if (given.action === 'disconnect') {
      const gone = await visit.ask('POST', `/grants/${given.get('id')}/revoke`)
      return gone.status === 202 ? lead(visit, '/tokens', 'ended') : show(visit, ports, gone.errors)
    }
    const answer = await visit.ask('POST', '/tokens', {
      type: 'tokens',
      attributes: { name: given.get('name'), scopes: given.all('scopes'), duration: given.get('duration') },
    })
    return answer.one
      ? visit.leadToSecret('/tokens', text(thingOf(tokens, answer.one), 'token'))
      : show(visit, ports, answer.errors, given)
  },
})
