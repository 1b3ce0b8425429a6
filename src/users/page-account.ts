// The account of the signed-in user: password, passkeys, second factor, and sessions.
import { html } from 'hono/html'
import type { Person } from './browser-session.ts'
import { passkeysOf, removePasskey } from './passkeys.ts'
import {
  newRecoveryCodes,
  recoveryCodesLeft,
  isFactorKey,
  OfferedKeys,
  turnOff,
  turnOn,
  uriOf,
} from './second-factor.ts'
import { auditSelf, isFresh, proofField, refusal, type ProofDeps } from './own-proof.ts'
import { membershipText } from './members.ts'
import { endSession, endSessions, listSessions } from './sessions.ts'
import { setPassword, SHORTEST_PASSWORD } from './users.ts'
import { page } from '../views/html/frame.ts'
import { field, form } from '../views/html/forms.ts'
import { codeShown, counted, facts, table, time, type Html } from '../views/html/widgets.ts'
import { done, lead, type Form, type Place } from '../views/html/place.ts'
import { faultIn, type Answer, type Visit } from '../views/html/visit.ts'
import { iso } from '../base/clock.ts'
import { isNameIn } from '../base/one-of.ts'
import { encode } from 'uqr'

const said = (name: string, detail: string): Answer['errors'] => [{ code: 'invalid', field: name, detail }]

interface AccountDeps extends ProofDeps {
  offered: OfferedKeys
}

export const accountPlace = (deps: ProofDeps): Place => placeOf({ ...deps, offered: new OfferedKeys(deps.clock) })

/** The actions that require a proof of identity, each with the field of the proof. */
const PROVED = {
  password: 'old',
  'no-factor': 'old-factor',
  codes: 'old-codes',
  'remove-passkey': 'old-passkey',
} as const

/** The changes in the audit log, by action. */
const AUDITED = {
  password: 'set_password',
  factor: 'enable_two_factor',
  'no-factor': 'disable_two_factor',
  codes: 'replace_recovery_codes',
  'remove-passkey': 'remove_passkey',
} as const

const placeOf = (deps: AccountDeps): Place => ({
  path: '/account',
  show: (visit) => show(deps, visit),
  async act(visit, given) {
    const { user } = deps.people.required(visit.context)
    const name = given.action
    const answer = await change(deps, visit, given)
    // After a refusal, the page is shown again.
    if (answer.status === 303 && isNameIn(AUDITED, name))
      await deps.store.write((tx) => auditSelf(tx, deps, visit.context, { user, action: `users.${AUDITED[name]}` }))
    return answer
  },
})

async function change(deps: AccountDeps, visit: Visit, given: Form): Promise<Response> {
  const { user, session } = deps.people.required(visit.context)
  if (isNameIn(PROVED, given.action)) {
    const refused = await refusal(deps, visit.context, given, false)
    if (refused !== undefined) return show(deps, visit, said(PROVED[given.action], refused))
  }
  switch (given.action) {
    case 'password':
      return changePassword(deps, visit, given)
    case 'factor':
      return changeFactor(deps, visit, given)
    case 'no-factor':
      await turnOff(deps, user)
      return visit.say('/account', 'Two-factor authentication is off. Your password is enough to sign in.')
    case 'codes':
      return visit.leadToSecret('/account', (await newRecoveryCodes(deps, user)).join(' '))
    case 'remove-passkey': {
      const gone = passkeysOf(deps.store, user.key).find(({ id }) => id === given.get('id'))
      await removePasskey(deps, user.key, given.get('id'))
      return visit.say('/account', `The passkey "${gone?.name ?? ''}" was removed.`)
    }
    case 'end': {
      const found = listSessions(deps.store, user.key, deps.clock.now()).find(({ id }) => id === given.get('id'))
      await endSession(deps, user.key, given.get('id'))
      return visit.say('/account', `Signed out: ${browserName(found?.program ?? '')}.`)
    }
    default: {
      const ended = await deps.store.write((tx) => endSessions(tx, user.key, session.key))
      return visit.say('/account', `Signed out of ${counted(ended, 'other session')}.`)
    }
  }
}

const WRONG_CODE = 'The code is wrong or has expired. Codes change every 30 seconds.'
const NO_CODE = 'Enter the six-digit code from the app.'

/** Turns the second factor on. Replacing one requires a proof, and so does adding one long after the sign-in. */
async function changeFactor(deps: AccountDeps, visit: Visit, given: Form): Promise<Response> {
  const { session, user } = deps.people.required(visit.context)
  const secret = given.get('secret')
  const refused = await refusal(deps, visit.context, given, user.sealed_totp === null)
  if (refused !== undefined) return show(deps, visit, said('old-factor', refused), secret)
  const code = given.get('code').trim()
  const codes = code === '' ? undefined : await turnOn(deps, user, secret, code)
  if (!codes) return show(deps, visit, said('code', code === '' ? NO_CODE : WRONG_CODE), secret)
  deps.offered.forget(session.id)
  return visit.leadToSecret('/account', codes.join(' '))
}

/** Sets a password. This closes all sessions of the user, and opens a new one. */
async function changePassword(deps: AccountDeps, visit: Visit, given: Form): Promise<Response> {
  if (given.get('new').length < SHORTEST_PASSWORD)
    return show(deps, visit, said('new', `The new password must have at least ${SHORTEST_PASSWORD} characters.`))
  const user = await setPassword(deps, visit.person.user.email, given.get('new'))
  await deps.people.signIn(visit.context, user)
  return lead(visit, '/account', 'password')
}

async function show(
  deps: AccountDeps,
  visit: Visit,
  errors: Answer['errors'] = [],
  secret?: string,
): Promise<Response> {
  const person = deps.people.required(visit.context)
  const { user } = person
  const shown: ShownAccount = { deps, visit, person, errors }
  return page(visit, {
    title: 'Your account',
    about: 'Your sign-in methods and active sessions.',
    status: errors.length > 0 ? 422 : 200,
    done: done(visit),
    scripts: ['passkey.js'],
    body: html`${recoveryCodes(visit.secret)}
      ${facts([
        ['Email', user.email],
        [
          'Role',
          `${user.operator === 1 ? 'Operator of the server. ' : ''}${membershipText({ email: visit.account.email, role: visit.person.role })}`,
        ],
      ])}
      <h2>Password</h2>
      ${passwordForm(shown)}
      <h2>Passkeys</h2>
      ${passkeys(shown)}
      <h2>Two-factor authentication</h2>
      ${user.sealed_totp === null ? factorForm(shown, secret) : html`${factorOff(shown)} ${codesForm(shown)}`}
      <h2>Sessions</h2>
      ${sessions(shown)}`,
  })
}

interface ShownAccount {
  deps: AccountDeps
  visit: Visit
  person: Person
  errors: Answer['errors']
}

function passwordForm({ errors, person, visit }: ShownAccount): Html {
  const { user } = person
  const fault = faultIn(errors)
  const password = (name: string, label: string): Html =>
    field({
      name,
      label,
      type: 'password',
      autocomplete: 'new-password',
      error: fault(name),
      hint: `At least ${SHORTEST_PASSWORD} characters. You are signed out everywhere else.`,
    })
  return form(
    visit,
    'password',
    html`${user.password_hash === null ? html`<p class="soft">No password is set.</p>` : ''}
      ${proofField(person, 'old', fault('old'))} ${password('new', 'New password')}<button>
        ${user.password_hash === null ? 'Set password' : 'Change password'}
      </button>`,
  )
}

function passkeys(shown: ShownAccount): Html {
  const { deps, errors, person, visit } = shown
  const all = passkeysOf(deps.store, person.user.key)
  const none = html`<p class="soft">No passkeys yet. Sign in with your fingerprint, face or device PIN.</p>`
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
  ${deps.people.passkeys !== undefined ? newPasskey(shown) : html`<p class="soft">${NEEDS_NAME}</p>`}
  ${
    all.length > 0 && !visit.elsewhere
      ? form(
          visit,
          'remove-passkey',
          html`${field({ name: 'id', label: 'Passkey to remove', required: true, options: all.map(({ id, name }) => [id, name]) })}
            ${proofField(person, 'old-passkey', faultIn(errors)('old-passkey'))}<button class="danger">
              Remove passkey
            </button>`,
          { confirm: 'You will no longer be able to sign in with it.' },
        )
      : ''
  }`
}

const NEEDS_NAME = 'Passkeys require HTTPS and a hostname. Open this console at its hostname to add one.'

const newPasskey = (shown: ShownAccount): Html =>
  html`<form data-passkey="register" data-proof="${shown.visit.proof}" data-host="${shown.deps.people.passkeys}">
    ${field({ name: 'passkey', label: 'Passkey name', value: '', hint: 'For example "laptop".' })}
    ${isFresh(shown.deps, shown.person) ? '' : proofField(shown.person, 'old-new-passkey', undefined)}<button
      class="plain"
    >
      Add passkey
    </button>
    <p class="bad" role="alert" data-said></p>
  </form>`

const factorOff = ({ errors, person, visit }: ShownAccount): Html =>
  form(
    visit,
    'no-factor',
    html`<p>On. Signing in with your password also requires a code from your authenticator app.</p>
      ${proofField(person, 'old-factor', faultIn(errors)('old-factor'))}<button class="danger">Turn off</button>`,
  )

/** The new recovery codes, shown once. */
const recoveryCodes = (secret: string | undefined): Html | '' =>
  secret === undefined
    ? ''
    : html`<section class="panel" role="status">
        <h2>Recovery codes</h2>
        <p>
          Each code signs you in once if you lose your device. Print them or save them in your password manager: they
          are not shown again.
        </p>
        ${codeShown('codes', secret.replaceAll(' ', '\n'))}
      </section>`

/** The form that replaces the remaining codes. */
const codesForm = ({ deps, errors, person, visit }: ShownAccount): Html =>
  form(
    visit,
    'codes',
    html`<p>
        ${counted(recoveryCodesLeft(deps.store, person.user), 'recovery code')} left. Use one to sign in without your
        device.
      </p>
      ${proofField(person, 'old-codes', faultIn(errors)('old-codes'))}<button class="plain">
        Generate new recovery codes
      </button>`,
    { confirm: 'Your current recovery codes stop working.' },
  )

function sessions({ deps, person, visit }: ShownAccount): Html {
  const { session, user } = person
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
      each.key === session.key ? html`<span class="badge good">this session</span>` : time(iso(each.seen_at)),
      each.key === session.key ? '' : endButton(visit, each.id),
    ]),
    '',
  )}
  ${all.length > 1 ? form(visit, 'end-others', html`<button class="plain">Sign out all other sessions</button>`) : ''}`
}

/** Readers have this button too, because the session is their own. */
const endButton = (visit: Visit, id: string): Html =>
  form(visit, 'end', html`<input type="hidden" name="id" value="${id}" /><button class="plain">Sign out</button>`, {
    kind: 'inline',
  })

function factorForm(shown: ShownAccount, secret?: string): Html {
  const { deps, errors, person, visit } = shown
  const { session, user } = person
  const key = secret !== undefined && isFactorKey(secret) ? secret : deps.offered.of(session.id)
  const uri = uriOf(key, user.email)
  return form(
    visit,
    'factor',
    html`<p>Scan this QR code with an authenticator app, or enter the key. Then enter the code that the app shows.</p>
      ${qrCode(uri, 'The key as a QR code')}
      <p>
        <code class="secret" id="totp">${key}</code>
        <button class="plain" type="button" data-copy="totp">Copy</button>
      </p>
      <p><a href="${uri}">Open in an app on this device</a></p>
      <input type="hidden" name="secret" value="${key}" />
      ${isFresh(shown.deps, shown.person) && faultIn(errors)('old-factor') === undefined ? '' : proofField(person, 'old-factor', faultIn(errors)('old-factor'))}
      ${field({ name: 'code', label: 'Code', autocomplete: 'one-time-code', digits: true, error: faultIn(errors)('code') })}<button
        class="plain"
      >
        Turn on
      </button>`,
  )
}

/** The empty modules around a QR code (ISO/IEC 18004). */
const MARGIN = 4

/** A QR code as SVG: black on white in either colour scheme, so that cameras can read it. */
function qrCode(text: string, label: string): Html {
  const { data, size } = encode(text, { border: MARGIN })
  const path = data.flatMap((row, y) => row.flatMap((dark, x) => (dark ? [`M${x} ${y}h1v1h-1z`] : []))).join('')
  return html`<svg class="qr" viewBox="0 0 ${size} ${size}" role="img" aria-label="${label}">
    <rect width="${size}" height="${size}" fill="#fff" />
    <path d="${path}" fill="#000" />
  </svg>`
}

/**
 * The names of browsers in the User-Agent header, which is untrusted: only names of these lists are shown. The first
 * match counts, because many browsers also name others.
 */
const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/\bEdg(?:e|A|iOS)?\//, 'Edge'],
  [/\b(?:OPR|Opera)\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\bVivaldi\//, 'Vivaldi'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:HeadlessChrome|Chrome|CriOS|Chromium)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
  [/\bcurl\//, 'curl'],
]
const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/\bAndroid\b/, 'Android'],
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bWindows\b/, 'Windows'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bMac OS X\b|\bMacintosh\b/, 'macOS'],
  [/\bLinux\b|\bX11\b/, 'Linux'],
]

/** Returns "Chrome on Linux", or "Unknown browser" if the header has no known name. */
export function browserName(userAgent: string): string {
  const named = (list: typeof BROWSERS): string | undefined => list.find(([sign]) => sign.test(userAgent))?.[1]
  const [browser, system] = [named(BROWSERS), named(SYSTEMS)]
  if (browser === undefined) return system === undefined ? 'Unknown browser' : `A browser on ${system}`
  return system === undefined ? browser : `${browser} on ${system}`
}
