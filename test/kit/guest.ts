// A user in the console, as far as its pages need a browser: cookies are kept, forms are sent with the values from the
// page, redirects are followed within the server.
import { parse } from './page.ts'
import type { TestAppliance } from './appliance.ts'

export interface Shown {
  status: number
  headers: Headers
  /** The path on the server to which the last redirect led. */
  path: string
  text: string
}

export class Guest {
  readonly cookies = new Map<string, string>()
  readonly #postrider: Pick<TestAppliance, 'page'>

  constructor(postrider: Pick<TestAppliance, 'page'>) {
    this.#postrider = postrider
  }

  async open(path: string, init: RequestInit = {}): Promise<Shown> {
    for (let at = path, hops = 0, given = init; ; hops++) {
      const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
      const headers = { ...(given.headers as Record<string, string>), ...(cookie === '' ? {} : { cookie }) }
      const response = await this.#postrider.page(at, { ...given, headers })
      for (const line of response.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
        if (/max-age=0/i.test(line)) this.cookies.delete(name!)
        else this.cookies.set(name!, value!)
      }
      const to = response.headers.get('location')
      if (to === null || hops > 5)
        return { status: response.status, headers: response.headers, path: at, text: await response.text() }
      await response.body?.cancel()
      at = to
      given = {}
    }
  }

  /** Sends the form of a page with this action and these fields. */
  async send(
    page: Shown,
    action: string,
    fields: Record<string, string | string[]> = {},
    more: RequestInit = {},
  ): Promise<Shown> {
    const form =
      parse(page.text).find(({ hidden }) => hidden['action'] === action) ??
      parse(page.text).find(({ buttons }) => buttons.includes(action))
    if (!form) throw new Error(`The page ${page.path} has no form that does "${action}".`)
    // A browser with scripts shows the confirmation of the form, and this user confirms.
    const sure = 'question' in form.hidden ? { sure: 'yes' } : {}
    const body = new URLSearchParams({ ...form.hidden, ...sure, action })
    for (const [name, value] of Object.entries(fields)) {
      body.delete(name)
      for (const each of [value].flat()) body.append(name, each)
    }
    const to = form.action ?? page.path.split('?')[0]!
    return this.open(to, {
      method: 'POST',
      body: body.toString(),
      ...more,
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...(more.headers as Record<string, string>) },
    })
  }

  async signIn(email: string, password: string): Promise<Shown> {
    return this.send(await this.open('/sign-in'), 'password', { email, password })
  }
}
