import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { AGENT_STATUSES, agentMachine } from '../../src/store/states/agent.ts'
import { WATCH_STATUSES, watchMachine } from '../../src/store/states/watch.ts'
import { CAMPAIGN_STATUSES, campaignMachine } from '../../src/store/states/campaign.ts'
import { DELIVERY_STATUSES, deliveryMachine } from '../../src/store/states/delivery.ts'
import { DOMAIN_STATUSES, domainMachine } from '../../src/store/states/domain.ts'
import { EVENT_TYPES, EXTENSION_EVENTS } from '../../src/store/states/events.ts'
import { machine, type Machine } from '../../src/store/states/machine.ts'
import { EMAIL_STATUSES, emailMachine } from '../../src/store/states/outbound-email.ts'
import { RECEIVER_ALARM_STATUSES, receiverAlarmMachine } from '../../src/store/states/receiver-alarm.ts'
import type { Store } from '../../src/store/database.ts'
import { openStore } from '../../src/store/open.ts'
import { WARMUP_STATES, warmupMachine } from '../../src/store/states/warmup.ts'
import { move, moveAll } from '../../src/store/move.ts'
import { raw } from '../../src/store/query.ts'
import { temporaryDirectory } from '../kit/directory.ts'

// The tables of the specification: "States and transitions" of the interface, completed by D20, D21, D23 and D25. One
// line per move: from, on, to, by, and the emitted event.
const DOMAIN = `
  pending    seen      verifying  auto      -
  verifying  resolved  active     auto      domain.verified
  verifying  lapsed    failed     auto      domain.verification_failed
  active     prefix    verifying  owner     -
  failed     prefix    verifying  owner     -
  pending    rotate    verifying  owner     -
  verifying  rotate    verifying  owner     -
  active     rotate    verifying  owner     -
  suspended  rotate    verifying  owner     -
  failed     rotate    verifying  owner     -
  pending    teardown  suspended  owner     -
  verifying  teardown  suspended  owner     -
  active     teardown  suspended  owner     -
  suspended  teardown  suspended  owner     -
  failed     teardown  suspended  owner     -
  active     missing   verifying  auto      -
  failed     seen      verifying  auto      -
  suspended  resume    verifying  operator  -
`
const DOMAIN_MOVES = ['seen', 'resolved', 'lapsed', 'missing', 'prefix', 'rotate', 'teardown', 'resume']

const EMAIL = `
  scheduled  due         queued      auto  -
  scheduled  cancel      cancelled   owner -
  scheduled  suppressed  suppressed  auto  email.rejected
  queued     handed      sent        auto  email.sent
  sent       accepted    delivered   auto  email.delivered
  queued     refused     bounced     auto  email.bounced
  sent       refused     bounced     auto  email.bounced
  sent       returned    bounced     auto  email.bounced
  delivered  returned    bounced     auto  email.bounced
  queued     returned    bounced     auto  email.bounced
  queued     complained  complained  auto  email.complained
  sent       complained  complained  auto  email.complained
  delivered  complained  complained  auto  email.complained
  queued     rejected    rejected    auto  email.rejected
  sent       rejected    rejected    auto  email.rejected
  queued     suppressed  suppressed  auto  email.rejected
  sent       suppressed  suppressed  auto  email.rejected
  queued     expired     failed      auto  email.bounced
  sent       expired     failed      auto  email.bounced
  queued     taken       delivered   auto  -
  queued     dropped     failed      owner -
  sent       dropped     failed      owner -
`
const EMAIL_MOVES = [
  'due',
  'cancel',
  'handed',
  'accepted',
  'refused',
  'returned',
  'complained',
  'rejected',
  'suppressed',
  'expired',
  'taken',
  'dropped',
]

// Not in the specification: the queue behind the email (D24 names a recipient's statuses, and hold, release and drop).
const DELIVERY = `
  scheduled  due       queued      auto      -
  scheduled  cancel    cancelled   owner     -
  scheduled  suppress  suppressed  auto      -
  queued     claim     active      auto      -
  active     accept    delivered   auto      -
  active     defer     queued      auto      -
  active     lapse     queued      auto      -
  active     wait      queued      auto      -
  active     withdraw  queued      auto      -
  active     withhold  held        auto      -
  queued     suppress  suppressed  auto      -
  held       suppress  suppressed  auto      -
  active     refuse    bounced     auto      -
  active     expire    failed      auto      -
  active     reject    rejected    auto      -
  active     suppress  suppressed  auto      -
  delivered  return    bounced     auto      -
  delivered  complain  complained  auto      -
  queued     return    bounced     auto      -
  active     return    bounced     auto      -
  held       return    bounced     auto      -
  queued     complain  complained  auto      -
  active     complain  complained  auto      -
  held       complain  complained  auto      -
  queued     hold      held        operator  -
  held       release   queued      operator  -
  queued     drop      failed      operator  -
  held       drop      failed      operator  -
`
const DELIVERY_MOVES = [
  'due',
  'cancel',
  'claim',
  'accept',
  'defer',
  'lapse',
  'wait',
  'withdraw',
  'withhold',
  'refuse',
  'expire',
  'reject',
  'suppress',
  'return',
  'complain',
  'hold',
  'release',
  'drop',
]

// D39: a pool is earned and lost one step at a time, ruined from any.
const AGENT = `
  probation  promote  standard   auto  agent.pool.promoted
  standard   promote  trusted    auto  agent.pool.promoted
  trusted    demote   standard   auto  agent.pool.demoted
  standard   demote   probation  auto  agent.pool.demoted
  probation  damage   damaged    auto  agent.reputation.damaged
  standard   damage   damaged    auto  agent.reputation.damaged
  trusted    damage   damaged    auto  agent.reputation.damaged
  damaged    recover  probation  auto  agent.pool.recovered
`
const WARMUP = `
  warming    good      warming    auto      -
  holding    good      warming    auto      -
  reduced    good      warming    auto      -
  warming    graduate  warm       auto      -
  warming    hold      holding    auto      -
  warming    bad       reduced    auto      -
  holding    bad       reduced    auto      -
  reduced    bad       reduced    auto      -
  warm       bad       reduced    auto      -
${WARMUP_STATES.flatMap((from) => [
  `  ${from}  fix      manual     operator  -`,
  `  ${from}  skip     unlimited  operator  -`,
  `  ${from}  restart  warming    operator  -`,
]).join('\n')}
  manual     release   warming    operator  -
  unlimited  release   warming    operator  -
`
const WARMUP_MOVES = ['good', 'graduate', 'hold', 'bad', 'fix', 'skip', 'release', 'restart']
const AGENT_MOVES = ['promote', 'demote', 'damage', 'recover']

const CAMPAIGN = `
  draft      schedule  scheduled  owner  -
  draft      cancel    cancelled  owner  -
  scheduled  cancel    cancelled  owner  -
  scheduled  due       sending    auto   campaign.sending
  sending    pause     paused     owner  campaign.paused
  sending    finished  sent       auto   campaign.sent
  sending    fail      failed     auto   campaign.failed
  sending    lapse     paused     auto   campaign.paused
  sending    brake     paused     auto   campaign.paused
  paused     finished  sent       auto   campaign.sent
  paused     fail      failed     auto   campaign.failed
  paused     resume    sending    owner  campaign.sending
  paused     cancel      cancelled  owner  -
  scheduled  unschedule  draft      owner  -
  scheduled  reschedule  scheduled  owner  -
`
const CAMPAIGN_MOVES = [
  'schedule',
  'unschedule',
  'reschedule',
  'cancel',
  'pause',
  'resume',
  'due',
  'finished',
  'fail',
  'lapse',
  'brake',
]

// D160: the status changes after two equal answers. The statuses `listed` and `wrong` exclude each other.
const WATCH = `
  unknown  list   listed   auto  -
  clear    list   listed   auto  -
  unknown  fault  wrong    auto  -
  clear    fault  wrong    auto  -
  unknown  clear  clear    auto  -
  listed   clear  clear    auto  -
  wrong    clear  clear    auto  -
  clear    lose   unknown  auto  -
  listed   lose   unknown  auto  -
  wrong    lose   unknown  auto  -
`
const WATCH_MOVES = ['list', 'fault', 'clear', 'lose']

interface Drawn {
  from: string
  on: string
  to: string
  by: string
  emits: string | undefined
}

const read = (table: string): Drawn[] =>
  table
    .trim()
    .split('\n')
    .map((line) => {
      const [from, on, to, by, emits] = line.trim().split(/\s+/) as [string, string, string, string, string]
      return { from, on, to, by, emits: emits === '-' ? undefined : emits }
    })

const CASES = [
  { name: 'domain', machine: domainMachine, drawn: read(DOMAIN), statuses: DOMAIN_STATUSES, moves: DOMAIN_MOVES },
  { name: 'outbound email', machine: emailMachine, drawn: read(EMAIL), statuses: EMAIL_STATUSES, moves: EMAIL_MOVES },
  {
    name: 'delivery',
    machine: deliveryMachine,
    drawn: read(DELIVERY),
    statuses: DELIVERY_STATUSES,
    moves: DELIVERY_MOVES,
  },
  { name: 'watch', machine: watchMachine, drawn: read(WATCH), statuses: WATCH_STATUSES, moves: WATCH_MOVES },
  { name: 'agent', machine: agentMachine, drawn: read(AGENT), statuses: AGENT_STATUSES, moves: AGENT_MOVES },
  { name: 'warm-up', machine: warmupMachine, drawn: read(WARMUP), statuses: WARMUP_STATES, moves: WARMUP_MOVES },
  {
    name: 'campaign',
    machine: campaignMachine,
    drawn: read(CAMPAIGN),
    statuses: CAMPAIGN_STATUSES,
    moves: CAMPAIGN_MOVES,
  },
  {
    name: 'receiver alarm',
    machine: receiverAlarmMachine,
    drawn: read('open  calm  closed  auto  domain.receiver_recovered'),
    statuses: RECEIVER_ALARM_STATUSES,
    moves: ['calm'],
  },
] as unknown as {
  name: string
  machine: Machine<string, string>
  drawn: Drawn[]
  statuses: readonly string[]
  moves: string[]
}[]

let dataDir: string
let store: Store
const keys: Record<string, number> = {}

before(async () => {
  dataDir = temporaryDirectory('states')
  store = openStore(dataDir)
  await store.write((tx) => {
    tx.run(
      raw(
        `insert into users (id, email, name, plan, subscription_state, created_at, updated_at) values ('u', 'u@u.test', 'u', 'unlimited', 'active', 1, 1)`,
      ),
    )
    keys['domains'] = tx.run(
      raw(
        `insert into domains (id, user_key, name, purpose, region, mail_from_prefix, tls_policy, open_tracking_enabled,
           click_tracking_enabled, tracking_redirect_mode, status, status_at, poll_from, created_at, updated_at)
         values ('d', 1, 'd.test', 'both', 'default', 'bounce', 'Optional', 0, 0, 'shared', 'pending', 1, 1, 1, 1)`,
      ),
    ).key
    keys['outbound_emails'] = tx.run(
      raw(
        `insert into outbound_emails (id, user_key, domain_key, "from", "to", subject, opens_tracked, clicks_tracked, message_id,
           status, queued_at, created_at, updated_at)
         values ('e', 1, 1, 'a@d.test', 'b@c.test', 's', 0, 0, '<e@d.test>', 'queued', 1, 1, 1)`,
      ),
    ).key
    keys['deliveries'] = tx.run(
      raw(
        `insert into deliveries (email_key, domain_key, role, address, lane, status, attempts, expires_at, updated_at)
         values (1, 1, 'to', 'b@c.test', 'c.test', 'queued', 0, 9, 1)`,
      ),
    ).key
    keys['warmups'] = tx.run(
      raw(
        `insert into warmups (id, source, receiver, status, step, since, judged_day, created_at, updated_at)
         values ('w', '192.0.2.1', 'there.test', 'warming', 0, 1, 1, 1, 1)`,
      ),
    ).key
    keys['agents'] = tx.run(
      raw(
        `insert into agents (user_key, agent_id, status, status_at, next_slot_at, created_at, updated_at)
         values (1, 'a', 'probation', 1, 1, 1, 1)`,
      ),
    ).key
    keys['receiver_alarms'] = tx.run(
      raw(
        `insert into receiver_alarms (id, user_key, receiver, kind, status, created_at, measured, threshold, volume, updated_at)
         values ('r', 1, 'there.test', 'slow', 'open', 1, 1, 1, 1, 1)`,
      ),
    ).key
    tx.run(
      raw(
        `insert into audiences (id, user_key, domain_key, name, contacts_count, created_at, updated_at)
         values ('l', 1, 1, 'l', 0, 1, 1)`,
      ),
    )
    keys['watches'] = tx.run(
      raw(
        `insert into watches (id, kind, subject, list, hostname, status, answer, since, created_at)
         values ('w', 'reverse', '1.2.3.4', '', 'h', 'unknown', '', 1, 1)`,
      ),
    ).key
    keys['campaigns'] = tx.run(
      raw(
        `insert into campaigns (id, user_key, domain_key, audience_key, name, subject, body_html, test_mode, opens_tracked,
           clicks_tracked, status, walked_to, enqueued, created_at, updated_at)
         values ('c', 1, 1, 1, 'c', 's', 'b', 0, 0, 0, 'draft', 0, 0, 1, 1)`,
      ),
    ).key
  })
})
after(() => {
  store.close()
})

test('the statuses are those of the specification, and two of scheduled emails', () => {
  assert.deepEqual([...DOMAIN_STATUSES].toSorted(), ['active', 'failed', 'pending', 'suspended', 'verifying'])
  assert.deepEqual(
    [...EMAIL_STATUSES].toSorted(),
    [
      'scheduled',
      'queued',
      'sent',
      'delivered',
      'bounced',
      'complained',
      'rejected',
      'suppressed',
      'failed',
      'cancelled',
    ].toSorted(),
  )
})

for (const { drawn, machine: built, moves, name, statuses } of CASES) {
  test(`${name}: the table equals the specification, row by row`, () => {
    const line = (row: Drawn): string => `${row.from} --${row.on}--> ${row.to} by ${row.by} emits ${row.emits}`
    assert.deepEqual(built.rows.map(line).toSorted(), drawn.map(line).toSorted())
  })

  /** A time that a move sets with the status. */
  const stamp = built.table === 'watches' ? 'since' : 'updated_at'

  test(`${name}: each event on each status moves the row as specified, or leaves it unchanged`, async () => {
    const key = keys[built.table]!
    const status = () => store.first<{ status: string }>(raw(`select status from ${built.table} where key = ?`, [key]))
    let legal = 0
    await store.write((tx) => {
      for (const from of statuses)
        for (const on of moves) {
          const wanted = drawn.find((row) => row.from === from && row.on === on)
          tx.run(raw(`update ${built.table} set status = ?, ${stamp} = 1 where key = ?`, [from, key]))
          const row = move(tx, built, key, on, { [stamp]: 2 })
          const pair = `${from} ${on}`
          assert.equal(status()?.status, wanted?.to ?? from, pair)
          assert.equal(row?.to, wanted?.to, pair)
          assert.equal(row?.emits, wanted?.emits, pair)
          const touched = tx.first(raw(`select 1 from ${built.table} where key = ? and ${stamp} = 2`, [key]))
          assert.equal(touched !== undefined, wanted !== undefined, `${pair}: columns are set only by a legal move`)
          legal += wanted ? 1 : 0
        }
    })
    assert.equal(legal, drawn.length)
  })

  test(`${name}: moving many rows equals moving each of them`, async () => {
    const key = keys[built.table]!
    await store.write((tx) => {
      for (const from of statuses)
        for (const on of moves) {
          const to = new Set(drawn.filter((row) => row.on === on).map((row) => row.to))
          const many = { set: `${stamp} = ?`, where: 'key = ?', parameters: [3, key] }
          if (to.size > 1) {
            assert.throws(() => moveAll(tx, built, on, many), /does not lead to one status/)
            continue
          }
          const wanted = drawn.find((row) => row.from === from && row.on === on)
          tx.run(raw(`update ${built.table} set status = ? where key = ?`, [from, key]))
          assert.equal(moveAll(tx, built, on, many), wanted ? 1 : 0, `${from} ${on}`)
          const now = tx.first<{ status: string }>(raw(`select status from ${built.table} where key = ?`, [key]))
          assert.equal(now?.status, wanted?.to ?? from, `${from} ${on}`)
        }
    })
  })

  test(`${name}: a deleted row is not moved`, async () => {
    assert.equal(await store.write((tx) => move(tx, built, 999, moves[0]!)), undefined)
  })
}

test('no move leaves a final status of an email, and each is reached from scheduled, queued or sent', () => {
  for (const end of ['bounced', 'complained', 'rejected', 'suppressed', 'failed', 'cancelled'] as const) {
    assert.deepEqual(
      emailMachine.rows.filter(({ from }) => from === end),
      [],
      end,
    )
    assert.ok(
      emailMachine.rows.some(({ from, to }) => to === end && ['queued', 'sent', 'scheduled'].includes(from)),
      end,
    )
  }
})

test('emits only events of the specification', () => {
  for (const { machine: built } of CASES)
    for (const { emits } of built.rows) assert.ok(emits === undefined || EVENT_TYPES.includes(emits), String(emits))
  // Counted in the specification's table of event types.
  assert.equal(new Set(EVENT_TYPES).size, 9 + 1 + 4 + 5 + 5 + 4 + EXTENSION_EVENTS.length)
})

test('rejects a table with two rows for one status and event when it is loaded', () => {
  assert.throws(
    () =>
      machine('things', [
        ['a', 'go', 'b', 'auto'],
        ['a', 'go', 'c', 'auto'],
      ]),
    /things: two rows for a go/,
  )
})
