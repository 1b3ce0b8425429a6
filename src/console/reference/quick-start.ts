// The first page of the reference: from a token to the first mail, and what holds for every request.
import { html } from 'hono/html'
import { CODES } from '../../base/errors.ts'
import { namesIn } from '../../base/one-of.ts'
import { MAIL_BODY, USUAL_BODY } from '../../jsonapi/body.ts'
import { count, type Html } from '../../webui/widgets.ts'
import { sentRows } from './attributes.ts'
import type { Reference } from './document.ts'
import { attributeTable, codeBlock, codeTabs, programsOf, prose } from './pieces.ts'
import { samplesOf } from './samples.ts'
import { VERIFIERS } from './verifiers.ts'

/** What one token may ask: requests in a second, and at once; no limit when the first is 0. */
export interface Rates {
  rate_limit: number
  rate_burst: number
}

/** The sections of the page, for its own list and the list of pages. */
export const SECTIONS: readonly (readonly [id: string, title: string])[] = [
  ['token', 'Create a token'],
  ['send', 'Send the first mail'],
  ['see', 'See what became of it'],
  ['receive', 'Receive mail'],
  ['webhooks', 'Webhooks'],
  ['errors', 'Errors'],
  ['limits', 'Limits'],
  ['pagination', 'Pages of lists'],
  ['idempotency', 'Repeats without harm'],
]

const section = (id: string, body: Html): Html => {
  const [, title] = SECTIONS.find(([each]) => each === id) ?? [id, id]
  return html`<section id="${id}">
    <h2><a href="#${id}">${title}</a></h2>
    ${body}
  </section>`
}

const program = (reference: Reference, operation: string, label: string, value?: unknown): Html =>
  codeTabs(`start-${operation}`, label, programsOf(reference.operation(operation), value))

export function quickStart(reference: Reference, rates: Rates): Html {
  return html`<p>${prose(reference.document.info.description.split('\n\n')[1] ?? '')}</p>
    <p>
      The API of this server is at <code>${reference.server}</code>. Each program below is whole: set the token once,
      and put your own domain and ids in place of those of the examples.
    </p>
    ${beginning(reference)} ${receiving(reference)} ${hearing(reference)} ${refusing(reference)}
    ${limiting(reference, rates)} ${paging(reference)} ${repeating(reference)}`
}

const beginning = (reference: Reference): Html =>
  html`${section(
    'token',
    html`<p>
        <a href="/tokens/new">Create a token</a> in the console, with the scopes <code>emails:send</code> and
        <code>emails:read</code>. It is shown once. Programs read it from the environment:
      </p>
      ${codeBlock('start-token', 'The token', 'export POSTRIDER_TOKEN=pr_…')}`,
  )}
  ${section(
    'send',
    html`<p>
        The sender’s domain is one of <a href="/docs/domains">your domains</a>, and active; in the sandbox it is
        <code>sandbox.example</code>. The answer <code>201</code> means that the mail is stored and will be delivered.
      </p>
      ${program(reference, 'createOutboundEmail', 'Send a mail')}
      <p>All attributes: <a href="/docs/outbound-emails#createOutboundEmail">Send a mail</a>.</p>`,
  )}
  ${section(
    'see',
    html`<p>
        The answer holds the <code>id</code> of the mail. Its <code>status</code> goes from <code>queued</code> to
        <code>delivered</code> or <code>bounced</code>; <code>recipients</code> has the words of the receiving server.
        The same stands in the console under <a href="/mail">Mail</a>.
      </p>
      ${program(reference, 'getOutboundEmail', 'Show a mail')}`,
  )}`

const receiving = (reference: Reference): Html =>
  section(
    'receive',
    html`<p>
        An inbox is an address of a domain of yours whose mail is kept. Its domain needs an MX record that leads to this
        server. Make the inbox, and ask for its mail, or let a webhook for <code>inbound_email.received</code> tell you.
      </p>
      ${program(reference, 'createInbox', 'Make an inbox')}
      ${program(reference, 'listInboundEmails', 'List received mail')}
      <p>
        More: <a href="/docs/inboxes">Inboxes</a>, <a href="/docs/inbound-emails">Inbound emails</a> with their source
        and attachments.
      </p>`,
  )

const hearing = (reference: Reference): Html =>
  section(
    'webhooks',
    html`<p>
        A webhook is an HTTPS address of yours that is told what happens: a <code>POST</code> with a JSON body, signed
        after Standard Webhooks. The answer to this request holds the secret of the signatures, once.
      </p>
      ${program(reference, 'createWebhook', 'Create a webhook')}
      <p>
        Check the signature over the raw body before you parse it. Answer <code>2xx</code> within 15 seconds and work
        afterwards. Any other answer is tried again, ten times in all; <code>webhook-id</code> stays the same, so that
        you can process each event once.
      </p>
      ${codeTabs('start-verify', 'Check the signature', VERIFIERS)}
      <p>Every event with its data: <a href="/docs/events">Events</a>.</p>`,
  )

function refusing(reference: Reference): Html {
  const [[, one] = ['', undefined]] = Object.entries(
    reference.operation('createOutboundEmail').answers.find(([status]) => status === '422')?.[1].content ?? {},
  )
  const errors = one && reference.resolve(one.schema).properties?.['errors']?.items
  const example = {
    errors: [
      {
        id: '019bc186-e4d8-7a35-9c55-1f2e3d4c5b6a',
        status: '422',
        code: 'required',
        title: CODES.required[1],
        detail: '"subject" is missing.',
        source: { pointer: '/data/attributes/subject' },
      },
    ],
  }
  // The codes have a list of their own.
  const rows = errors ? sentRows(reference, errors).map((row) => ({ ...row, values: [] })) : []
  const codes = namesIn(CODES).map((code) => ({
    name: code,
    type: String(CODES[code][0]),
    about: `${CODES[code][1]}.`,
  }))
  return section(
    'errors',
    html`<p>
        A refusal has the status 4xx or 5xx and a list of <code>errors</code>: every problem of the request, each with
        its place. A program goes by <code>code</code>; <code>detail</code> says to a person how to correct it. What is
        not yours is <code>404</code>.
      </p>
      ${codeBlock('start-error', 'A refusal', JSON.stringify(example, null, 2))}
      ${attributeTable('Members of an error', rows)}
      <details>
        <summary>All ${codes.length} codes</summary>
        ${attributeTable('Codes of errors', codes)}
      </details>`,
  )
}

const MEGABYTE = 1024 * 1024

function limiting(reference: Reference, { rate_burst, rate_limit }: Rates): Html {
  const { headers } = reference.document.components
  const rows = Object.entries(headers)
    .filter(([name]) => name.startsWith('RateLimit-') || name === 'Retry-After')
    .map(([name, header]) => ({
      name,
      type: 'header',
      about: (header as { description: string }).description,
    }))
  return section(
    'limits',
    html`<p>
        ${
          rate_limit === 0
            ? 'This server does not limit how often a token may ask.'
            : `A token may make ${count(rate_burst)} requests at once, and ${count(rate_limit)} a second after that.`
        }
        Beyond a limit the answer is <code>429</code>; wait for <code>Retry-After</code>.
      </p>
      ${attributeTable('Headers of limits', rows)}
      <p>
        A body may have ${MAIL_BODY / MEGABYTE} MB when it sends a mail, and ${USUAL_BODY / MEGABYTE} MB otherwise,
        imports excepted. A mail may have 40 MB with its attachments as they are sent.
      </p>`,
  )
}

const paging = (reference: Reference): Html =>
  section(
    'pagination',
    html`<p>
        A list comes in pages of 25 entries, or of <code>page[size]</code>, at most 100. Follow
        <code>links.next</code> until it is <code>null</code>: nothing is left out or comes twice, even while mail is
        added. There are no page numbers.
      </p>
      ${codeTabs(
        'start-page',
        'A list in pages',
        samplesOf({
          method: 'GET',
          url: `${reference.server}/outbound-emails?page%5Bsize%5D=100`,
          signed: true,
          answer: 'json',
        }),
      )}
      ${attributeTable('Links of a list', linksOf(reference))}`,
  )

const linksOf = (reference: Reference): ReturnType<typeof sentRows> => [
  ...sentRows(reference, reference.schemas['CollectionLinks'] ?? {}, 'links.'),
  ...sentRows(reference, reference.schemas['CollectionMeta'] ?? {}, 'meta.'),
]

function repeating(reference: Reference): Html {
  const { body } = reference.operation('createOutboundEmail')
  const { data } = (body?.example ?? {}) as { data: { attributes: object } }
  const value = { data: { ...data, attributes: { ...data.attributes, idempotency_key: 'order-1042' } } }
  return section(
    'idempotency',
    html`<p>
        When an answer is lost, send the same request again: with an <code>idempotency_key</code> the mail is not sent
        twice. The repeat answers with the same mail and the header <code>Idempotent-Replayed</code>. The same key with
        other content is <code>409</code> <code>idempotency_conflict</code>.
      </p>
      ${codeTabs('start-again', 'Send a mail once', programsOf(reference.operation('createOutboundEmail'), value))}`,
  )
}
