// The erasure log: entries are never lost, and erasures are repeated in an older database.
import assert from 'node:assert/strict'
import { appendFileSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { silentLog } from '../../src/base/log.ts'
import { recipientHash } from '../../src/base/recipient-hash.ts'
import { startAppliance } from '../../src/server/appliance.ts'
import { enter, LEDGER, readLedger } from '../../src/privacy/ledger.ts'
import { Privacy } from '../../src/privacy/run.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { filesWith } from '../kit/files-with.ts'
import { until } from '../kit/until.ts'

const entry = (id: string) => ({ id, user: 'u', recipient_hash: 'h', at: '2026-01-15T12:00:00.000Z' })

test('skips a line that a crash truncated, and reads the entry after it', () => {
  const dir = temporaryDirectory('ledger')
  enter(dir, entry('a'))
  appendFileSync(join(dir, LEDGER), '{"id":"cut","us')
  enter(dir, entry('b'))
  enter(dir, entry('c'))
  assert.deepEqual(
    readLedger(dir).map(({ id }) => id),
    ['a', 'b', 'c'],
  )
})

test('repeats no erasure without an erasure log', () => {
  assert.deepEqual(readLedger(join(tmpdir(), 'postrider-no-such-directory')), [])
})

async function withContact(run: (postrider: TestAppliance) => Promise<void>): Promise<void> {
  await using postrider = await startTestAppliance()
  const kit = campaignKit(() => postrider)
  const audience = await kit.audience(await postrider.activeDomain('here.test'))
  await kit.fill(audience, ['ann@there.test', 'xann@there.test'])
  await run(postrider)
}

const contacts = async (postrider: TestAppliance): Promise<string[]> =>
  postrider.appliance.deps.store
    .all(raw<{ email: string }>('select email from contacts order by email'))
    .map(({ email }) => email)

/** As at startup: the log is read again. */
async function restarted({ appliance }: TestAppliance): Promise<void> {
  const privacy = new Privacy({ ...appliance.deps, doubtful: () => false, noticed: () => {}, queueChanged: () => {} })
  await privacy.recover()
  privacy.start()
  await until(
    () => !appliance.deps.store.first(raw(`select 1 from privacy_requests where status = 'pending'`)),
    'the requests',
  )
  await privacy.stop()
}

test('completes an erasure at startup after a crash between log entry and row', () =>
  withContact(async (postrider) => {
    const { keyring } = postrider.appliance.deps
    enter(postrider.dataDir, {
      ...entry('killed'),
      user: postrider.user.id,
      recipient_hash: recipientHash(keyring, 'ann@there.test'),
    })
    await restarted(postrider)
    assert.deepEqual(await contacts(postrider), ['xann@there.test'])
  }))

test('erases data from a restored backup once, but not an address that is added later', () =>
  withContact(async (postrider) => {
    const { keyring, store } = postrider.appliance.deps
    enter(postrider.dataDir, {
      ...entry('old'),
      user: postrider.user.id,
      recipient_hash: recipientHash(keyring, 'gone@there.test'),
    })
    await restarted(postrider)
    const audience = store.first(raw<{ id: string }>('select id from audiences'))!.id
    await campaignKit(() => postrider).fill(audience, ['gone@there.test'])
    await restarted(postrider)
    assert.ok((await contacts(postrider)).includes('gone@there.test'))
    const other = store.first(raw<{ n: number }>('select count(*) as n from privacy_requests'))!
    assert.equal(other.n, 1)
  }))

test('erases the consents of a contact that was removed before the backup (AU109)', () =>
  withContact(async (postrider) => {
    const { keyring, store } = postrider.appliance.deps
    const { id } = store.first(raw<{ id: string }>(`select id from contacts where email = 'ann@there.test'`))!
    assert.equal((await postrider.api('DELETE', `/contacts/${id}`)).status, 204)
    const recipient_hash = recipientHash(keyring, 'ann@there.test')
    enter(postrider.dataDir, { ...entry('later'), user: postrider.user.id, recipient_hash })
    await restarted(postrider)
    const { state } = store.first(
      raw<{ state: string }>('select state from consents where recipient_hash = ?', [recipient_hash]),
    )!
    assert.equal(state, 'erased')
  }))

test('writes an erasure to the log before the response, without the address', () =>
  withContact(async (postrider) => {
    const { body, status } = await postrider.api('DELETE', '/recipients/ANN%40There.test/forget')
    assert.equal(status, 202)
    const [line] = readLedger(postrider.dataDir)
    assert.equal(line!.id, body.data.id)
    assert.equal(line!.recipient_hash, body.data.attributes.recipient_hash)
    assert.doesNotMatch(readFileSync(join(postrider.dataDir, LEDGER), 'utf8'), /there/i)
    await until(
      () => postrider.appliance.deps.store.first(raw(`select 1 from privacy_requests where status = 'done'`)),
      'the erasure',
    )
  }))

test('repeats an erasure before serving requests if the backup was made during a delivery', async () => {
  const dataDir = temporaryDirectory('ledger')
  const postrider = await startTestAppliance({ dataDir })
  const { clock, config, dns, user } = postrider
  try {
    await postrider.activeDomain('here.test')
    const mail = { from: 'me@here.test', to: 'ann@there.test', subject: 'x', html: '<p>ann@there.test</p>' }
    await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))
    const { deps } = postrider.appliance
    await until(() => deps.store.first(raw(`select 1 from deliveries where status = 'failed'`)), 'its end')
    // The state in a copy made at that moment.
    await deps.store.write((tx) => {
      tx.run(raw(`update deliveries set status = 'active', leased_until = ?`, [clock.now() + 1]))
      tx.run(raw(`update outbound_emails set status = 'queued'`))
    })
    const recipient_hash = recipientHash(deps.keyring, 'ann@there.test')
    await postrider.appliance.stop()
    enter(dataDir, { ...entry('late'), user: user.id, recipient_hash })
    const again = await startAppliance({ config, clock, log: silentLog, resolver: dns.resolver })
    try {
      assert.deepEqual(await filesWith(dataDir, 'ann@there.test'), [])
      const { status } = again.deps.store.first(raw<{ status: string }>(`select status from privacy_requests`))!
      assert.equal(status, 'done')
    } finally {
      await again.stop()
    }
  } finally {
    await dns.close()
  }
})
