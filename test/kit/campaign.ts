// Audiences, contacts and campaigns for tests, made through the API.
import assert from 'node:assert/strict'
import type { Domain } from '../../src/domains/find.ts'
import type { TestAppliance } from './appliance.ts'
import { until } from './until.ts'

export interface CampaignKit {
  audience(domain: Domain | { id: string }, name?: string): Promise<string>
  /** Adds contacts by import. Plain addresses or items. */
  fill(
    audience: string,
    contacts: readonly (string | Record<string, unknown>)[],
  ): Promise<{ created: number; skipped: number }>
  /** Makes a draft and returns its id. */
  draft(audience: string, attributes?: Record<string, unknown>): Promise<string>
  patch(campaign: string, attributes: Record<string, unknown>): ReturnType<TestAppliance['api']>
  show(campaign: string): Promise<Record<string, any>> // oxlint-disable-line typescript/no-explicit-any
  stats(campaign: string): Promise<Record<string, any>> // oxlint-disable-line typescript/no-explicit-any
  /** Schedules the campaign for now and waits until it has ended. */
  send(campaign: string): Promise<string>
}

export function campaignKit(postrider: () => TestAppliance): CampaignKit {
  const api: TestAppliance['api'] = (...request) => postrider().api(...request)
  const kit: CampaignKit = {
    async audience({ id }, name = 'Readers') {
      const { body, status } = await api('POST', '/audiences', {
        data: { type: 'audiences', attributes: { name }, relationships: { domain: { data: { type: 'domains', id } } } },
      })
      assert.equal(status, 201, JSON.stringify(body))
      return body.data.id
    },
    async fill(audience, contacts) {
      const items = contacts.map((contact) => (typeof contact === 'string' ? { email: contact } : contact))
      const { body, status } = await api('POST', `/audiences/${audience}/contacts/import`, {
        data: { type: 'contacts', attributes: { contacts: items } },
      })
      assert.equal(status, 200, JSON.stringify(body))
      return body.data.attributes
    },
    async draft(audience, attributes = {}) {
      const { body, status } = await api('POST', '/campaigns', {
        data: {
          type: 'campaigns',
          attributes: { name: 'Spring', subject: 'Hello {{name}}', body_html: '<p>Hello {{name}}.</p>', ...attributes },
          relationships: { audience: { data: { type: 'audiences', id: audience } } },
        },
      })
      assert.equal(status, 201, JSON.stringify(body))
      return body.data.id
    },
    patch: (id, attributes) => api('PATCH', `/campaigns/${id}`, { data: { type: 'campaigns', id, attributes } }),
    show: async (id) => (await api('GET', `/campaigns/${id}`)).body.data.attributes,
    stats: async (id) => (await api('GET', `/campaigns/${id}/stats`)).body.data.attributes,
    async send(id) {
      const { body, status } = await kit.patch(id, { status: 'scheduled' })
      assert.equal(status, 200, JSON.stringify(body))
      return until(async () => {
        const { status: now } = await kit.show(id)
        return ['sent', 'failed', 'cancelled'].includes(now) ? (now as string) : undefined
      }, 'the end of the campaign')
    },
  }
  return kit
}
