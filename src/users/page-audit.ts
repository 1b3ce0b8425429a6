// The console page of the audit log.
import { html } from 'hono/html'
import { listPlaces } from '../views/pages.ts'
import { text } from '../views/html/visit.ts'
import { auditEntries } from './api-audit.ts'

const WAYS = [
  { value: '', name: 'All' },
  { value: 'console', name: 'Console' },
  { value: 'api', name: 'API' },
  { value: 'mcp', name: 'MCP' },
  { value: 'command', name: 'Command line' },
] as const

export const auditPlaces = listPlaces<typeof auditEntries>({
  path: '/audit',
  title: 'Audit log',
  about: 'Who changed what in this account, when and from where, for 13 months.',
  list: () => ({
    of: auditEntries,
    from: '/audit-entries?sort=-created_at',
    caption: 'Changes',
    size: 50,
    tabs: { label: 'Way of the change', name: 'via', options: WAYS },
    search: 'Search by user, action or name',
    columns: [
      { title: 'Time', kind: 'time', of: 'created_at' },
      { title: 'Actor', width: 20, of: 'actor' },
      { title: 'Change', width: 20, of: (entry) => html`<code>${text(entry, 'action')}</code>` },
      {
        title: 'Subject',
        of: (entry) =>
          html`${text(entry, 'subject')}
          ${text(entry, 'role') === '' ? '' : html`<span class="soft">${text(entry, 'role')}</span>`}`,
      },
      {
        title: 'From',
        width: 15,
        of: (entry) =>
          html`${WAYS.find(({ value }) => value === entry.attributes.via)?.name ?? ''}
            <span class="soft">${text(entry, 'address')}</span>`,
      },
    ],
    empty: 'No changes yet.',
    noMatch: 'No entry matches.',
  }),
})
