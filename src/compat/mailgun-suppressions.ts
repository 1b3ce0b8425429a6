// The suppressions of Mailgun's clients: bounces, complaints and unsubscribes of a domain.
import { CompatError, invalid, type CompatAnswer, type CompatCall, type CompatResource } from './kit.ts'
import { domainNamed } from './mailgun-domains.ts'

/** Reasons by the kind in the path. */
export const KINDS = {
  bounces: ['hard_bounce', 'soft_bounce', 'manual', 'list_import'],
  complaints: ['complaint'],
  unsubscribes: ['unsubscribe'],
} as const
export type SuppressionKind = keyof typeof KINDS

const USUAL = 100
const MOST = 1000
const MOST_OF_API = 100

const itemOf = (kind: SuppressionKind, { attributes }: CompatResource): object => ({
  address: attributes['email'],
  ...(kind === 'bounces' && { code: '550', error: String(attributes['reason']) }),
  ...(kind === 'unsubscribes' && { tags: ['*'] }),
  created_at: new Date(String(attributes['created_at'])).toUTCString(),
})

const queryFor = (kind: SuppressionKind, domain: CompatResource): URLSearchParams =>
  new URLSearchParams({ sort: 'email', 'filter[domain]': domain.id, 'filter[reason]': KINDS[kind].join(',') })

/** Pages are named by their last address, and by the cursor of the API at which they begin. */
export const listSuppressions =
  (kind: SuppressionKind, publicUrl: () => string) =>
  async (call: CompatCall): Promise<CompatAnswer> => {
    const name = (call.params['domain'] ?? '').toLowerCase()
    const given = call.context.req.query()
    const limit = given['limit'] ?? String(USUAL)
    if (!/^\d{1,9}$/.test(limit) || Number(limit) < 1) throw invalid('limit', `"limit" must be 1 to ${MOST}.`)
    const count = Math.min(Number(limit), MOST)
    const query = queryFor(kind, await domainNamed(call, name))
    const items: CompatResource[] = []
    // The cursor is that of the first page, or follows `page=next`.
    const began = given['page'] === 'next' ? given['address'] : undefined
    let cursor = began
    while (cursor !== END && items.length < count) {
      query.set('page[size]', String(Math.min(count - items.length, MOST_OF_API)))
      if (cursor !== undefined) query.set('page[cursor]', cursor)
      const { document } = await call.ask('GET', `/suppressions?${query.toString()}`)
      items.push(...[document.data].flat())
      cursor = document.meta?.next_cursor ?? END
    }
    const url = (page: string, address = ''): string =>
      `${publicUrl()}/v3/${encodeURIComponent(name)}/${kind}?${new URLSearchParams({ page, address, limit: String(count) }).toString()}`
    return {
      body: {
        items: items.map((item) => itemOf(kind, item)),
        paging: { first: url('first'), next: url('next', cursor), previous: url('previous'), last: url('last') },
      },
    }
  }

/** In place of a cursor behind the last page. */
const END = 'end'

async function find(kind: SuppressionKind, call: CompatCall): Promise<CompatResource> {
  const query = queryFor(kind, await domainNamed(call, (call.params['domain'] ?? '').toLowerCase()))
  query.set('filter[email]', call.params['address'] ?? '')
  const { document } = await call.ask('GET', `/suppressions?${query.toString()}`)
  const [found] = [document.data].flat()
  if (found) return found
  throw new CompatError(404, [{ code: 'not_found', detail: `Address not found in ${kind} table`, field: 'address' }])
}

export const showSuppression =
  (kind: SuppressionKind) =>
  async (call: CompatCall): Promise<CompatAnswer> => ({ body: itemOf(kind, await find(kind, call)) })

const REMOVED: Readonly<Record<SuppressionKind, string>> = {
  bounces: 'Bounced address has been removed',
  complaints: 'Spam complaint has been removed',
  unsubscribes: 'Unsubscribe event has been removed',
}

export const removeSuppression =
  (kind: SuppressionKind) =>
  async (call: CompatCall): Promise<CompatAnswer> => {
    const { attributes, id } = await find(kind, call)
    await call.ask('DELETE', `/suppressions/${id}`)
    return { body: { message: REMOVED[kind], address: attributes['email'] } }
  }
