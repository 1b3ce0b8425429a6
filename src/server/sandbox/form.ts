// The open sign-up form of the sandbox. It is made through the API, like that of a user.
import { apiInside } from '../../http/server.ts'
import type { AppDeps } from '../../http/app-deps.ts'
import type { Caller } from '../../jsonapi/resource.ts'
import { SCOPES } from '../../jsonapi/scopes.ts'
import { askInside, type Answer, type AskedDocument } from '../../views/html/visit.ts'

const SLUG = 'sandbox-news'

/** The URL of the form, which is created if it does not exist. Undefined if the server has no forms. */
export async function sandboxForm(
  deps: AppDeps,
  owner: { key: number; id: string; email: string },
  domainId: string,
): Promise<string | undefined> {
  const inside = apiInside(deps)
  const caller: Caller = {
    userKey: owner.key,
    userId: owner.id,
    tokenId: 'sandbox',
    via: 'command',
    scopes: new Set(SCOPES),
    operator: true,
    person: owner,
  }
  const ask = (method: string, path: string, document?: AskedDocument): Promise<Answer> =>
    askInside(inside, caller, { method, path, document })
  const { many, status } = await ask('GET', '/forms?page%5Bsize%5D=100')
  if (status !== 200) return undefined
  const there = many.find(({ attributes }) => attributes['slug'] === SLUG)
  if (there) return String(there.attributes['public_url'])
  const { one: audience } = await ask('POST', '/audiences', {
    type: 'audiences',
    attributes: { name: 'Newsletter', title: 'Sandbox News' },
    relationships: { domain: { data: { type: 'domains', id: domainId } } },
  })
  const { one: form } = await ask('POST', '/forms', {
    type: 'forms',
    attributes: {
      name: 'Website',
      slug: SLUG,
      title: 'Sandbox News',
      intro: 'What happens in the sandbox.',
      consent_text: 'I would like to receive Sandbox News by email.',
      controller: 'You, in the sandbox',
      privacy_url: 'https://sandbox.example/privacy',
      fields: [{ key: 'name', label: null, required: false }],
    },
    relationships: { audience: { data: { type: 'audiences', id: audience?.id } } },
  })
  if (!form) return undefined
  await ask('PATCH', `/forms/${form.id}`, { type: 'forms', id: form.id, attributes: { status: 'open' } })
  return String(form.attributes['public_url'])
}
