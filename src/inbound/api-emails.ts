// Received email: list, show, download.
import { z } from 'zod'
import { INBOUND_STATUSES } from '../store/states/inbound-email.ts'
import { definer, field } from '../jsonapi/resource.ts'
import { attachmentOf, bodiesOf, rawOf, type StoredDeps } from './stored.ts'
import { holding } from '../jsonapi/fields.ts'
import type { ApiDeps } from '../jsonapi/define.ts'

const text = (about: string) => field(z.string().nullable(), { about })
const list = (about: string) => field(z.array(z.string()), { kind: 'json', about })
const time = (about: string) => field(z.iso.datetime(), { kind: 'time', sort: true, about })
const single = { read: 'single' } as const

const attachment = z.object({
  id: z.string().describe('Id, for the download URL.'),
  filename: z.string().nullable().describe('File name that the sender gave it. Null if absent.'),
  content_type: z.string().describe('Media type that the sender gave it.'),
  size: z.int().describe('Size in bytes.'),
  content_id: z.string().nullable().describe('Id that the HTML body refers to as `cid:ID`. Null if absent.'),
  disposition: z
    .enum(['attachment', 'inline'])
    .describe('Whether it is a separate file or displayed within the HTML body.'),
})
const verdict = (about: string) =>
  z.string().describe(`${about} Values: \`pass\`, \`fail\`, \`none\` and others (RFC 8601).`)
const verdicts = z.object({
  spf: verdict('SPF result: whether the sending host is authorised by the domain of the envelope sender.'),
  dkim: verdict('DKIM result: whether a signature is valid.'),
  dmarc: verdict('DMARC result: whether SPF or DKIM passes for the domain of the From header.'),
  arc: verdict('ARC result: whether the chain of forwarders is valid.'),
})
const params = ['filter', 'sort', 'include', 'fields', 'page'] as const

export const inboundEmails = definer<ApiDeps & Pick<StoredDeps, 'inboundReader'>>()('inbound-emails', {
  table: 'inbound_emails',
  scope: 'inbound',
  about: 'Emails that arrived in your inboxes.',
  attributes: {
    status: field(z.enum(INBOUND_STATUSES), { sort: true, about: 'Processing status.' }),
    reason: text('Reason if the status is not `received`. Null otherwise.'),
    sender: field(z.string(), { about: 'Envelope sender. Empty for a bounce message.', example: 'ann@example.net' }),
    recipients: list('Envelope recipients that belong to the inbox.'),
    subject: { ...text('Subject header. Null if absent.'), sort: true },
    from: text('From header. Null if absent.'),
    to: list('Addresses in the To header.'),
    cc: list('Addresses in the Cc header.'),
    reply_to: list('Addresses in the Reply-To header.'),
    message_id: text('Message-ID header, for replies. Null if absent.'),
    in_reply_to: text('In-Reply-To header. Null if absent.'),
    references: list('Ids in the References header.'),
    headers: field(z.record(z.string(), z.union([z.string(), z.array(z.string())])), {
      ...single,
      kind: 'json',
      about: 'All headers, decoded, by name in lower case. The value is a list if a header occurs several times.',
    }),
    text: field(z.string().nullable(), { ...single, about: 'Plain text body. Null if absent.' }),
    html: field(z.string().nullable(), {
      ...single,
      about: 'HTML body, unchanged. Treat it as untrusted. Null if absent.',
    }),
    attachments: field(z.array(attachment), { kind: 'json', about: 'Attachments.' }),
    authentication: field(verdicts, { kind: 'json', about: 'Results of SPF, DKIM, DMARC and ARC.' }),
    size: field(z.int(), { about: 'Size of the message in bytes.' }),
    received_at: time('Time when the message was received.'),
    created_at: time('Time when the message was parsed.'),
    updated_at: time('Time of the last change.'),
  },
  relationships: { inbox: { type: 'inboxes', column: 'inbox_key' } },
  filters: {
    inbox: { column: 'inbox_key', type: 'inboxes' },
    status: { column: 'status' },
    search: holding('subject', 'sender', 'from'),
  },
  extend(rows, { reader, single }) {
    const bodies = bodiesOf(
      reader,
      rows.map((row) => row['message_key'] as number),
      single,
    )
    for (const row of rows) {
      const {
        attachments = '[]',
        headers = '{}',
        html = null,
        text = null,
      } = bodies.get(row['message_key'] as number) ?? {}
      Object.assign(row, { attachments, headers, html, text })
    }
  },
  actions: [
    { kind: 'list', path: '/inbound-emails', params: [...params, 'inbox'], about: 'List received emails.' },
    {
      kind: 'list',
      path: '/inboxes/:inbox/inbound-emails',
      id: 'listInboxInboundEmails',
      within: { type: 'inboxes', column: 'inbox_key', removed: true },
      about: 'List the received emails of an inbox. This includes deleted inboxes.',
    },
    { kind: 'show', path: '/inbound-emails/:inboundEmail', about: 'Get a received email.' },
    {
      kind: 'download',
      path: '/inbound-emails/:inboundEmail/raw',
      id: 'downloadInboundEmail',
      about: 'Download a received email as a MIME message. Trace headers of this server are added at the top.',
      run: ({ parts, row }) => rawOf(parts, row.message_key),
    },
    {
      kind: 'download',
      path: '/inbound-emails/:inboundEmail/attachments/:attachment',
      id: 'downloadInboundAttachment',
      about: 'Download an attachment.',
      run: ({ parts, row, params: { attachment: id } }) => attachmentOf(parts, row.message_key, id!),
    },
  ],
})
