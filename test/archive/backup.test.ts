// Backup while the server runs, restore into an empty directory, the archives that restore rejects, and verify.
import assert from 'node:assert/strict'
import {
  createWriteStream,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
  readFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { pipeline } from 'node:stream/promises'
import Database from 'better-sqlite3'
import { ZipFile } from 'yazl'
import { isMemory } from '../../src/base/space.ts'
import { filesWith } from '../kit/files-with.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { until } from '../kit/until.ts'
import { inFolder } from '../commands/beside.ts'
import { start } from '../commands/command.ts'
import { makeInstallation } from '../kit/installation.ts'

const { commands, folder, place } = inFolder('postrider-backup-')

const run = (dataDir: string, ...argv: string[]) =>
  commands.run(argv, { env: { POSTRIDER_DATA_DIR: dataDir }, bare: true })
async function well(dataDir: string, ...argv: string[]): Promise<string> {
  const { code, stderr, stdout } = await run(dataDir, ...argv)
  assert.equal(code, 0, stderr)
  return stdout
}
async function refused(dataDir: string, ...argv: string[]): Promise<string> {
  const { code, stderr } = await run(dataDir, ...argv)
  assert.equal(code, 1)
  assert.match(stderr, /^postrider: [^\n]+\n$/)
  return stderr
}

async function zipOf(files: Record<string, string>): Promise<string> {
  const zip = new ZipFile()
  for (const [name, text] of Object.entries(files)) zip.addBuffer(Buffer.from(text), name)
  zip.end()
  const path = `${place()}.zip`
  await pipeline(zip.outputStream as unknown as NodeJS.ReadableStream, createWriteStream(path))
  return path
}

const send = async (postrider: TestAppliance, to: string, html = '<p>Hello</p>'): Promise<string> => {
  const mail = { from: 'me@here.test', to, subject: 'Hello', html }
  const { body, status } = await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))
  assert.equal(status, 201, JSON.stringify(body))
  return body.data.id
}

test('restores a backup of a running server elsewhere, and repeats a later erasure before it serves', async () => {
  const address = 'ann.somebody@there.test'
  const dataDir = place()
  const file = `${place()}.zip`
  const first = await startTestAppliance({ dataDir })
  let kept: string
  try {
    await first.activeDomain('here.test')
    await send(first, address, `<p>${address}</p>${'x'.repeat(400_000)}`)
    kept = await send(first, 'bob@there.test', `<p>${'y'.repeat(400_000)}</p>`)
    const [said] = await Promise.all([
      well(dataDir, 'backup', file),
      ...Array.from({ length: 20 }, (_, n) => send(first, `n${n}@there.test`)),
    ])
    assert.match(said, /^Backed up \d+ files to /m)
    assert.match(await refused(dataDir, 'backup', file), /exists/)
    assert.match(readFileSync(join(dataDir, 'last-backup'), 'utf8'), /^\d{4}-\d\d-\d\dT[\d:.]+Z\n$/)
    assert.equal((await first.api('DELETE', `/recipients/${address}/forget`)).status, 202)
    await until(async () => (await filesWith(dataDir, address)).length === 0, 'the erasure')
  } finally {
    await first.stop()
  }
  assert.match(await refused(dataDir, 'restore', file), /already contains a database.*--replace/)
  // In an empty directory without an erasure log, the erasures since the backup are unknown.
  assert.match(await refused(place(), 'restore', file), /--ledger.*--without-ledger/)
  const unknowing = place()
  await well(unknowing, 'restore', file, '--without-ledger')
  assert.notDeepEqual(await filesWith(unknowing, address), [])
  const back = place()
  assert.match(await well(back, 'restore', file, '--ledger', join(dataDir, 'erasures.ledger')), /1 erasure/)
  assert.notDeepEqual(await filesWith(back, address), [])
  assert.match(await well(back, 'verify'), /are consistent/)
  const second = await startAgain(back)
  try {
    assert.deepEqual(await filesWith(back, address), [])
    const { store } = second.deps
    assert.ok(
      store.first({ compile: () => ({ sql: `select 1 from outbound_emails where id = ?`, parameters: [kept] }) }),
    )
  } finally {
    await second.stop()
  }
  // In its own directory, restore finds the erasure log and sets the old data aside.
  const { set_aside } = JSON.parse(await well(dataDir, '--json', 'restore', file, '--replace')) as { set_aside: string }
  assert.match(await well(dataDir, 'restore', file, '--replace'), /Erasures do not reach it, so delete it when/)
  assert.ok(existsSync(join(set_aside, 'postrider.db')))
  const third = await startAgain(dataDir)
  try {
    assert.deepEqual(
      (await filesWith(dataDir, address)).filter((name) => !name.includes('set-aside-')),
      [],
    )
  } finally {
    await third.stop()
  }
})

test('restores a backup from standard input, even one that the user cannot read, and rejects an empty one', async () => {
  const from = makeInstallation(place())
  await well(from, 'user', 'add', 'ann@owner.test')
  const file = `${place()}.zip`
  await well(from, 'backup', file)
  const given = async (dataDir: string, bytes: Buffer) => {
    const env = { POSTRIDER_DATA_DIR: dataDir, POSTRIDER_CONFIG: '' }
    const running = start(['restore', '--without-ledger', '-'], folder, env)
    running.child.stdin.on('error', () => {}).end(bytes)
    return { code: await running.ended, stderr: running.stderr() }
  }
  const bytes = readFileSync(file)
  const back = place()
  assert.deepEqual(await given(back, bytes), { code: 0, stderr: '' })
  assert.match(await well(back, 'user', 'list'), /ann@owner\.test/)
  for (const [wrong, said] of [
    [Buffer.alloc(0), /^postrider: Standard input is empty; .*restore - <FILE/],
    [bytes.subarray(0, bytes.length / 2), /^postrider: standard input cannot be read as a zip file/],
    [Buffer.from('hello'), /^postrider: standard input is corrupt or not a Postrider backup/],
  ] as const) {
    const empty = place()
    const { code, stderr } = await given(empty, wrong)
    assert.equal(code, 1)
    assert.match(stderr, said)
    assert.equal(existsSync(empty), false)
  }
})

const MEMORY = '/dev/shm'
const isOnDisk = isMemory(MEMORY) && !isMemory(folder)

test(
  'a backup in memory is told as one that goes with the machine or the container',
  { skip: isOnDisk ? false : 'the machine has no memory beside its disk' },
  async () => {
    const dataDir = makeInstallation(place())
    await well(dataDir, 'user', 'add', 'ann@owner.test')
    const passing = mkdtempSync(join(MEMORY, 'postrider-'))
    try {
      const { code, stderr } = await run(dataDir, 'backup', join(passing, 'now.zip'))
      assert.equal(code, 0, stderr)
      assert.match(stderr, /is in memory \(tmpfs\), so .*now\.zip is lost when this machine or container stops/)
      assert.equal((await run(dataDir, 'backup', `${place()}.zip`)).stderr, '')
    } finally {
      rmSync(passing, { recursive: true })
    }
  },
)

/** The appliance without the users that the kit adds. */
async function startAgain(dataDir: string) {
  const { startAppliance } = await import('../../src/server/appliance.ts')
  const { parseConfig } = await import('../../src/base/config.ts')
  const { silentLog } = await import('../../src/base/log.ts')
  const { ManualClock } = await import('../kit/clock.ts')
  const config = parseConfig({
    hostname: 'mx.postrider.test',
    data_dir: dataDir,
    http: { listen: '127.0.0.1:0' },
    smtp: { listen: ['127.0.0.1:0'] },
    dns: { servers: ['127.0.0.1:9'] },
  })
  return startAppliance({ config, clock: new ManualClock(), log: silentLog })
}

test('restore rejects a corrupt backup, a path outside the directory and other files, and removes its temporary files', async () => {
  const dataDir = makeInstallation(place())
  await well(dataDir, 'user', 'add', 'ann@owner.test')
  const file = `${place()}.zip`
  await well(dataDir, 'backup', file)
  const bytes = readFileSync(file)
  const cut = `${place()}.zip`
  writeFileSync(cut, bytes.subarray(0, bytes.length / 2))
  const spoilt = `${place()}.zip`
  writeFileSync(spoilt, Buffer.from(bytes).fill(0xff, 60, 200))
  const climbing = Buffer.from(
    readFileSync(await zipOf({ 'postrider.db': 'x', 'spool/aa/climb': 'x' }))
      .toString('latin1')
      .replaceAll('spool/aa/climb', '../../../climbs'.slice(0, 14)),
    'latin1',
  )
  const slip = `${place()}.zip`
  writeFileSync(slip, climbing)
  for (const wrong of [
    cut,
    spoilt,
    slip,
    await zipOf({ 'other.txt': 'x' }),
    await zipOf({ 'instance.key': 'x' }),
    join(folder, 'none.zip'),
  ]) {
    const target = place()
    await refused(target, 'restore', wrong, '--without-ledger')
    assert.deepEqual(
      (existsSync(target) ? (readdirSync(target, { recursive: true }) as string[]) : []).filter(
        (name) => !/^spool$|lock/.test(name),
      ),
      [],
      wrong,
    )
    await well(target, 'restore', file, '--without-ledger')
  }
  assert.equal(existsSync(join(folder, 'climbs')), false)
})

test('verify names the tables of another application and reports no corruption', async () => {
  const dataDir = makeInstallation(place())
  await well(dataDir, 'user', 'list')
  const database = new Database(join(dataDir, 'postrider.db'))
  database.exec(
    'create table _litestream_seq (id integer primary key, seq integer); create table _litestream_lock (id integer)',
  )
  database.close()
  assert.match(
    await well(dataDir, 'verify'),
    /are consistent\.\n2 tables of another application, .*: _litestream_lock, _litestream_seq/,
  )
  const file = `${place()}.zip`
  await well(dataDir, 'backup', file)
  const back = place()
  await well(back, 'restore', '--without-ledger', file)
  assert.match(await well(back, 'verify'), /_litestream_seq/)
})

test('verify finds a corrupt database and a missing spool file', async () => {
  const dataDir = place()
  {
    await using postrider = await startTestAppliance({ dataDir })
    await postrider.activeDomain('here.test')
    await send(postrider, 'bob@there.test', `<p>${'y'.repeat(400_000)}</p>`)
  }
  const [name] = readdirSync(join(dataDir, 'spool'))
  const whole = readFileSync(join(dataDir, 'spool', name!))
  for (const [harm, said] of [
    [whole.subarray(1), /has \d+ bytes instead of/],
    [Buffer.concat([Buffer.from([whole[0]! ^ 4]), whole.subarray(1)]), /is corrupt/],
  ] as const) {
    writeFileSync(join(dataDir, 'spool', name!), harm)
    const found = await run(dataDir, 'verify')
    assert.equal(found.code, 1)
    assert.match(found.stdout, said)
  }
  rmSync(join(dataDir, 'spool', name!))
  const missing = await run(dataDir, 'verify')
  assert.deepEqual([missing.code, missing.stdout], [1, `The spool file ${name} is missing.\n`])
  const path = join(dataDir, 'postrider.db')
  truncateSync(path, Math.floor(readFileSync(path).length / 2))
  const damaged = await run(dataDir, 'verify')
  assert.equal(damaged.code, 1)
  assert.match(damaged.stdout + damaged.stderr, /damaged|malformed|corrupt|invalid page/i)
})

test('backup and restore name corrupt data, and keep it only with --force', async () => {
  const dataDir = place()
  {
    await using postrider = await startTestAppliance({ dataDir })
    await postrider.activeDomain('here.test')
    await send(postrider, 'bob@there.test', `<p>${'y'.repeat(400_000)}</p>`)
    await send(postrider, 'eve@there.test', '<p>An unusual sentence</p>')
  }
  const [name] = readdirSync(join(dataDir, 'spool'))
  const spooled = join(dataDir, 'spool', name!)
  const whole = readFileSync(spooled)
  const database = join(dataDir, 'postrider.db')
  const rows = readFileSync(database)
  const flipped = Buffer.from(rows)
  flipped[rows.indexOf('An unusual sentence')]! ^= 1
  for (const [harm, said] of [
    [
      () => writeFileSync(spooled, Buffer.concat([Buffer.from([whole[0]! ^ 4]), whole.subarray(1)])),
      /is corrupt: it differs/,
    ],
    [() => rmSync(spooled), /is missing/],
    [() => writeFileSync(database, flipped), /Texts in outbound_bodies are corrupt: rows? \d/],
  ] as const) {
    harm()
    const file = `${place()}.zip`
    const refusal = await refused(dataDir, 'backup', file)
    assert.match(refusal, said)
    assert.match(refusal, /--force/)
    assert.equal(existsSync(file), false)
    assert.match(await well(dataDir, 'backup', '--force', file), said)
    const target = place()
    const unrestored = await refused(target, 'restore', '--without-ledger', file)
    assert.match(unrestored, said)
    assert.match(unrestored, /--force/)
    assert.equal(existsSync(target), false)
    assert.match(await refused(target, 'restore', '--check', file), said)
    assert.match(await well(target, 'restore', '--check', '--force', file), said)
    assert.match(await well(target, 'restore', '--without-ledger', '--force', file), said)
    assert.match((await run(target, 'verify')).stdout, said)
    writeFileSync(spooled, whole)
    writeFileSync(database, rows)
  }
  await well(dataDir, 'backup', `${place()}.zip`)
})
