// Backups of `postrider backup now` at destinations: they are listed, test-restored, restored or rejected.
import assert from 'node:assert/strict'
import {
  cpSync,
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { ZipFile } from 'yazl'
import { newIdentity, recipientOf } from '../../src/archive/encryption.ts'
import { transferOn, transferText } from '../../src/archive/transfer.ts'
import { ManualClock } from '../kit/clock.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { filesWith } from '../kit/files-with.ts'
import { makeInstallation } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { inFolder } from '../commands/beside.ts'
import { backupsIn } from './stored.ts'

const { commands, folder, place } = inFolder('postrider-targets-')

const run = (env: Record<string, string>, ...argv: string[]) => commands.run(argv, { env, bare: true })
async function well(env: Record<string, string>, ...argv: string[]): Promise<string> {
  const { code, stderr, stdout } = await run(env, ...argv)
  assert.equal(code, 0, stdout + stderr)
  return stdout
}
async function refused(env: Record<string, string>, ...argv: string[]): Promise<string> {
  const { code, stderr } = await run(env, ...argv)
  assert.equal(code, 1)
  assert.match(stderr, /^postrider: [^\n]+\n$/)
  return stderr
}
const at = (dataDir: string, more: Record<string, string> = {}): Record<string, string> => ({
  POSTRIDER_DATA_DIR: dataDir,
  POSTRIDER_CONFIG: '',
  ...more,
})

/** A folder for backups, and the names of the backups in it. */
function target(): { to: string; names: () => string[] } {
  const to = place()
  mkdirSync(to)
  return {
    to,
    names: () => backupsIn(to),
  }
}

const newData = async (): Promise<string> => {
  const dataDir = place()
  makeInstallation(dataDir)
  return dataDir
}

/** The contents of a folder: the names and the bytes of its files. */
const pictureOf = (dir: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(dir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !/-(?:wal|shm)$|\.lock$/.test(entry.name))
      .map((entry) => {
        const path = join(entry.parentPath, entry.name)
        return [path, readFileSync(path).toString('base64')]
      }),
  )

const send = async (postrider: TestAppliance, to: string): Promise<void> => {
  const mail = { from: 'me@here.test', to, subject: 'Hello', html: `<p>Dear ${to}</p>${'x'.repeat(300_000)}` }
  assert.equal((await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))).status, 201)
}

test('encrypts, lists, drills and restores a backup of a running server, and erases later erasures again', async () => {
  const dataDir = place()
  const { names, to } = target()
  const env = at(dataDir, { POSTRIDER_BACKUP_TO: to })
  const key = join(folder, 'drill.key')
  const first = await startTestAppliance({ dataDir })
  try {
    await first.activeDomain('here.test')
    await send(first, 'ann.somebody@there.test')
    const pair = JSON.parse(await well(env, '--json', 'backup', 'key')) as { identity: string; recipient: string }
    assert.equal(await recipientOf(pair.identity), pair.recipient)
    writeFileSync(key, `${pair.identity}\n`)
    assert.deepEqual(await filesWith(dataDir, pair.identity.toLowerCase()), [])
    const [said] = await Promise.all([
      well(env, '--json', 'backup', 'now'),
      ...Array.from({ length: 20 }, (_, n) => send(first, `n${n}@there.test`)),
    ])
    const [outcome] = JSON.parse(said) as { name: string; fault: null; files: number; octets: number }[]
    assert.equal(outcome?.fault, null)
    assert.deepEqual(names(), [outcome.name])
    assert.match(outcome.name, /\.zip\.zst\.age$/)
    assert.equal(readFileSync(join(to, outcome.name)).toString('latin1', 0, 19), 'age-encryption.org/')
    assert.equal(readFileSync(join(to, outcome.name)).includes('ann.somebody'), false)
    const [listed] = JSON.parse(await well(env, '--json', 'backup', 'list')) as { complete: boolean; sealed: boolean }[]
    assert.deepEqual([listed?.complete, listed?.sealed], [true, true])
    // Without the secret key, only the encrypted bytes are compared.
    const read = JSON.parse(await well(env, '--json', 'backup', 'drill')) as { drills: { way: string }[] }
    assert.equal(read.drills[0]?.way, 'read')
    const drilled = JSON.parse(await well(env, '--json', 'backup', 'drill', '--identity', key)) as {
      drills: { way: string; files: number; rows: number }[]
    }
    assert.equal(drilled.drills[0]?.way, 'restored')
    assert.equal(drilled.drills[0].files, outcome.files)
    assert.ok(drilled.drills[0].rows > 0)
    // No file of a copy or a drill remains.
    assert.deepEqual(
      readdirSync(dataDir).filter((name) => name.startsWith('.')),
      [],
    )
    assert.equal((await first.api('DELETE', '/recipients/ann.somebody@there.test/forget')).status, 202)
    await until(async () => (await filesWith(dataDir, 'ann.somebody@there.test')).length === 0, 'the erasure')
  } finally {
    await first.stop()
  }
  const back = place()
  assert.match(await refused(at(back), 'restore', to, '--without-ledger'), /is encrypted.*--identity/)
  assert.equal(existsSync(back), false)
  const ledger = join(dataDir, 'erasures.ledger')
  assert.match(await well(at(back), 'restore', to, '--identity', key, '--ledger', ledger), /repeats 1 erasure/)
  assert.match(await well(at(back), 'verify'), /are consistent/)
  const second = await startTestAppliance({ dataDir: back })
  try {
    await until(async () => (await filesWith(back, 'ann.somebody@there.test')).length === 0, 'the erasure again')
  } finally {
    await second.stop()
  }
})

test('makes a backup without recipients only to a directory, and continues after a failed target', async () => {
  const dataDir = await newData()
  const { names, to } = target()
  const missing = join(folder, 'not-mounted')
  const env = at(dataDir, { POSTRIDER_BACKUP_TO: `exec:cat {action} {name}, ${missing}, ${to}` })
  const { code, stdout } = await run(env, '--json', 'backup', 'now')
  assert.equal(code, 1)
  const [command, absent, done] = JSON.parse(stdout) as { fault: string | null; target: string }[]
  assert.match(command?.fault ?? '', /only accepts encrypted backups.*"postrider backup key"/)
  assert.match(absent?.fault ?? '', /not-mounted/)
  assert.deepEqual([done?.target, done?.fault], [to, null])
  assert.equal(names().length, 1)
  // Each became a row.
  const database = new Database(join(dataDir, 'postrider.db'), { readonly: true })
  const rows = database.prepare('select kind, target, fault is null as well from backup_runs order by key').all()
  database.close()
  assert.deepEqual(rows, [
    { kind: 'backup', target: 'exec:cat', well: 0 },
    { kind: 'backup', target: missing, well: 0 },
    { kind: 'backup', target: to, well: 1 },
  ])
  assert.match(await refused(at(dataDir), 'backup', 'now'), /"backup\.to" is empty/)
})

test('reports a missing key file or target only for its target, and backs up, lists and drills the others', async () => {
  const dataDir = await newData()
  const { names, to } = target()
  const key = join(folder, 's3.key')
  writeFileSync(key, 'id\nsecret\n')
  const gone = target().to
  const env = at(dataDir, {
    POSTRIDER_BACKUP_TO: `s3://bucket, ${gone}, ${to}`,
    POSTRIDER_BACKUP_RECIPIENTS: await recipientOf(await newIdentity()),
    POSTRIDER_BACKUP_S3_KEY_FILE: key,
  })
  rmSync(key)
  rmSync(gone, { recursive: true })
  const sentences = [
    /"backup\.s3\.key_file" is .*s3\.key, which cannot be read \(ENOENT\); /,
    /the directory does not exist/,
  ]
  const ran = async (...words: string[]): Promise<{ stdout: string; stderr: string }> => {
    const { code, stderr, stdout } = await run(env, '--json', ...words)
    assert.equal(code, 1, stdout + stderr)
    return { stdout, stderr }
  }
  const outcomes = JSON.parse((await ran('backup', 'now')).stdout) as { fault: string | null }[]
  assert.equal(outcomes[2]?.fault, null)
  const { faults, drills } = JSON.parse((await ran('backup', 'drill')).stdout) as {
    faults: string[]
    drills: { target: string }[]
  }
  assert.deepEqual(
    drills.map((each) => each.target),
    [to],
  )
  const listed = await ran('backup', 'list')
  assert.deepEqual(
    (JSON.parse(listed.stdout) as { name: string }[]).map(({ name }) => name),
    names(),
  )
  for (const [index, sentence] of sentences.entries()) {
    assert.match(outcomes[index]?.fault ?? '', sentence)
    assert.match(faults[index] ?? '', sentence)
    assert.match(listed.stderr, sentence)
  }
  const database = new Database(join(dataDir, 'postrider.db'), { readonly: true })
  const rows = database.prepare('select kind, fault is null as well from backup_runs order by key').all()
  database.close()
  assert.deepEqual(
    rows,
    ['backup', 'drill'].flatMap((kind) => [0, 0, 1].map((well) => ({ kind, well }))),
  )
})

test('rejects a truncated, modified, newer, foreign or differently encrypted backup before it changes any data', async () => {
  const dataDir = await newData()
  const { names, to } = target()
  const identity = await newIdentity()
  const env = at(dataDir, { POSTRIDER_BACKUP_TO: to, POSTRIDER_BACKUP_RECIPIENTS: await recipientOf(identity) })
  const key = join(folder, 'good.key')
  const wrong = join(folder, 'wrong.key')
  writeFileSync(key, identity)
  writeFileSync(wrong, await newIdentity())
  await well(env, 'backup', 'now')
  const [name = ''] = names()
  const before = pictureOf(dataDir)
  const bad = async (how: (copy: string) => void, said: RegExp, ...more: string[]): Promise<void> => {
    const copy = place()
    cpSync(to, copy, { recursive: true })
    how(copy)
    assert.match(await refused(env, 'restore', '--replace', '--identity', key, ...more, copy), said)
    assert.deepEqual(pictureOf(dataDir), before)
  }
  const manifest = (change: object) => (copy: string) => {
    const file = join(copy, `${name}.json`)
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), ...change }))
  }
  const bytes = readFileSync(join(to, name))
  await bad((copy) => truncateSync(join(copy, name), bytes.length - 1), /bytes instead of the \d+ in its manifest/)
  await bad((copy) => truncateSync(join(copy, name), 100), /has 100 bytes instead of the \d+ in its manifest/)
  await bad((copy) => {
    const flipped = Buffer.from(bytes)
    flipped[bytes.length - 40]! ^= 1
    writeFileSync(join(copy, name), flipped)
  }, /was modified after it was written/)
  await bad(manifest({ sha256: 'ab'.repeat(32) }), /modified after it was written/)
  await bad(manifest({ size: 1 }), /bytes instead of the 1 in its manifest/)
  await bad(manifest({ plain: 10 }), /is larger than its manifest states/)
  await bad(manifest({ schema: 9999, version: '9.0.0' }), /newer version of Postrider \(9\.0\.0\)/)
  await bad((copy) => writeFileSync(join(copy, `${name}.json`), '{'), /does not belong to/)
  await bad((copy) => rmSync(join(copy, `${name}.json`)), /\.json is missing; .*restore the file by its name/)
  await bad(() => {}, /no backup made at or before 2020-01-01/, '--at', '2020-01-01')
  await bad(() => {}, /--at "noon" is not a time; use one such as/, '--at', 'noon')
  await bad(() => {}, /only of [0-9a-f]{32}/, '--installation', 'ffff')
  assert.match(await refused(env, 'restore', '--replace', '--identity', wrong, to), /key/)
  // A destination with the backups of another installation is rejected.
  const other = await newData()
  assert.match(
    await refused(at(other), 'restore', '--replace', '--identity', key, to),
    /no backup of this installation/,
  )
  assert.deepEqual(pictureOf(dataDir), before)
  // A drill fails with the same error, and stores a row.
  const flipped = Buffer.from(bytes)
  flipped[bytes.length - 40]! ^= 1
  writeFileSync(join(to, name), flipped)
  for (const more of [[], ['--identity', key]]) {
    const drill = await run(env, '--json', 'backup', 'drill', ...more)
    assert.equal(drill.code, 1)
    assert.match(
      (JSON.parse(drill.stdout) as { faults: string[] }).faults[0] ?? '',
      /was modified after it was written/,
    )
  }
})

test('restore requires an erasure log before it downloads the backup (D67)', async () => {
  const dataDir = await newData()
  const other = join(folder, 'other.ledger')
  writeFileSync(other, `${JSON.stringify({ ledger: '0'.repeat(32), at: new Date().toISOString() })}\n`)
  const { names, to } = target()
  await well(at(dataDir, { POSTRIDER_BACKUP_TO: to }), 'backup', 'now')
  // A restore that reads the backup fails: it is truncated.
  truncateSync(join(to, names()[0] ?? ''), 1000)
  const back = place()
  for (const from of [to, join(to, names()[0] ?? '')]) {
    assert.match(await refused(at(back), 'restore', from), /has no erasure log.*--without-ledger/)
    assert.match(
      await refused(at(back), 'restore', '--ledger', join(folder, 'none'), from),
      /erasure log .* does not exist/,
    )
    assert.match(await refused(at(back), 'restore', '--without-ledger', from), /is corrupt|has 1000 bytes/)
  }
  assert.match(await refused(at(back), 'restore', '--ledger', other, to), /belongs to another installation/)
  assert.equal(existsSync(back), false)
})

test('restores a downloaded backup as a file, with or without its manifest', async () => {
  const dataDir = await newData()
  const { names, to } = target()
  await well(at(dataDir, { POSTRIDER_BACKUP_TO: to }), 'backup', 'now')
  const file = join(to, names()[0] ?? '')
  assert.match(await well(at(place()), 'restore', '--without-ledger', file), /Restored \d+ files of .* to/)
  rmSync(`${file}.json`)
  assert.match(await well(at(place()), 'restore', '--without-ledger', file), /Restored \d+ files of .* to/)
  truncateSync(file, Math.floor(statSync(file).size / 2))
  const back = place()
  assert.match(await refused(at(back), 'restore', '--without-ledger', file), /is corrupt/)
  assert.equal(existsSync(back), false)
})

test('a restore names the backup, and reports a newer one whose manifest or own object is missing', async () => {
  const dataDir = await newData()
  const { names, to } = target()
  const env = at(dataDir, { POSTRIDER_BACKUP_TO: to })
  for (let n = 0; n < 2; n++) await well(env, 'backup', 'now')
  const [older, newer] = names().toSorted() as [string, string]
  for (const lost of [newer, `${newer}.json`]) {
    const kept = readFileSync(join(to, lost))
    rmSync(join(to, lost))
    const { code, stderr, stdout } = await run(at(place()), 'restore', '--without-ledger', to)
    assert.equal(code, 0, stderr)
    assert.match(stdout, new RegExp(`of \\S*${older} to`))
    assert.match(stderr, new RegExp(`${newer} is newer, but its manifest or its own object is missing`))
    writeFileSync(join(to, lost), kept)
  }
  const { stderr } = await run(at(place()), 'restore', '--without-ledger', to)
  assert.doesNotMatch(stderr, /is newer/)
})

test('rejects a zip of a newer version as newer', async () => {
  const dataDir = await newData()
  const database = new Database(join(dataDir, 'postrider.db'))
  database.pragma('user_version = 9999')
  database.close()
  const zip = new ZipFile()
  for (const name of ['postrider.db', 'instance.key']) zip.addFile(join(dataDir, name), name)
  zip.end()
  const file = `${place()}.zip`
  await pipeline(zip.outputStream as unknown as NodeJS.ReadableStream, createWriteStream(file))
  const back = place()
  assert.match(await refused(at(back), 'restore', '--without-ledger', file), /newer version of Postrider.*9999/)
  assert.equal(existsSync(back), false)
})

test('restore --at selects the newest backup up to a time, and --check leaves the data unchanged', async () => {
  const dataDir = await newData()
  const { names, to } = target()
  const env = at(dataDir, { POSTRIDER_BACKUP_TO: to })
  await well(env, 'backup', 'now')
  const [old = ''] = names()
  await well(env, 'backup', 'now')
  assert.equal(names().length, 2)
  const time = /\d{8}T\d{6}Z/.exec(old)![0].replace(/^(.{4})(..)(..T..)(..)(..Z)$/, '$1-$2-$3:$4:$5')
  const before = pictureOf(dataDir)
  const checked = JSON.parse(await well(env, '--json', 'restore', '--check', '--at', time, to)) as { name: string }
  assert.ok(checked.name.endsWith(old))
  assert.deepEqual(pictureOf(dataDir), before)
  // A backup of a time to come, from when the clock was ahead, is not the newest.
  const ahead = old.replace(/\d{8}T/, '29990101T')
  cpSync(join(to, old), join(to, ahead))
  writeFileSync(join(to, `${ahead}.json`), readFileSync(join(to, `${old}.json`), 'utf8').replaceAll(old, ahead))
  const newest = JSON.parse(await well(env, '--json', 'restore', '--check', to)) as { name: string }
  assert.ok(newest.name.endsWith(names().at(-2) ?? ''))
  // --at selects it by its name, but its manifest is of another time.
  assert.match(
    await refused(env, 'restore', '--check', '--at', '2999-01-02T00:00:00Z', to),
    /is named after 2999-01-01/,
  )
  for (const each of [ahead, `${ahead}.json`]) rmSync(join(to, each))
  const listed = JSON.parse(await well(env, '--json', 'restore', '--list', to)) as { name: string }[]
  assert.deepEqual(listed.map((each) => each.name).toSorted(), names())
})

test('a killed restore leaves the installation unchanged, and the next run reports its leftovers', async () => {
  const dataDir = await newData()
  const { to } = target()
  await well(at(dataDir, { POSTRIDER_BACKUP_TO: to }), 'backup', 'now')
  mkdirSync(join(dataDir, '.restore-Abc123'))
  writeFileSync(join(dataDir, '.restore-Abc123', 'postrider.db'), 'a part')
  const { code, stderr } = await run(at(dataDir), 'restore', '--replace', to)
  assert.equal(code, 0, stderr)
  assert.match(stderr, /\.restore-Abc123 was left by an interrupted restore and is deleted/)
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.startsWith('.restore-')),
    [],
  )
  // Killed between the old installation's move and the new one's.
  rmSync(join(dataDir, 'postrider.db'))
  const again = await run(at(dataDir), 'restore', '--without-ledger', to)
  assert.equal(again.code, 0, again.stderr)
  assert.match(again.stderr, /.* has no database; data that was moved aside earlier is kept: .*set-aside-\d+\.\n/)
  assert.match(await well(at(dataDir), 'verify'), /are consistent/)
})

test('lists and restores the backups of a command with --at like those of a directory', async () => {
  const dataDir = await newData()
  const { to } = target()
  const script = join(folder, 'keep.sh')
  writeFileSync(
    script,
    `case "$1" in
put) cat > "${to}/$2" ;;
get) cat "${to}/$2" ;;
list) cd "${to}" && for each in *; do [ -f "$each" ] && echo "$each $(wc -c < "$each")"; done; true ;;
remove) rm -f "${to}/$2" ;;
esac
`,
  )
  const kept = `exec:/bin/sh ${script} {action} {name}`
  const secret = await newIdentity()
  const identity = join(folder, 'kept.key')
  writeFileSync(identity, `${secret}\n`)
  const env = at(dataDir, { POSTRIDER_BACKUP_TO: kept, POSTRIDER_BACKUP_RECIPIENTS: await recipientOf(secret) })
  const made: string[] = []
  for (let n = 0; n < 2; n++) {
    const [outcome] = JSON.parse(await well(env, '--json', 'backup', 'now')) as { name: string }[]
    made.push(outcome?.name ?? '')
  }
  const listed = JSON.parse(await well(env, '--json', 'restore', '--list', kept)) as { name: string; at: string }[]
  assert.deepEqual(
    listed.map((each) => each.name),
    made.toReversed(),
  )
  assert.deepEqual(JSON.parse(await well(env, '--json', 'backup', 'list')).length, 2)
  const taken = async (...more: string[]): Promise<string> => {
    const words = ['--json', 'restore', '--check', '--identity', identity, ...more, kept]
    return (JSON.parse(await well(env, ...words)) as { name: string }).name
  }
  assert.equal(await taken(), made[1])
  assert.equal(await taken('--at', listed[1]?.at ?? ''), made[0])
  assert.match(
    await well(at(place()), 'restore', '--without-ledger', '--identity', identity, kept),
    /Restored \d+ files of .* to/,
  )
})

test('prints the rate and the remaining time of a transfer, small and large', () => {
  assert.equal(transferText(412e6, 1200e6, 4300), '412 MB of 1200 MB, 96 MB/s, 8 s left')
  assert.equal(transferText(2e6, 12e6, 20_000), '2 MB of 12 MB, 100 kB/s, 2 min left')
  assert.equal(transferText(20e9, 30e9, 100_000, 'unpacked'), '20.0 GB of 30.0 GB unpacked, 200 MB/s, 50 s left')
  // The transfer can exceed the stated size.
  assert.equal(transferText(5e6, 4e6, 1000), '5 MB of 4 MB, 5 MB/s, 0 s left')
  const said: string[] = []
  const clock = new ManualClock()
  const terminal = { json: false, interactive: false, draw: () => {}, err: (text: string) => void said.push(text) }
  const transfer = transferOn(terminal, clock, 100e6, 'unpacked')
  for (let n = 0; n < 5; n++) {
    clock.leap(5000)
    transfer.add(10e6)
  }
  transfer.end()
  assert.deepEqual(said, [
    'postrider: 20 MB of 100 MB unpacked, 2 MB/s, 40 s left\n',
    'postrider: 40 MB of 100 MB unpacked, 2 MB/s, 30 s left\n',
  ])
})
