// The messages of an inbox as an email client lists them. The received emails of the specification are in
// api-emails.ts. A message has the same id there.
import { z } from 'zod'
import type { ApiDeps } from '../jsonapi/define.ts'
import { count, holding, words, wordsOrNull } from '../jsonapi/fields.ts'
import { definer, field } from '../jsonapi/resource.ts'
import { INBOUND_STATUSES } from '../store/states/inbound-email.ts'
import type { Spool } from '../store/spool.ts'
import { answeredMail, glancesOf, MOST_UNREAD, removeMessage, setSeen, unreadIn } from './messages.ts'
import { takesMail } from './recipients.ts'

const define = definer<ApiDeps & { spool: Spool }>()

export const inboxMessages = define('inbox-messages', {
  table: 'inbound_emails',
  path: '/inbox-messages/:inboxMessage',
  scope: 'inbound',
  about: 'Messages of an inbox, as an email client lists them. The id is that of the received email.',
  extension: true,
  attributes: {
    seen: field(z.boolean(), {
      kind: 'flag',
      update: true,
      about: 'Whether the message was read in the console or marked as read.',
    }),
    from: wordsOrNull('From header. Null if absent.'),
    sender: words('Envelope sender. Empty for a bounce message.'),
    subject: wordsOrNull('Subject header. Null if absent.'),
    snippet: words('Beginning of the text, in one line.'),
    attachments: count('Number of attachments.'),
    status: field(z.enum(INBOUND_STATUSES), { about: 'Processing status.' }),
    in_reply_to_email_id: field(z.string().nullable(), {
      read: 'single',
      about:
        'Id of the email of this account that the message replies to, according to In-Reply-To and References. Null if absent.',
    }),
    received_at: field(z.iso.datetime(), { kind: 'time', about: 'Time when the message was received.' }),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time when the message was parsed.' }),
    updated_at: field(z.iso.datetime(), { kind: 'time', about: 'Time of the last change.' }),
  },
  relationships: { inbox: { type: 'inboxes', column: 'inbox_key' } },
  filters: { seen: { column: 'seen', flag: true }, search: holding('subject', 'sender', 'from') },
  extend(rows, { reader, single }) {
    const glances = glancesOf(
      reader,
      rows.map((row) => row['message_key'] as number),
    )
    for (const row of rows) {
      const { attachments = 0, snippet = '' } = glances.get(row['message_key'] as number) ?? {}
      Object.assign(row, { attachments, snippet })
      if (single) row['in_reply_to_email_id'] = answeredMail(reader, row as never)
    }
  },
  actions: [
    {
      kind: 'list',
      path: '/inboxes/:inbox/messages',
      params: ['filter', 'sort', 'fields', 'page'],
      within: { type: 'inboxes', column: 'inbox_key', removed: true },
      about: 'List the messages of an inbox. This includes deleted inboxes.',
    },
    { kind: 'show', about: 'Get a message of an inbox.' },
    {
      kind: 'update',
      scope: 'domains:write',
      about: 'Mark a message as read or unread.',
      // Opening a message in the console marks it.
      audit: 'never',
      async run({ attributes: { seen }, parts, row }) {
        if (seen === undefined) return { row }
        await setSeen(parts.store, row.key, seen)
        return { row: { ...row, seen: seen ? 1 : 0 } }
      },
    },
    {
      kind: 'delete',
      scope: 'domains:write',
      about: 'Delete a message permanently, including the received email.',
      run: ({ parts, row }) => removeMessage(parts, row),
    },
  ],
})

export const inboxCounts = define('inbox-counts', {
  table: 'inboxes',
  path: '/inbox-counts/:inbox',
  scope: 'inbound',
  only: 'deleted_at is null',
  about: 'Number of unread messages in an inbox, and whether the inbox receives email. The id is that of the inbox.',
  extension: true,
  attributes: {
    unread: count(`Number of unread messages. Counting stops at ${MOST_UNREAD}.`),
    receives: field(z.boolean(), {
      about:
        'Whether email to the inbox is accepted. Until its domain is verified, email is deferred and the sending server tries again later.',
    }),
  },
  extend(rows, { reader }) {
    for (const row of rows) {
      row['unread'] = unreadIn(reader, row.key)
      row['receives'] = takesMail(reader, row['domain_key'] as number)
    }
  },
  actions: [
    { kind: 'list', params: ['fields', 'page'], about: 'List the number of unread messages of each inbox.' },
    {
      kind: 'show',
      about: 'Get the number of unread messages of an inbox. The response also shows whether the inbox receives email.',
    },
  ],
})
