// The second factor of a person who lost it is removed by an operator, who makes sure who asks. The person is signed
// out, and told by mail in the same transaction.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { forgetFactor } from '../identity/second-factor.ts'
import { endSessions } from '../identity/sessions.ts'
import { requireUser, type User } from '../identity/users.ts'
import type { Store } from '../store/database.ts'
import { addNotice } from './notices.ts'

/** Removes the second factor of a person. Throws an OperatorError when there is none. */
export function resetFactor(
  { clock, config, store }: { store: Store; clock: Clock; config: Pick<Config, 'http'> },
  email: string,
  by = 'The operator of the server',
): Promise<User> {
  return store.write((tx) => {
    const now = clock.now()
    const user = requireUser(tx, email)
    if (user.sealed_totp === null) throw new OperatorError(`${user.email} has no second factor.`)
    forgetFactor(tx, user, now)
    endSessions(tx, user.key)
    const text = [
      `${by} removed the second factor of your account, and you were signed out everywhere.`,
      `Sign in, and turn it on again: ${config.http.public_url}/account`,
      'If you did not ask for this, talk to whoever runs the server.\n',
    ].join('\n\n')
    addNotice(tx, { user_key: user.key, domain_key: null, subject: 'Your second factor was removed', text }, now)
    return requireUser(tx, email)
  })
}
