// The page of the watch, its commands next to a running server, and its part of the overview.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { givePassword } from '../kit/person.ts'

const PASSWORD = 'a long enough password'
const [ZEN, DBL] = ['zen.spamhaus.org', 'dbl.spamhaus.org']
const postrider = ofFile(() =>
  startTestAppliance({ config: { watch: { interval: '6h', lists: [ZEN], domain_lists: [DBL] } } }),
)
let ann: Guest

/** Inserts a check with its state. */
async function watched(kind: string, subject: string, list: string, status: string, answer: string): Promise<void> {
  const at = postrider.clock.now() - 3_600_000
  await postrider.appliance.deps.store.write((tx) =>
    tx.run(
      raw(
        `insert into watches (id, kind, subject, list, hostname, status, answer, since, checked_at, round_at, created_at)
         values (?, ?, ?, ?, 'mx.postrider.test', ?, ?, ?, ?, ?, ?)`,
        [`w-${kind}-${subject}`, kind, subject, list, status, answer, at, at, postrider.clock.now(), at],
      ),
    ),
  )
}

setUp(async () => {
  for (const { email } of [postrider.user, postrider.other]) await givePassword(postrider, email, PASSWORD)
  ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
})

test('the page is empty before the first round and shows when the round runs', async () => {
  const { status, text } = await ann.open('/server/watch')
  assert.equal(status, 200)
  assert.match(text, /No checks yet\. The first round runs 10 minutes after the server starts/)
  assert.match(text, /href="\/server\/watch"\s+aria-current="(?:page|true)"/)
})

test('the page shows each problem with its fix and the URL of the blocklist, and all checks', async () => {
  await watched('blocklist', '1.2.3.4', ZEN, 'listed', '127.0.0.10')
  await watched('reverse', '1.2.3.4', '', 'wrong', 'vps.cloud.org')
  await watched('forward', '1.2.3.4', '', 'clear', 'vps.cloud.org')
  await watched('domain_list', 'here.test', DBL, 'unknown', `no answer from ${DBL} (ETIMEOUT)`)
  const { text } = await ann.open('/server/watch')
  const [, needed = ''] = /aria-label="Needs attention"([^]*?)<\/table>/.exec(text) ?? []
  assert.match(needed, /1\.2\.3\.4 is on Spamhaus ZEN \(zen\.spamhaus\.org\)\. PBL: /)
  assert.match(needed, /href="https:\/\/check\.spamhaus\.org\/results\/\?query=1\.2\.3\.4"/)
  assert.match(needed, /PTR record of \S+ is vps\.cloud\.org\. It must be mx\.postrider\.test/)
  assert.doesNotMatch(needed, /here\.test/)
  assert.match(text, /no answer from dbl\.spamhaus\.org \(ETIMEOUT\)/)
})

test('the overview links to the page, and the health of the server reports the same problems', async () => {
  const { text } = await ann.open('/')
  const [, server = ''] = /<h3>Server<\/h3>([^]*?)<\/ul>/.exec(text) ?? []
  assert.match(server, /on a blocklist: providers may reject your email\.[^]*href="\/server\/watch"/)
  assert.match(server, /Reverse DNS is wrong/)
  assert.match((await ann.open('/server')).text, /lists of domains/)
})

test('only operators can open the page', async () => {
  const bob = new Guest(postrider)
  await bob.signIn(postrider.other.email, PASSWORD)
  assert.equal((await bob.open('/server/watch')).status, 404)
})

test('"watch list" shows stored results, "watch now" runs the checks and updates them', async () => {
  const { commands, dns } = postrider
  const list = await commands.json<Record<string, unknown>[]>('watch', 'list')
  assert.deepEqual(
    list.map(({ kind, list: zone, state, subject }) => [kind, subject, zone, state]),
    [
      ['blocklist', '1.2.3.4', ZEN, 'listed'],
      ['domain_list', 'here.test', DBL, 'unknown'],
      ['forward', '1.2.3.4', null, 'clear'],
      ['reverse', '1.2.3.4', null, 'wrong'],
    ],
  )
  const { stdout } = await commands.run(['watch', 'list'])
  assert.match(stdout, /^listed +1\.2\.3\.4 +zen\.spamhaus\.org/m)
  assert.match(stdout, /PBL: [^]*exception[^]*https:\/\/check\.spamhaus\.org/)
  dns.set('mx.postrider.test', 'A', ['1.2.3.5'])
  dns.set('5.3.2.1.in-addr.arpa', 'PTR', ['mx.postrider.test'])
  dns.set(`2.0.0.127.${ZEN}`, 'A', ['127.0.0.2'])
  const now = await commands.json<Record<string, unknown>[]>('watch', 'now')
  const states = new Map(
    now.map(({ kind, list: zone, state, subject }) => [`${String(kind)} ${String(subject)} ${String(zone)}`, state]),
  )
  assert.equal(states.get(`blocklist 1.2.3.5 ${ZEN}`), 'clear')
  assert.equal(states.get('reverse 1.2.3.5 null'), 'clear')
  assert.equal(states.get('forward 1.2.3.5 null'), 'clear')
  // The lists that are not in this zone do not answer as lists do.
  assert.equal(states.get('blocklist 1.2.3.5 bl.spamcop.net'), 'unknown')
  assert.ok(
    now.every(({ subject }) => subject === '1.2.3.5'),
    'what is not ours any more is gone',
  )
})
