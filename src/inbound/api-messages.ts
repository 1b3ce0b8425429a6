// The messages of an inbox as a mail program lists them. What the specification has of received mail is in
// api-emails.ts; a message has the same id there.
import { z } from 'zod'
import type { ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, holding, words, wordsOrNull } from '../jsonapi/fields.ts'
import { definer, field } from '../jsonapi/resource.ts'
import { INBOUND_STATUSES } from '../states/inbound-email.ts'
import type { Spool } from '../store/spool.ts'
import { answeredMail, glancesOf, MOST_UNREAD, removeMessage, setSeen, unreadIn } from './messages.ts'
import { takesMail } from './recipients.ts'

const define = definer<ApiDeps & { spool: Spool }>()

export const inboxMessages = define('inbox-messages', {
  table: 'inbound_emails',
  about: `The messages of an inbox as a mail program lists them; each has the id of its inbound-email. ${EXTENSION}`,
  attributes: {
    seen: field(z.boolean(), {
      kind: 'flag',
      update: true,
      about: 'Whether somebody has read it in the console, or it was marked so.',
    }),
    from: wordsOrNull('The From header.'),
    sender: words('The sender of the envelope; empty for a bounce.'),
    subject: wordsOrNull('The Subject header.'),
    snippet: words('How its text begins, in one line.'),
    attachments: count('How many files are attached.'),
    status: field(z.enum(INBOUND_STATUSES), { about: 'What came of it.' }),
    answers: field(z.string().nullable(), {
      read: 'single',
      about: 'The id of the mail of this account that it answers, by its In-Reply-To and References.',
    }),
    received_at: field(z.iso.datetime(), { kind: 'time', about: 'When it was received.' }),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'When it was read by the server.' }),
    updated_at: field(z.iso.datetime(), { kind: 'time', about: 'When it last changed.' }),
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
      if (single) row['answers'] = answeredMail(reader, row as never)
    }
  },
  actions: [
    {
      kind: 'list',
      path: '/inboxes/:inbox/messages',
      scope: 'inbound:read',
      params: ['filter', 'sort', 'fields', 'page'],
      within: { type: 'inboxes', column: 'inbox_key', removed: true },
      about: `List the messages of an inbox, also of a deleted one. ${EXTENSION}`,
    },
    {
      kind: 'show',
      path: '/inbox-messages/:inboxMessage',
      scope: 'inbound:read',
      about: `Show a message of an inbox. ${EXTENSION}`,
    },
    {
      kind: 'update',
      path: '/inbox-messages/:inboxMessage',
      scope: 'domains:write',
      about: `Mark a message as read or not read. ${EXTENSION}`,
      async run({ attributes: { seen }, parts, row }) {
        if (seen === undefined) return { row }
        await setSeen(parts.store, row.key, seen)
        return { row: { ...row, seen: seen ? 1 : 0 } }
      },
    },
    {
      kind: 'delete',
      path: '/inbox-messages/:inboxMessage',
      scope: 'domains:write',
      about: `Remove a message for good: it can no longer be read, also not by its inbound-email. ${EXTENSION}`,
      run: ({ parts, row }) => removeMessage(parts, row),
    },
  ],
})

export const inboxCounts = define('inbox-counts', {
  table: 'inboxes',
  only: 'deleted_at is null',
  about: `How many messages of an inbox nobody has read yet, and whether it receives; the id is that of the inbox. ${EXTENSION}`,
  attributes: {
    unread: count(`Messages that nobody has read yet, at most ${MOST_UNREAD}.`),
    receives: field(z.boolean(), {
      about: 'Whether its mail is taken now. While its domain is not verified, senders are told to try again later.',
    }),
  },
  extend(rows, { reader }) {
    for (const row of rows) {
      row['unread'] = unreadIn(reader, row.key)
      row['receives'] = takesMail(reader, row['domain_key'] as number)
    }
  },
  actions: [
    {
      kind: 'list',
      path: '/inbox-counts',
      scope: 'inbound:read',
      params: ['fields', 'page'],
      about: `List the unread messages of your inboxes. ${EXTENSION}`,
    },
    {
      kind: 'show',
      path: '/inbox-counts/:inbox',
      scope: 'inbound:read',
      about: `Show how many messages of an inbox are unread, and whether it receives. ${EXTENSION}`,
    },
  ],
})
