// At the start, database, key and spool must belong to one installation, and each error names the fixes. A running
// server notices that its files are deleted, before it accepts more writes.
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, readdirSync, renameSync, rmSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, test } from 'node:test'
import Database from 'better-sqlite3'
import { OperatorError } from '../../src/base/errors.ts'
import { parseConfig } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import { addUser } from '../../src/users/users.ts'
import { makeKeyPair } from '../../src/domains/keys.ts'
import { DOMAIN_FOLLOWERS } from '../../src/server/domain-followers.ts'
import { registerDomain } from '../../src/domains/lifecycle.ts'
import { exchange } from '../../src/store/exchange.ts'
import { openInstance, openUpgraded, type Instance, type InstanceOptions } from '../../src/store/instance.ts'
import { takeLock } from '../../src/store/lock.ts'
import { explainedFile } from '../../src/store/open.ts'
import { migrations } from '../../src/store/schema/migrations.ts'
import { raw } from '../../src/store/query.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const made: string[] = []
const open: Instance[] = []
afterEach(() => {
  for (const { store } of open.splice(0)) store.close()
  for (const dir of made.splice(0)) rmSync(dir, { recursive: true, force: true })
})

const dataDir = (): string => {
  const dir = temporaryDirectory('instance')
  made.push(dir)
  return dir
}
const opened = (dir: string, options: InstanceOptions = {}): Instance => {
  const instance = openInstance(dir, options)
  open.push(instance)
  return instance
}

/** An installation with a domain and its sealed key, closed. */
async function installation(): Promise<string> {
  const dir = dataDir()
  const { keyring, store } = openInstance(dir)
  const clock = new ManualClock()
  const user = await addUser({ store, clock }, { email: 'ann@owner.test' })
  const makeKeys = () => makeKeyPair(1024)
  const config = parseConfig({})
  const deps = { store, clock, keyring, config, makeKeys, followers: DOMAIN_FOLLOWERS, log: silentLog, ring: () => {} }
  await registerDomain(deps, user.key, {
    name: 'here.test',
    purpose: 'both',
  })
  store.close()
  writeFileSync(join(dir, 'erasures.ledger'), '')
  return dir
}

/** The error for a data directory, which must not change. */
function refused(dir: string): string {
  const before = readdirSync(dir).toSorted()
  let said = ''
  assert.throws(
    () => openInstance(dir).store.close(),
    (thrown) => {
      said = (thrown as Error).message
      return thrown instanceof OperatorError
    },
  )
  const files = (names: string[]): string[] => names.filter((name) => !/-(?:wal|shm)$/.test(name))
  assert.deepEqual(files(readdirSync(dir).toSorted()), files(before))
  return said
}

test('opens an installation again, and creates one in an empty directory', async () => {
  opened(await installation())
  opened(dataDir())
})

test('rejects a key, spool or log without a database, with both fixes', async () => {
  for (const gone of ['missing', 'empty']) {
    const dir = await installation()
    if (gone === 'missing') unlinkSync(join(dir, 'postrider.db'))
    else truncateSync(join(dir, 'postrider.db'))
    assert.match(refused(dir), /instance\.key but no database.*mounted.*restore FILE.*init --new/)
  }
})

test('rejects a database without our tables if there is a key, log or spool, or if it has other tables', async () => {
  for (const [sql, said] of [
    ['vacuum', /is empty, but instance\.key exists.*mounted.*restore --replace FILE.*init --new/],
    ['create table notes (text)', /is not a Postrider database.*mounted.*restore --replace FILE.*init --new/],
    [`pragma user_version = ${migrations.length}`, /is not a Postrider database/],
  ] as const) {
    const dir = await installation()
    const harm = (place: string): void => {
      rmSync(join(place, 'postrider.db'), { force: true })
      const other = new Database(join(place, 'postrider.db'))
      other.pragma('journal_mode = WAL')
      other.exec(sql)
      other.close()
    }
    harm(dir)
    assert.match(refused(dir), said)
    const alone = dataDir()
    harm(alone)
    if (sql === 'vacuum') opened(alone)
    else assert.match(refused(alone), said)
    const spool = dataDir()
    mkdirSync(join(spool, 'spool', 'quarantine'), { recursive: true })
    writeFileSync(join(spool, 'spool', 'a-mail'), 'x')
    harm(spool)
    assert.match(refused(spool), sql === 'vacuum' ? /is empty, but spool exists/ : said)
  }
})

test('rejects encrypted rows with a missing or foreign key, and creates no key', async () => {
  const dir = await installation()
  renameSync(join(dir, 'instance.key'), join(dir, 'kept'))
  assert.match(refused(dir), /instance\.key is missing.*restore FILE.*init --new/)
  writeFileSync(join(dir, 'instance.key'), `${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 })
  assert.match(refused(dir), /does not belong to the database/)
  renameSync(join(dir, 'kept'), join(dir, 'instance.key'))
  opened(dir)
})

test('init --new moves everything aside and deletes no file', async () => {
  const dir = await installation()
  unlinkSync(join(dir, 'postrider.db'))
  const aside = exchange(dir, '1')
  assert.deepEqual(readdirSync(aside!).toSorted(), ['erasures.ledger', 'instance.key'])
  // A new installation does not start there without the option.
  assert.match(refused(dir), /contains set-aside-1 but no database/)
  assert.deepEqual(readdirSync(dir), ['set-aside-1'])
  opened(dir, { begins: true })
  assert.equal(exchange(dataDir(), '1'), undefined)
})

test('rejects a directory that all users can read, with the chmod command', async () => {
  const dir = await installation()
  chmodSync(dir, 0o755)
  assert.match(refused(dir), /chmod 700 /)
  assert.throws(() => takeLock(dir), /chmod 700 /)
})

test('rejects every write after the database was deleted or replaced while in use', async () => {
  for (const harm of ['removed', 'replaced', 'log removed'] as const) {
    const dir = await installation()
    const { store } = opened(dir)
    const write = () => store.write((tx) => tx.run(raw('update users set updated_at = updated_at + 1')))
    await write()
    const file = join(dir, harm === 'log removed' ? 'postrider.db-wal' : 'postrider.db')
    rmSync(file)
    if (harm === 'replaced') writeFileSync(file, 'another')
    await assert.rejects(write(), /deleted or replaced while in use/, harm)
    assert.throws(() => store.demandPresence(), OperatorError)
  }
})

test('upgrades a database of version 0.1.0 with a copy and all rows, only in the server', async () => {
  const dir = dataDir()
  const released = 5
  const old = new Database(join(dir, 'postrider.db'))
  for (const sql of migrations.slice(0, released)) old.exec(sql)
  old.exec(`
    insert into users (key, id, email, name, plan, subscription_state, created_at, updated_at) values (1, 'u', 'ann@owner.test', 'Ann', 'unlimited', 'active', 1, 1);
    insert into domains (key, id, user_key, name, purpose, region, mail_from_prefix, tls_policy, open_tracking_enabled, click_tracking_enabled, tracking_redirect_mode,
      status, status_at, poll_from, created_at, updated_at) values (1, 'd', 1, 'here.test', 'both', 'default', 'bounce', 'Optional', 0, 0, 'shared', 'active', 1, 1, 1, 1);
    insert into outbound_emails (key, id, user_key, domain_key, "from", "to", subject, opens_tracked, clicks_tracked, message_id, status, queued_at, created_at, updated_at)
      values (1, 'e', 1, 1, 'a@here.test', 'b@there.test', 's', 0, 0, '<e@here.test>', 'queued', 1, 1, 1);
    insert into outbound_bodies (email_key, content) values (1, '{"html":"x","text":null}');
    insert into deliveries (key, email_key, domain_key, role, address, lane, status, attempts, next_attempt_at, expires_at, updated_at)
      values (1, 1, 1, 'to', 'b@there.test', 'there.test', 'queued', 0, 1, 9, 1);
    insert into notices (key, id, user_key, domain_key, subject, text, mailed, created_at) values (1, 'n', 1, 1, 'Word', 'text', 0, 1);
    insert into inbound_messages (key, id, mail_from, recipients, client, helo, received, size, content, cut, authentication, received_at, attempts, next_attempt_at)
      values (1, 'read', '', '[]', '192.0.2.1', 'x', '', 1, x'00', 0, 'Authentication-Results: x', 1, 1, null),
        (2, 'claimed', '', '[]', '192.0.2.1', 'x', '', 1, x'00', 0, null, 1, 3, 77), (3, 'new', '', '[]', '192.0.2.1', 'x', '', 1, x'00', 0, null, 1, 0, 78);`)
  old.pragma(`user_version = ${released}`)
  old.close()
  assert.throws(() => openInstance(dir), /older Postrider.*upgrade/)
  const heard: number[][] = []
  const migrated = await openUpgraded(dir, {
    clock: new ManualClock(),
    migrating: (from, to) => void heard.push([from, to]),
  })
  open.push(migrated)
  assert.deepEqual(heard, [[released, migrations.length]])
  const { store } = migrated
  assert.deepEqual(store.verify(), [])
  // 2: free space goes back to the disk by and by.
  assert.equal(store.first<{ auto_vacuum: number }>(raw('select auto_vacuum from pragma_auto_vacuum'))!.auto_vacuum, 2)
  const count = (reader: { first: typeof store.first }, table: string): number =>
    reader.first<{ n: number }>(raw(`select count(*) as n from ${table}`))!.n
  for (const table of ['users', 'domains', 'outbound_emails', 'outbound_bodies', 'deliveries', 'notices'])
    assert.equal(count(store, table), 1, table)
  // Unread received messages keep their queue entry and attempts. Read ones have none.
  assert.deepEqual(store.all(raw('select * from inbound_waiting order by message_key')), [
    { message_key: 2, attempts: 3, next_attempt_at: 77 },
    { message_key: 3, attempts: 0, next_attempt_at: 78 },
  ])
  const copy = new Database(join(dir, `postrider.db.schema-${released}`), { readonly: true })
  assert.equal(copy.pragma('user_version', { simple: true }), released)
  assert.equal((copy.prepare('select count(*) as n from users').get() as { n: number }).n, 1)
  copy.close()
})

test('does not report a permission problem as a failing disk', () => {
  const refused = Object.assign(new Error('x'), { code: 'EACCES', path: '/var/lib/postrider', syscall: 'stat' })
  assert.match((explainedFile(refused) as Error).message, /is not accessible to this user: .*sudo/)
  const failing = Object.assign(new Error('x'), { code: 'EIO', path: '/var/lib/postrider', syscall: 'read' })
  assert.match((explainedFile(failing) as Error).message, /whether its disk is full or failing/)
  const database = Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_READ' })
  assert.match((explainedFile(database) as Error).message, /cannot be read or written \(disk I\/O error\)/)
})
