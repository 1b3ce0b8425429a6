// What a program needs to send through this server, filled in with a token that was just made: the settings of SMTP, of
// two programs that most people connect, and the same request in several languages.
import { html } from 'hono/html'
import type { ApiDeps } from '../jsonapi/define.ts'
import { codeShown, live, time, type Html } from '../webui/widgets.ts'
import type { Visit } from '../webui/visit.ts'

/** What says where this server is reached. */
export interface ReachedAt {
  ports: ApiDeps['ports']
  config: Pick<ApiDeps['config'], 'hostname' | 'http'>
}

interface TokenInUse extends ReachedAt {
  /** Undefined once it was shown: only its hash is stored. */
  token: string | undefined
  /** An address of a domain that may send. */
  from: string
  to: string
}

/** The host to which programs connect: this machine's name, or its address where only this machine reaches it. */
const hostOf = ({ config: { hostname, http } }: ReachedAt): string => {
  const { hostname: host } = new URL(http.public_url)
  return /^(?:localhost|127\.[\d.]+|\[::1\])$/.test(host) ? '127.0.0.1' : hostname
}

const copied = (id: string, value: string): Html =>
  html`<code id="${id}">${value}</code> <button class="plain small" type="button" data-copy="${id}">Copy</button>`

/** Any user name will do; this one says whose token it is. */
const USER = 'postrider'
const SHOWN = 'The token was shown once.'

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
      This server takes no mail by SMTP. Its operator turns it on by <code>[submission]</code> in the configuration.
    </p>`
  return html`<dl class="facts">
    <div>
      <dt>Host</dt>
      <dd>${copied('smtp-host', hostOf(connection))}</dd>
    </div>
    ${port('smtp-tls', ports.tls, 'encrypted from the start ("SSL/TLS")')}
    ${port('smtp-starttls', ports.starttls, 'STARTTLS')}
    <div>
      <dt>User</dt>
      <dd>${copied('smtp-user', USER)} <span class="soft">any name will do</span></dd>
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

/** The settings of a program, as its own form names them. */
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
  return html`<p>With the plugin WP Mail SMTP (or another one for SMTP): the mailer "Other SMTP".</p>
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
  return html`<p>Administration settings, Basic settings, Email server.</p>
    ${settings([
      ['Send mode', 'SMTP'],
      ['Encryption', port === undefined ? 'None/STARTTLS' : 'SSL/TLS'],
      ['From address', `${name} @ ${domain}`],
      ['Server address', `${hostOf(connection)} : ${port ?? connection.ports.starttls[0] ?? ''}`],
      ['Authentication', 'required'],
      ['Credentials', `${USER} / ${connection.token ?? 'the token'}`],
    ])}`
}

type Program = readonly [language: string, code: string]

/** One request that sends a mail, in several languages. */
function samples({ config, from, to, token = 'YOUR_TOKEN' }: TokenInUse): Program[] {
  const url = `${config.http.public_url}/api/v1/outbound-emails`
  const document = {
    data: { type: 'outbound-emails', attributes: { from, to, subject: 'Hello', html: '<p>It works.</p>' } },
  }
  const body = JSON.stringify(document)
  const pretty = JSON.stringify(document, null, 2)
  return [
    [
      'curl',
      `curl ${url} \\
  -H 'Authorization: Bearer ${token}' \\
  -H 'Content-Type: application/vnd.api+json' \\
  -d '${body}'`,
    ],
    [
      'Node',
      `const answer = await fetch('${url}', {
  method: 'POST',
  headers: {
    Authorization: 'Bearer ${token}',
    'Content-Type': 'application/vnd.api+json',
  },
  body: JSON.stringify(${pretty.replaceAll('\n', '\n  ')}),
})
if (!answer.ok) throw new Error(await answer.text())`,
    ],
    [
      'PHP',
      `<?php
$request = curl_init('${url}');
curl_setopt_array($request, [
  CURLOPT_POST => true,
  CURLOPT_RETURNTRANSFER => true,
  CURLOPT_HTTPHEADER => [
    'Authorization: Bearer ${token}',
    'Content-Type: application/vnd.api+json',
  ],
  CURLOPT_POSTFIELDS => '${body}',
]);
echo curl_exec($request);`,
    ],
    [
      'Python',
      `import json, urllib.request

request = urllib.request.Request(
    '${url}',
    data=json.dumps(${pretty.replaceAll('\n', '\n    ')}).encode(),
    headers={
        'Authorization': 'Bearer ${token}',
        'Content-Type': 'application/vnd.api+json',
    },
)
print(urllib.request.urlopen(request).read().decode())`,
    ],
  ]
}

/** How a program is connected with a token that was just made. */
export function connectPanel(connection: TokenInUse): Html {
  const part = (name: string, body: Html, open = false): Html =>
    html`<details name="connect" ${open ? html`open` : ''}>
      <summary>${name}</summary>
      ${body}
    </details>`
  return html`<section class="panel">
    <h2>Connect a program</h2>
    ${part('SMTP settings', smtp(connection), true)} ${part('WordPress', wordPress(connection))}
    ${part('Nextcloud', nextcloud(connection))}
    ${samples(connection).map(([language, code]) => part(language, codeShown(`sample-${language.toLowerCase()}`, code)))}
  </section>`
}

/** Whether a token that was just made has sent something. */
export const waiting = (visit: Visit, usedAt: unknown): Html =>
  live(
    visit,
    usedAt === null
      ? html`<p class="wait" role="status">Waiting for the first request with this token …</p>`
      : html`<p class="wait good" role="status">The token works: it was used ${time(usedAt)}.</p>`,
  )
