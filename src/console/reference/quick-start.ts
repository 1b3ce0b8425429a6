// The first page of the reference: from a token to the first email, and the conventions of all requests.
import { html } from 'hono/html'
import { CODES } from '../../base/errors.ts'
import { namesIn } from '../../base/one-of.ts'
import { MAIL_BODY, USUAL_BODY } from '../../jsonapi/body.ts'
import { count, type Html } from '../../views/html/widgets.ts'
import { sentRows } from './attributes.ts'
import type { Reference } from './document.ts'
import { attributeTable, codeBlock, codeTabs, paragraphs, programsOf } from './pieces.ts'
import { samplesOf } from './samples.ts'
import { verifiers } from './verifiers.ts'

/** The rate limit of a token: requests per second, and at once. There is no limit if the first is 0. */
export interface Rates {
  rate_limit: number
  rate_burst: number
}

/** The sections of the page, for its own list and the list of pages. */
export const SECTIONS: readonly (readonly [id: string, title: string])[] = [
  ['token', 'Authentication'],
  ['send', 'Send an email'],
  ['see', 'Get the delivery status'],
  ['receive', 'Receive emails'],
  ['errors', 'Errors'],
  ['pagination', 'Pagination'],
  ['idempotency', 'Idempotency'],
  ['limits', 'Rate limits'],
  ['webhooks', 'Webhooks'],
]

export function quickStart(reference: Reference, rates: Rates): Html {
  const bodies: Record<string, Html> = {
    token: html`${paragraphs(
      '[Create a token](/tokens/new) in the console, with the scopes `emails:send` and `emails:read`. It is shown only once. The code samples read it from the environment:',
    )}
    ${codeBlock('start-token', 'Token', 'export POSTRIDER_TOKEN=pr_…')}`,
    send: html`${paragraphs(
      'The domain of the sender must be one of [your domains](/docs/domains) with the status `active`. In the sandbox, use `sandbox.example`. The response `201` means that the email is on disk and will be delivered.',
    )}
    ${program(reference, 'createOutboundEmail', 'Send an email')}
    ${paragraphs('For all attributes, see [Send an email](/docs/outbound-emails#createOutboundEmail) in the reference.')}`,
    see: html`${paragraphs(
      'The response contains the `id` of the email. Its `status` changes from `queued` to `delivered` or `bounced`. `recipients` contains the reply of the receiving server. The console shows the same under [Mail](/mail).',
    )}
    ${program(reference, 'getOutboundEmail', 'Get an email')}`,
    receive: html`${paragraphs(
      'An inbox is an address of one of your domains that receives email. The domain needs an MX record that points to this server. Create the inbox and list its emails, or use a webhook for the event `inbound_email.received`.',
    )}
    ${program(reference, 'createInbox', 'Create an inbox')}
    ${program(reference, 'listInboundEmails', 'List received emails')}
    ${paragraphs(
      'See also [Inboxes](/docs/inboxes) and [Inbound emails](/docs/inbound-emails), which describes how to download messages and attachments.',
    )}`,
    errors: errors(reference),
    pagination: pagination(reference),
    idempotency: idempotency(reference),
    limits: limits(reference, rates),
    webhooks: html`${paragraphs(
      'A webhook is an HTTPS URL of yours that receives events: `POST` requests with a JSON body, signed according to Standard Webhooks. The response to this request contains the signing secret, only this once.',
    )}
    ${program(reference, 'createWebhook', 'Create a webhook')}
    ${paragraphs(
      'Verify the signature of the raw body before you parse it. Respond with `2xx` within 15 seconds, and process the event afterwards. After any other response Postrider retries, up to ten attempts in total. All attempts have the same `webhook-id`, so that you can process each event once.',
    )}
    ${codeTabs('start-verify', 'Verify the signature', verifiers())}
    ${paragraphs('For all events and their data, see [Events](/docs/events).')}`,
  }
  return html`${paragraphs(
    reference.document.info.description.split('\n\n')[1] ?? '',
    `The base URL of this server is \`${reference.server}\`. All code samples below are complete. Set the token once, and replace the domain and the ids with your own.`,
  )}
  ${SECTIONS.map(
    ([id, title]) =>
      html`<section id="${id}">
        <h2><a href="#${id}">${title}</a></h2>
        ${bodies[id]}
      </section>`,
  )}`
}

const program = (reference: Reference, operation: string, label: string, value?: unknown): Html =>
  codeTabs(`start-${operation}`, label, programsOf(reference.operation(operation), value))

function errors(reference: Reference): Html {
  const { schema = {} } =
    Object.values(
      reference.operation('createOutboundEmail').answers.find(([status]) => status === '422')?.[1].content ?? {},
    )[0] ?? {}
  const example = {
    errors: [
      {
        id: '019bc186-e4d8-7a35-9c55-1f2e3d4c5b6a',
        status: '422',
        code: 'required',
        title: CODES.required[1],
        detail: '"subject" is required.',
        source: { pointer: '/data/attributes' },
      },
    ],
  }
  // The codes have their own list.
  const error = reference.resolve(schema).properties?.['errors']?.items ?? {}
  const rows = sentRows(reference, error).map((row) => ({ ...row, values: [] }))
  const codes = namesIn(CODES).map((code) => ({
    name: code,
    type: String(CODES[code][0]),
    about: `${CODES[code][1]}.`,
  }))
  return html`${paragraphs(
      'Error responses have the status 4xx or 5xx and a list of all problems in `errors`. Use `code` in your application. It never changes. `detail` tells a developer what to fix. Resources of other accounts return `404`.',
    )}
    ${codeBlock('start-error', 'Error response', JSON.stringify(example, null, 2))}
    ${attributeTable('Attributes of an error', rows)}
    <details>
      <summary>All ${codes.length} error codes</summary>
      ${attributeTable('Error codes', codes)}
    </details>`
}

const pagination = (reference: Reference): Html =>
  html`${paragraphs(
    'Lists return 25 resources per page. `page[size]` sets another number, up to 100. Follow `links.next` until it is `null`. You get every resource exactly once, even if others are created in the meantime. There are no page numbers.',
  )}
  ${codeTabs(
    'start-page',
    'List emails',
    samplesOf({
      method: 'GET',
      url: `${reference.server}/outbound-emails?page%5Bsize%5D=100`,
      signed: true,
      answer: 'json',
    }),
  )}
  ${attributeTable('Pagination links', [
    ...sentRows(reference, reference.schemas['CollectionLinks'] ?? {}, 'links.'),
    ...sentRows(reference, reference.schemas['CollectionMeta'] ?? {}, 'meta.'),
  ])}`

function idempotency(reference: Reference): Html {
  const { body } = reference.operation('createOutboundEmail')
  const { data } = (body?.example ?? {}) as { data: { attributes: object } }
  const value = { data: { ...data, attributes: { ...data.attributes, idempotency_key: 'order-1042' } } }
  return html`${paragraphs(
    'If you set an `idempotency_key`, you can send a request again after a connection error: the email is not sent twice. The second response contains the same email and the header `Idempotent-Replayed`. If the content differs, the response is `409` with the code `idempotency_conflict`.',
  )}
  ${codeTabs('start-again', 'Send an email once', programsOf(reference.operation('createOutboundEmail'), value))}`
}

const MEGABYTE = 1024 * 1024

function limits(reference: Reference, { rate_burst, rate_limit }: Rates): Html {
  const headers = Object.entries(reference.document.components.headers)
    .filter(([name]) => name.startsWith('RateLimit-') || name === 'Retry-After')
    .map(([name, header]) => ({ name, type: 'header', about: (header as { description: string }).description }))
  const rate =
    rate_limit === 0
      ? 'This server has no rate limit for tokens.'
      : `A token can make ${count(rate_burst)} requests at once, and ${count(rate_limit)} per second after that.`
  return html`${paragraphs(
    `${rate} If a limit is exceeded, the response is \`429\`. Wait for \`Retry-After\` seconds.`,
  )}
  ${attributeTable('Rate limit headers', headers)}
  ${paragraphs(
    `The request body can have up to ${MAIL_BODY / MEGABYTE} MB to send an email, and up to ${USUAL_BODY / MEGABYTE} MB for other requests except imports. An email, including its encoded attachments, can have up to 40 MB.`,
  )}`
}
