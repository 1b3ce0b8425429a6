// The page of the watch, its commands beside a running server, and what the overview says of it.
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
  startTestAppliance({ config: { watch: { every: '6h', lists: [ZEN], domain_lists: [DBL] } } }),
)
let ann: Guest

/** A watch with its state, and one change that led there. */
async function watched(kind: string, subject: string, list: string, status: string, answer: string): Promise<void> {
  const at = postrider.clock.now() - 3_600_000
  await postrider.appliance.deps.store.write((tx) => {
    const { key } = tx.run(
      raw(
        `insert into watches (id, kind, subject, list, hostname, status, answer, since, checked_at, round_at, created_at)
         values (?, ?, ?, ?, 'mx.postrider.test', ?, ?, ?, ?, ?, ?)`,
        [`w-${kind}-${subject}`, kind, subject, list, status, answer, at, at, postrider.clock.now(), at],
      ),
    )
    tx.run(
      raw(`insert into watch_changes (watch_key, state, previous_state, answer, at) values (?, ?, 'unknown', ?, ?)`, [
        key,
        status,
        answer,
        at,
      ]),
    )
  })
}

setUp(async () => {
  for (const { email } of [postrider.user, postrider.other]) await givePassword(postrider, email, PASSWORD)
  ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
})

test('the page of the watch is empty before the first round, and says when it comes', async () => {
  const { status, text } = await ann.open('/server/watch')
  assert.equal(status, 200)
  assert.match(text, /Nothing is watched yet\. The first look is ten minutes after the start/)
  assert.match(text, /href="\/server\/watch"\s+aria-current="(?:page|true)"/)
})

test('the page shows what is wrong with what to do and the page of the list, everything that is watched, and its history (DV94)', async () => {
  await watched('blocklist', '1.2.3.4', ZEN, 'listed', '127.0.0.10')
  await watched('reverse', '1.2.3.4', '', 'wrong', 'vps.cloud.org')
  await watched('forward', '1.2.3.4', '', 'clear', 'vps.cloud.org')
  await watched('domain_list', 'here.test', DBL, 'unknown', `no answer from ${DBL} (ETIMEOUT)`)
  const { text } = await ann.open('/server/watch')
  const [, needed = ''] = /aria-label="Needs attention"([^]*?)<\/table>/.exec(text) ?? []
  assert.match(needed, /1\.2\.3\.4 is on Spamhaus ZEN \(zen\.spamhaus\.org\)\. PBL: /)
  assert.match(needed, /href="https:\/\/check\.spamhaus\.org\/results\/\?query=1\.2\.3\.4"/)
  assert.match(needed, /leads to vps\.cloud\.org, not to mx\.postrider\.test/)
  assert.doesNotMatch(needed, /here\.test/)
  assert.match(text, /no answer from dbl\.spamhaus\.org \(ETIMEOUT\)/)
  const [, to = ''] = /href="(\/server\/watch\?watch=w-blocklist[^"#]*)/.exec(text) ?? []
  const history = (await ann.open(to)).text
  assert.match(history, /History of 1\.2\.3\.4: zen\.spamhaus\.org/)
  assert.match(/aria-label="History"([^]*?)<\/table>/.exec(history)?.[1] ?? '', /listed[^]*127\.0\.0\.10/)
  // An address that names nothing shows no history.
  assert.doesNotMatch((await ann.open('/server/watch?watch=%22%3Cscript%3E')).text, /id="history"|<script>alert/)
})

test('the overview leads to the watch, and the health of the server says the same (DV94)', async () => {
  const { text } = await ann.open('/')
  const [, server = ''] = /<h3>Server<\/h3>([^]*?)<\/ul>/.exec(text) ?? []
  assert.match(server, /on a blocklist: receivers refuse your mail\.[^]*href="\/server\/watch"/)
  assert.match(server, /Reverse DNS is wrong/)
  assert.match((await ann.open('/server')).text, /lists of domains/)
})

test('others than operators find no page', async () => {
  const bob = new Guest(postrider)
  await bob.signIn(postrider.other.email, PASSWORD)
  assert.equal((await bob.open('/server/watch')).status, 404)
})

test('"watch list" shows what is stored, "watch now" asks and changes it (DV91)', async () => {
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
