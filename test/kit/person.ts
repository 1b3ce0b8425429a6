// A user with a browser, as far as the pages of OAuth need one: forms are sent with the values from the page, cookies
// are kept, redirects are read but not followed.

import { randomBytes, scryptSync } from 'node:crypto'
import { SCOPES } from '../../src/jsonapi/scopes.ts'
import type { User } from '../../src/users/users.ts'
import { apiInside } from '../../src/http/server.ts'
import type { Caller } from '../../src/jsonapi/resource.ts'
import type { RoleName } from '../../src/jsonapi/roles.ts'
import { db, raw } from '../../src/store/query.ts'
import type { Answer, TestAppliance } from './appliance.ts'

/** Gives a user a password that is cheap to check: the parameters of the cost are in the hash. */
export async function givePassword({ appliance }: TestAppliance, email: string, password: string): Promise<void> {
  const salt = randomBytes(16)
  const hash = scryptSync(password.normalize('NFKC'), salt, 32, { N: 2, r: 8, p: 1 })
  const text = ['scrypt', 2, 8, 1, salt.toString('base64'), hash.toString('base64')].join('$')
  await appliance.deps.store.write((tx) =>
    tx.run(raw('update users set password_hash = ? where email = ?', [text, email])),
  )
}

export interface Page {
  status: number
  headers: Headers
  text: string
}

const plain = (attribute: string): string =>
  attribute
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&')

export class Person {
  readonly cookies = new Map<string, string>()
  /** The Set-Cookie lines as received. */
  readonly set: string[] = []
  readonly #base: string

  /** `base` is the URL at which the server listens. */
  constructor(base: string) {
    this.#base = base
  }

  /** Opens a path below the base, or a complete URL. */
  async open(to: string | URL, init: RequestInit = {}): Promise<Page> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const headers = { ...(cookie === '' ? {} : { cookie }), ...(init.headers as Record<string, string>) }
    const response = await fetch(new URL(to, this.#base), { ...init, redirect: 'manual', headers })
    for (const line of response.headers.getSetCookie()) {
      this.set.push(line)
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
      if (/max-age=0/i.test(line)) this.cookies.delete(name!)
      else this.cookies.set(name!, value!)
    }
    return { status: response.status, headers: response.headers, text: await response.text() }
  }

  /** Presses a button of the page's first form. `typed` are its fields. */
  press(
    page: Page,
    action: string,
    typed: Record<string, string> = {},
    headers: Record<string, string> = {},
  ): Promise<Page> {
    const fields = [...page.text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)]
    const form = new URLSearchParams(fields.map(([, name, value]) => [name!, plain(value!)]))
    for (const [name, value] of Object.entries({ ...typed, action })) form.set(name, value)
    const [, to = ''] = /<form method="post" action="([^"]+)"/.exec(page.text) ?? []
    return this.open(to, { method: 'POST', body: form, headers })
  }

  /** Signs in on the sign-in page. Returns the page of consent. */
  async signIn(at: string | URL, email: string, password: string): Promise<Page> {
    await this.press(await this.open(at), 'password', { email, password })
    return this.open(at)
  }

  /** Signs in and allows access. Returns the URL of the redirect. */
  async allow(at: string | URL, email: string, password: string): Promise<URL> {
    const back = await this.press(await this.signIn(at, email, password), 'allow')
    return new URL(back.headers.get('location')!)
  }
}

/** The API response for a user who is signed in to the console, at a path below its base. */
export async function asPerson({ appliance: { deps } }: TestAppliance, user: User, path: string): Promise<Answer> {
  const caller: Caller = {
    userKey: user.key,
    userId: user.id,
    tokenId: user.id,
    via: 'console',
    scopes: new Set(SCOPES),
    operator: user.operator === 1,
    person: { key: user.key, email: user.email },
  }
  const response = await apiInside(deps)(caller, new Request(`http://inside${path}`))
  return { status: response.status, headers: response.headers, body: await response.json() }
}

/** Makes a user a member of an account, with this role, and of no other account. */
export const makeMember = (
  { appliance: { deps } }: TestAppliance,
  { account, role, user }: { user: Pick<User, 'key'>; account: Pick<User, 'key'>; role: RoleName },
): Promise<unknown> =>
  deps.store.write((tx) =>
    tx.run(db.updateTable('members').set({ user_key: account.key, role }).where('member_key', '=', user.key)),
  )
