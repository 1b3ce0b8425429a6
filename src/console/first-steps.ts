// The first steps on the overview, until all are done: each with its state, its reason, and a link.
import { html } from 'hono/html'
import { grants } from '../users/oauth/api-grants.ts'
import { tokens } from '../users/api-tokens.ts'
import type { serverState } from '../checks/api.ts'
import type { domains } from '../domains/api.ts'
import { outboundEmails } from '../mail/api.ts'
import { button } from '../views/html/forms.ts'
import { icon } from '../views/html/icons.ts'
import { text, type Thing, type Visit } from '../views/html/visit.ts'
import type { Cell, Html } from '../views/html/widgets.ts'

export interface Known {
  senders: readonly Thing<typeof domains>[]
  /** Only for operators. */
  server: Thing<typeof serverState> | undefined
  /** The user has a second factor or a passkey. */
  strong: boolean
}

interface Step {
  name: string
  why: string
  done: boolean
  /** A sentence about the finished step. */
  said?: Cell
  way: Cell
}

const link = (path: string, words: string): Html => html`<a class="button plain small" href="${path}">${words}</a>`

/** The domain of the next step: the first one that cannot send yet, or the page that adds one. */
function domainWay(senders: Known['senders']): Html {
  const [waiting] = senders
  return waiting === undefined
    ? link('/domains/new', 'Add domain')
    : link(`/domains/${text(waiting, 'name')}`, 'DNS records')
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
      why: 'Publish a few DNS records so that receiving servers can verify your email.',
      done: active,
      way: domainWay(senders),
    },
    {
      name: 'Connect an application',
      why: 'Create a token. The page then shows the settings for WordPress, Nextcloud or your own code.',
      done: made.many.length + programs.many.length > 0,
      way: link('/tokens/new', 'New token'),
    },
    {
      name: 'Send your first email',
      why: 'Send one to yourself and follow each step of the delivery.',
      done: delivered.many.length > 0,
      said: html`Delivered. <a href="/mail/${delivered.many[0]?.id ?? ''}">See what happened on its way</a>.`,
      way: active ? button(visit, 'test', 'Send me a test email') : '',
    },
    {
      name: 'Protect your sign-in',
      why: 'Add a passkey or two-factor authentication. Without one, anyone who can read your email can sign in.',
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
          why: 'Set up nightly backups, so that a failed disk does not cost you your data.',
          done: server.attributes.last_backup_at !== null,
          way: link('/server/settings#backup', 'Add destination'),
        },
      ]
}

/** Returns the open and the finished steps, or '' if all are finished. */
export async function firstSteps(visit: Visit, known: Known): Promise<Html | ''> {
  if (!visit.allows('domains:write') || visit.elsewhere) return ''
  const steps = await stepsOf(visit, known)
  const ended = steps.filter(({ done }) => done).length
  if (ended === steps.length) return ''
  return html`<section class="panel steps">
    <h2>Getting started <span class="soft">${ended} of ${steps.length} done</span></h2>
    <ol>
      ${steps.map(
        ({ done, name, said = '', way, why }, at) =>
          html`<li id="step-${at}" class="${done ? 'done-step' : ''}">
            ${icon(done ? 'done' : 'open')}
            <div>
              <strong>${name}</strong
              >${done ? html`<span class="hidden">, done</span> <span class="soft">${said}</span>` : html`<span class="soft">${why}</span>`}
            </div>
            ${done ? '' : way}
          </li>`,
      )}
    </ol>
  </section>`
}
