// Sign-up forms and contact forms for tests, made through the API.
import assert from 'node:assert/strict'
import { document, type Answer, type TestAppliance } from './appliance.ts'

/** Everything that a sign-up form needs to be opened. */
export const FORM = {
  name: 'Website',
  title: 'Old Trees News',
  consent_text: 'I would like to receive Old Trees News once a month.',
  controller: 'Old Trees Ltd, Ghent',
  privacy_url: 'https://www.here.test/privacy',
}

type Relation = 'audience' | 'inbox'
const TYPES = { audience: 'audiences', inbox: 'inboxes' } as const

export interface FormKit {
  /** A request that creates a form. */
  post(target: Partial<Record<Relation, string>>, attributes?: Record<string, unknown>): Promise<Answer>
  /** Creates a draft, and returns its id. */
  draft(target: Partial<Record<Relation, string>>, attributes?: Record<string, unknown>): Promise<string>
  patch(form: string, attributes: Record<string, unknown>): Promise<Answer>
  show(form: string): Promise<Record<string, any>> // oxlint-disable-line typescript/no-explicit-any
  /** Creates a form, opens it, and returns its id and slug. */
  open(
    target: Partial<Record<Relation, string>>,
    attributes?: Record<string, unknown>,
  ): Promise<{ id: string; slug: string }>
}

export function formKit(postrider: () => TestAppliance): FormKit {
  const kit: FormKit = {
    post: (target, attributes = {}) => {
      const relationships = Object.fromEntries(
        Object.entries(target).map(([name, id]) => [name, { data: { type: TYPES[name as Relation], id } }]),
      )
      return postrider().api('POST', '/forms', document('forms', { ...FORM, ...attributes }, { relationships }))
    },
    async draft(target, attributes) {
      const { body, status } = await kit.post(target, attributes)
      assert.equal(status, 201, JSON.stringify(body))
      return body.data.id
    },
    patch: (id, attributes) => postrider().api('PATCH', `/forms/${id}`, document('forms', attributes, { id })),
    show: async (id) => (await postrider().api('GET', `/forms/${id}`)).body.data.attributes,
    async open(target, attributes) {
      const id = await kit.draft(target, attributes)
      const { body, status } = await kit.patch(id, { status: 'open' })
      assert.equal(status, 200, JSON.stringify(body))
      return { id, slug: body.data.attributes.slug }
    },
  }
  return kit
}
