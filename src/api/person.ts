// The person at a browser, for the OAuth pages: who is signed in, and the proof in each form that this server wrote it
// for this browser. There are two cookies, one for the browser and one for the signed-in user, both only for these
// pages.
import type { Context } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import type { CookieOptions } from 'hono/utils/cookie'
import { timingSafeEqual } from 'node:crypto'
import { MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { newSecret } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import type { User } from '../accounts/users.ts'
import type { Store } from '../store/database.ts'
import { db } from '../store/query.ts'

export interface PersonDesk {
  store: Store
  clock: Clock
  keyring: Keyring
  config: Pick<Config, 'http' | 'oauth'>
}

const SESSION = 15 * MINUTE
const SESSION_COOKIE = 'postrider_session'
const BROWSER_COOKIE = 'postrider_browser'

export interface Person {
  key: number
  id: string
  email: string
}

export class People {
  readonly #desk: PersonDesk
  readonly #path: string

  /** `path` is the path of the pages. */
  constructor(desk: PersonDesk, path: string) {
    this.#desk = desk
    this.#path = path
  }

  /** The signed-in person; undefined when there is none, the session has expired, or the password has changed since. */
  signedIn(context: Context): Person | undefined {
    const { clock, store } = this.#desk
    const [id = '', until = '', mac = ''] = (this.#read(context, SESSION_COOKIE) ?? '').split('.')
    const user = store.first(db.selectFrom('users').selectAll().where('id', '=', id))
    if (!user || !same(mac, this.#sessionMac(user, until)) || clock.now() >= Number(until)) return undefined
    return user
  }

  signIn(context: Context, user: User): void {
    const until = String(this.#desk.clock.now() + SESSION)
    this.#write(context, SESSION_COOKIE, `${user.id}.${until}.${this.#sessionMac(user, until)}`, SESSION / 1000)
  }

  signOut(context: Context): void {
    deleteCookie(context, SESSION_COOKIE, this.#options())
  }

  /**
   * The proof for a form: a MAC over the browser, the signed-in person and the request.
   * Sets the browser's cookie if needed.
   */
  proofFor(context: Context, person: Person | undefined, request: string): string {
    let browser = this.#read(context, BROWSER_COOKIE)
    if (browser === undefined) {
      browser = newSecret('')
      this.#write(context, BROWSER_COOKIE, browser)
    }
    return this.#formMac(browser, person, request)
  }

  /**
   * Whether this server wrote a form for this browser and this person:
   * a form of another site or browser has no valid proof.
   */
  proves(context: Context, proof: string, person: Person | undefined, request: string): boolean {
    const browser = this.#read(context, BROWSER_COOKIE)
    return browser !== undefined && same(proof, this.#formMac(browser, person, request))
  }

  // A session's text begins differently from a form's, part of which a stranger chooses.
  // A new password ends all sessions.
  #sessionMac({ id, password_hash }: User, until: string): string {
    return this.#mac(['signed in', id, until, password_hash])
  }

  #formMac(browser: string, person: Person | undefined, request: string): string {
    return this.#mac(['form', browser, person?.id ?? null, request])
  }

  #mac(words: (string | null)[]): string {
    return this.#desk.keyring.mac('session', JSON.stringify(words)).toString('base64url')
  }

  #read(context: Context, name: string): string | undefined {
    return this.#secure ? getCookie(context, name, 'host') : getCookie(context, name)
  }

  #write(context: Context, name: string, value: string, maxAge?: number): void {
    setCookie(context, name, value, { ...this.#options(), ...(maxAge === undefined ? {} : { maxAge }) })
  }

  get #secure(): boolean {
    return this.#desk.config.http.public_url.startsWith('https:')
  }

  // "__Host-" (RFC 6265bis §4.1.3.2): other hosts of the same domain cannot set these cookies.
  #options(): CookieOptions {
    const options: CookieOptions = { httpOnly: true, sameSite: 'Lax' }
    return this.#secure ? { ...options, prefix: 'host', secure: true, path: '/' } : { ...options, path: this.#path }
  }
}

/** Compares the texts, because several base64url texts mean the same octets. */
const same = (given: string, expected: string): boolean =>
  Buffer.byteLength(given) === expected.length && timingSafeEqual(Buffer.from(given), Buffer.from(expected))
