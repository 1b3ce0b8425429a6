// Campaigns and their figures.
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { CAMPAIGN_STATUSES, type CampaignStatus } from '../states/campaign.ts'
import { field, parentOf, type Call, type Caller } from '../jsonapi/resource.ts'
import { audienceById, type Audience } from './audiences.ts'
import { addCampaign, changeCampaign, changeSchedule, removeCampaign, type CampaignDeps } from './edit.ts'
import { campaignCounts, concludedOf } from './stats.ts'
import { db } from '../store/query.ts'
import { EXTENSION, holding } from '../jsonapi/fields.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { address, addresses, line, text, nameField } from '../jsonapi/schemas.ts'

const MEGABYTE = 1024 * 1024
export const MAX_ADDRESSES = 10
const depsOf = ({ bells, clock, store }: ApiDeps): CampaignDeps => ({ clock, store, ring: bells.campaigns })
const both = { create: 'optional', update: true } as const
const choice = (about: string) =>
  field(z.boolean('must be true, false or null').nullable(), { ...both, kind: 'flag', about })
const count = (about: string) => field(z.int(), { about })
const tracked = (about: string) =>
  field(z.int().nullable(), { about: `${about} Null when the campaign is not tracked for it.` })
const timeOrNull = (about: string) => field(z.iso.datetime().nullable(), { kind: 'time', about })

/** A point in time; answers show milliseconds. */
const someMoment = z
  .string('must be a timestamp such as "2026-01-31T09:00:00Z"')
  .refine(
    (value) => z.iso.datetime({ offset: true }).safeParse(value).success,
    'must be a timestamp such as "2026-01-31T09:00:00Z"',
  )
  .meta({ format: 'date-time' })
  .transform((value) => Date.parse(value))
const moment = someMoment.nullable()

/** The audience that a new campaign is for. Throws 404. */
function audienceOf({
  caller,
  parts,
  related,
}: Pick<Call<ApiDeps>, 'caller' | 'parts' | 'related'>): Audience | undefined {
  const id = related['audience']
  if (id === undefined) return undefined
  const audience = audienceById(parts.store, id)
  if (audience?.user_key !== caller.userKey)
    throw refuse('not_found', 'There is no such audience.', { pointer: '/data/relationships/audience' })
  return audience
}

export const campaigns = define('campaigns', {
  table: 'campaigns',
  only: 'deleted_at is null',
  about: 'Mail to the contacts of an audience. A campaign is edited as a draft and then moved by its status.',
  attributes: {
    name: nameField('Spring'),
    subject: field(line(998), {
      create: 'required',
      update: true,
      sort: true,
      about: 'The subject, with merge tags.',
      example: 'News for {{name}}',
    }),
    body_html: field(text(5 * MEGABYTE), {
      create: 'required',
      update: true,
      read: 'single',
      about: 'The HTML body, with merge tags.',
      example: '<p>Hello {{name}}</p><p><a href="{{unsubscribe_url}}">Unsubscribe</a></p>',
    }),
    body_text: field(text(5 * MEGABYTE).nullable(), {
      ...both,
      read: 'single',
      about: 'The plain text body, with merge tags; made from the HTML when absent or blank.',
    }),
    from_address: field(address().nullable(), {
      ...both,
      about: 'The sender; noreply@ on the sending domain when null.',
    }),
    reply_to: field(addresses(MAX_ADDRESSES).nullable(), {
      ...both,
      kind: 'json',
      answer: z.array(z.string()).nullable(),
      about: 'Where replies go.',
    }),
    test_mode: field(z.boolean('must be true or false'), {
      ...both,
      kind: 'flag',
      about: 'True sends to test_recipient_email alone.',
    }),
    require_unsubscribe_link: field(z.boolean('must be true or false'), {
      ...both,
      kind: 'flag',
      about: 'True refuses to start without {{unsubscribe_url}} in body_html; false adds a small footer with the link.',
    }),
    test_recipient_email: field(address().nullable(), { ...both, about: 'Who gets a test.' }),
    scheduled_at: field(moment, {
      update: true,
      kind: 'time',
      answer: z.iso.datetime().nullable(),
      about: 'When it starts; null or past: at once.',
      example: '2026-01-31T09:00:00Z',
    }),
    status: field(z.enum(CAMPAIGN_STATUSES, { error: `must be one of ${CAMPAIGN_STATUSES.join(', ')}` }), {
      update: true,
      sort: true,
      about:
        'The state of the campaign. A PATCH may schedule and cancel a draft, cancel what is scheduled or paused, pause and resume.',
    }),
    track_opens: choice('Whether opens are tracked; null follows the domain.'),
    track_clicks: choice('Whether clicks are tracked; null follows the domain.'),
    recipients: field(z.int().nullable(), { about: 'How many it goes to; known once it is sending.' }),
    concluded: field(z.int(), {
      read: 'single',
      about: `Recipients whose mail has reached a final state, each counted once. ${EXTENSION}`,
    }),
    failure: field(z.string().nullable(), { about: 'Why it failed, or why this server paused it.' }),
    started_at: timeOrNull('When it began to send.'),
    finished_at: timeOrNull('When it was sent, cancelled or failed.'),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'When it was made.' }),
    updated_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'When it last changed.' }),
  },
  relationships: { audience: { type: 'audiences', column: 'audience_key', create: true } },
  filters: {
    status: { column: 'status' },
    audience: { column: 'audience_key', type: 'audiences' },
    search: holding('name', 'subject'),
  },
  extend(rows, { reader, single }) {
    if (single) for (const row of rows) row['concluded'] = concludedOf(reader, row.key)
  },
  actions: [
    {
      kind: 'create',
      path: '/campaigns',
      scope: 'campaigns:write',
      refuses: ['not_found', 'address_outside_domain', 'tracking_disabled'],
      about: 'Make a draft for an audience; nothing is sent yet.',
      before: (call) => void audienceOf(call),
      run: async (call) => {
        const audience = audienceOf(call)
        if (!audience) throw refuse('required', 'Name the audience in relationships.audience.', { pointer: '/data' })
        return { row: { ...(await addCampaign(depsOf(call.parts), audience, call.attributes)) } }
      },
    },
    {
      kind: 'list',
      path: '/campaigns',
      scope: 'campaigns:read',
      params: ['filter', 'sort', 'include', 'fields', 'page'],
      about: 'List your campaigns.',
    },
    { kind: 'show', path: '/campaigns/:campaign', scope: 'campaigns:read', about: 'Show a campaign.' },
    {
      kind: 'update',
      path: '/campaigns/:campaign',
      scope: 'campaigns:write',
      refuses: [
        'subscription_inactive',
        'required',
        'address_outside_domain',
        'tracking_disabled',
        'transition_not_allowed',
        'not_editable',
      ],
      about: 'Edit a draft, or move a campaign by its status.',
      run: async ({ caller, parts, row, attributes }) => {
        if (attributes.status === 'scheduled' || attributes.status === 'sending') refuseBound(caller)
        return { row: { ...(await changeCampaign(depsOf(parts), row.key, attributes)) } }
      },
    },
    {
      kind: 'delete',
      path: '/campaigns/:campaign',
      scope: 'campaigns:write',
      about: 'Remove a campaign; what it has sent stays on record.',
      run: ({ parts, row }) => removeCampaign(depsOf(parts), row.key),
    },
    {
      kind: 'act',
      path: '/campaigns/:campaign/unschedule',
      id: 'unscheduleCampaign',
      scope: 'campaigns:write',
      refuses: ['transition_not_allowed'],
      about: `Take back the start of a scheduled campaign: it is a draft again. ${EXTENSION}`,
      run: async ({ parts, row }) => ({ row: { ...(await changeSchedule(depsOf(parts), row.key, null)) } }),
    },
  ],
})

export const campaignSchedules = define('campaign-schedules', {
  table: 'campaigns',
  about: `When a scheduled campaign starts. ${EXTENSION}`,
  attributes: {
    scheduled_at: field(someMoment, {
      create: 'required',
      kind: 'time',
      answer: z.iso.datetime(),
      about: 'When it starts; a past time: at once.',
      example: '2026-01-31T09:00:00Z',
    }),
    status: field(z.enum(CAMPAIGN_STATUSES), { about: 'The state of the campaign.' }),
  },
  actions: [
    {
      kind: 'create',
      path: '/campaigns/:campaign/reschedule',
      within: { type: 'campaigns', column: 'key' },
      id: 'rescheduleCampaign',
      scope: 'campaigns:write',
      status: 200,
      refuses: ['not_found', 'transition_not_allowed'],
      about: `Change the time at which a scheduled campaign starts. ${EXTENSION}`,
      async run(call) {
        refuseBound(call.caller)
        const { key } = parentOf(campaigns, call)
        return { row: { ...(await changeSchedule(depsOf(call.parts), key, call.attributes.scheduled_at)) } }
      },
    },
  ],
})

/** A campaign has neither agent nor daily limit: a token with one of them prepares it, and starts none (D117). */
function refuseBound({ agentId, maker }: Caller): void {
  if (agentId === undefined && (maker?.daily ?? null) === null) return
  throw refuse(
    'insufficient_scope',
    'This token has an agent or a daily limit, which campaigns do not have; a person, or a token without them, starts this campaign.',
  )
}

export const campaignStats = define('campaign-stats', {
  table: 'campaigns',
  only: 'deleted_at is null',
  about: 'What became of a campaign, in figures.',
  attributes: {
    recipients: field(z.int().nullable(), { about: 'How many it goes to.' }),
    deliveries: count('Mails that were accepted by the recipients’ exchangers, also those that bounced later.'),
    opens: tracked('Times it was opened by people.'),
    clicks: tracked('Times a link was followed by people.'),
    bounces: count('Recipients that refused it for good.'),
    complaints: count('Recipients that complained.'),
    unsubscribes: count('Recipients that unsubscribed by it.'),
    unique_opens: tracked('Recipients that opened it.'),
    unique_clicks: tracked('Recipients that followed a link.'),
    machine_opens: tracked('Times a machine fetched the pixel.'),
    machine_clicks: tracked('Times a machine followed a link.'),
  },
  extend(rows, { reader }) {
    for (const row of rows) {
      Object.assign(row, campaignCounts(reader, row.key))
      if (row['opens_tracked'] === 0) Object.assign(row, { opens: null, unique_opens: null, machine_opens: null })
      if (row['clicks_tracked'] === 0) Object.assign(row, { clicks: null, unique_clicks: null, machine_clicks: null })
    }
  },
  actions: [
    {
      kind: 'show',
      path: '/campaigns/:campaign/stats',
      scope: 'campaigns:read',
      params: [],
      about: 'The figures of a campaign.',
    },
  ],
})

const TOTALS = Object.fromEntries(
  CAMPAIGN_STATUSES.map((status) => [status, count(`Campaigns that are ${status}.`)]),
) as Record<CampaignStatus, ReturnType<typeof count>>

export const campaignTotals = define('campaign-totals', {
  table: 'campaigns',
  about: `How many campaigns there are in each state. ${EXTENSION}`,
  attributes: TOTALS,
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/campaign-totals',
      params: [],
      id: 'getCampaignTotals',
      scope: 'campaigns:read',
      about: `How many campaigns you have in each state. ${EXTENSION}`,
      run({ caller, parts }) {
        const counted = parts.store.all(
          db
            .selectFrom('campaigns')
            .select(['status', (eb) => eb.fn.countAll<number>().as('count')])
            .where('user_key', '=', caller.userKey)
            .where('deleted_at', 'is', null)
            .groupBy('status'),
        )
        const none = Object.fromEntries(CAMPAIGN_STATUSES.map((status) => [status, 0]))
        const some = Object.fromEntries(counted.map((each) => [each.status, each.count]))
        return [{ key: 0, id: caller.userId, ...none, ...some }]
      },
    },
  ],
})
