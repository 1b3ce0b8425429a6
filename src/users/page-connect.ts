// How to send from an application through this server with a new token: the SMTP settings, those of two frequent
// applications, and the same API request in several languages.
import { html } from 'hono/html'
import type { ApiDeps } from '../jsonapi/define.ts'
import { JSON_API } from '../jsonapi/media.ts'
import { codeShown, live, time, type Html } from '../views/html/widgets.ts'
import type { Visit } from '../views/html/visit.ts'

interface SendingSample {
  method: string
  url: string
  signed: boolean
  body: { type: string; value: unknown }
  answer: 'json'
}

/** The settings that applications need to connect to this server. */
export interface ReachedAt {
  ports: ApiDeps['ports']
  config: Pick<ApiDeps['config'], 'hostname' | 'http'>
  /**
   * A request as a sample program in each language, as in the API reference. It reads the token from POSTRIDER_TOKEN.
   */
  programs: (request: SendingSample) => readonly (readonly [language: string, code: string])[]
}

interface TokenInUse extends ReachedAt {
  /** Undefined after it was shown, because only its hash is stored. */
  token: string | undefined
  /** An address of a domain that can send. */
  from: string
  to: string
}

/** The host for applications: the name of this machine, or its address if only this machine can reach it. */
const hostOf = ({ config: { hostname, http } }: ReachedAt): string => {
  const { hostname: host } = new URL(http.public_url)
  return /^(?:localhost|127\.[\d.]+|\[::1\])$/.test(host) ? '127.0.0.1' : hostname
}

const copied = (id: string, value: string): Html =>
  html`<code id="${id}">${value}</code> <button class="plain small" type="button" data-copy="${id}">Copy</button>`

/** Any username works. This one names the server. */
const USER = 'postrider'
const SHOWN = 'shown once, when it was created'

function smtp(connection: TokenInUse): Html {
  const { ports, token } = connection
  const port = (id: string, some: readonly number[], how: string): Html | '' =>
    some[0] === undefined
      ? ''
      : html`<div>
          <dt>Port</dt>
          <dd>${copied(id, String(some[0]))} <span class="soft">${how}</span></dd>
        </div>`
  if (ports.tls.length + ports.starttls.length === 0)
    return html`<p>
      SMTP submission is off on this server. The operator can turn it on in section <code>[submission]</code> of the
      configuration.
    </p>`
  return html`<dl class="facts">
    <div>
      <dt>Host</dt>
      <dd>${copied('smtp-host', hostOf(connection))}</dd>
    </div>
    ${port('smtp-tls', ports.tls, 'SSL/TLS')} ${port('smtp-starttls', ports.starttls, 'STARTTLS')}
    <div>
      <dt>Username</dt>
      <dd>${copied('smtp-user', USER)} <span class="soft">any username works</span></dd>
    </div>
    <div>
      <dt>Password</dt>
      <dd>${token === undefined ? html`<span class="soft">${SHOWN}</span>` : copied('smtp-password', token)}</dd>
    </div>
    <div>
      <dt>Sender</dt>
      <dd>${copied('smtp-from', connection.from)} <span class="soft">any address of your domain</span></dd>
    </div>
  </dl>`
}

/** Settings with the names that the application uses. */
const settings = (rows: readonly (readonly [name: string, value: string])[]): Html =>
  html`<dl class="facts">
    ${rows.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd><code>${value}</code></dd>
        </div>`,
    )}
  </dl>`

function wordPress(connection: TokenInUse): Html {
  const [port] = connection.ports.tls
  return html`<p>In the plugin WP Mail SMTP (or a similar one), choose the mailer "Other SMTP".</p>
    ${settings([
      ['From Email', connection.from],
      ['SMTP Host', hostOf(connection)],
      ['Encryption', port === undefined ? 'TLS' : 'SSL'],
      ['SMTP Port', String(port ?? connection.ports.starttls[0] ?? '')],
      ['Authentication', 'on'],
      ['SMTP Username', USER],
      ['SMTP Password', connection.token ?? SHOWN],
    ])}`
}

function nextcloud(connection: TokenInUse): Html {
  const [port] = connection.ports.tls
  const [name = '', domain = ''] = connection.from.split('@')
  return html`<p>Go to Administration settings, Basic settings, Email server.</p>
    ${settings([
      ['Send mode', 'SMTP'],
      ['Encryption', port === undefined ? 'None/STARTTLS' : 'SSL/TLS'],
      ['From address', `${name} @ ${domain}`],
      ['Server address', `${hostOf(connection)} : ${port ?? connection.ports.starttls[0] ?? ''}`],
      ['Authentication', 'required'],
      ['Credentials', `${USER} / ${connection.token ?? 'the token'}`],
    ])}`
}

/** One request that sends an email, in several languages. */
function samples({ config, from, programs, to, token = 'YOUR_TOKEN' }: TokenInUse): Html {
  const attributes = { from, to, subject: 'Hello', html: '<p>It works.</p>' }
  const all = programs({
    method: 'POST',
    url: `${config.http.public_url}/api/v1/outbound-emails`,
    signed: true,
    body: { type: JSON_API, value: { data: { type: 'outbound-emails', attributes } } },
    answer: 'json',
  })
  return html`${part('API token for the samples', codeShown('sample-token', `export POSTRIDER_TOKEN='${token}'`))}
  ${all.map(([language, code]) => part(language, codeShown(`sample-${language.toLowerCase()}`, code)))}`
}

const part = (name: string, body: Html, open = false): Html =>
  html`<details name="connect" ${open ? html`open` : ''}>
    <summary>${name}</summary>
    ${body}
  </details>`

/** Shows how to connect an application with a new token. */
export function connectPanel(connection: TokenInUse): Html {
  return html`<section class="panel">
    <h2>Connect an application</h2>
    ${part('SMTP settings', smtp(connection), true)} ${part('WordPress', wordPress(connection))}
    ${part('Nextcloud', nextcloud(connection))} ${samples(connection)}
  </section>`
}

/** A live notice of whether a new token has been used. */
export const waiting = (visit: Visit, usedAt: unknown): Html =>
  live(
    visit,
    usedAt === null
      ? html`<p class="wait" role="status">Waiting for the first request with this token …</p>`
      : html`<p class="wait good" role="status">The token works. First request: ${time(usedAt)}.</p>`,
  )
