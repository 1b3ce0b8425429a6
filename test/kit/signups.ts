// Visitors of forms, and the owners of the addresses that they enter: sign-ups by POST, emails read from the API.
import assert from 'node:assert/strict'
import type { TestAppliance } from './appliance.ts'

/** The website that has the form. */
export const SITE = 'https://www.here.test'

export interface ReadEmail {
  id: string
  tag: string
  subject: string
  html: string
  text: string
  headers: Record<string, string>
}

export interface SignupKit {
  /** Sends a form as a browser on SITE does. */
  send(slug: string, fields: Record<string, string>, headers?: Record<string, string>): Promise<Response>
  /** Signs an address up and asserts the usual answer. */
  signUp(slug: string, email: string, fields?: Record<string, string>): Promise<void>
  /** The emails to an address, the oldest first. */
  emails(to: string): Promise<ReadEmail[]>
  tags(to: string): Promise<string[]>
  /** The path of the newest confirmation link in an email to an address. */
  link(to: string): Promise<string>
  /** Presses a button of the page of a link. */
  press(path: string, action: string, fields?: Record<string, string>): Promise<Response>
  /** The contact with an address in an audience, or undefined. */
  contact(audience: string, email: string): Promise<any> // oxlint-disable-line typescript/no-explicit-any
}

export function signupKit(postrider: () => TestAppliance): SignupKit {
  const post = (path: string, fields: Record<string, string>, headers: Record<string, string> = {}) =>
    postrider().page(path, { method: 'POST', body: new URLSearchParams(fields), headers })
  const kit: SignupKit = {
    send: (slug, fields, headers) =>
      post(`/f/${slug}`, { version: '1', lang: 'en', ...fields }, { origin: SITE, ...headers }),
    async signUp(slug, email, fields = {}) {
      const answer = await kit.send(slug, { email, ...fields })
      assert.equal(answer.status, 200, await answer.clone().text())
      assert.match(await answer.text(), /Check your inbox/)
    },
    async emails(to) {
      const { body } = await postrider().api(
        'GET',
        `/outbound-emails?filter[to]=${encodeURIComponent(to)}&sort=created_at`,
      )
      const emails: ReadEmail[] = []
      for (const { id } of body.data) {
        const { attributes } = (await postrider().api('GET', `/outbound-emails/${id}`)).body.data
        emails.push({ ...attributes, id, tag: attributes.tags[0] })
      }
      return emails
    },
    tags: async (to) => (await kit.emails(to)).map(({ tag }) => tag),
    async link(to) {
      const texts = (await kit.emails(to)).map(({ text }) => text)
      const [, path] = texts.map((text) => /(\/c\/[\w-]+)/.exec(text)).findLast((found) => found !== null) ?? []
      assert.ok(path, `no confirmation link was sent to ${to}`)
      return path
    },
    press: (path, action, fields = {}) =>
      post(path, { action, ...fields }, { origin: new URL(postrider().config.http.public_url).origin }),
    async contact(audience, email) {
      const { body } = await postrider().api(
        'GET',
        `/audiences/${audience}/contacts?filter[email]=${encodeURIComponent(email)}`,
      )
      const [found] = body.data
      return found && { id: found.id, ...found.attributes }
    },
  }
  return kit
}
