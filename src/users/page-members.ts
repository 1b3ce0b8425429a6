// The console pages for the members of an account, and for the accounts of a user.
import { html } from 'hono/html'
import { refuse } from '../base/errors.ts'
import { iso } from '../base/clock.ts'
import { ROLE_NAMES, ROLES } from '../jsonapi/roles.ts'
import type { Actions } from '../views/actions.ts'
import type { FormFields } from '../views/form.ts'
import { listPlaces, onePlace } from '../views/pages.ts'
import { page } from '../views/html/frame.ts'
import { button, radios } from '../views/html/forms.ts'
import { done, type Form, type Place } from '../views/html/place.ts'
import { flag, text, type Thing, type Visit } from '../views/html/visit.ts'
import { badge, facts, table, time, type Cell } from '../views/html/widgets.ts'
import { members } from './api-members.ts'
import { acceptMember, accountsOf, removeMember, type AccountOfUser } from './members.ts'
import { auditSelf, type ProofDeps } from './own-proof.ts'
import { openAs } from './sessions.ts'

type ShownMember = Thing<typeof members>

const LIST = ['/members', 'Members'] as const
const pathOf = ({ id }: { id: string }): string => `/members/${id}`
const isOpen = (member: ShownMember): boolean => text(member, 'invitation') !== ''
const roleName = ({ attributes: { role } }: ShownMember): string => (role ? ROLES[role].name : '')
const isSelf = (visit: Visit, member: ShownMember): boolean => text(member, 'email') === visit.person.user.email

const roleField = (chosen: string): FormFields => ({
  role: {
    label: 'Role',
    show: (typed, error) =>
      html`${radios({ name: 'role', label: 'Role', chosen: typed?.get('role') ?? chosen, options: ROLE_NAMES.map((name) => [name, ROLES[name].name, ROLES[name].about] as const) })}
      ${error === undefined ? '' : html`<p class="bad" role="alert">${error}</p>`}`,
  },
})

const actionsOn = (one: ShownMember): Actions<typeof members> => ({
  role: {
    label: 'Change role',
    fields: roleField(one.attributes.role ?? 'reader'),
    said: (_, __, after) => `${text(after, 'email')} is now ${roleName(after)}.`,
  },
  invite: {
    label: 'Send again',
    when: isOpen,
    ask: 'invite',
    said: (member) => `A new invitation to ${text(member, 'email')} is on its way. The previous link no longer works.`,
  },
  remove: {
    label: (member) => (isOpen(member) ? 'Withdraw invitation' : 'Remove member'),
    danger: true,
    confirm: (member) =>
      isOpen(member)
        ? `${text(member, 'email')} can no longer accept the invitation.`
        : `${text(member, 'email')} loses access to this account at once. Tokens that they created stay valid: revoke those that they know.`,
    deletes: true,
    said: (member) =>
      isOpen(member)
        ? `The invitation of ${text(member, 'email')} was withdrawn.`
        : `${text(member, 'email')} is no longer a member.`,
  },
})

const stateOf = (member: ShownMember): Cell =>
  isOpen(member)
    ? badge(text(member, 'invitation') === 'expired' ? 'expired' : 'invited')
    : member.attributes.last_seen_at === null
      ? html`<span class="soft">Never</span>`
      : time(member.attributes.last_seen_at)

const list = listPlaces<typeof members>({
  path: '/members',
  title: 'Members',
  about: 'Everyone who works in this account. Members sign in with their own password or passkey.',
  add: { label: 'Invite member' },
  list: (visit) => ({
    of: members,
    from: '/members',
    caption: 'Members',
    columns: [
      { title: 'Address', width: 30, of: 'email', to: pathOf },
      {
        title: 'Name',
        of: (member) =>
          html`${text(member, 'name')} ${isSelf(visit, member) ? html`<span class="badge">you</span>` : ''}`,
      },
      { title: 'Role', width: 15, of: roleName },
      {
        title: 'Sign-in',
        width: 15,
        of: (member) =>
          isOpen(member)
            ? ''
            : flag(member, 'second_factor')
              ? 'Two-factor'
              : html`<span class="soft">No two-factor</span>`,
      },
      { title: 'Last seen', kind: 'time', of: stateOf },
    ],
    empty: 'No members yet.',
  }),
  form: {
    title: 'Invite a member',
    about: 'They receive an email. A new user sets a password or passkey with its link, which is valid for 7 days.',
    status: 422,
    of: members,
    fields: { email: { label: 'Address', type: 'email' }, name: { label: 'Name' }, ...roleField('marketer') },
    button: 'Send invitation',
    done: (visit, member) => visit.say(pathOf(member), `${text(member, 'email')} was invited as ${roleName(member)}.`),
  },
})

const one = onePlace({
  path: '/members/:id',
  of: members,
  list: LIST,
  title: 'email',
  status: 422,
  actions: (_, member) => actionsOn(member),
  head: ({ button: act }) => act('invite'),
  body: async ({ form, one: member }) =>
    html`${facts([
      ['Invited', time(member.attributes.created_at)],
      ['Joined', member.attributes.joined_at === null ? 'Not yet' : time(member.attributes.joined_at)],
      ...(isOpen(member) ? [] : ([['Two-factor', flag(member, 'second_factor') ? 'On' : 'Off']] as const)),
      ...(isOpen(member) && text(member, 'invitation_note') !== ''
        ? ([['Invitation email', text(member, 'invitation_note')]] as const)
        : []),
    ])}
    ${await form('role')}`,
})

/** The buttons for one of the user's accounts. */
function buttonsFor(visit: Visit, each: AccountOfUser): Cell {
  const fields = { id: each.id }
  const name = each.email
  if (each.joined_at === null)
    return html`<div class="row">
      ${button(visit, 'accept', 'Accept', { fields })}${button(visit, 'leave', 'Decline', { fields })}
    </div>`
  return html`<div class="row">
    ${each.user_key === visit.account.key ? '' : button(visit, 'switch', 'Switch', { fields })}
    ${button(visit, 'leave', 'Leave', { fields, danger: true, confirm: `You lose access to the account of ${name} at once. An owner can invite you again.` })}
  </div>`
}

async function showAccounts({ people, store }: ProofDeps, visit: Visit): Promise<Response> {
  const all = accountsOf(store, people.required(visit.context).user.key)
  return page(visit, {
    title: 'Your accounts',
    about: 'The accounts that you work in, and your invitations.',
    crumbs: [['/account', 'Your account']],
    done: done(visit),
    body: table(
      'Accounts',
      ['Account', 'Your role', { title: 'Since', kind: 'time' }, { title: '', kind: 'actions' }],
      all.map((each) => [
        html`${each.email} ${each.user_key === visit.account.key ? html`<span class="badge good">current</span>` : ''}`,
        ROLES[each.role].name,
        each.joined_at === null ? badge('invited') : time(iso(each.joined_at)),
        buttonsFor(visit, each),
      ]),
      'You are not a member of an account.',
    ),
  })
}

async function actOnAccount(deps: ProofDeps, visit: Visit, given: Form): Promise<Response> {
  const { clock, people, store } = deps
  const { session, user } = people.required(visit.context)
  const each = accountsOf(store, user.key).find(({ id }) => id === given.get('id'))
  if (!each) throw refuse('not_found', 'This invitation or account no longer exists.')
  const now = clock.now()
  if (given.action === 'leave') {
    await store.write((tx) => {
      const member = accountsOf(tx, user.key).find(({ id }) => id === each.id)
      if (!member) return
      auditSelf(tx, deps, visit.context, { user, action: 'members.leave', account: member.user_key })
      removeMember(tx, member.key, now)
    })
    return visit.say(
      '/accounts',
      each.joined_at === null ? 'Invitation declined.' : `You left the account of ${each.email}.`,
    )
  }
  if (given.action === 'accept')
    await store.write((tx) => {
      if (acceptMember(tx, { id: each.id, user: user.key }, now))
        auditSelf(tx, deps, visit.context, { user, action: 'members.accept', account: each.user_key })
    })
  else if (each.joined_at === null) throw refuse('not_found', 'Accept the invitation first.')
  await openAs(deps, session, each.user_key)
  return visit.say('/', `You are working in the account of ${each.email} as ${ROLES[each.role].name}.`)
}

export const memberPlaces = (deps: ProofDeps): readonly Place[] => [
  ...list,
  one,
  {
    path: '/accounts',
    show: (visit) => showAccounts(deps, visit),
    act: (visit, given) => actOnAccount(deps, visit, given),
  },
]
