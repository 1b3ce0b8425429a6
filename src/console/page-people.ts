// People: who has an account here, who was invited, what each may do; for operators.
import { html } from 'hono/html'
import { proofField, refusal } from '../accounts/proof-fields.ts'
import { roleInWords, ROLES } from '../accounts/roles.ts'
import { serverState } from '../checks/api.ts'
import { people } from '../http/api-people.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { page } from '../webui/frame.ts'
import { button, field, fieldMaker, form, radios } from '../webui/forms.ts'
import { done, found, type Form, type Place } from '../webui/place.ts'
import { faultIn, flag, number, text, thingOf, type Answer, type Thing, type Visit } from '../webui/visit.ts'
import { badge, codeShown, counted, facts, table, time, type Cell, type Html } from '../webui/widgets.ts'

type ShownPerson = Thing<typeof people>

const LABELS = { email: 'Address', name: 'Name', reads_for: 'Role' } as const

/** People on a page. */
const AT_ONCE = 50

const isSelf = (visit: Visit, person: ShownPerson): boolean => text(person, 'email') === visit.person.user.email
const isInvited = (person: ShownPerson): boolean => text(person, 'invitation') !== ''
const isReader = (person: ShownPerson): boolean => text(person, 'reads_for') !== ''
const role = (person: ShownPerson): string => roleInWords(flag(person, 'operator'), person.attributes.reads_for ?? null)
const everybody = (visit: Visit): Promise<ShownPerson[]> => visit.all(people, '/people')
const link = (person: ShownPerson): Html => html`<a href="/people/${person.id}">${text(person, 'email')}</a>`

/** What became of the mail that carries the link, in one word. */
const MAIL = { mailed: 'delivered', waiting: 'under way', refused: 'failed', not_mailed: 'not mailed' } as const

/** The same in a sentence. */
function mailInWords(person: ShownPerson): string {
  const note = text(person, 'invitation_note')
  const mail = person.attributes.invitation_mail
  if (mail === 'mailed') return 'The mail was delivered.'
  if (mail === 'refused') return `The mail was not taken: ${note}`
  if (mail !== 'waiting') return `Not mailed. ${note} Copy the link and hand it over yourself.`
  return note === '' ? 'The mail is on its way.' : `The mail was not taken yet, and is tried again: ${note}`
}

/** Withdrawing removes the person; one whose mail is kept is locked out as before. */
const withdraw = (visit: Visit, person: ShownPerson): Cell =>
  button(visit, text(person, 'domain') === '' ? 'remove' : 'lock', 'Withdraw', {
    to: `/people/${person.id}`,
    danger: true,
    confirm: `The link that ${text(person, 'email')} got leads nowhere any more, and they do not come in.`,
  })

/** Buttons of an invitation; the link to copy is in the page, as the button finds it. */
const invitationButtons = (visit: Visit, person: ShownPerson): Html =>
  html`<div class="row">
    ${button(visit, 'invite', 'Resend', { to: `/people/${person.id}` })}
    ${
      text(person, 'invitation_link') === ''
        ? ''
        : html`<span hidden id="link-${person.id}">${text(person, 'invitation_link')}</span
            ><button class="plain" type="button" data-copy="link-${person.id}">Copy link</button>`
    }
    ${withdraw(visit, person)}
  </div>`

function invitedTable(visit: Visit, invited: readonly ShownPerson[]): Cell {
  if (invited.length === 0) return ''
  return html`<h2>Invited, not yet in</h2>
    ${table(
      'Invited, not yet in',
      [
        { title: 'Address', width: 25 },
        'Role',
        { title: 'Mail', kind: 'status' },
        { title: 'Valid until', kind: 'time' },
        { title: '', kind: 'actions' },
      ],
      invited.map((person) => [
        link(person),
        role(person),
        badge(MAIL[person.attributes.invitation_mail ?? 'not_mailed']),
        text(person, 'invitation') === 'expired' ? badge('expired') : time(person.attributes.invitation_expires_at),
        invitationButtons(visit, person),
      ]),
      '',
    )}
    <h2>People</h2>`
}

const stateOf = (visit: Visit, person: ShownPerson): Cell =>
  flag(person, 'locked') ? badge('locked out') : isSelf(visit, person) ? html`<span class="badge">you</span>` : ''

async function showAll(visit: Visit): Promise<Response> {
  const all = await everybody(visit)
  const here = all.filter((each) => !isInvited(each))
  const from = Math.max(0, Math.floor(Number(visit.query('from'))) || 0)
  const rows = here
    .slice(from, from + AT_ONCE)
    .map((person) => [
      link(person),
      html`${text(person, 'name')} ${stateOf(visit, person)}`,
      role(person),
      flag(person, 'second_factor') ? 'Second factor' : html`<span class="soft">No second factor</span>`,
      person.attributes.last_seen_at === null
        ? html`<span class="soft">Never</span>`
        : time(person.attributes.last_seen_at),
      isSelf(visit, person) || isReader(person)
        ? ''
        : button(visit, 'open', 'View account', { to: '/people', fields: { id: person.id } }),
    ])
  return page(visit, {
    title: 'People',
    about: 'Who can sign in here, and what they may do. Looking at somebody’s account is logged.',
    actions: html`<a class="button" href="/people/new">Invite person</a>`,
    done: done(visit),
    body: html`${invitedTable(visit, all.filter(isInvited))}
    ${table(
      'People',
      [
        { title: 'Address', width: 25 },
        'Name',
        { title: 'Role', width: 15 },
        { title: 'Sign-in', width: 20 },
        { title: 'Last seen', kind: 'time' },
        { title: '', kind: 'action' },
      ],
      rows,
      '',
    )}
    ${pages(from, here.length)}`,
  })
}

/** Links to the people before and after those of a page. */
function pages(from: number, all: number): Cell {
  if (all <= AT_ONCE) return ''
  const to = (at: number, words: string): Html =>
    html`<a class="button plain small" href="/people?from=${at}">${words}</a>`
  return html`<nav class="pager" aria-label="Pages">
    ${from === 0 ? '' : to(Math.max(0, from - AT_ONCE), 'Before')}
    ${from + AT_ONCE >= all ? '' : to(from + AT_ONCE, 'After')}
  </nav>`
}

interface TypedRole {
  role: string
  account: string
}

/** The choice of a role; `others` have accounts that can be read. */
const roleFields = (typed: TypedRole, others: readonly ShownPerson[], error: string | undefined): Html =>
  html`${radios({ name: 'role', label: 'Role', chosen: typed.role, options: others.length === 0 ? ROLES.slice(0, 2) : ROLES })}
  ${
    others.length === 0
      ? ''
      : field({
          name: 'account',
          label: 'Account that a reader looks at',
          value: typed.account,
          options: others.map((each) => [text(each, 'email'), text(each, 'email')] as const),
        })
  }
  ${error === undefined ? '' : html`<p class="bad" role="alert">${error}</p>`}`

const typedRole = (given: Form): { operator: boolean; reads_for: string | null } => ({
  operator: given.get('role') === 'operator',
  reads_for: given.get('role') === 'reader' ? given.get('account') : null,
})

const readable = (all: readonly ShownPerson[]): ShownPerson[] =>
  all.filter((each) => !isReader(each) && !isInvited(each))

/** The form for a new person, empty or as it was refused. */
async function showNew(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const entry = fieldMaker(LABELS, errors, typed)
  const chosen = { role: typed?.get('role') ?? 'reader', account: typed?.get('account') ?? visit.account.email }
  return page(visit, {
    title: 'Invite a person',
    about: 'They get a mail with a link, valid for 7 days, and choose a password or a passkey.',
    crumbs: [['/people', 'People']],
    errors,
    status: errors.length > 0 ? 422 : 200,
    labels: LABELS,
    body: form(
      visit,
      'add',
      html`${entry('email', { type: 'email', required: true })} ${entry('name')}
        ${roleFields(chosen, readable(await everybody(visit)), faultIn(errors, LABELS)('reads_for'))}<button>
          Send invitation
        </button>`,
      { to: '/people' },
    ),
  })
}

async function add(visit: Visit, given: Form): Promise<Response> {
  const { operator, reads_for } = typedRole(given)
  const { errors, one } = await visit.ask('POST', '/people', {
    type: 'people',
    attributes: {
      email: given.get('email').trim(),
      ...(given.get('name').trim() === '' ? {} : { name: given.get('name').trim() }),
      operator,
      ...(reads_for === null ? {} : { reads_for }),
    },
  })
  if (!one) return showNew(visit, errors, given)
  const person = thingOf(people, one)
  return visit.say(`/people/${person.id}`, `${text(person, 'email')} is invited. ${mailInWords(person)}`)
}

/** The invitation of a person, with its link; in the sandbox its mail stays there. */
async function invitation(visit: Visit, person: ShownPerson): Promise<Cell> {
  if (!isInvited(person)) return ''
  const { one } = await visit.get(serverState, '/server')
  const address = text(person, 'invitation_link')
  const stays = one && flag(one, 'sandbox') && text(person, 'invitation_mail') !== 'not_mailed'
  return html`<section class="panel">
    <h2>${address === '' ? 'The invitation has expired' : 'Invited, not yet in'}</h2>
    <p>${mailInWords(person)} ${stays ? 'This is the sandbox, so the mail stays in it: copy the link.' : ''}</p>
    ${
      address === ''
        ? html`<p>Its link led nowhere after 7 days. Send a new one, or withdraw the invitation.</p>`
        : html`<p class="soft">The link works once, until ${time(person.attributes.invitation_expires_at)}.</p>
            ${codeShown('invitation', address)}`
    }
    <div class="row">${button(visit, 'invite', 'Resend')} ${withdraw(visit, person)}</div>
  </section>`
}

function roleForm(visit: Visit, person: ShownPerson, all: readonly ShownPerson[], errors: Answer['errors']): Html {
  const others = readable(all).filter(({ id }) => id !== person.id)
  const [first] = others
  const chosen = {
    role: flag(person, 'operator') ? 'operator' : isReader(person) ? 'reader' : 'owner',
    account: text(person, 'reads_for') || (first ? text(first, 'email') : ''),
  }
  return form(
    visit,
    'role',
    html`${roleFields(chosen, others, faultIn(errors, LABELS)('reads_for'))}<button>Change role</button>`,
    { confirm: `Where ${text(person, 'email')} loses a right, they are signed out at once.` },
  )
}

function factorForm(visit: Visit, person: ShownPerson, errors: Answer['errors']): Html {
  if (!flag(person, 'second_factor'))
    return html`<p class="soft">None: a password, a passkey or a mailed link signs them in.</p>`
  const email = text(person, 'email')
  return form(
    visit,
    'reset',
    html`<p>
        A code is asked for after the password. Whoever has lost the device and the recovery codes needs a reset, and
        sets it up again.
      </p>
      ${proofField(visit, 'old', faultIn(errors)('old'))}<button class="danger">Reset second factor</button>`,
    { confirm: `Be sure that it is ${email} who asks. They are signed out everywhere, and told by mail.` },
  )
}

/** How a person is let in or kept out, with what that means. */
function access(visit: Visit, person: ShownPerson, all: readonly ShownPerson[]): Html {
  const email = text(person, 'email')
  const domain = text(person, 'domain')
  const locked = flag(person, 'locked')
  const never = person.attributes.last_seen_at === null
  return html`${locked ? html`<p>Locked out: nothing signs ${email} in. Invite them again to let them back in.</p>` : ''}
    ${
      domain === '' || locked
        ? ''
        : html`<p>The account has mail of ${domain}, which is kept. So ${email} cannot be removed, only locked out.</p>`
    }
    <div class="row">
      ${locked ? button(visit, 'invite', 'Invite again') : never ? button(visit, 'invite', 'Send invitation') : ''}
      ${domain === '' ? removeButton(visit, person, all) : locked ? '' : lockButton(visit, person)}
    </div>`
}

const tokensOf = (person: ShownPerson): string => counted(number(person, 'tokens'), 'token')

function lockButton(visit: Visit, person: ShownPerson): Cell {
  const email = text(person, 'email')
  return button(visit, 'lock', 'Lock out', {
    danger: true,
    confirm: `${email} is signed out at once. Password, passkeys and second factor end, and so do programs that were let in. The account stays, and its ${tokensOf(person)} go on sending: revoke those that ${email} knows.`,
  })
}

function removeButton(visit: Visit, person: ShownPerson, all: readonly ShownPerson[]): Cell {
  const email = text(person, 'email')
  const readers = all.filter((each) => text(each, 'reads_for') === email).map((each) => text(each, 'email'))
  const too = readers.length === 0 ? '' : ` Who only reads this account is removed too: ${readers.join(', ')}.`
  return button(visit, 'remove', 'Remove person', {
    danger: true,
    confirm: `${email} is signed out at once and cannot sign in again. The account goes with its ${tokensOf(person)} and programs that were let in. Tokens that ${email} made in other accounts stay: revoke them there.${too}`,
  })
}

async function showOne(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const { one: person } = found(await visit.get(people, `/people/${visit.context.req.param('id') ?? ''}`))
  const all = await everybody(visit)
  const self = isSelf(visit, person)
  return page(visit, {
    title: text(person, 'name') || text(person, 'email'),
    crumbs: [['/people', 'People']],
    done: done(visit),
    errors: errors.filter(({ field: of }) => of === undefined),
    status: errors.length > 0 ? 422 : 200,
    actions:
      self || isReader(person)
        ? ''
        : button(visit, 'open', 'View account', { to: '/people', fields: { id: person.id } }),
    body: html`${await invitation(visit, person)}
    ${facts([
      ['Address', text(person, 'email')],
      ['Role', role(person)],
      ['Last seen', person.attributes.last_seen_at === null ? 'Never' : time(person.attributes.last_seen_at)],
      ['Second factor', flag(person, 'second_factor') ? 'On' : 'Off'],
      ['Tokens', String(number(person, 'tokens'))],
      ['Added', time(person.attributes.created_at)],
    ])}
    ${
      self
        ? html`<p class="soft">
            This is you. Another operator can change your role or remove you; your sign-in is on
            <a href="/account">your account</a>.
          </p>`
        : html`${roleForm(visit, person, all, errors)}
          ${
            isInvited(person)
              ? ''
              : html`<h2>Second factor</h2>
                  ${factorForm(visit, person, errors)}
                  <h2>Access</h2>
                  ${access(visit, person, all)}`
          }`
    }`,
  })
}

async function actOnOne(deps: ApiDeps, visit: Visit, given: Form): Promise<Response> {
  const id = visit.context.req.param('id') ?? ''
  const here = `/people/${id}`
  const { one: before } = found(await visit.get(people, here))
  const email = text(before, 'email')
  const withdrawn = `The invitation of ${email} is withdrawn.`
  const refused = ({ errors }: Answer): Promise<Response> => showOne(visit, errors)
  switch (given.action) {
    case 'role': {
      const answer = await visit.ask('PATCH', here, { type: 'people', id, attributes: typedRole(given) })
      return answer.one ? visit.say(here, `${email} is now: ${role(thingOf(people, answer.one))}.`) : refused(answer)
    }
    case 'invite': {
      const answer = await visit.ask('POST', `${here}/invite`)
      if (!answer.one) return refused(answer)
      return visit.say(
        here,
        `A new link for ${email}; the one before is dead. ${mailInWords(thingOf(people, answer.one))}`,
      )
    }
    case 'lock': {
      const answer = await visit.ask('POST', `${here}/lock`)
      if (!answer.one) return refused(answer)
      return visit.say(here, isInvited(before) ? withdrawn : `${email} is locked out.`)
    }
    case 'reset': {
      const unproven = await refusal(deps, visit, given, false)
      if (unproven !== undefined) return showOne(visit, [{ code: 'invalid', field: 'old', detail: unproven }])
      const answer = await visit.ask('POST', `${here}/reset-second-factor`)
      return answer.one
        ? visit.say(here, `${email} is signed out and signs in without a second factor. They are told by mail.`)
        : refused(answer)
    }
    default: {
      const answer = await visit.ask('DELETE', here)
      if (answer.status !== 204) return refused(answer)
      return visit.say(
        '/people',
        isInvited(before) ? `The invitation of ${email} is withdrawn.` : `${email} is removed.`,
      )
    }
  }
}

/** `open` notes in the session whose account is shown; null: the person’s own. */
export const peoplePlaces = (
  deps: ApiDeps,
  open: (visit: Visit, id: string | null) => Promise<Response>,
): readonly Place[] => [
  {
    path: '/people',
    operator: true,
    show: showAll,
    act: (visit, given) =>
      given.action === 'leave'
        ? open(visit, null)
        : given.action === 'open'
          ? open(visit, given.get('id'))
          : add(visit, given),
  },
  { path: '/people/new', operator: true, show: (visit) => showNew(visit) },
  {
    path: '/people/:id',
    operator: true,
    show: (visit) => showOne(visit),
    act: (visit, given) => actOnOne(deps, visit, given),
  },
]
