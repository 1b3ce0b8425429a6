// A campaign to a segment whose server is killed while it stores the contacts that match (AU66, D44): the next process
// continues with the contact after the last stored one, and each contact that matches gets exactly one email.
//
// The server is a separate process, `postrider serve`. The conditions read a long text of each contact, so that the
// matching takes a multiple of the time between two looks at the database.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import type { Store } from '../../src/store/database.ts'
import { document, JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger } from '../kit/exchanger.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'

/** Enough for more than one of the transactions that store matches (AT_ONCE in campaigns/segments.ts). */
const CONTACTS = 3000
const BATCH = 1000
/** Each tenth contact does not match. */
const isOther = (n: number): boolean => n % 10 === 3
/** The kills: when so many matches are stored. */
const KILLS = [0, 2000]
/** The length of the text that the conditions read. A letter of it is not ASCII, which is slower to compare. */
const LONG = 4000

const rules = [
  { field: 'city', op: 'is', value: 'Ghent' },
  ...Array.from({ length: 20 }, (_, n) => ({ field: 'notes', op: 'contains', value: `end ${n}.` })),
]
const notes = `${'é'.repeat(LONG)}${rules.map((_, n) => `end ${n}.`).join(' ')}`

const matching = (store: Store, campaign: string): { status: string; recipients: number | null; stored: number } =>
  store.one(
    raw(
      `select c.status, c.recipients, (select count(*) from segment_matches m where m.campaign_key = c.key) as stored
       from campaigns c where c.id = ?`,
      [campaign],
    ),
  )

test(`a campaign to a segment, killed ${KILLS.length} times while its contacts are matched, sends each of them one email (AU66)`, async () => {
  const dataDir = temporaryDirectory('segment-crash')
  const copies = new Map<string, number>()
  const exchanger = await startTestExchanger({
    final(mail) {
      const [to] = mail.to
      copies.set(to!, (copies.get(to!) ?? 0) + 1)
      mail.message = ''
      return undefined
    },
  })
  const setUp = await startTestAppliance({
    dataDir,
    clock: new ManualClock(Date.now() - 60_000),
    routes: ['there.test'],
  })
  const kit = campaignKit(() => setUp)
  const audience = await kit.audience(await setUp.activeDomain('here.test'))
  const contacts = Array.from({ length: CONTACTS }, (_, n) => ({
    email: `n${n}@there.test`,
    custom_fields: { city: isOther(n) ? 'Lyon' : 'Ghent' },
  }))
  for (let from = 0; from < CONTACTS; from += BATCH) await kit.fill(audience, contacts.slice(from, from + BATCH))
  await setUp.appliance.deps.store.write((tx) =>
    tx.run(raw(`update contacts set custom_fields = json_set(custom_fields, '$.notes', ?)`, [notes])),
  )
  const made = await setUp.api('POST', `/audiences/${audience}/segments`, document('segments', { name: 'Some', rules }))
  assert.equal(made.status, 201, JSON.stringify(made.body))
  const campaign = await kit.draft(audience)
  const segment = { data: { type: 'segments', id: made.body.data.id } }
  const chosen = await setUp.api(
    'PATCH',
    `/campaigns/${campaign}`,
    document('campaigns', {}, { id: campaign, relationships: { segment } }),
  )
  assert.equal(chosen.status, 200, JSON.stringify(chosen.body))
  await setUp.appliance.stop()
  const config = configFor(dataDir, setUp.dns, `[delivery]\nport = ${exchanger.port}\n`)
  const store = openStore(dataDir)
  let server: Server | undefined
  try {
    for (const enough of KILLS) {
      server = await startServer(config)
      if (enough === KILLS[0]) {
        const { status } = await fetch(`${server.url}/api/v1/campaigns/${campaign}`, {
          method: 'PATCH',
          headers: { authorization: `Bearer ${setUp.token}`, 'content-type': JSON_API },
          body: JSON.stringify(document('campaigns', { status: 'scheduled' }, { id: campaign })),
        })
        assert.equal(status, 200)
      }
      await until(() => {
        const { status, stored } = matching(store, campaign)
        return status === 'sending' && stored >= enough
      }, `${enough} stored matches`)
      server.process.kill('SIGKILL')
      assert.equal(await server.ended, 'SIGKILL')
      const { recipients, stored } = matching(store, campaign)
      assert.equal(recipients, null, `killed after the matching, with ${stored} stored`)
    }
    server = await startServer(config)
    await until(
      () => matching(store, campaign).status === 'sent',
      'the end of the campaign',
      () => matching(store, campaign),
    )
    const wanted = contacts.filter((_, n) => !isOther(n)).map(({ email }) => email)
    assert.deepEqual(
      wanted.filter((email) => copies.get(email) !== 1),
      [],
      'contacts without exactly one email',
    )
    assert.equal(copies.size, wanted.length, 'no other contact gets an email')
    assert.equal(matching(store, campaign).recipients, wanted.length)
  } finally {
    server?.process.kill('SIGKILL')
    await server?.ended
    store.close()
    await exchanger.close()
    await setUp.dns.close()
  }
})
