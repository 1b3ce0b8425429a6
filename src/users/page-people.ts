// The console pages for users and invitations, for operators.
import { html } from 'hono/html'
import { refuse } from '../base/errors.ts'
import { actionButton, type Actions } from '../views/actions.ts'
import { formPlace, type FormFields } from '../views/form.ts'
import { onePlace, type ShownOne } from '../views/pages.ts'
import { tableOf } from '../views/table.ts'
import { page } from '../views/html/frame.ts'
import { button, radios } from '../views/html/forms.ts'
import { done, type Place } from '../views/html/place.ts'
import { flag, number, text, type Thing, type Visit } from '../views/html/visit.ts'
import { badge, codeShown, counted, facts, time, type Cell, type Html } from '../views/html/widgets.ts'
import { people } from './api-people.ts'
import { ROLES, ROLE_NAMES } from '../jsonapi/roles.ts'
import { proofField, refusal, type ProofDeps } from './own-proof.ts'
import { openAs } from './sessions.ts'
import { userById } from './users.ts'

type ShownPerson = Thing<typeof people>

/** Users per page. */
const AT_ONCE = 50

const isSelf = (visit: Visit, person: ShownPerson): boolean => text(person, 'email') === visit.person.user.email
const isInvited = (person: ShownPerson): boolean => text(person, 'invitation') !== ''
const hasAccount = (person: ShownPerson): boolean => text(person, 'account') === ''
const hasDomain = (person: ShownPerson): boolean => text(person, 'domain') !== ''
const neverSeen = (person: ShownPerson): boolean => person.attributes.last_seen_at === null
function role(person: ShownPerson): string {
  const { account, role: name } = person.attributes
  if (flag(person, 'operator')) return 'Operator'
  if (!name) return 'No account'
  return account ? `${ROLES[name].name} of ${account}` : 'Account owner'
}
const everybody = (visit: Visit): Promise<ShownPerson[]> => visit.all(people, '/people')
const pathOf = ({ id }: ShownPerson): string => `/people/${id}`

/** The status of the invitation email in one word. */
const MAIL = { mailed: 'delivered', waiting: 'in progress', refused: 'failed', not_mailed: 'not sent' } as const

/** The status of the invitation email in a sentence. */
function mailInWords(person: ShownPerson): string {
  const note = text(person, 'invitation_note')
  const mail = person.attributes.invitation_mail
  if (mail === 'mailed') return 'The invitation email was delivered.'
  if (mail === 'refused') return `The invitation email was rejected: ${note}`
  if (mail !== 'waiting') return `No email was sent. ${note} Copy the link and share it yourself.`
  return note === ''
    ? 'The invitation email is queued.'
    : `The invitation email was deferred and is being retried: ${note}`
}

const ACCESS = [
  ['operator', 'Operator', 'Full access: all accounts, users, the queue and the server.'],
  ['owner', 'Account owner', 'Has their own account with domains, email and newsletters. No access to other accounts.'],
  ['member', 'Member of an account', 'Works in an existing account, with the role below.'],
] as const

/** The fields for the access of a new user. `accounts` are those of which they can be a member. */
const accessFields = (accounts: readonly string[], own: string): FormFields => ({
  operator: {
    label: 'Access',
    show: (typed) =>
      radios({ name: 'access', label: 'Access', chosen: typed?.get('access') ?? 'member', options: ACCESS }),
    read: (given) => given.get('access') === 'operator',
  },
  account: {
    label: 'Account',
    value: own,
    options: accounts.map((email) => [email, email] as const),
    read: (given) => (given.get('access') === 'member' ? given.get('account') : null),
  },
  role: {
    label: 'Role in the account',
    value: 'reader',
    options: ROLE_NAMES.map((name) => [name, ROLES[name].name] as const),
    read: (given) => (given.get('access') === 'member' ? given.get('role') : null),
  },
})

const accounts = (all: readonly ShownPerson[]): string[] =>
  all.filter((each) => hasAccount(each) && !isInvited(each)).map((each) => text(each, 'email'))

const fresh = formPlace<typeof people>(
  '/people/new',
  async (visit) => ({
    title: 'Invite a user',
    about: 'They receive an email with a link, valid for 7 days, to set a password or passkey.',
    crumbs: [['/people', 'Users']],
    status: 422,
    of: people,
    fields: {
      email: { label: 'Address', type: 'email' },
      name: { label: 'Name' },
      ...accessFields(accounts(await everybody(visit)), visit.account.email),
    },
    button: 'Send invitation',
    done: (_, person) => visit.say(pathOf(person), `${text(person, 'email')} was invited. ${mailInWords(person)}`),
  }),
  { operator: true },
)

const tokensOf = (person: ShownPerson): string => counted(number(person, 'tokens'), 'token')
const withdrawn = (person: ShownPerson): string => `The invitation of ${text(person, 'email')} was withdrawn.`
const withdraws = (person: ShownPerson): string =>
  `The invitation link of ${text(person, 'email')} stops working at once.`

/** Withdrawing an invitation removes the user, or locks them out if email of theirs is kept. */
const actionsOn = (all: readonly ShownPerson[]): Actions<typeof people> => ({
  invite: {
    label: (person) => (isInvited(person) ? 'Resend' : flag(person, 'locked') ? 'Invite again' : 'Send invitation'),
    when: (person) => isInvited(person) || flag(person, 'locked') || neverSeen(person),
    ask: 'invite',
    said: (person, _, after) =>
      `${text(person, 'email')} has a new link. The previous link no longer works. ${mailInWords(after)}`,
  },
  lock: {
    label: (person) => (isInvited(person) ? 'Withdraw' : 'Lock out'),
    when: (person) => hasDomain(person) && (isInvited(person) || !flag(person, 'locked')),
    look: 'danger',
    confirm: (person) =>
      isInvited(person)
        ? withdraws(person)
        : `${text(person, 'email')} is signed out at once. Their password, passkeys, two-factor authentication and connected applications are removed. The account keeps its ${tokensOf(person)}: revoke any that ${text(person, 'email')} knows.`,
    ask: 'lock',
    said: (person) => (isInvited(person) ? withdrawn(person) : `${text(person, 'email')} is locked out.`),
  },
  remove: {
    label: (person) => (isInvited(person) ? 'Withdraw' : 'Remove user'),
    when: (person) => !hasDomain(person),
    confirm(person) {
      if (isInvited(person)) return withdraws(person)
      const email = text(person, 'email')
      const members = all.filter((each) => text(each, 'account') === email).map((each) => text(each, 'email'))
      const too = members.length === 0 ? '' : ` Its members are removed too: ${members.join(', ')}.`
      return `${email} is signed out at once and cannot sign in again. The account is deleted with its ${tokensOf(person)} and connected applications. Tokens that ${email} created in other accounts stay valid: revoke them there.${too}`
    },
    deletes: true,
    said: (person) => (isInvited(person) ? withdrawn(person) : `${text(person, 'email')} was removed.`),
  },
})

/** The actions on a user, with those that have a form. */
async function actionsOf(deps: ProofDeps, visit: Visit, person: ShownPerson): Promise<Actions<typeof people>> {
  const all = await everybody(visit)
  const email = text(person, 'email')
  return {
    ...actionsOn(all),
    operator: {
      label: flag(person, 'operator') ? 'Remove operator rights' : 'Make operator',
      ask: { attributes: { operator: !flag(person, 'operator') } },
      confirm: flag(person, 'operator')
        ? `${email} is signed out at once and keeps their account.`
        : `${email} gets full access to all accounts, users, the queue and the server.`,
      said: (_, __, after) => `New role of ${email}: ${role(after)}.`,
    },
    reset: {
      label: 'Reset two-factor',
      look: 'danger',
      fields: {
        old: {
          label: 'Proof',
          show: (_, error) => proofField(deps.people.required(visit.context), 'old', error),
        },
      },
      confirm: `Make sure that the request really comes from ${email}. They are signed out everywhere and notified by email.`,
      async check(_, given) {
        const detail = await refusal(deps, visit.context, given, false)
        return detail === undefined ? [] : [{ code: 'invalid', field: 'old', detail }]
      },
      ask: 'reset-second-factor',
      said: `Two-factor authentication of ${email} was reset. They were signed out and notified by email.`,
    },
  }
}

const openButton = (visit: Visit, person: ShownPerson): Cell =>
  isSelf(visit, person) || !hasAccount(person)
    ? ''
    : button(visit, 'open', 'View account', { to: '/people', fields: { id: person.id } })

/** The buttons of an invitation. The page contains the link, because the copy button reads it there. */
function invitationButtons(visit: Visit, person: ShownPerson): Html {
  const act = (name: string): Cell => actionButton(visit, actionsOn([]), name, person, { to: pathOf(person) })
  return html`<div class="row">
    ${act('invite')}
    ${
      text(person, 'invitation_link') === ''
        ? ''
        : html`<span hidden id="link-${person.id}">${text(person, 'invitation_link')}</span
            ><button class="plain" type="button" data-copy="link-${person.id}">Copy link</button>`
    }
    ${act('remove')}${act('lock')}
  </div>`
}

const invitedTable = (visit: Visit, invited: readonly ShownPerson[]): Cell =>
  invited.length === 0
    ? ''
    : html`<h2>Pending invitations</h2>
        ${tableOf<typeof people>(
          'Pending invitations',
          [
            { title: 'Address', width: 25, of: 'email', to: pathOf },
            { title: 'Role', of: role },
            {
              title: 'Email',
              kind: 'status',
              of: ({ attributes }) => badge(MAIL[attributes.invitation_mail ?? 'not_mailed']),
            },
            {
              title: 'Expires',
              kind: 'time',
              of: (person) =>
                text(person, 'invitation') === 'expired'
                  ? badge('expired')
                  : time(person.attributes.invitation_expires_at),
            },
            { title: '', kind: 'actions', of: (person) => invitationButtons(visit, person) },
          ],
          invited,
          '',
        )}
        <h2>Users</h2>`

const stateOf = (visit: Visit, person: ShownPerson): Cell =>
  flag(person, 'locked') ? badge('locked out') : isSelf(visit, person) ? html`<span class="badge">you</span>` : ''

const usersTable = (visit: Visit, users: readonly ShownPerson[]): Html =>
  tableOf<typeof people>(
    'Users',
    [
      { title: 'Address', width: 25, of: 'email', to: pathOf },
      { title: 'Name', of: (person) => html`${text(person, 'name')} ${stateOf(visit, person)}` },
      { title: 'Role', width: 15, of: role },
      {
        title: 'Sign-in',
        width: 20,
        of: (person) => (flag(person, 'second_factor') ? 'Two-factor' : html`<span class="soft">No two-factor</span>`),
      },
      {
        title: 'Last seen',
        kind: 'time',
        of: (person) =>
          neverSeen(person) ? html`<span class="soft">Never</span>` : time(person.attributes.last_seen_at),
      },
      { title: '', kind: 'action', of: (person) => openButton(visit, person) },
    ],
    users,
    '',
  )

async function showAll(visit: Visit): Promise<Response> {
  const all = await everybody(visit)
  const here = all.filter((each) => !isInvited(each))
  const from = Math.max(0, Math.floor(Number(visit.query('from'))) || 0)
  return page(visit, {
    title: 'Users',
    about: 'Everyone who can sign in, with their role. Viewing another account is logged.',
    actions: html`<a class="button" href="/people/new">Invite user</a>`,
    done: done(visit),
    body: html`${invitedTable(visit, all.filter(isInvited))} ${usersTable(visit, here.slice(from, from + AT_ONCE))}
    ${pages(from, here.length)}`,
  })
}

/** Links to the previous and the next page of users. */
function pages(from: number, all: number): Cell {
  if (all <= AT_ONCE) return ''
  const to = (at: number, words: string): Html =>
    html`<a class="button plain small" href="/people?from=${at}">${words}</a>`
  return html`<nav class="pager" aria-label="Pages">
    ${from === 0 ? '' : to(Math.max(0, from - AT_ONCE), 'Previous')}
    ${from + AT_ONCE >= all ? '' : to(from + AT_ONCE, 'Next')}
  </nav>`
}

/** The invitation of a user with its link. In the sandbox, the email is not delivered. */
function invitation({ linkMail }: ProofDeps, { button: act, one: person }: ShownOne<typeof people>): Cell {
  if (!isInvited(person)) return ''
  const address = text(person, 'invitation_link')
  const stays = linkMail.stays && text(person, 'invitation_mail') !== 'not_mailed'
  return html`<section class="panel">
    <h2>${address === '' ? 'The invitation has expired' : 'Pending invitation'}</h2>
    <p>${mailInWords(person)} ${stays ? 'The sandbox does not send real email, so copy the link.' : ''}</p>
    ${
      address === ''
        ? html`<p>The link expired after 7 days. Send a new one or withdraw the invitation.</p>`
        : html`<p class="soft">The link works once, until ${time(person.attributes.invitation_expires_at)}.</p>
            ${codeShown('invitation', address)}`
    }
    <div class="row">${act('invite')} ${act('remove')}${act('lock')}</div>
  </section>`
}

const factor = async ({ form, one: person }: ShownOne<typeof people>): Promise<Html> =>
  flag(person, 'second_factor')
    ? html`<p>
          Signing in requires a code after the password. Reset it if this user lost both the device and the recovery
          codes. They can then set it up again.
        </p>
        ${await form('reset')}`
    : html`<p class="soft">Off. They sign in with a password, a passkey or an emailed link.</p>`

/** The buttons that lock out, invite or remove a user, with their effect. */
function access({ button: act, one: person }: ShownOne<typeof people>): Html {
  const email = text(person, 'email')
  const locked = flag(person, 'locked')
  return html`${locked ? html`<p>${email} is locked out and cannot sign in. Invite them again to restore access.</p>` : ''}
    ${
      !hasDomain(person) || locked
        ? ''
        : html`<p>
            This account has the email of ${text(person, 'domain')}, which is kept. You can lock out ${email}, but not
            remove the account.
          </p>`
    }
    <div class="row">${act('invite')} ${act('remove')}${act('lock')}</div>`
}

/** What an operator can change about another user. */
const changes = async (shown: ShownOne<typeof people>): Promise<Html> =>
  html`${shown.button('operator')}
  ${
    isInvited(shown.one)
      ? ''
      : html`<h2>Two-factor authentication</h2>
          ${await factor(shown)}
          <h2>Access</h2>
          ${access(shown)}`
  }`

const one = (deps: ProofDeps): Place =>
  onePlace({
    path: '/people/:id',
    operator: true,
    of: people,
    list: ['/people', 'Users'],
    title: (person) => text(person, 'name') || text(person, 'email'),
    status: 422,
    actions: (visit, person) => actionsOf(deps, visit, person),
    head: ({ one: person, visit }) => openButton(visit, person),
    body: async (shown) => {
      const { one: person, visit } = shown
      return html`${invitation(deps, shown)}
      ${facts([
        ['Address', text(person, 'email')],
        ['Role', role(person)],
        ['Last seen', neverSeen(person) ? 'Never' : time(person.attributes.last_seen_at)],
        ['Two-factor', flag(person, 'second_factor') ? 'On' : 'Off'],
        ['Tokens', text(person, 'tokens')],
        ['Added', time(person.attributes.created_at)],
      ])}
      ${
        isSelf(visit, person)
          ? html`<p class="soft">
              This is you. Manage your sign-in in <a href="/account">your account</a>. Another operator can change your
              role or remove you.
            </p>`
          : await changes(shown)
      }`
    },
  })

/** Shows the account of another user to the operator. With null, the operator's own account is shown again. */
async function openAccount(deps: ProofDeps, visit: Visit, id: string | null): Promise<Response> {
  const other = id === null ? undefined : userById(deps.store, id)
  if (id !== null && !other) throw refuse('not_found', 'There is no such user.')
  const { session, user } = deps.people.required(visit.context)
  await openAs(deps, session, other?.key ?? null)
  deps.log.info('account_opened', { operator: user.email, account: (other ?? user).email })
  return visit.say('/', other ? `You are viewing the account of ${other.email}.` : 'You are back in your own account.')
}

export const peoplePlaces = (deps: ProofDeps): readonly Place[] => [
  {
    path: '/people',
    operator: true,
    show: showAll,
    act: (visit, given) => openAccount(deps, visit, given.action === 'leave' ? null : given.get('id')),
  },
  fresh,
  one(deps),
]
