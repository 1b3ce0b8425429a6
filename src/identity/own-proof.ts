// The proof that a signed-in person gives before a way to sign in is changed (D114): a session alone may be borrowed.
// It is the password; without one a code of the second factor; without both a sign-in of the last minutes.
import { MINUTE } from '../base/clock.ts'
import { useCode, type FactorDeps } from './second-factor.ts'
import type { Session } from './sessions.ts'
import type { SignIns } from './sign-in.ts'
import type { User } from './users.ts'

/** A session this young is a proof where nothing is replaced or taken away. */
export const FRESH = 10 * MINUTE

export interface ProofRequest {
  user: User
  session: Pick<Session, 'created_at'>
  /** The address of the client, for the limits of sign-in. */
  client: string
  /** The password or the code that was typed. */
  given: string
  /** Whether a sign-in of the last minutes is enough. */
  fresh: boolean
}

/** The sentence with which a change is refused; undefined when the proof holds. */
export async function refusedProof(
  deps: FactorDeps & { signIns: SignIns },
  { client, fresh, given, session, user }: ProofRequest,
): Promise<string | undefined> {
  const { clock, signIns } = deps
  const kind = proofOf(user)
  const isFresh = clock.now() - session.created_at < FRESH
  if (kind === 'fresh') return isFresh ? undefined : 'Sign out, sign in again, and make the change within ten minutes.'
  if (fresh && isFresh && given === '') return undefined
  if (given === '') return kind === 'password' ? 'Your present password is missing.' : 'The code is missing.'
  const result =
    kind === 'password'
      ? await signIns.try(user.email, given, client)
      : await signIns.tryCode(user, client, () => useCode(deps, user, given))
  if (result === 'wrong')
    return kind === 'password' ? 'The password is wrong.' : 'The code is wrong. Take the next one that the app shows.'
  return 'wait' in result ? `Too many tries. Try again in ${Math.ceil(result.wait / 1000)} seconds.` : undefined
}

/** What proves who a user is. */
export const proofOf = (user: Pick<User, 'password_hash' | 'sealed_totp'>): 'password' | 'code' | 'fresh' =>
  user.password_hash !== null ? 'password' : user.sealed_totp !== null ? 'code' : 'fresh'
