// The signed-in user of a browser, for the pages of OAuth and the console. Each form contains a proof that this server
// wrote it for this browser. There are two cookies: one identifies the browser, the other the session.
import type { Context } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import type { CookieOptions } from 'hono/utils/cookie'
import { timingSafeEqual } from 'node:crypto'
import { MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { refuse } from '../base/errors.ts'
import { newSecret } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import { passkeysWork } from './passkeys.ts'
import { anySession, endSession, findSession, noteSession, openSession, type Session } from './sessions.ts'
import { userByKey, type User } from './users.ts'
import { accountsOf, roleOf } from './members.ts'
import type { RoleName } from '../jsonapi/roles.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'

export interface PersonDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  config: Pick<Config, 'http' | 'oauth'>
}

/** The maximum time between a correct password and the code of the second factor. */
const STEP = 5 * MINUTE
/** The maximum lifetime of a session (sessions.ts). */
const COOKIE_SECONDS = 30 * 24 * 3600
const SESSION_COOKIE = 'postrider_session'
const BROWSER_COOKIE = 'postrider_browser'

export interface Person {
  user: User
  session: Session
  /** The account that the session shows, and the user's role in it. */
  account: User
  role: RoleName
}

interface AccountSession {
  session: Pick<Session, 'id'>
  account: Pick<User, 'key'>
}

/**
 * The account that a session shows: the chosen one, or the user's first one. Undefined for a user without an account.
 * Operators see every account with the rights of an owner, and their own one even if they left it.
 */
function shownIn(
  reader: Reader,
  user: User,
  { open_as: chosen }: Session,
): Pick<Person, 'account' | 'role'> | undefined {
  const shown = (key: number, role: RoleName) => {
    const account = key === user.key ? user : userByKey(reader, key)
    return account && { account, role }
  }
  const role = chosen === null ? undefined : user.operator === 1 ? 'owner' : roleOf(reader, chosen, user.key)
  if (chosen !== null && role) return shown(chosen, role)
  const first = accountsOf(reader, user.key).find(({ joined_at }) => joined_at !== null)
  if (first) return shown(first.user_key, user.operator === 1 ? 'owner' : first.role)
  return user.operator === 1 ? shown(user.key, 'owner') : undefined
}

export class People {
  readonly #deps: PersonDeps

  constructor(deps: PersonDeps) {
    this.#deps = deps
  }

  /** The name of this server, for users. */
  get server(): string {
    return new URL(this.#deps.config.http.public_url).host
  }

  /** The host of passkeys, or undefined if passkeys do not work at this address. */
  get passkeys(): string | undefined {
    const { http } = this.#deps.config
    return passkeysWork(http) ? new URL(http.public_url).hostname : undefined
  }

  /** Returns the signed-in user and session, or undefined without a valid session. */
  signedIn(context: Context): Person | undefined {
    const { clock, store } = this.#deps
    const person = this.stillSignedIn(context)()
    if (person) noteSession(store, person.session, clock.now())
    return person
  }

  /** The signed-in user and session. Throws a refusal (401). */
  required(context: Context): Person {
    const person = this.signedIn(context)
    if (!person) throw refuse('unauthenticated', 'Sign in first.')
    return person
  }

  /** Returns a function that finds the signed-in user of a request again, without extending the session. */
  stillSignedIn(context: Context): () => Person | undefined {
    const { clock, store } = this.#deps
    const secret = this.#read(context, SESSION_COOKIE)
    return () => {
      const session = secret === undefined ? undefined : findSession(store, secret, clock.now())
      const user = session && userByKey(store, session.user_key)
      const shown = session && user && shownIn(store, user, session)
      return shown && { user, session, ...shown }
    }
  }

  /**
   * Whether this server wrote a form in this browser for a session that is now over, or for another account: the
   * session's row still exists, or the browser is the one in which the form was shown.
   */
  wrote(context: Context, proof: string, request: string): boolean {
    const [bySession = '', byBrowser = ''] = proof.split('.')
    const secret = this.#read(context, SESSION_COOKIE)
    const session = secret === undefined ? undefined : anySession(this.#deps.store, secret)
    const user = session && userByKey(this.#deps.store, session.user_key)
    const shown = session && user && shownIn(this.#deps.store, user, session)
    if (shown && same(bySession, this.#formMac(null, { session, ...shown }, request))) return true
    const browser = this.#read(context, BROWSER_COOKIE)
    return browser !== undefined && same(byBrowser, this.#formMac(browser, undefined, `held ${request}`))
  }

  /** Opens a session. An earlier session of this browser is closed. */
  async signIn(context: Context, user: User): Promise<void> {
    await this.#endSession(context)
    const secret = await openSession(this.#deps, user, context.req.header('user-agent') ?? '')
    this.#write(context, SESSION_COOKIE, secret, COOKIE_SECONDS)
  }

  async signOut(context: Context): Promise<void> {
    await this.#endSession(context)
    deleteCookie(context, SESSION_COOKIE, this.#options())
  }

  async #endSession(context: Context): Promise<void> {
    const person = this.signedIn(context)
    if (person) await endSession(this.#deps, person.user.key, person.session.id)
  }

  /** Returns a signed text for the form of the second factor. It names a user whose password was right. */
  stepFor({ id, password_hash }: User): string {
    const until = String(this.#deps.clock.now() + STEP)
    return `${id}.${until}.${this.#mac(['step', id, until, password_hash])}`
  }

  /** Returns the user that a step names, or undefined if it has expired or this server did not make it. */
  userOfStep(step: string): User | undefined {
    const [id = '', until = '', mac = ''] = step.split('.')
    const user = this.#deps.store.first(db.selectFrom('users').selectAll().where('id', '=', id))
    const sound = user && same(mac, this.#mac(['step', id, until, user.password_hash]))
    return sound && this.#deps.clock.now() < Number(until) ? user : undefined
  }

  /**
   * The proof for a form: a MAC over the signed-in user's session, the account that it shows, and the request. So a
   * form of one account has no effect after a switch to another one. Before sign-in it is over the browser cookie. A
   * browser without one gets one, the same for all forms of a page.
   */
  proofFor(context: Context, person: AccountSession | undefined, request: string): string {
    if (!person) return this.#formMac(this.browserOf(context), undefined, request)
    const browser = this.#read(context, BROWSER_COOKIE)
    const held = browser === undefined ? '' : `.${this.#formMac(browser, undefined, `held ${request}`)}`
    return `${this.#formMac(null, person, request)}${held}`
  }

  /**
   * Whether this server wrote a form for this user, or for this browser before sign-in. A form from another site or
   * browser has no valid proof.
   */
  proves(context: Context, proof: string, person: AccountSession | undefined, request: string): boolean {
    const browser = person ? null : this.#read(context, BROWSER_COOKIE)
    return browser !== undefined && same(proof.split('.')[0]!, this.#formMac(browser, person, request))
  }

  /** Returns the random name of this browser from its cookie. A browser without the cookie gets one. */
  browserOf(context: Context): string {
    const known = this.#read(context, BROWSER_COOKIE) ?? (context.get(BROWSER_COOKIE) as string | undefined)
    if (known !== undefined) return known
    const browser = newSecret('')
    context.set(BROWSER_COOKIE, browser)
    this.#write(context, BROWSER_COOKIE, browser)
    return browser
  }

  #formMac(browser: string | null, person: AccountSession | undefined, request: string): string {
    const shown = person ? [person.session.id, String(person.account.key)] : [null]
    return this.#mac(['form', browser, ...shown, request])
  }

  #mac(words: (string | null)[]): string {
    return this.#deps.keyring.mac('session', JSON.stringify(words)).toString('base64url')
  }

  #read(context: Context, name: string): string | undefined {
    return this.#secure ? getCookie(context, name, 'host') : getCookie(context, name)
  }

  #write(context: Context, name: string, value: string, maxAge?: number): void {
    setCookie(context, name, value, { ...this.#options(), ...(maxAge === undefined ? {} : { maxAge }) })
  }

  get #secure(): boolean {
    return this.#deps.config.http.public_url.startsWith('https:')
  }

  // "__Host-" (RFC 6265bis §4.1.3.2): other hosts of the same domain cannot set these cookies.
  #options(): CookieOptions {
    const options: CookieOptions = { httpOnly: true, sameSite: 'Lax', path: '/' }
    return this.#secure ? { ...options, prefix: 'host', secure: true } : options
  }
}

/** Compares the texts, because several base64url texts mean the same bytes. */
const same = (given: string, expected: string): boolean =>
  Buffer.byteLength(given) === expected.length && timingSafeEqual(Buffer.from(given), Buffer.from(expected))
