// The counters next to the menu entries: unread messages, and problems.
import { presentFindings } from '../checks/api.ts'
import { inboxCounts } from '../inbound/api-messages.ts'
import { MOST_UNREAD } from '../inbound/messages.ts'
import { number, text, type MenuCounter, type Visit } from '../views/html/visit.ts'
import { count, counted } from '../views/html/widgets.ts'

/** The counters of a user's menu by path. A path without a counter is omitted. */
export async function countersOf(visit: Visit): Promise<Record<string, MenuCounter>> {
  const [boxes, problems] = await Promise.all([
    visit.allows('inbound:read') ? visit.get(inboxCounts, '/inbox-counts?page%5Bsize%5D=100') : undefined,
    visit.allows('emails:read') ? visit.get(presentFindings, '/findings?page%5Bsize%5D=100') : undefined,
  ])
  const unread = (boxes?.many ?? []).reduce((sum, each) => sum + number(each, 'unread'), 0)
  const open = problems?.many ?? []
  const failing = open.filter((each) => text(each, 'check') === 'webhook').length
  const stopped = open.filter((each) => text(each, 'check') === 'domain' && text(each, 'status') === 'fail').length
  return {
    ...(unread > 0 && {
      '/inboxes': { shown: unread < MOST_UNREAD ? count(unread) : `${count(MOST_UNREAD)}+`, means: 'unread' },
    }),
    ...(failing > 0 && { '/webhooks': { shown: count(failing), means: 'failing', bad: true } }),
    ...(stopped > 0 && {
      '/domains': { shown: count(stopped), means: `${counted(stopped, 'domain')} cannot send`, bad: true },
    }),
  }
}
