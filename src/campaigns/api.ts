// Campaigns and their statistics.
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { CAMPAIGN_STATUSES, type CampaignStatus } from '../store/states/campaign.ts'
import { relatedIn } from '../jsonapi/related.ts'
import { definer, field, parentOf, type Call, type Caller } from '../jsonapi/resource.ts'
import { addCampaign, changeCampaign, changeSchedule, removeCampaign, type CampaignDeps } from './edit.ts'
import { db, raw } from '../store/query.ts'
import { holding } from '../jsonapi/fields.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import type { ServerPart } from '../parts/part.ts'
import { address, addresses, line, someMoment, text, nameField } from '../jsonapi/schemas.ts'
import { keptPerReader } from './kept.ts'
import type { Reader } from '../store/database.ts'
import { countedEvents } from '../store/events.ts'

const MEGABYTE = 1024 * 1024
export const MAX_ADDRESSES = 10

export interface CampaignParts {
  /** The parts that follow the HTML of campaigns. */
  subjects: readonly Pick<ServerPart, 'campaignWritten'>[]
}

export const depsOf = ({ bells, clock, keyring, store, subjects }: ApiDeps & CampaignParts): CampaignDeps => ({
  clock,
  keyring,
  store,
  ring: bells.campaigns,
  written(tx, campaign, html) {
    for (const { campaignWritten } of subjects) campaignWritten?.(tx, campaign, html)
  },
})

export const define = definer<ApiDeps & CampaignParts>()
const both = { create: 'optional', update: true } as const
const choice = (about: string) =>
  field(z.boolean('must be true, false or null').nullable(), { ...both, kind: 'flag', about })
const count = (about: string) => field(z.int(), { about })
const tracked = (about: string) =>
  field(z.int().nullable(), { about: `${about} Null if the campaign is not tracked for it.` })
const timeOrNull = (about: string) => field(z.iso.datetime().nullable(), { kind: 'time', about })

const moment = someMoment.nullable()

const audience = relatedIn('audience', 'audiences')
const segment = relatedIn('segment', 'segments')

/**
 * The segment that a request names, or undefined if it leaves the segment as it is. Null: all contacts. Throws 404 if
 * it belongs to another audience.
 */
function segmentIn(
  call: Pick<Call<ApiDeps>, 'caller' | 'parts' | 'related'>,
  audienceKey: number,
): number | null | undefined {
  const given = call.related['segment']
  if (given === undefined || given === null) return given
  const found = segment.of(call)
  if (found.audience_key === audienceKey) return found.key
  throw refuse('not_found', 'The segment belongs to another audience. Use a segment of the audience of the campaign.', {
    pointer: '/data/relationships/segment',
  })
}

export const campaigns = define('campaigns', {
  table: 'campaigns',
  path: '/campaigns/:campaign',
  scope: 'campaigns',
  only: 'deleted_at is null',
  about: 'Emails to the contacts of an audience. A campaign is edited as a draft and then controlled by its status.',
  attributes: {
    name: nameField('Spring'),
    subject: field(line(998), {
      create: 'required',
      update: true,
      sort: true,
      about: 'Subject. It can contain merge tags.',
      example: 'News for {{name}}',
    }),
    body_html: field(text(5 * MEGABYTE), {
      create: 'required',
      update: true,
      read: 'single',
      about: 'HTML body. It can contain merge tags.',
      example: '<p>Hello {{name}}</p><p><a href="{{unsubscribe_url}}">Unsubscribe</a></p>',
    }),
    body_text: field(text(5 * MEGABYTE).nullable(), {
      ...both,
      read: 'single',
      about: 'Plain text body. It can contain merge tags. Generated from the HTML body if null, absent or blank.',
    }),
    from_address: field(address().nullable(), {
      ...both,
      about:
        'Sender. If null, noreply@ on the sending domain. A new campaign without it has the default sender of the brand.',
    }),
    reply_to: field(addresses(MAX_ADDRESSES).nullable(), {
      ...both,
      kind: 'json',
      answer: z.array(z.string()).nullable(),
      about: 'Address for replies. If null, replies go to the sender.',
    }),
    test_mode: field(z.boolean('must be true or false'), {
      ...both,
      kind: 'flag',
      about: 'Whether the campaign is sent only to `test_recipient_email`.',
    }),
    require_unsubscribe_link: field(z.boolean('must be true or false'), {
      ...both,
      kind: 'flag',
      about:
        'Whether `body_html` must contain {{unsubscribe_url}}. If true, a campaign without it does not start. If false, a footer with an unsubscribe link is added.',
    }),
    test_recipient_email: field(address().nullable(), {
      ...both,
      about: 'Recipient of the campaign in test mode. Null if absent.',
    }),
    scheduled_at: field(moment, {
      update: true,
      kind: 'time',
      answer: z.iso.datetime().nullable(),
      about: 'Time when the campaign starts. If null or in the past, it starts immediately.',
      example: '2026-01-31T09:00:00Z',
    }),
    status: field(z.enum(CAMPAIGN_STATUSES, { error: `must be one of ${CAMPAIGN_STATUSES.join(', ')}` }), {
      update: true,
      sort: true,
      about:
        'Status of the campaign. An update can schedule or cancel a draft, cancel a scheduled or paused campaign, pause a campaign that is being sent, and resume a paused one.',
    }),
    track_opens: choice('Whether opens are tracked. If null, the setting of the domain applies.'),
    track_clicks: choice('Whether clicks are tracked. If null, the setting of the domain applies.'),
    recipients: field(z.int().nullable(), { about: 'Number of recipients. Null until the campaign has started.' }),
    concluded: field(z.int(), {
      read: 'single',
      about: 'Number of recipients with a final status.',
      extension: true,
    }),
    failure: field(z.string().nullable(), {
      about: 'Reason why the campaign failed or was paused by the server. Null if neither happened.',
    }),
    started_at: timeOrNull('Time when sending started. Null if it has not.'),
    finished_at: timeOrNull('Time when the campaign was sent, cancelled or failed. Null until then.'),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time when the campaign was created.' }),
    updated_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time of the last change.' }),
  },
  relationships: {
    audience: { type: 'audiences', column: 'audience_key', create: true },
    segment: { type: 'segments', column: 'segment_key', create: true, update: true, optional: true },
  },
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
      refuses: ['not_found', 'address_outside_domain', 'tracking_disabled'],
      about: 'Create a draft campaign for an audience. It is not sent until its status is set to `scheduled`.',
      before(call) {
        audience.before(call)
        segment.before(call)
      },
      async run(call) {
        const to = audience.of(call)
        const segment_key = segmentIn(call, to.key) ?? null
        return { row: { ...(await addCampaign(depsOf(call.parts), to, { ...call.attributes, segment_key })) } }
      },
    },
    { kind: 'list', about: 'List campaigns.' },
    { kind: 'show', about: 'Get a campaign.' },
    {
      kind: 'update',
      audit: 'merge',
      refuses: [
        'not_found',
        'subscription_inactive',
        'required',
        'address_outside_domain',
        'tracking_disabled',
        'transition_not_allowed',
        'not_editable',
        'message_too_large',
        'overloaded',
      ],
      about: 'Update a draft campaign, or change the status of a campaign.',
      run: async (call) => {
        const { attributes, caller, parts, row } = call
        if (attributes.status === 'scheduled' || attributes.status === 'sending') refuseBound(caller)
        const segment_key = segmentIn(call, row.audience_key)
        // A client may send back a whole campaign, with its present segment.
        const change = segment_key === row.segment_key ? attributes : { ...attributes, segment_key }
        return { row: { ...(await changeCampaign(depsOf(parts), row.key, change, caller.person?.key)) } }
      },
    },
    {
      kind: 'delete',
      about: 'Delete a campaign. The emails that it has sent stay on record.',
      run: ({ parts, row }) => removeCampaign(depsOf(parts), row.key),
    },
    {
      kind: 'act',
      path: 'unschedule',
      id: 'unscheduleCampaign',
      refuses: ['transition_not_allowed'],
      about: 'Cancel the start of a scheduled campaign. It becomes a draft again.',
      extension: true,
      run: async ({ parts, row }) => ({ row: { ...(await changeSchedule(depsOf(parts), row.key, null)) } }),
    },
  ],
})

export const campaignSchedules = define('campaign-schedules', {
  table: 'campaigns',
  scope: 'campaigns',
  about: 'Start time of a scheduled campaign.',
  extension: true,
  attributes: {
    scheduled_at: field(someMoment, {
      create: 'required',
      kind: 'time',
      answer: z.iso.datetime(),
      about: 'New start time. If it is in the past, the campaign starts immediately.',
      example: '2026-01-31T09:00:00Z',
    }),
    status: field(z.enum(CAMPAIGN_STATUSES), { about: 'Status of the campaign.' }),
  },
  actions: [
    {
      kind: 'create',
      path: '/campaigns/:campaign/reschedule',
      within: { type: 'campaigns', column: 'key' },
      id: 'rescheduleCampaign',
      status: 200,
      refuses: ['not_found', 'transition_not_allowed'],
      about: 'Update the start time of a scheduled campaign.',
      async run(call) {
        refuseBound(call.caller)
        const { key } = parentOf(campaigns, call)
        return { row: { ...(await changeSchedule(depsOf(call.parts), key, call.attributes.scheduled_at)) } }
      },
    },
  ],
})

/**
 * Campaigns have no agent and no daily limit, so a token with either can prepare a campaign but not start it (D117).
 */
function refuseBound({ agentId, maker }: Caller): void {
  if (agentId === undefined && (maker?.daily ?? null) === null) return
  throw refuse(
    'insufficient_scope',
    'This token has an agent or a daily limit, which do not apply to campaigns. Start the campaign with a token that has neither, or in the console.',
  )
}

export const campaignStats = define('campaign-stats', {
  table: 'campaigns',
  path: '/campaigns/:campaign/stats',
  scope: 'campaigns',
  only: 'deleted_at is null',
  about: 'Statistics of a campaign.',
  attributes: {
    recipients: field(z.int().nullable(), { about: 'Number of recipients. Null until the campaign has started.' }),
    deliveries: count('Emails that the receiving servers accepted, including those that bounced later.'),
    opens: tracked('Opens, without those by machines.'),
    clicks: tracked('Clicks on links, without those by machines.'),
    bounces: count('Recipients whose email was permanently rejected.'),
    complaints: count('Recipients who complained.'),
    unsubscribes: count('Recipients who unsubscribed through this campaign.'),
    unique_opens: tracked('Recipients who opened the email.'),
    unique_clicks: tracked('Recipients who clicked a link.'),
    machine_opens: tracked('Opens by machines, such as image proxies and scanners.'),
    machine_clicks: tracked('Clicks by machines, such as link scanners.'),
  },
  extend(rows, { reader }) {
    for (const row of rows) {
      Object.assign(row, campaignCounts(reader, row.key))
      if (row['opens_tracked'] === 0) Object.assign(row, { opens: null, unique_opens: null, machine_opens: null })
      if (row['clicks_tracked'] === 0) Object.assign(row, { clicks: null, unique_clicks: null, machine_clicks: null })
    }
  },
  actions: [{ kind: 'show', params: [], about: 'Get the statistics of a campaign.' }],
})

const TOTALS = Object.fromEntries(
  CAMPAIGN_STATUSES.map((status) => [status, count(`Number of campaigns with the status \`${status}\`.`)]),
) as Record<CampaignStatus, ReturnType<typeof count>>

export const campaignTotals = define('campaign-totals', {
  table: 'campaigns',
  scope: 'campaigns',
  about: 'Number of campaigns in each status.',
  extension: true,
  attributes: TOTALS,
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/campaign-totals',
      params: [],
      id: 'getCampaignTotals',
      about: 'Get the number of campaigns in each status.',
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

// A campaign's statistics: emails by status, counted at each request, and the events of readers (D37). Events are
// counted again only after one was added or removed, because a campaign of 100,000 emails has tens of thousands of
// events and its page is loaded often.

interface ReaderCounts {
  unsubscribes: number
  opens: number
  clicks: number
  unique_opens: number
  unique_clicks: number
  machine_opens: number
  machine_clicks: number
}

export interface CampaignCounts extends ReaderCounts {
  deliveries: number
  bounces: number
  complaints: number
}

/** The last counts of one campaign, and the state of the events from which they were counted (`sourceOf`). */
interface CountedSince {
  from: string
  counts: ReaderCounts
}

const kept = keptPerReader<CountedSince>(100)

export function campaignCounts(reader: Reader, key: number): CampaignCounts {
  const mails = reader.one(
    raw<Record<'deliveries' | 'bounces' | 'complaints', number>>(
      `select
         count(delivered_at) as deliveries,
         count(*) filter (where status = 'bounced') as bounces,
         count(*) filter (where status = 'complained') as complaints
       from outbound_emails where campaign_key = ?`,
      [key],
    ),
  )
  return { ...mails, ...readerCounts(reader, key) }
}

function readerCounts(reader: Reader, key: number): ReaderCounts {
  const known = kept(reader)
  const from = sourceOf(reader, key)
  const last = known.get(key)
  if (last?.from === from) return last.counts
  const counts = countEvents(reader, key)
  known.set(key, { from, counts })
  return counts
}

/** A text that changes when a reader's event of the campaign was added, or any event was removed or summed up. */
function sourceOf(reader: Reader, key: number): string {
  const newest = (type: string): string =>
    `coalesce((select max(key) from events where campaign_key = ? and type = '${type}'), 0)`
  const { at } = reader.one(
    raw<{ at: number }>(
      `select max(${['email.opened', 'email.clicked', 'email.unsubscribed'].map(newest).join(', ')}) as at`,
      [key, key, key],
    ),
  )
  return `${at} ${reader.generation('events', 'removed')} ${reader.generation('event_sums', 'changed')}`
}

function countEvents(reader: Reader, key: number): ReaderCounts {
  return reader.one(
    raw<ReaderCounts>(
      `with countedEvents as (
         ${countedEvents(`campaign_key = ? and type in ('email.opened', 'email.clicked', 'email.unsubscribed')`)})
       select
         total(times) filter (where type = 'email.opened' and not machine) as opens,
         total(times) filter (where type = 'email.clicked' and not machine) as clicks,
         count(distinct iif(type = 'email.opened' and not machine, email_key, null)) as unique_opens,
         count(distinct iif(type = 'email.clicked' and not machine, email_key, null)) as unique_clicks,
         total(times) filter (where type = 'email.opened' and machine) as machine_opens,
         total(times) filter (where type = 'email.clicked' and machine) as machine_clicks,
         count(distinct iif(type = 'email.unsubscribed', email_key, null)) as unsubscribes
       from countedEvents`,
      [key, key],
    ),
  )
}

/** The number of a campaign's emails with a final result. An email that bounced after its delivery is counted once. */
export const concludedOf = (reader: Reader, key: number): number =>
  reader.one(
    raw<{ count: number }>(
      `select count(*) as count from outbound_emails where campaign_key = ? and status not in ('queued', 'sent')`,
      [key],
    ),
  ).count
