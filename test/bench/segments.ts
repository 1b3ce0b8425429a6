// Segments: the time of a count over 100,000 contacts with 2 million campaign emails (AU65). The data is written by
// SQL, and the counts are those of the API.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { systemClock } from '../../src/base/clock.ts'
import { Keyring } from '../../src/base/keyring.ts'
import { countReach, reachOfRules } from '../../src/campaigns/reach.ts'
import { addAudience } from '../../src/campaigns/audiences.ts'
import type { RuleCondition } from '../../src/campaigns/rules.ts'
import { lastContact } from '../../src/campaigns/walk.ts'
import type { Store } from '../../src/store/database.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { figure, percentile } from './rig.ts'

const BENCH = 'segments'
const CAMPAIGNS = 20
const ROUNDS = 10
const DAY = 86_400_000

const RULES: Record<string, RuleCondition[]> = {
  fields: [
    { field: 'city', op: 'in', value: ['Ghent', 'Zürich', 'Oslo'] },
    { field: 'points', op: 'greater', value: 100 },
    { date: 'created_at', op: 'older_than_days', value: 30 },
  ],
  events: [
    { event: 'opened', op: 'did', days: 3650 },
    { event: 'clicked', op: 'did_not', days: 90 },
    { event: 'delivered', op: 'did', days: 30 },
  ],
  not_opened: [{ event: 'opened', op: 'did_not', days: 3650 }],
  // No email is recent enough, so that no contact has an email that ends the search.
  last_day: [{ event: 'delivered', op: 'did', days: 1 }],
}

export async function segments(contacts: number): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'postrider-bench-'))
  try {
    const store = openStore(directory)
    const start = performance.now()
    await fill(store, contacts)
    figure(BENCH, 'filled', (performance.now() - start) / 1000, 's')
    await measure(store)
    store.close()
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

async function measure(store: Store): Promise<void> {
  const deps = { store, clock: systemClock, keyring: new Keyring(Buffer.alloc(32)) }
  const audience = { key: 1, domain_key: 1 }
  const walk = { audience_key: 1, domain_key: 1, started_at: Date.now(), last_contact: lastContact(store, 1) }
  await timed('count_all', async () => (await countReach(store, deps.keyring, walk)).recipients)
  for (const [name, rules] of Object.entries(RULES))
    await timed(`count_${name}`, async () => (await reachOfRules(deps, audience, rules)).recipients)
}

async function timed(name: string, run: () => Promise<number>): Promise<void> {
  const times: number[] = []
  const loop = monitorEventLoopDelay({ resolution: 1 })
  let count = await run()
  loop.enable()
  const before = process.threadCpuUsage()
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now()
    count = await run()
    times.push(performance.now() - start)
  }
  loop.disable()
  const { system, user } = process.threadCpuUsage(before)
  figure(BENCH, name, count, 'contacts')
  // Holds on a busy machine too.
  figure(BENCH, `${name}_cpu`, (user + system) / 1000 / ROUNDS, 'ms')
  figure(BENCH, `${name}_p50`, percentile(times, 0.5), 'ms')
  figure(BENCH, `${name}_p95`, percentile(times, 0.95), 'ms')
  figure(BENCH, `${name}_event_loop_max`, loop.max / 1e6, 'ms')
}

/** An audience with contacts, each of whom got every campaign. A third of the contacts opened half of them. */
async function fill(store: Store, contacts: number): Promise<void> {
  const now = Date.now()
  const run = (sql: string, ...parameters: (string | number)[]) =>
    store.write((tx) => void tx.run(raw(`${sql}`, parameters)))
  const series = (count: number): string =>
    `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})`
  await run(
    `insert into users (id, email, name, plan, subscription_state, created_at, updated_at)
     values ('user', 'ann@bench.example', 'Ann', 'free', 'active', ?, ?)`,
    now,
    now,
  )
  await run(
    `insert into domains (id, user_key, name, purpose, region, mail_from_prefix, tls_policy, open_tracking_enabled,
       click_tracking_enabled, tracking_redirect_mode, status, status_at, poll_from, created_at, updated_at)
     values ('domain', 1, 'bench.example', 'both', 'default', 'bounce', 'opportunistic', 1, 1, 'direct', 'active', ?, ?, ?, ?)`,
    now,
    now,
    now,
    now,
  )
  await addAudience({ store, clock: systemClock }, { key: 1, user_key: 1 }, { name: 'Readers' })
  await run(
    `${series(contacts)} insert into contacts (id, user_key, audience_key, email, name, custom_fields, status, status_at,
       created_at, updated_at)
     select 'contact-' || i, 1, 1, 'reader' || i || '@d' || (i % 50) || '.example', 'Reader ' || i,
       json_object('city', iif(i % 7 = 0, 'Zürich', iif(i % 3 = 0, 'Ghent', 'Lyon')), 'points', i % 1000, 'plan', 'free'),
       'subscribed', ?, ?, ? from n`,
    now - 400 * DAY,
    now - 400 * DAY,
    now,
  )
  for (let campaign = 1; campaign <= CAMPAIGNS; campaign++) await addCampaignEmails(run, campaign, contacts, now)
}

type Run = (sql: string, ...parameters: (string | number)[]) => Promise<void>

async function addCampaignEmails(run: Run, campaign: number, contacts: number, now: number): Promise<void> {
  const at = now - (CAMPAIGNS - campaign + 1) * 7 * DAY
  await run(
    `insert into campaigns (id, user_key, domain_key, audience_key, name, subject, body_html, test_mode,
       require_unsubscribe_link, opens_tracked, clicks_tracked, status, readers_to, walked_to, enqueued, finished_at,
       created_at, updated_at)
     values (?, 1, 1, 1, 'Spring', 'News', '<p>News</p>', 0, 0, 1, 1, 'sent', 0, 0, ?, ?, ?, ?)`,
    `campaign-${campaign}`,
    contacts,
    at,
    at,
    at,
  )
  await run(
    `insert into outbound_emails (id, user_key, domain_key, campaign_key, contact_key, "from", "to", subject, opens_tracked,
       clicks_tracked, message_id, status, queued_at, sent_at, delivered_at, first_opened_at, first_clicked_at, created_at, updated_at)
     select ? || key, 1, 1, ?, key, '', email, '', 1, 1, '', 'delivered', ?, ?, ?,
       iif((key + ?) % 4 < 2 and key % 3 = 0, ?, null), iif((key + ?) % 30 = 0, ?, null), ?, ? from contacts order by key`,
    `email-${campaign}-`,
    campaign,
    at,
    at,
    at,
    campaign,
    at + DAY / 2,
    campaign,
    at + DAY / 2,
    at,
    at,
  )
}
