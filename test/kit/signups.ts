// Visitors of forms, and the owners of the addresses that they enter: sign-ups by POST, emails read from the API.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import type { WrittenBody } from '../../src/message/stored-body.ts'
import { DATABASE } from '../../src/store/open.ts'
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

export type SentBody = Pick<WrittenBody, 'html' | 'text' | 'unsubscribe'>

export interface SignupKit {
  /** Sends a form as a browser on SITE does. */
  send(slug: string, fields: Record<string, string>, headers?: Record<string, string>): Promise<Response>
  /** Signs an address up and asserts the usual answer. */
  signUp(slug: string, email: string, fields?: Record<string, string>): Promise<void>
  /** The emails to an address, the oldest first. */
  emails(to: string): Promise<ReadEmail[]>
  tags(to: string): Promise<string[]>
  /** The path of the newest confirmation link in an email to an address. */
  link(to: string): string
  /** The bodies of the emails to an address as they are sent, the oldest first: the API hides links in them. */
  sent(to: string): SentBody[]
  /** Presses a button of the page of a link. */
  press(path: string, action: string, fields?: Record<string, string>): Promise<Response>
  /** The contact with an address in an audience, or undefined. */
  contact(audience: string, email: string): Promise<any> // oxlint-disable-line typescript/no-explicit-any
}

/** The bodies of the emails to an address as they are sent, the oldest first. */
function sentTo(dataDir: string, to: string): SentBody[] {
  const database = new Database(join(dataDir, DATABASE), { readonly: true })
  try {
    const bodies = database.prepare<[string], string>(
      `select b.content from outbound_bodies b join outbound_emails e on e.key = b.email_key where e."to" = ? order by e.key`,
    )
    return bodies
      .pluck()
      .all(to)
      .map((content) => JSON.parse(content) as SentBody)
  } finally {
    database.close()
  }
}

/** The path of the newest confirmation link (/c/), or of another page, in an email to an address. The API hides it. */
export function linkTo(dataDir: string, to: string, page = /\/c\/[\w-]+/): string {
  const found = sentTo(dataDir, to).map(({ text }) => page.exec(text ?? ''))
  const [path] = found.findLast((each) => each !== null) ?? []
  assert.ok(path, `no link ${String(page)} was sent to ${to}`)
  return path
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
    sent: (to) => sentTo(postrider().config.data_dir, to),
    link: (to) => linkTo(postrider().config.data_dir, to),
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
