// The person's own account: password, passkeys, second factor, and open sessions.
import { html } from 'hono/html'
import { passkeysOf, passkeysWork, removePasskey } from '../identity/passkeys.ts'
import { browserName } from '../identity/browser-name.ts'
import { FRESH } from '../identity/own-proof.ts'
import { newRecoveryCodes, recoveryCodesLeft } from '../identity/recovery-codes.ts'
import { OfferedKeys, turnOff, turnOn, uriOf } from '../identity/second-factor.ts'
import { proofField, refusal } from './proof-fields.ts'
import { roleInWords } from './roles.ts'
import { qrCode } from './qr.ts'
import { endSession, endSessions, listSessions } from '../identity/sessions.ts'
import { setPassword, SHORTEST_PASSWORD } from '../identity/users.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { page } from '../webui/frame.ts'
import { field, form } from '../webui/forms.ts'
import { codeShown, counted, facts, table, time, type Html } from '../webui/widgets.ts'
import { done, lead, type Form, type Place } from '../webui/place.ts'
import { faultIn, type Answer, type Visit } from '../webui/visit.ts'
import { iso } from '../base/clock.ts'

const said = (name: string, detail: string): Answer['errors'] => [{ code: 'invalid', field: name, detail }]

interface AccountDeps extends ApiDeps {
  offered: OfferedKeys
}

/** `signedInAgain` opens a session after all others have ended. */
export const accountPlace = (api: ApiDeps, signedInAgain: (visit: Visit) => Promise<void>): Place =>
  placeOf({ ...api, offered: new OfferedKeys(api.clock) }, signedInAgain)

const placeOf = (deps: AccountDeps, signedInAgain: (visit: Visit) => Promise<void>): Place => ({
  path: '/account',
  show: (visit) => show(deps, visit),
  async act(visit, given) {
    const { user, session } = visit.person
    switch (given.action) {
      case 'password':
        return changePassword(deps, visit, given, signedInAgain)
      case 'factor':
        return changeFactor(deps, visit, given)
      case 'no-factor': {
        const refused = await refusal(deps, visit, given, false)
        if (refused !== undefined) return show(deps, visit, said('old-factor', refused))
        await turnOff(deps, user)
        return visit.say('/account', 'The second factor is off: your password alone signs you in.')
      }
      case 'codes': {
        const refused = await refusal(deps, visit, given, false)
        if (refused !== undefined) return show(deps, visit, said('old-codes', refused))
        return visit.leadToSecret('/account', (await newRecoveryCodes(deps, user)).join(' '))
      }
      case 'remove-passkey': {
        const refused = await refusal(deps, visit, given, false)
        if (refused !== undefined) return show(deps, visit, said('old-passkey', refused))
        const gone = passkeysOf(deps.store, user.key).find(({ id }) => id === given.get('id'))
        await removePasskey(deps, user.key, given.get('id'))
        return visit.say('/account', `The passkey "${gone?.name ?? ''}" no longer signs you in.`)
      }
      case 'end': {
        const found = listSessions(deps.store, user.key, deps.clock.now()).find(({ id }) => id === given.get('id'))
        await endSession(deps, user.key, given.get('id'))
        return visit.say('/account', `Signed out: ${browserName(found?.program ?? '')}.`)
      }
      default: {
        const ended = await deps.store.write((tx) => endSessions(tx, user.key, session.key))
        return visit.say('/account', `${counted(ended, 'other session')} ended.`)
      }
    }
  },
})

const WRONG_CODE = 'The code is wrong. Look at the app again; a code lasts 30 seconds.'
const NO_CODE = 'The code is missing. Type the six digits that the app shows.'

/** Turns the second factor on. Replacing one takes a proof, and so does adding one long after the sign-in. */
async function changeFactor(deps: AccountDeps, visit: Visit, given: Form): Promise<Response> {
  const { user } = visit.person
  const secret = given.get('secret')
  const refused = await refusal(deps, visit, given, user.sealed_totp === null)
  if (refused !== undefined) return show(deps, visit, said('old-factor', refused), secret)
  const code = given.get('code').trim()
  const codes = code === '' ? undefined : await turnOn(deps, user, secret, code)
  if (!codes) return show(deps, visit, said('code', code === '' ? NO_CODE : WRONG_CODE), secret)
  deps.offered.forget(visit.person.session.id)
  return visit.leadToSecret('/account', codes.join(' '))
}

async function changePassword(
  deps: AccountDeps,
  visit: Visit,
  given: Form,
  signedInAgain: (visit: Visit) => Promise<void>,
): Promise<Response> {
  const { user } = visit.person
  const refused = await refusal(deps, visit, given, false)
  if (refused !== undefined) return show(deps, visit, said('old', refused))
  if (given.get('new').length < SHORTEST_PASSWORD)
    return show(deps, visit, said('new', `The new password needs ${SHORTEST_PASSWORD} characters or more.`))
  await setPassword(deps, user.email, given.get('new'))
  await signedInAgain(visit)
  return lead(visit, '/account', 'password')
}

async function show(
  deps: AccountDeps,
  visit: Visit,
  errors: Answer['errors'] = [],
  secret?: string,
): Promise<Response> {
  const { user } = visit.person
  return page(visit, {
    title: 'Your account',
    about: 'Your ways to sign in, and your open sessions.',
    status: errors.length > 0 ? 422 : 200,
    done: done(visit),
    scripts: ['passkey.js'],
    body: html`${recoveryCodes(visit.secret)}
      ${facts([
        ['Address', user.email],
        ['Role', roleInWords(user.operator === 1, visit.reading ? visit.account.email : null)],
      ])}
      <h2>Password</h2>
      ${passwordForm(visit, errors)}
      <h2>Passkeys</h2>
      ${passkeys(deps, visit, errors)}
      <h2>Second factor</h2>
      ${user.sealed_totp === null ? factorForm(deps, visit, errors, secret) : html`${factorOff(visit, errors)} ${codesForm(deps, visit, errors)}`}
      <h2>Sessions</h2>
      ${sessions(deps, visit)}`,
  })
}

function passwordForm(visit: Visit, errors: Answer['errors']): Html {
  const { user } = visit.person
  const fault = faultIn(errors)
  const password = (name: string, label: string): Html =>
    field({
      name,
      label,
      type: 'password',
      autocomplete: 'new-password',
      error: fault(name),
      hint: `${SHORTEST_PASSWORD} characters or more. Other sessions end.`,
    })
  return form(
    visit,
    'password',
    html`${user.password_hash === null ? html`<p class="soft">You have no password yet.</p>` : ''}
      ${proofField(visit, 'old', fault('old'))} ${password('new', 'New password')}<button>
        ${user.password_hash === null ? 'Set password' : 'Change password'}
      </button>`,
  )
}

/** Minutes after the sign-in nothing more is asked for what is only added. */
const isFresh = ({ clock }: ApiDeps, { person }: Visit): boolean => clock.now() - person.session.created_at < FRESH

function passkeys(deps: ApiDeps, visit: Visit, errors: Answer['errors']): Html {
  const all = passkeysOf(deps.store, visit.person.user.key)
  const none = html`<p class="soft">
    None yet. With one you sign in by your finger, your face or the PIN of your device.
  </p>`
  const list = table(
    'Passkeys',
    ['Name', { title: 'Added', kind: 'time' }, { title: 'Last used', kind: 'time' }],
    all.map((each) => [
      each.name,
      time(iso(each.created_at)),
      time(each.last_used_at === null ? null : iso(each.last_used_at)),
    ]),
    '',
  )
  return html`${all.length === 0 ? none : list}
  ${passkeysWork(deps.config.http) ? newPasskey(deps, visit) : html`<p class="soft">${NEEDS_NAME}</p>`}
  ${
    all.length > 0 && visit.person.session.open_as === null
      ? form(
          visit,
          'remove-passkey',
          html`${field({ name: 'id', label: 'Passkey to remove', required: true, options: all.map(({ id, name }) => [id, name]) })}
            ${proofField(visit, 'old-passkey', faultIn(errors)('old-passkey'))}<button class="danger">
              Remove passkey
            </button>`,
          { confirm: 'You can no longer sign in with it.' },
        )
      : ''
  }`
}

const NEEDS_NAME =
  'Passkeys work where this console has a name and https, not at an IP address. Open it at such an address to add one.'

const newPasskey = (deps: ApiDeps, visit: Visit): Html =>
  html`<form data-passkey="register" data-proof="${visit.proof}" data-host="${hostOf(deps)}">
    ${field({ name: 'passkey', label: 'Name of a new passkey', value: '', hint: 'Such as "laptop".' })}
    ${isFresh(deps, visit) ? '' : proofField(visit, 'old-new-passkey', undefined)}<button class="plain">
      Add passkey
    </button>
    <p class="bad" role="alert" data-said></p>
  </form>`

const hostOf = ({ config }: ApiDeps): string => new URL(config.http.public_url).hostname

const factorOff = (visit: Visit, errors: Answer['errors']): Html =>
  form(
    visit,
    'no-factor',
    html`<p>On: a code of your authenticator app is asked for after the password.</p>
      ${proofField(visit, 'old-factor', faultIn(errors)('old-factor'))}<button class="danger">Turn off</button>`,
  )

/** The recovery codes that were just made, shown this once. */
const recoveryCodes = (secret: string | undefined): Html | '' =>
  secret === undefined
    ? ''
    : html`<section class="panel" role="status">
        <h2>Your recovery codes</h2>
        <p>
          Each signs you in once when you do not have your device. They are shown this once: print them, or keep them
          with your passwords.
        </p>
        ${codeShown('codes', secret.replaceAll(' ', '\n'))}
      </section>`

/** New codes in place of those that are left. */
const codesForm = (deps: ApiDeps, visit: Visit, errors: Answer['errors']): Html =>
  form(
    visit,
    'codes',
    html`<p>
        ${counted(recoveryCodesLeft(deps.store, visit.person.user), 'recovery code')} left, for a sign-in without your
        device.
      </p>
      ${proofField(visit, 'old-codes', faultIn(errors)('old-codes'))}<button class="plain">
        Make new recovery codes
      </button>`,
    { confirm: 'The codes that you have now are no longer valid.' },
  )

function sessions(deps: ApiDeps, visit: Visit): Html {
  const { session, user } = visit.person
  const all = listSessions(deps.store, user.key, deps.clock.now())
  return html`${table(
    'Sessions',
    [
      'Browser',
      { title: 'Signed in', kind: 'time' },
      { title: 'Last used', kind: 'time' },
      { title: '', kind: 'action' },
    ],
    all.map((each) => [
      html`<span title="${each.program}">${browserName(each.program)}</span>`,
      time(iso(each.created_at)),
      each.key === session.key ? html`<span class="badge good">this one</span>` : time(iso(each.seen_at)),
      each.key === session.key ? '' : endButton(visit, each.id),
    ]),
    '',
  )}
  ${all.length > 1 ? form(visit, 'end-others', html`<button class="plain">End all other sessions</button>`) : ''}`
}

/** Also on a page that may only read: the session is the person's own. */
const endButton = (visit: Visit, id: string): Html =>
  form(visit, 'end', html`<input type="hidden" name="id" value="${id}" /><button class="plain">End</button>`, {
    kind: 'inline',
  })

function factorForm(deps: AccountDeps, visit: Visit, errors: Answer['errors'], secret?: string): Html {
  const { session, user } = visit.person
  const key = secret ?? deps.offered.of(session.id)
  const uri = uriOf(key, user.email)
  return form(
    visit,
    'factor',
    html`<p>Scan this with an authenticator app, or type the key, then type the code that it shows.</p>
      ${qrCode(uri, 'The key as a QR code')}
      <p>
        <code class="secret" id="totp">${key}</code>
        <button class="plain" type="button" data-copy="totp">Copy</button>
      </p>
      <p><a href="${uri}">Open it in an app of this device</a></p>
      <input type="hidden" name="secret" value="${key}" />
      ${isFresh(deps, visit) && faultIn(errors)('old-factor') === undefined ? '' : proofField(visit, 'old-factor', faultIn(errors)('old-factor'))}
      ${field({ name: 'code', label: 'Code', autocomplete: 'one-time-code', digits: true, error: faultIn(errors)('code') })}<button
        class="plain"
      >
        Turn on
      </button>`,
  )
}
