// Backups that send only new data: what is sent, what a restore makes of it, and faults at the destination.
import assert from 'node:assert/strict'
import {
  cpSync,
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
import { Readable } from 'node:stream'
import { after, before, describe, test } from 'node:test'
import { manifestName, nameOf, readName, type Manifest } from '../../src/archive/catalog.ts'
import { newIdentity, recipientOf } from '../../src/archive/encryption.ts'
import { openDestination } from '../../src/archive/destinations/destination.ts'
import { packed } from '../../src/archive/pack.ts'
import { HOUR, iso, systemClock } from '../../src/base/clock.ts'
import { openKeyring } from '../../src/base/keyring.ts'
import { removeOldBodies } from '../../src/mail/retention.ts'
import { fingerprintOf } from '../../src/privacy/ledger.ts'
import { countsIn } from '../../src/store/copy.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { makeInstallation } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { inFolder } from '../commands/beside.ts'
import { sentenceOf } from '../commands/command.ts'
import { backupsIn, sharedIn } from './stored.ts'

const { commands, folder, place } = inFolder('postrider-increments-')

interface Outcome {
  name: string | null
  octets: number
  files: number
  fault: string | null
}

/** An installation with a destination. */
class Installation {
  readonly dataDir = place()
  readonly to = place()
  env: Record<string, string> = { POSTRIDER_DATA_DIR: this.dataDir, POSTRIDER_CONFIG: '', POSTRIDER_BACKUP_TO: this.to }

  constructor() {
    mkdirSync(this.to)
  }

  run(...argv: string[]) {
    return commands.run(argv, { env: this.env, bare: true })
  }

  async well(...argv: string[]): Promise<string> {
    const { code, stderr, stdout } = await this.run(...argv)
    assert.equal(code, 0, stdout + stderr)
    return stdout
  }

  async backUp(code = 0): Promise<Outcome> {
    const ran = await this.run('--json', 'backup', 'now')
    assert.equal(ran.code, code, ran.stdout + ran.stderr)
    return (JSON.parse(ran.stdout) as Outcome[])[0]!
  }

  /** Restores the newest backup elsewhere. Returns the directory. */
  async restored(...more: string[]): Promise<string> {
    const back = place()
    const env = { ...this.env, POSTRIDER_DATA_DIR: back }
    const { code, stderr } = await commands.run(['restore', '--without-ledger', ...more, this.to], { env, bare: true })
    assert.equal(code, 0, stderr)
    return back
  }

  /** The error of a restore, which leaves no files. */
  async refused(...more: string[]): Promise<string> {
    const back = place()
    const env = { ...this.env, POSTRIDER_DATA_DIR: back }
    const ran = await commands.run(['restore', '--without-ledger', ...more, this.to], { env, bare: true })
    assert.equal(existsSync(back), false)
    return sentenceOf(ran)
  }

  files(): string[] {
    return sharedIn(this.to, 'files')
  }
}

/** A server whose emails have a spool file each. */
async function server(
  installation: Installation,
): Promise<TestAppliance & { exchanger: ReturnType<typeof testExchanger>; mails: (count: number) => Promise<void> }> {
  const exchanger = testExchanger()
  const postrider = await startTestAppliance({ dataDir: installation.dataDir, exchanger, routes: ['there.test'] })
  await postrider.activeDomain('here.test')
  let sent = 0
  const mails = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++) {
      const mail = { from: 'me@here.test', to: `n${++sent}@there.test`, subject: 'Hello', html: random(80_000) }
      assert.equal((await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))).status, 201)
    }
  }
  return Object.assign(postrider, { exchanger, mails })
}

/** Text that hardly compresses. */
const random = (length: number): string =>
  Buffer.from(Array.from({ length: (length * 3) / 4 }, () => Math.random() * 256)).toString('base64')

const spoolOf = (dataDir: string): Record<string, string> => {
  const spool = join(dataDir, 'spool')
  const names = readdirSync(spool).filter((name) => statSync(join(spool, name)).isFile())
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(spool, name)).toString('base64')]))
}

const manifestIn = (to: string, name: string): Manifest =>
  JSON.parse(readFileSync(join(to, manifestName(name)), 'utf8')) as Manifest

test('sends a spool file once and only the changed pages, and restores the original byte by byte', async () => {
  const one = new Installation()
  const postrider = await server(one)
  try {
    await postrider.mails(20)
    const first = await one.backUp()
    assert.ok(first.octets > 20 * 80_000 * 0.7)
    assert.deepEqual([one.files().length, sharedIn(one.to, 'db').length], [1, 1])
    await postrider.mails(3)
    const second = await one.backUp()
    assert.ok(second.octets > 3 * 80_000 * 0.7 && second.octets < 5 * 80_000, String(second.octets))
    const third = await one.backUp()
    // Only the row of the second backup is new.
    assert.ok(third.octets < 40_000, String(third.octets))
    assert.deepEqual([one.files().length, sharedIn(one.to, 'db').length, backupsIn(one.to).length], [2, 1, 3])
    assert.equal(third.files, second.files)
  } finally {
    await postrider.stop()
  }
  const zip = join(folder, 'same.zip')
  await one.well('backup', zip)
  const { name } = await one.backUp()
  assert.equal(manifestIn(one.to, name!).objects.length, 3)
  const back = await one.restored()
  const other = place()
  const env = { ...one.env, POSTRIDER_DATA_DIR: other }
  assert.equal((await commands.run(['restore', '--without-ledger', zip], { env, bare: true })).code, 0)
  // `backup FILE` contains the complete database.
  assert.ok(readFileSync(join(back, 'postrider.db')).equals(readFileSync(join(other, 'postrider.db'))))
  assert.deepEqual(spoolOf(back), spoolOf(one.dataDir))
  assert.equal(Object.keys(spoolOf(back)).length, 23)
  assert.deepEqual(readdirSync(back).toSorted(), readdirSync(other).toSorted())
  assert.match(await one.well('restore', '--check', one.to), /verified in/)
  // Each earlier one is restored with its own files.
  const earlier = await one.well(
    '--json',
    'restore',
    '--check',
    '--at',
    iso(readName(backupsIn(one.to)[0]!)!.at),
    one.to,
  )
  assert.equal((JSON.parse(earlier) as { files: number }).files, manifestIn(one.to, backupsIn(one.to)[0]!).files)
})

test('does not read a spool file again that the destination has, and restores it even if it is corrupt here', async () => {
  const one = new Installation()
  const postrider = await server(one)
  try {
    await postrider.mails(2)
    await one.backUp()
    const sent = spoolOf(one.dataDir)
    const [name = ''] = Object.keys(sent)
    const path = join(one.dataDir, 'spool', name)
    const bytes = readFileSync(path)
    bytes[5]! ^= 1
    rmSync(path)
    writeFileSync(path, bytes)
    await one.backUp()
    assert.deepEqual(spoolOf(await one.restored()), sent)
    // A backup with the whole database verifies everything.
    rmSync(join(one.dataDir, 'backup-state'), { recursive: true })
    assert.match(sentenceOf(await one.run('backup', 'now')), /some data is corrupt: The spool file .* is corrupt/)
  } finally {
    await postrider.stop()
  }
})

test('does not restore a spool file that was deleted before the backup, although its object contains it', async () => {
  const one = new Installation()
  const postrider = await server(one)
  try {
    await postrider.mails(2)
    await until(() => postrider.exchanger.heard.length === 2, 'the emails')
    postrider.clock.leap(HOUR)
    await postrider.mails(2)
    await one.backUp()
    const { deps } = postrider.appliance
    await until(() => removeOldBodies(deps, postrider.clock.now()).then(() => files() === 2), 'the deletion')
    await one.backUp()
    assert.equal(one.files().length, 1)
  } finally {
    await postrider.stop()
  }
  const restored = spoolOf(await one.restored())
  assert.deepEqual(restored, spoolOf(one.dataDir))
  assert.equal(Object.keys(restored).length, 2)

  function files(): number {
    return Object.keys(spoolOf(one.dataDir)).length
  }
})

describe('a destination', () => {
  const one = new Installation()
  let postrider: Awaited<ReturnType<typeof server>>
  before(async () => {
    postrider = await server(one)
    await postrider.mails(5)
    await one.backUp()
  })
  after(() => postrider.stop())

  test('that lost an object gets its contents again, and the error of a restore names the object', async () => {
    const [files = ''] = one.files()
    rmSync(join(one.to, files))
    assert.match(
      await one.refused(),
      new RegExp(`${files} does not exist; .*, or add --force to restore without the spool files in ${files}\\.`),
    )
    const without = await one.restored('--force')
    assert.deepEqual(spoolOf(without), {})
    const { octets } = await one.backUp()
    assert.ok(octets > 5 * 80_000 * 0.7)
    assert.deepEqual(spoolOf(await one.restored()), spoolOf(one.dataDir))
    const [db = ''] = sharedIn(one.to, 'db')
    rmSync(join(one.to, db))
    assert.match(await one.refused(), new RegExp(`${db} does not exist; run "postrider restore --list"`))
    assert.match(await one.refused('--force'), new RegExp(`${db} does not exist`))
    await one.backUp()
    await one.restored()
  })

  for (const kind of ['db', 'files'] as const)
    test(`with a truncated or modified ${kind} object: a drill and a restore name it, and a truncated one is sent again`, async () => {
      const name = sharedIn(one.to, kind).at(-1)!
      const bytes = readFileSync(join(one.to, name))
      const flipped = Buffer.from(bytes)
      flipped[bytes.length >> 1]! ^= 1
      writeFileSync(join(one.to, name), flipped)
      assert.match(await one.refused(), new RegExp(`${name} was modified after it was written`))
      const drill = await one.run('--json', 'backup', 'drill')
      assert.equal(drill.code, 1)
      assert.match(drill.stdout, new RegExp(`${name} was modified after it was written`))
      truncateSync(join(one.to, name), bytes.length - 10)
      assert.match(await one.refused(), new RegExp(`${name} has ${bytes.length - 10} bytes instead of the`))
      const before = sharedIn(one.to, kind).length
      await one.backUp()
      assert.equal(sharedIn(one.to, kind).length, before + 1)
      await one.restored()
      writeFileSync(join(one.to, name), bytes)
    })

  test('gets everything again for other keys, and if the data directory has lost what is known', async () => {
    const before = one.files().length
    rmSync(join(one.dataDir, 'backup-state'), { recursive: true })
    await one.backUp()
    assert.equal(one.files().length, before + 1)
    // Backups of the same second have later times in their names.
    for (const name of backupsIn(one.to)) for (const each of [name, manifestName(name)]) rmSync(join(one.to, each))
    const secret = await newIdentity()
    const key = join(folder, 'increments.key')
    writeFileSync(key, secret)
    one.env = { ...one.env, POSTRIDER_BACKUP_RECIPIENTS: await recipientOf(secret) }
    await one.backUp()
    assert.equal(one.files().length, before + 2)
    assert.deepEqual(spoolOf(await one.restored('--identity', key)), spoolOf(one.dataDir))
    // Without the secret key, a drill reads all objects.
    const drill = JSON.parse(await one.well('--json', 'backup', 'drill')) as {
      drills: { octets: number; way: string }[]
    }
    const manifest = manifestIn(one.to, backupsIn(one.to).at(-1)!)
    const sizes = [manifest, ...manifest.objects].map(({ name }) => statSync(join(one.to, name)).size)
    assert.deepEqual(
      drill.drills.map(({ octets, way }) => [octets, way]),
      [[sizes.reduce((sum, each) => sum + each), 'read']],
    )
  })
})

/** A command as a destination, with a line of shell before each call. $1 is the action, $2 the name. */
function command(one: Installation, line: string): void {
  const script = `${place()}.sh`
  writeFileSync(
    script,
    `${line}
case "$1" in
put) cat > "${one.to}/$2" ;;
get) cat "${one.to}/$2" ;;
list) cd "${one.to}" && for each in *; do [ -f "$each" ] && echo "$each $(wc -c < "$each")"; done; true ;;
remove) rm -f "${one.to}/$2" ;;
esac
`,
  )
  one.env = { ...one.env, POSTRIDER_BACKUP_TO: `exec:/bin/sh ${script} {action} {name}` }
}

test('resumes after a failed upload: objects that were stored are not sent again', async () => {
  const one = new Installation()
  one.env = { ...one.env, POSTRIDER_BACKUP_RECIPIENTS: await recipientOf(await newIdentity()) }
  const flag = place()
  command(one, `case "$1 $2" in "put postrider-"*.db-*) [ -e "${flag}" ] || exit 7 ;; esac`)
  const postrider = await server(one)
  try {
    await postrider.mails(5)
    assert.match((await one.backUp(1)).fault ?? '', /exited with status 7/)
    assert.deepEqual([one.files().length, sharedIn(one.to, 'db').length, backupsIn(one.to).length], [1, 0, 0])
    writeFileSync(flag, '')
    await one.backUp()
    assert.deepEqual([one.files().length, sharedIn(one.to, 'db').length, backupsIn(one.to).length], [1, 1, 1])
  } finally {
    await postrider.stop()
  }
})

test('a backup fails if another process deletes one of its objects in the meantime', async () => {
  const one = new Installation()
  makeInstallation(one.dataDir)
  one.env = { ...one.env, POSTRIDER_BACKUP_RECIPIENTS: await recipientOf(await newIdentity()) }
  command(one, `case "$1 $2" in "put "*.json) rm -f "${one.to}"/*.db-* ;; esac`)
  assert.match(
    (await one.backUp(1)).fault ?? '',
    /\.db-\S+ was deleted during the backup; make sure that only this server/,
  )
  // It is not listed as complete.
  const listed = JSON.parse(await one.well('--json', 'backup', 'list')) as { complete: boolean }[]
  assert.deepEqual(
    listed.map(({ complete }) => complete),
    [false],
  )
})

test('two installations can share a destination, and each uses its own objects', async () => {
  const [one, two] = [new Installation(), new Installation()]
  makeInstallation(one.dataDir)
  makeInstallation(two.dataDir)
  two.env = { ...two.env, POSTRIDER_BACKUP_TO: one.to }
  for (const each of [one, two, one, two]) await each.backUp()
  assert.deepEqual([sharedIn(one.to, 'db').length, backupsIn(one.to).length], [2, 4])
  for (const each of [one, two]) {
    const checked = await each.well('restore', '--check', one.to)
    assert.match(checked, /verified in/)
  }
})

test('two servers with the same data can share a destination', async () => {
  const [one, two] = [new Installation(), new Installation()]
  makeInstallation(one.dataDir)
  await one.backUp()
  cpSync(one.dataDir, two.dataDir, { recursive: true })
  two.env = { ...two.env, POSTRIDER_BACKUP_TO: one.to }
  await Promise.all([one.backUp(), two.backUp()])
  await two.backUp()
  for (const name of backupsIn(one.to))
    assert.match(await one.well('restore', '--check', join(one.to, name)), /verified in/)
})

test('restores a backup of format 1, which is a single object', async () => {
  const one = new Installation()
  makeInstallation(one.dataDir)
  await one.well('verify')
  const fingerprint = fingerprintOf(openKeyring(one.dataDir))
  const at = systemClock.now()
  const name = nameOf(at, fingerprint, false)
  const files = ['postrider.db', 'instance.key'].map((each) => ({ name: each, path: join(one.dataDir, each) }))
  let plain = 0
  const destination = openDestination(one.to, {}, { clock: systemClock })
  const stored = await destination.put(
    name,
    packed(files, [], (bytes) => (plain += bytes)),
  )
  const { rows, schema } = countsIn(join(one.dataDir, 'postrider.db'))
  const made = { made_at: iso(at), fingerprint, version: '0.3.0', schema, recipients: [] }
  const manifest = { format: 1, name, ...stored, plain, files: 2, rows, ...made }
  await destination.put(manifestName(name), Readable.from([Buffer.from(JSON.stringify(manifest))]))
  assert.match(await one.well('restore', '--check', one.to), /2 files/)
  await one.restored()
  // The next backup keeps it.
  await one.backUp()
  assert.ok(backupsIn(one.to).includes(name))
})

test('lists what a failure would lose now, for each destination', async () => {
  const one = new Installation()
  makeInstallation(one.dataDir)
  assert.match(
    await one.well('backup', 'list'),
    new RegExp(`^There are no backups\\.\n${one.to}: a failure now would lose all data\\.`),
  )
  await one.backUp()
  assert.match(
    await one.well('backup', 'list'),
    new RegExp(`\n${one.to}: a failure now would lose the last \\d+ s\\.\n$`),
  )
})

test('without a manifest, rejects a backup whose whole database was exchanged', async () => {
  const [one, two] = [new Installation(), new Installation()]
  for (const each of [one, two]) {
    makeInstallation(each.dataDir)
    await each.well('user', 'add', each === one ? 'ann@here.test' : 'bob@here.test')
    await each.backUp()
  }
  const [file = ''] = backupsIn(one.to).map((name) => join(one.to, name))
  rmSync(manifestName(file))
  const env = { ...one.env, POSTRIDER_DATA_DIR: place() }
  const restore = ['restore', '--check', file]
  assert.equal((await commands.run(restore, { env, bare: true })).code, 0)
  cpSync(join(two.to, sharedIn(two.to, 'db')[0]!), join(one.to, sharedIn(one.to, 'db')[0]!))
  const ran = await commands.run(restore, { env, bare: true })
  assert.match(sentenceOf(ran), /contains another database than it states; use another backup\.$/)
})

test('rejects a part of a backup by its name', async () => {
  const one = new Installation()
  makeInstallation(one.dataDir)
  await one.backUp()
  const env = { ...one.env, POSTRIDER_DATA_DIR: place() }
  const file = join(one.to, sharedIn(one.to, 'db')[0]!)
  const ran = await commands.run(['restore', '--without-ledger', file], { env, bare: true })
  assert.match(sentenceOf(ran), /is only a part of backups; use a file next to it without ".db-" and ".files-"/)
})
