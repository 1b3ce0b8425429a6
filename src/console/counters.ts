// The counters beside the places of the menu: what waits for somebody, or fails.
import { domains } from '../domains/api.ts'
import { inboxCounts } from '../inbound/api-messages.ts'
import { MOST_UNREAD } from '../inbound/messages.ts'
import { webhooks } from '../webhooks/api.ts'
import { isFailing } from '../webhooks/page.ts'
import { number, type MenuCounter, type Visit } from '../webui/visit.ts'
import { count, counted } from '../webui/widgets.ts'

/** The counters of a person's menu, by the paths of their places; a place without one has nothing to count. */
export async function countersOf(visit: Visit): Promise<Record<string, MenuCounter>> {
  const [boxes, endpoints, senders] = await Promise.all([
    visit.get(inboxCounts, '/inbox-counts?page%5Bsize%5D=100'),
    visit.get(webhooks, '/webhooks?page%5Bsize%5D=100'),
    visit.get(domains, '/domains?filter%5Bstatus%5D=suspended,failed&page%5Bsize%5D=100'),
  ])
  const unread = boxes.many.reduce((sum, each) => sum + number(each, 'unread'), 0)
  const failing = endpoints.many.filter(isFailing).length
  const stopped = senders.many.length
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
