// The person's own account: password, passkeys, second factor, and open sessions.
import { html } from 'hono/html'
import { passkeysOf, removePasskey } from '../../accounts/passkeys.ts'
import { newFactor, turnOff, turnOn, useCode } from '../../accounts/second-factor.ts'
import { endSession, endSessions, listSessions } from '../../accounts/sessions.ts'
import { checkPassword, setPassword } from '../../accounts/users.ts'
import type { ApiDeps } from '../../api/deps.ts'
import { page } from '../frame.ts'
import { button, field, form } from '../forms.ts'
import { facts, table, time, type Html } from '../parts.ts'
import { done, lead, type Form, type Place } from '../place.ts'
import { faultIn, type Answer, type Visit } from '../visit.ts'
import { iso } from '../../base/clock.ts'

const SHORTEST = 10

const said = (name: string, detail: string): Answer['errors'] => [{ code: 'invalid', field: name, detail }]

/** `signedInAnew` opens a session after all others have ended. */
export const accountPlace = (deps: ApiDeps, signedInAnew: (visit: Visit) => Promise<void>): Place => ({
  path: '/account',
  show: (visit) => show(deps, visit),
  async act(visit, given) {
    const { user, session } = visit.person
    switch (given.action) {
      case 'password':
        return changePassword(deps, visit, given, signedInAnew)
      case 'factor':
        return (await turnOn(deps, user, given.get('secret'), given.get('code')))
          ? lead(visit, '/account', 'saved')
          : show(
              deps,
              visit,
              said('code', 'The code is wrong. Look at the app again; a code lasts 30 seconds.'),
              given.get('secret'),
            )
      case 'no-factor':
        // Whoever has no password signs in by link or passkey, and proves it with a code of the app.
        if (user.password_hash === null && !(await useCode(deps, user, given.get('old'))))
          return show(deps, visit, said('old-factor', 'The code is wrong. Take the next one that the app shows.'))
        if (!(await rightPassword(user.password_hash, given.get('old'))))
          return show(deps, visit, said('old-factor', 'The password is wrong.'))
        await turnOff(deps, user)
        return lead(visit, '/account', 'saved')
      case 'remove-passkey':
        await removePasskey(deps, user.key, given.get('id'))
        return lead(visit, '/account', 'removed')
      case 'end':
        await endSession(deps, user.key, given.get('id'))
        return lead(visit, '/account', 'ended')
      default:
        await deps.store.write((tx) => endSessions(tx, user.key, session.key))
        return lead(visit, '/account', 'ended')
    }
  },
})

const rightPassword = (hash: string | null, given: string): Promise<boolean> =>
  hash === null ? Promise.resolve(true) : checkPassword(given, hash)

async function changePassword(
  deps: ApiDeps,
  visit: Visit,
  given: Form,
  signedInAnew: (visit: Visit) => Promise<void>,
): Promise<Response> {
  const { user } = visit.person
  if (!(await rightPassword(user.password_hash, given.get('old'))))
    return show(deps, visit, said('old', 'The password is wrong.'))
  if (given.get('new').length < SHORTEST)
    return show(deps, visit, said('new', `The new password needs ${SHORTEST} characters or more.`))
  await setPassword(deps, user.email, given.get('new'))
  await signedInAnew(visit)
  return lead(visit, '/account', 'saved')
}

async function show(deps: ApiDeps, visit: Visit, errors: Answer['errors'] = [], secret?: string): Promise<Response> {
  const { user } = visit.person
  return page(visit, {
    title: 'Your account',
    about: 'Your ways to sign in, and your open sessions.',
    status: errors.length > 0 ? 422 : 200,
    done: done(visit),
    scripts: ['passkey.js'],
    body: html`${facts([
        ['Address', user.email],
        [
          'Role',
          user.operator === 1
            ? 'operator'
            : visit.reading
              ? `reads the account of ${visit.account.email}`
              : 'account owner',
        ],
      ])}
      <h2>Password</h2>
      ${passwordForm(visit, errors)}
      <h2>Passkeys</h2>
      ${passkeys(deps, visit)}
      <h2>Second factor</h2>
      ${user.sealed_totp === null ? factorForm(visit, errors, secret) : factorOff(visit, errors, user.password_hash !== null)}
      <h2>Sessions</h2>
      ${sessions(deps, visit)}`,
  })
}

function passwordForm(visit: Visit, errors: Answer['errors']): Html {
  const { user } = visit.person
  const fault = faultIn(errors)
  const password = (name: string, label: string): Html => field({ name, label, type: 'password', error: fault(name) })
  return form(
    visit,
    'password',
    html`${user.password_hash === null ? html`<p class="soft">You have no password yet.</p>` : password('old', 'Present password')}
      ${password('new', 'New password')}<button>${user.password_hash === null ? 'Set it' : 'Change it'}</button>`,
  )
}

const passkeys = (deps: ApiDeps, visit: Visit): Html =>
  html`${table(
      'Passkeys',
      ['Name', 'Made', 'Last used', ''],
      passkeysOf(deps.store, visit.person.user.key).map((each) => [
        each.name,
        time(iso(each.created_at)),
        time(each.last_used_at === null ? null : iso(each.last_used_at)),
        visit.person.session.open_as === null
          ? button(visit, 'remove-passkey', 'Remove', {
              fields: { id: each.id },
              confirm: 'You can no longer sign in with it.',
            })
          : '',
      ]),
      'No passkey yet. With one you sign in by your finger, your face or the PIN of your device.',
    )}
    <form data-passkey="register" data-proof="${visit.proof}">
      ${field({ name: 'passkey', label: 'Name of a new passkey', value: '', hint: 'Such as "laptop".' })}<button
        class="plain"
      >
        Add a passkey
      </button>
      <p class="bad" role="alert" data-said></p>
    </form>`

const factorOff = (visit: Visit, errors: Answer['errors'], hasPassword: boolean): Html =>
  form(
    visit,
    'no-factor',
    html`<p>A code of your authenticator app is asked for after the password.</p>
      ${field({ name: 'old', ...(hasPassword ? { label: 'Present password', type: 'password' } : { label: 'Code of the app' }), error: faultIn(errors)('old-factor') })}<button
        class="danger"
      >
        Turn it off
      </button>`,
  )

function sessions(deps: ApiDeps, visit: Visit): Html {
  const { session, user } = visit.person
  const all = listSessions(deps.store, user.key, deps.clock.now())
  return html`${table(
    'Sessions',
    ['Browser', 'Since', 'Last used', ''],
    all.map((each) => [
      html`${each.program || 'unknown'}
      ${each.key === session.key ? html`<span class="badge good">this one</span>` : ''}`,
      time(iso(each.created_at)),
      time(iso(each.seen_at)),
      each.key === session.key ? '' : endButton(visit, each.id),
    ]),
    '',
  )}
  ${all.length > 1 ? form(visit, 'end-others', html`<button class="plain">End all others</button>`) : ''}`
}

/** Also on a page that may only read: the session is the person's own. */
const endButton = (visit: Visit, id: string): Html =>
  form(visit, 'end', html`<input type="hidden" name="id" value="${id}" /><button class="plain">End</button>`, {
    kind: 'inline',
  })

function factorForm(visit: Visit, errors: Answer['errors'], secret?: string): Html {
  const { email } = visit.person.user
  const made = secret === undefined ? newFactor({ email }) : { secret, uri: '' }
  return form(
    visit,
    'factor',
    html`<p>Add this key to an authenticator app, then type the code that it shows.</p>
      <p>
        <code class="secret" id="totp">${made.secret}</code>
        <button class="plain" type="button" data-copy="totp">Copy</button>
      </p>
      ${made.uri === '' ? '' : html`<p><a href="${made.uri}">Open it in an app of this device</a></p>`}
      <input type="hidden" name="secret" value="${made.secret}" />
      ${field({ name: 'code', label: 'Code', error: faultIn(errors)('code') })}<button class="plain">
        Turn it on
      </button>`,
  )
}
