// The proof that a signed-in user gives before a sign-in method changes (D114), because another person may use the
// session. It is the password. Without one, it is a code of the second factor, and without both a recent sign-in. The
// first credential of a user needs no proof: signing in again may be impossible for somebody who has none.
import { html } from 'hono/html'
import type { Context } from 'hono'
import { addEntry } from '../jsonapi/audit.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import type { People, Person } from './browser-session.ts'
import type { UserParts } from './parts.ts'
import { clientAddress } from '../net/client-address.ts'
import { field } from '../views/html/forms.ts'
import type { Form } from '../views/html/place.ts'
import type { Html } from '../views/html/widgets.ts'
import { MINUTE, SECOND } from '../base/clock.ts'
import { counted } from '../base/text.ts'
import type { Tx } from '../store/database.ts'
import { accountsOf } from './members.ts'
import { passkeysOf } from './passkeys.ts'
import { useCode } from './second-factor.ts'
import type { User } from './users.ts'

/** The dependencies of pages that require a proof. */
export type ProofDeps = ApiDeps & UserParts & { people: People }

interface CodeFields {
  name: string
  id?: string
  label: string
  error?: string | undefined
  /** An error of the recovery code: its field stays open. */
  recoveryError?: string | undefined
}

/**
 * A field for the six digits, for which phones show a numeric keypad, and one for a recovery code, which has letters.
 */
export const codeFields = ({ error, id, label, name, recoveryError }: CodeFields): Html =>
  html`${field({ name, label, error, autocomplete: 'one-time-code', digits: true, ...(id === undefined ? {} : { id }) })}
    <details ${recoveryError === undefined ? '' : html`open`}>
      <summary>Lost your device?</summary>
      ${field({ name: 'recovery', id: `${id ?? name}-recovery`, label: 'Recovery code', autocomplete: 'off', error: recoveryError })}
    </details>`

/** The field for the proof. If the proof is a recent sign-in, it shows only an error. */
export function proofField({ user }: Person, id: string, error: string | undefined): Html {
  const kind = proofOf(user)
  if (kind === 'fresh') return error === undefined ? html`` : html`<p class="bad" role="alert">${error}</p>`
  return kind === 'password'
    ? field({
        name: 'old',
        id,
        label: 'Current password',
        type: 'password',
        autocomplete: 'current-password',
        error,
      })
    : codeFields({ name: 'old', id, label: 'Code from your authenticator app', error })
}

/** A sign-in of the last minutes is a proof if nothing is replaced or removed. */
export const isFresh = ({ clock }: Pick<ApiDeps, 'clock'>, { session }: Person): boolean =>
  clock.now() - session.created_at < 10 * MINUTE

/**
 * Returns the reason why a change is refused, or undefined if the form proves the user's identity. `fresh`: a recent
 * sign-in is enough.
 */
export const refusal = (deps: ProofDeps, context: Context, given: Form, fresh: boolean): Promise<string | undefined> =>
  refusedProof(deps, context, given.get('old') || given.get('recovery'), fresh)

/** The same for a password or a code that was typed. */
export async function refusedProof(
  deps: ProofDeps,
  context: Context,
  given: string,
  fresh: boolean,
): Promise<string | undefined> {
  const { config, people, signIns } = deps
  const person = people.required(context)
  const { user } = person
  const kind = proofOf(user)
  if (kind === 'fresh')
    return isFresh(deps, person) || passkeysOf(deps.store, user.key).length === 0
      ? undefined
      : 'For this change you must have signed in within the last 10 minutes. Sign out and sign in again.'
  if (fresh && isFresh(deps, person) && given === '') return undefined
  if (given === '') return kind === 'password' ? 'Enter your current password.' : 'Enter a code.'
  const client = clientAddress(context, config.http)
  const result =
    kind === 'password'
      ? await signIns.try(user.email, given, client)
      : await signIns.tryCode(user, client, () => useCode(deps, user, given))
  if (result === 'wrong')
    return kind === 'password' ? 'The password is wrong.' : 'The code is wrong. Try the next code from the app.'
  return 'wait' in result
    ? `Too many attempts. Try again in ${counted(Math.ceil(result.wait / SECOND), 'second')}.`
    : undefined
}

/** The kind of proof that a user can give. */
const proofOf = (user: Pick<User, 'password_hash' | 'sealed_totp'>): 'password' | 'code' | 'fresh' =>
  user.password_hash !== null ? 'password' : user.sealed_totp !== null ? 'code' : 'fresh'

/**
 * Adds an entry about a change that users make to themselves ("users.set_password") to the log of an account, or of all
 * accounts that they work in.
 */
export function auditSelf(
  tx: Tx,
  { clock, config }: Pick<ApiDeps, 'clock' | 'config'>,
  context: Context,
  { account, action, user }: { user: User; action: string; account?: number },
): void {
  const { email, id, key } = user
  const from = { actor: email, via: 'console', address: clientAddress(context, config.http) } as const
  const entry = { ...from, action, subject_type: 'users', subject_id: id, subject: email, role: null }
  const joined = accountsOf(tx, key).filter(({ joined_at }) => joined_at !== null)
  for (const user_key of account === undefined ? joined.map((each) => each.user_key) : [account])
    addEntry(tx, { ...entry, user_key }, clock.now())
}
