// The signed-in person of a browser, for the pages of OAuth and the console. Each form carries a proof that this server
// wrote it for this browser. There are two cookies: one identifies the browser, the other the session.
import type { Context } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import type { CookieOptions } from 'hono/utils/cookie'
import { timingSafeEqual } from 'node:crypto'
import { MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { newSecret } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import { passkeysWork } from '../identity/passkeys.ts'
import { anySession, endSession, findSession, noteSession, openSession, type Session } from '../identity/sessions.ts'
import { userByKey, type User } from '../identity/users.ts'
import type { Store } from '../store/database.ts'
import { db } from '../store/query.ts'

export interface PersonDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  config: Pick<Config, 'http' | 'oauth'>
}

/** The most time between a right password and the code of the second factor. */
const STEP = 5 * MINUTE
/** The longest life of a session (identity/sessions.ts). */
const COOKIE_SECONDS = 30 * 24 * 3600
const SESSION_COOKIE = 'postrider_session'
const BROWSER_COOKIE = 'postrider_browser'

export interface Person {
  user: User
  session: Session
}

export class People {
  readonly #deps: PersonDeps

  constructor(deps: PersonDeps) {
    this.#deps = deps
  }

  /** The name by which people know this server. */
  get server(): string {
    return new URL(this.#deps.config.http.public_url).host
  }

  /** The host of which passkeys are; undefined where browsers make none. */
  get passkeys(): string | undefined {
    const { http } = this.#deps.config
    return passkeysWork(http) ? new URL(http.public_url).hostname : undefined
  }

  /** The signed-in user and session; undefined without a session, or when it has expired. */
  signedIn(context: Context): Person | undefined {
    const { clock, store } = this.#deps
    const person = this.stillSignedIn(context)()
    if (person) noteSession(store, person.session, clock.now())
    return person
  }

  /** Asks again and again who is signed in with a request's cookie; the session does not last longer by it. */
  stillSignedIn(context: Context): () => Person | undefined {
    const { clock, store } = this.#deps
    const secret = this.#read(context, SESSION_COOKIE)
    return () => {
      const session = secret === undefined ? undefined : findSession(store, secret, clock.now())
      const user = session && userByKey(store, session.user_key)
      return session && user && { user, session }
    }
  }

  /**
   * Whether this server wrote a form for somebody in this browser whose session is over: its row is still there, or the
   * browser is the one in which the form was shown.
   */
  wrote(context: Context, proof: string, request: string): boolean {
    const [bySession = '', byBrowser = ''] = proof.split('.')
    const secret = this.#read(context, SESSION_COOKIE)
    const session = secret === undefined ? undefined : anySession(this.#deps.store, secret)
    if (session && same(bySession, this.#formMac(null, session, request))) return true
    const browser = this.#read(context, BROWSER_COOKIE)
    return browser !== undefined && same(byBrowser, this.#formMac(browser, undefined, `held ${request}`))
  }

  /** Opens a session; an earlier session of this browser ends. */
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

  /** A signed text that names a user whose password was right; the form for the second factor's code carries it. */
  stepFor({ id, password_hash }: User): string {
    const until = String(this.#deps.clock.now() + STEP)
    return `${id}.${until}.${this.#mac(['step', id, until, password_hash])}`
  }

  /** The user that a step names; undefined when the step has expired or was not made by this server. */
  userOfStep(step: string): User | undefined {
    const [id = '', until = '', mac = ''] = step.split('.')
    const user = this.#deps.store.first(db.selectFrom('users').selectAll().where('id', '=', id))
    const sound = user && same(mac, this.#mac(['step', id, until, user.password_hash]))
    return sound && this.#deps.clock.now() < Number(until) ? user : undefined
  }

  /**
   * The proof for a form: a MAC over the signed-in person's session and the request. Before sign-in the browser stands
   * for the session: one without the browser cookie gets one, the same for all forms of a page.
   */
  proofFor(context: Context, person: Person | undefined, request: string): string {
    if (!person) return this.#formMac(this.browserOf(context), undefined, request)
    const browser = this.#read(context, BROWSER_COOKIE)
    const held = browser === undefined ? '' : `.${this.#formMac(browser, undefined, `held ${request}`)}`
    return `${this.#formMac(null, person.session, request)}${held}`
  }

  /**
   * Whether this server wrote a form for this person, or for this browser before sign-in. A form from another site or
   * browser has no valid proof.
   */
  proves(context: Context, proof: string, person: Person | undefined, request: string): boolean {
    const browser = person ? null : this.#read(context, BROWSER_COOKIE)
    return browser !== undefined && same(proof.split('.')[0]!, this.#formMac(browser, person?.session, request))
  }

  /** The random name of this browser, from its cookie; one without the cookie gets one. */
  browserOf(context: Context): string {
    const known = this.#read(context, BROWSER_COOKIE) ?? (context.get(BROWSER_COOKIE) as string | undefined)
    if (known !== undefined) return known
    const browser = newSecret('')
    context.set(BROWSER_COOKIE, browser)
    this.#write(context, BROWSER_COOKIE, browser)
    return browser
  }

  #formMac(browser: string | null, session: Session | undefined, request: string): string {
    return this.#mac(['form', browser, session?.id ?? null, request])
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

/** Compares the texts, because several base64url texts mean the same octets. */
const same = (given: string, expected: string): boolean =>
  Buffer.byteLength(given) === expected.length && timingSafeEqual(Buffer.from(given), Buffer.from(expected))
