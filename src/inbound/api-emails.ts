// Received mail: listed, shown, downloaded.
import { z } from 'zod'
import { INBOUND_STATUSES } from '../states/inbound-email.ts'
import { definer, field } from '../jsonapi/resource.ts'
import { attachmentOf, bodiesOf, rawOf, type StoredDeps } from './stored.ts'
import { holding } from '../jsonapi/fields.ts'
import type { ApiDeps } from '../jsonapi/define.ts'

const text = (about: string) => field(z.string().nullable(), { about })
const list = (about: string) => field(z.array(z.string()), { kind: 'json', about })
const time = (about: string) => field(z.iso.datetime(), { kind: 'time', sort: true, about })
const single = { read: 'single' } as const

const attachment = z.object({
  id: z.string().describe('For the address of its download.'),
  filename: z.string().nullable().describe('The name that the sender gave it.'),
  content_type: z.string().describe('The media type that the sender named.'),
  size: z.int().describe('Its size in bytes.'),
  content_id: z.string().nullable().describe('What the HTML names it by, as cid:ID.'),
  disposition: z.enum(['attachment', 'inline']).describe('A file, or a part of the HTML.'),
})
const verdict = (about: string) => z.string().describe(`${about}: pass, fail, none and so on (RFC 8601).`)
const verdicts = z.object({
  spf: verdict('Whether the sending host may send for the domain of the envelope'),
  dkim: verdict('Whether a signature is right'),
  dmarc: verdict('Whether the domain of From: stands behind it'),
  arc: verdict('Whether the chain of forwarders is right'),
})
const params = ['filter', 'sort', 'include', 'fields', 'page'] as const

export const inboundEmails = definer<ApiDeps & Pick<StoredDeps, 'inboundReader'>>()('inbound-emails', {
  table: 'inbound_emails',
  about: 'Mail that came to your inboxes.',
  attributes: {
    status: field(z.enum(INBOUND_STATUSES), { sort: true, about: 'What came of it.' }),
    reason: text('Why its status is not received.'),
    sender: field(z.string(), { about: 'The sender of the envelope; empty for a bounce.', example: 'ann@example.net' }),
    recipients: list('The addresses of the envelope that led it here.'),
    subject: { ...text('The Subject header.'), sort: true },
    from: text('The From header.'),
    to: list('The To header.'),
    cc: list('The Cc header.'),
    reply_to: list('The Reply-To header.'),
    message_id: text('The Message-ID header, for replies.'),
    in_reply_to: text('The In-Reply-To header.'),
    references: list('The References header.'),
    headers: field(z.record(z.string(), z.union([z.string(), z.array(z.string())])), {
      ...single,
      kind: 'json',
      about: 'Every header by its lower-case name, decoded; a list where it is repeated.',
    }),
    text: field(z.string().nullable(), { ...single, about: 'The plain text body.' }),
    html: field(z.string().nullable(), { ...single, about: 'The HTML body, as it came: treat it as hostile.' }),
    attachments: field(z.array(attachment), { kind: 'json', about: 'What is attached.' }),
    authentication: field(verdicts, { kind: 'json', about: 'The verdicts of SPF, DKIM, DMARC and ARC.' }),
    size: field(z.int(), { about: 'Octets of the message as it came.' }),
    received_at: time('When it was received.'),
    created_at: time('When it was read.'),
    updated_at: time('When it last changed.'),
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
    {
      kind: 'list',
      path: '/inbound-emails',
      scope: 'inbound:read',
      params: [...params, 'inbox'],
      about: 'List received mail.',
    },
    {
      kind: 'list',
      path: '/inboxes/:inbox/inbound-emails',
      scope: 'inbound:read',
      id: 'listInboxInboundEmails',
      params,
      within: { type: 'inboxes', column: 'inbox_key', removed: true },
      about: 'List the mail of an inbox, also of a deleted one.',
    },
    { kind: 'show', path: '/inbound-emails/:inboundEmail', scope: 'inbound:read', about: 'Show a received mail.' },
    {
      kind: 'download',
      path: '/inbound-emails/:inboundEmail/raw',
      scope: 'inbound:read',
      id: 'downloadInboundEmail',
      about: 'The message as it came, with our trace headers in front.',
      run: ({ parts, row }) => rawOf(parts, row.message_key),
    },
    {
      kind: 'download',
      path: '/inbound-emails/:inboundEmail/attachments/:attachment',
      scope: 'inbound:read',
      id: 'downloadInboundAttachment',
      about: 'The bytes of an attachment.',
      run: ({ parts, row, params: { attachment: id } }) => attachmentOf(parts, row.message_key, id!),
    },
  ],
})
