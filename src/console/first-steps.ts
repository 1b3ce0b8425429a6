// The first steps on the overview, until all are done: each with its state, why it is needed, and the way to do it.
import { html } from 'hono/html'
import { grants } from '../accounts/api-grants.ts'
import { tokens } from '../accounts/api.ts'
import type { serverState } from '../checks/api.ts'
import type { domains } from '../domains/api.ts'
import { outboundEmails } from '../mail/api.ts'
import { button } from '../webui/forms.ts'
import { icon } from '../webui/icons.ts'
import { text, type Thing, type Visit } from '../webui/visit.ts'
import type { Cell, Html } from '../webui/widgets.ts'

export interface Known {
  senders: readonly Thing<typeof domains>[]
  /** Only operators see it. */
  server: Thing<typeof serverState> | undefined
  /** The person has a second factor or a passkey. */
  strong: boolean
}

interface Step {
  name: string
  why: string
  done: boolean
  way: Cell
}

const link = (path: string, words: string): Html => html`<a class="button plain small" href="${path}">${words}</a>`

/** The domain that is shown next: the first that cannot send yet, or the page that adds one. */
function domainWay(senders: Known['senders']): Html {
  const [waiting] = senders
  return waiting === undefined
    ? link('/domains/new', 'Add domain')
    : link(`/domains/${text(waiting, 'name')}`, `Records of ${text(waiting, 'name')}`)
}

async function stepsOf(visit: Visit, { senders, server, strong }: Known): Promise<Step[]> {
  const [made, programs, delivered] = await Promise.all([
    visit.get(tokens, '/personal-access-tokens?page%5Bsize%5D=1'),
    visit.get(grants, '/grants'),
    visit.get(outboundEmails, '/outbound-emails?filter%5Bstatus%5D=delivered&page%5Bsize%5D=1'),
  ])
  const active = senders.some((each) => text(each, 'status') === 'active')
  const steps: Step[] = [
    {
      name: 'Verify a domain',
      why: 'Publish a few records, so that receivers believe your mail.',
      done: active,
      way: domainWay(senders),
    },
    {
      name: 'Connect a program',
      why: 'Create a token; the page shows what WordPress, Nextcloud or your own code needs.',
      done: made.many.length + programs.many.length > 0,
      way: link('/tokens/new', 'New token'),
    },
    {
      name: 'Deliver a first mail',
      why: 'Send one to yourself and see each step of its delivery.',
      done: delivered.many.length > 0,
      way: active ? button(visit, 'test', 'Send me a test mail') : '',
    },
    {
      name: 'Protect your sign-in',
      why: 'A passkey or a second factor: who reads your mail could sign in otherwise.',
      done: strong,
      way: link('/account', 'Set up'),
    },
  ]
  return server === undefined
    ? steps
    : [
        ...steps,
        {
          name: 'Make a backup',
          why: 'One mail server is one disk. Whoever runs this server makes a backup of it every night, with postrider backup.',
          done: server.attributes.last_backup_at !== null,
          way: link('/server', 'About this server'),
        },
      ]
}

/** The steps that are left and those that are done; nothing when all are. */
export async function firstSteps(visit: Visit, known: Known): Promise<Html | ''> {
  if (visit.reading || visit.elsewhere) return ''
  const steps = await stepsOf(visit, known)
  const ended = steps.filter(({ done }) => done).length
  if (ended === steps.length) return ''
  return html`<section class="panel steps">
    <h2>First steps <span class="soft">${ended} of ${steps.length} done</span></h2>
    <ol>
      ${steps.map(
        ({ done, name, way, why }) =>
          html`<li class="${done ? 'done-step' : ''}">
            ${icon(done ? 'done' : 'open')}
            <div>
              <strong>${name}</strong
              >${done ? html`<span class="hidden">, done</span>` : html`<span class="soft">${why}</span>`}
            </div>
            ${done ? '' : way}
          </li>`,
      )}
    </ol>
  </section>`
}
