// Agents: applications that send email under their own name. The page shows their reputation and can stop each.
import { html } from 'hono/html'
import { badge, facts, time } from '../views/html/widgets.ts'
import type { Thing, Visit } from '../views/html/visit.ts'
import { actionButton, type Actions } from '../views/actions.ts'
import type { ListView } from '../views/list.ts'
import { listPlaces } from '../views/pages.ts'
import { numbers } from '../views/table.ts'
import { paceOf } from './agents.ts'
import { agents } from './api.ts'

const isPaused = ({ attributes }: Thing<typeof agents>): boolean => attributes.paused_at !== null

const ACTIONS: Actions<typeof agents> = {
  pause: {
    label: 'Pause',
    when: (agent) => !isPaused(agent),
    confirm: ({ id }) => `Email from ${id} is rejected until you resume it.`,
    ask: 'pause',
    said: ({ id }) => `${id} was paused.`,
  },
  resume: { label: 'Resume', when: isPaused, ask: 'resume', said: ({ id }) => `${id} was resumed.` },
}

const list = (visit: Visit): ListView<typeof agents> => ({
  of: agents,
  from: '/agents',
  caption: 'Agents',
  live: true,
  columns: [
    { title: 'Agent', of: 'agent_id', to: ({ id }) => `/mail?q=${encodeURIComponent(`agent:"${id}"`)}` },
    { title: 'Pool', kind: 'status', of: 'pool' },
    { title: 'Rate', of: 'pace' },
    ...numbers({ deliveries: 'Delivered', bounces: 'Bounced', complaints: 'Complaints' }),
    {
      title: 'Status',
      of: (agent) => (isPaused(agent) ? html`${badge('paused')} ${time(agent.attributes.paused_at)}` : 'sending'),
    },
    {
      title: '',
      kind: 'action',
      of: (agent) => actionButton(visit, ACTIONS, isPaused(agent) ? 'resume' : 'pause', agent),
    },
  ],
  empty: html`No agents yet. To send as an agent, set <code>agent_id</code> in the email.`,
})

/** The pools, as the page explains them. */
const POOLS = [
  ['probation', 'A new agent. It is promoted after 200 emails in 7 days with few bounces and complaints.'],
  ['standard', 'An agent with good results.'],
  ['trusted', 'An agent with good results in the standard pool, too.'],
  ['damaged', 'Too many bounces or complaints. After at least a day, it is on probation again if its results improve.'],
] as const

const explained = html`<h2>Pools</h2>
  <p class="soft">The results of the last 7 days decide the pool of an agent. The pool decides its sending rate.</p>
  ${facts(POOLS.map(([pool, about]) => [pool, `${about} Rate: ${paceOf(pool)}.`]))}`

export const agentPlaces = listPlaces({
  path: '/agents',
  title: 'Agents',
  about:
    'Applications that send with an agent_id: their results of the last 7 days and the sending rate they have earned.',
  add: { domain: true },
  actions: ACTIONS,
  list,
  below: () => explained,
})
