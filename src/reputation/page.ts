// Agents: programs that send mail under a name of their own. The page shows their reputation and can stop each.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { button } from '../webui/forms.ts'
import { badge, count, figures, live, pageOf, pager, table, time } from '../webui/widgets.ts'
import { agents } from './api.ts'
import { done, type Place } from '../webui/place.ts'
import { number, text, type Answer, type Visit } from '../webui/visit.ts'

async function show(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const answer = await visit.get(agents, `/agents?${pageOf(visit)}`)
  const rows = answer.many.map((agent) => [
    text(agent, 'agent_id'),
    badge(text(agent, 'pool')),
    text(agent, 'pace'),
    count(number(agent, 'deliveries')),
    count(number(agent, 'bounces')),
    count(number(agent, 'complaints')),
    agent.attributes.paused_at === null ? 'sending' : html`${badge('paused')} ${time(agent.attributes.paused_at)}`,
    agent.attributes.paused_at === null
      ? button(visit, 'pause', 'Pause', {
          fields: { agent: agent.id },
          confirm: `Mail of ${agent.id} is refused until you resume it.`,
        })
      : button(visit, 'resume', 'Resume', { fields: { agent: agent.id } }),
  ])
  return page(visit, {
    title: 'Agents',
    about:
      'Programs that name themselves in their mail (agent_id): how their mail of seven days did, and the pace that gives them.',
    errors,
    done: done(visit),
    body: live(
      visit,
      html`${table(
        'Agents',
        [
          'Agent',
          { title: 'Pool', kind: 'status' },
          'Pace',
          ...figures('Delivered', 'Bounced', 'Complaints'),
          'Now',
          { title: '', kind: 'action' },
        ],
        rows,
        html`No agent has sent yet. A mail names its agent in <code>agent_id</code>.`,
      )}
      ${pager(visit, answer)}`,
    ),
  })
}

export const agentsPlace: Place = {
  path: '/agents',
  show: (visit) => show(visit),
  async act(visit, given) {
    const what = given.action === 'pause' ? 'pause' : 'resume'
    const answer = await visit.ask('POST', `/agents/${encodeURIComponent(given.get('agent'))}/${what}`)
    return answer.status === 202
      ? visit.say('/agents', `${given.get('agent')} is ${what}d.`)
      : show(visit, answer.errors)
  },
}
