// Answers about reports cost the same whatever strangers report of a domain (DV54, DV55).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'

const DAYS = 28
const OF_DAY = 5000
/** Rows that one answer may read. */
const DAY_ROWS = 1000

/** As many rows of strangers as days may have, each day of other addresses. */
async function flooded(
  postrider: TestAppliance,
): Promise<{ key: number; user_key: number; id: string; today: number }> {
  const { store } = postrider.appliance.deps
  const domain = store.one(
    raw<{ key: number; user_key: number; id: string }>(
      "select key, user_key, id from domains where name = 'here.test'",
    ),
  )
  const today = Math.floor(postrider.clock.now() / 86_400_000)
  for (let back = 1; back <= DAYS; back++)
    await store.write((tx) => {
      tx.run(
        raw(
          `insert into dmarc_figures (user_key, domain_key, day, address, header_from, dkim, spf, disposition, forwarded,
             messages, evidence, reporters, dkim_domains, spf_domains)
           with recursive n(at) as (select 0 union all select at + 1 from n where at < ${OF_DAY - 1})
           select ?, ?, ?, (10 + ?) || '.' || (at / 250) || '.7.' || (at % 250), 'here.test', 0, 0, 'none', 0, 1000, 1,
             ' evil.test ', '', '' from n`,
          [domain.user_key, domain.key, today - back, back],
        ),
      )
      tx.run(
        raw(
          `insert into dmarc_figures (user_key, domain_key, day, address, header_from, dkim, spf, disposition, forwarded,
             messages, evidence, reporters, dkim_domains, spf_domains)
           values (?, ?, ?, '198.51.100.7', 'here.test', 0, 0, 'none', 0, 3, 3, ' google.com ', '', '')`,
          [domain.user_key, domain.key, today - back],
        ),
      )
    })
  return { ...domain, today }
}

test('days full of strangers hold nothing up: they are summed one at a time, once, and answers read few rows (DV54)', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const { store } = postrider.appliance.deps
  const { id, key, today } = await flooded(postrider)
  let rows = 0
  let turns = 0
  let going = true
  const turn = (): void => {
    turns++
    if (going) setImmediate(turn)
  }
  turn()
  const asked = async (path: string) => {
    ;[rows, turns] = [0, 0]
    const { body, status } = await postrider.api('GET', path)
    assert.equal(status, 200, path)
    return body.data
  }
  store.watch((_sql, read) => void (rows += read))
  const sources = `/domains/${id}/dmarc-sources?page[size]=100`
  const evidence = `/domains/${id}/dmarc-evidence`
  const why = '/explanations?filter[subject]=here.test'
  await asked(sources)
  assert.ok(turns > DAYS, `${turns} turns of others`)
  const summed = () => store.one(raw<{ n: number }>('select count(*) as n from dmarc_days')).n
  assert.equal(summed(), DAYS)
  for (const path of [sources, evidence, why]) {
    await asked(path)
    assert.ok(rows < DAY_ROWS, `${path}: ${rows} rows`)
  }
  // A name counts for the past, at once, and however many networks have one.
  for (let at = 0; at < 42; at++) {
    const network = at === 0 ? '198.51.100.0/24' : `203.0.113.${at}`
    const named = document('known-sources', { network, name: `service ${at}` })
    assert.equal((await postrider.api('POST', `/domains/${id}/known-sources`, named)).status, 201)
  }
  const [known] = await asked(`${sources}&filter[known]=named`)
  assert.partialDeepStrictEqual(known.attributes, { address: '198.51.100.7', name: 'service 0', messages: 3 * DAYS })
  assert.equal((await asked(evidence)).attributes.known_fail, 3 * 13)
  assert.match(JSON.stringify(await asked(why)), /198\.51\.100\.7 \(service 0\): 39 of 39 mails/)
  // A day whose figures change is summed again, and no other.
  await store.write((tx) =>
    tx.run(
      raw('update dmarc_figures set messages = 9 where domain_key = ? and day = ? and address like ?', [
        key,
        today - 1,
        '198.%',
      ]),
    ),
  )
  assert.equal(summed(), DAYS - 1)
  const [again] = await asked(`${sources}&filter[known]=named`)
  assert.equal(again.attributes.messages, 3 * DAYS + 6)
  // The sum of the others says how many addresses it stands for.
  const all = await asked(`/domains/${id}/dmarc-sources?filter[known]=unknown&page[size]=1`)
  assert.partialDeepStrictEqual(all[0].attributes, { address: 'others', addresses: DAYS * (OF_DAY - 100) })
  going = false
})

test('where nothing can be written the answers are the same', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const { store } = postrider.appliance.deps
  const { id } = await flooded(postrider)
  await store.write((tx) =>
    tx.run(raw("create trigger full before insert on dmarc_days begin select raise(abort, 'the disk is full'); end")),
  )
  const { body, status } = await postrider.api('GET', `/domains/${id}/dmarc-sources?page[size]=1`)
  assert.equal(status, 200)
  assert.partialDeepStrictEqual(body.data[0].attributes, { address: 'others', addresses: DAYS * (OF_DAY - 100) })
  assert.equal((await postrider.api('GET', '/explanations?filter[subject]=here.test')).status, 200)
})
