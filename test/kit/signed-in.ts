// A user who is signed in to the console.
import type { TestAppliance } from './appliance.ts'
import { Guest } from './guest.ts'
import { givePassword } from './person.ts'

export const PASSWORD = 'a long enough password'

/** Gives a user, by default the first one, the password and a session. */
export async function signedIn(postrider: TestAppliance, email = postrider.user.email): Promise<Guest> {
  await givePassword(postrider, email, PASSWORD)
  const guest = new Guest(postrider)
  await guest.signIn(email, PASSWORD)
  return guest
}
