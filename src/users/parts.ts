// The objects that actions and pages of users work with, besides those of the API.
import type { SignIns } from './sign-in.ts'

/** The part of this server's email that carries sign-in links. */
export interface LinkMail {
  /** Whether email to an address is delivered to this server, where other users may read it. */
  isReadHere(address: string): boolean
  /** Whether this server can send authenticated email of its own. */
  isAuthenticated(): boolean
  /** Whether all email stays on this server: in the sandbox. */
  readonly stays: boolean
}

export interface UserParts {
  /** The limits of all ways to sign in: console, OAuth, and the proof for a change of a credential. */
  signIns: SignIns
  linkMail: LinkMail
}
