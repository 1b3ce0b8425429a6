// Segments of an audience, and the number of contacts that match.
import { define } from '../jsonapi/define.ts'
import { count, time } from '../jsonapi/fields.ts'
import { field, parentOf } from '../jsonapi/resource.ts'
import { nameField, text } from '../jsonapi/schemas.ts'
import { db } from '../store/query.ts'
import { audiences } from './api-audiences.ts'
import { reachOf, reachOfRules, type Reach } from './reach.ts'
import { rulesAnswer, rulesSchema } from './rules.ts'
import { addSegment, changeSegment, checkCampaigns, removeSegment } from './segments.ts'

const RULES =
  'Conditions that a contact must meet, all of them. A condition is about a field (`field`, `op`, `value`), about the time when the contact was added (`date`, `op`, `value`), or about emails of campaigns to this audience (`event`, `op`, and optionally `campaign` or `days`). Texts are compared without case. A value of another type matches only `is_not`, and a field without a value only `is_not` and `empty`. `less` and `greater` also accept numbers in texts. `did_not opened` and `did_not clicked` match only contacts to whom a tracked email was delivered.'
const EXAMPLE = [
  { field: 'city', op: 'is', value: 'Ghent' },
  { event: 'opened', op: 'did', days: 90 },
]

export const segments = define('segments', {
  table: 'segments',
  path: '/segments/:segment',
  scope: 'contacts',
  only: 'deleted_at is null and audience_key in (select key from audiences where deleted_at is null)',
  about:
    'Rules that select contacts of an audience. A campaign to a segment is sent to those who match when it starts.',
  extension: true,
  attributes: {
    name: nameField('Readers in Ghent'),
    description: field(text(10_000).nullable(), {
      create: 'optional',
      update: true,
      about: 'Description of the segment. Null if absent.',
    }),
    rules: field(rulesSchema, {
      create: 'required',
      update: true,
      kind: 'json',
      answer: rulesAnswer,
      about: RULES,
      example: EXAMPLE,
    }),
    created_at: time('Time when the segment was created.'),
    updated_at: time('Time of the last change.'),
  },
  relationships: { audience: { type: 'audiences', column: 'audience_key' } },
  actions: [
    {
      kind: 'list',
      path: '/audiences/:audience/segments',
      within: { type: 'audiences', column: 'audience_key' },
      about: 'List the segments of an audience.',
    },
    {
      kind: 'create',
      path: '/audiences/:audience/segments',
      within: { type: 'audiences', column: 'audience_key' },
      refuses: ['not_found', 'limit_reached'],
      about: 'Create a segment.',
      run: async (call) => ({ row: { ...(await addSegment(call.parts, parentOf(audiences, call), call.attributes)) } }),
    },
    { kind: 'show', about: 'Get a segment.' },
    {
      kind: 'update',
      refuses: ['not_found'],
      about: 'Update a segment. This changes the recipients of scheduled campaigns to it, but not of started ones.',
      run: async ({ parts, row, attributes }) => ({ row: { ...(await changeSegment(parts, row, attributes)) } }),
    },
    {
      kind: 'delete',
      refuses: ['segment_in_use'],
      about: 'Delete a segment. A segment of a draft or of a scheduled campaign cannot be deleted.',
      run: ({ parts, row }) => removeSegment(parts, row),
    },
  ],
})

const counted = ({ contacts, recipients }: Reach, now: number) => ({
  count: recipients,
  matching: contacts,
  counted_at: now,
})

export const segmentCounts = define('segment-counts', {
  table: 'segments',
  scope: 'contacts',
  about: 'Number of contacts that match a segment.',
  extension: true,
  attributes: {
    rules: field(rulesSchema, { create: 'required', read: 'never', about: RULES, example: EXAMPLE }),
    count: count('Number of matching contacts who would receive a campaign that starts now.'),
    matching: count('Number of all matching contacts, including those who are unsubscribed or suppressed.'),
    counted_at: time('Time as of which the contacts were counted.'),
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/segments/:segment/count',
      within: { type: 'segments', column: 'key' },
      params: [],
      id: 'getSegmentCount',
      about: 'Get the number of contacts that match a segment.',
      async run(call) {
        const { audience_key, id, key } = parentOf(segments, call)
        const { domain_key } = call.parts.store.one(
          db.selectFrom('audiences').select('domain_key').where('key', '=', audience_key),
        )
        const reach = await reachOf(call.parts, { audience_key, domain_key, segment_key: key })
        return [{ key: 0, id, ...counted(reach, call.now) }]
      },
    },
    {
      kind: 'create',
      path: '/audiences/:audience/segment-counts',
      within: { type: 'audiences', column: 'key' },
      id: 'countSegment',
      scope: 'contacts:read',
      audit: 'never',
      status: 200,
      refuses: ['not_found'],
      about: 'Count the contacts of an audience that match rules. The rules are not stored.',
      async run(call) {
        const audience = parentOf(audiences, call)
        const { rules } = call.attributes
        checkCampaigns(call.parts.store, audience.key, rules)
        const reach = await reachOfRules(call.parts, audience, rules)
        return { row: { key: 0, id: audience.id, ...counted(reach, call.now) } }
      },
    },
  ],
})
