// Backups that send only new data, to a directory, S3 (Swift), ssh and rclone: bytes at the destination, restores that
// equal the original byte by byte, and damaged objects.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { newIdentity, recipientOf } from '../../src/archive/encryption.ts'
import { Commands } from '../commands/command.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { COMMAND_PROGRAMS, startAllDestinations, type AllDestinations } from './rig/all-destinations.ts'
import { absentOf, missingSwift, SSHD } from './rig/keepers.ts'
import { withPrograms } from './rig/need.ts'
import { Sandbox } from './rig/sandbox.ts'

const FILES = 200
/** Bytes of each spool file that do not compress. */
const RANDOM = 70_000

withPrograms('backups of new data', [...missingSwift(), ...absentOf([SSHD, ...COMMAND_PROGRAMS])], () => {
  const box = new Sandbox('increments')
  const commands = new Commands(box.dir)
  const dataDir = box.path('data')
  const config = box.path('postrider.toml')
  let key: string
  let all: AllDestinations
  let postrider: TestAppliance
  let places = 0

  before(async () => {
    const identity = await newIdentity()
    key = box.write('backup.key', `${identity}\n`, 0o600)
    mkdirSync(dataDir, { mode: 0o700 })
    all = await startAllDestinations(box)
    const to = JSON.stringify(all.destinations.map(({ target }) => target))
    writeFileSync(
      config,
      `data_dir = ${JSON.stringify(dataDir)}\n[backup]\nto = ${to}\nrecipients = ["${await recipientOf(identity)}"]\n${all.toml}\n`,
    )
    postrider = await startTestAppliance({ dataDir })
    await postrider.activeDomain('here.test')
  })
  after(async () => {
    await postrider.stop()
    await commands.close()
    await box.close()
  })

  const mails = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++) {
      const mail = {
        from: 'me@here.test',
        to: 'n@there.test',
        subject: 'Hello',
        html: randomBytes(RANDOM).toString('hex'),
      }
      assert.equal((await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))).status, 201)
    }
  }
  const run = async (words: readonly string[], env: Record<string, string> = {}) =>
    commands.run(['--config', config, '--json', ...words], { env, bare: true })
  const json = async <T>(...words: string[]): Promise<T> => {
    const { code, stderr, stdout } = await run(words)
    assert.equal(code, 0, stdout + stderr)
    return JSON.parse(stdout) as T
  }
  /** Bytes of all backups by destination, as the destinations list them. */
  const stored = async (): Promise<number[]> => {
    const listed = await json<{ size: number; target: string }[]>('backup', 'list')
    return all.destinations.map(({ title }) =>
      listed.reduce((sum, { size, target }) => sum + (target === title ? size : 0), 0),
    )
  }
  const restore = async (from: string) => {
    const back = box.path(`back-${++places}`)
    const ran = await run(['restore', '--identity', key, '--without-ledger', from], { POSTRIDER_DATA_DIR: back })
    return { ...ran, back }
  }
  const spoolOf = (dir: string): Map<string, string> => {
    const names = readdirSync(join(dir, 'spool')).filter((name) => statSync(join(dir, 'spool', name)).isFile())
    return new Map(names.toSorted().map((name) => [name, readFileSync(join(dir, 'spool', name)).toString('base64')]))
  }

  test(`the second backup of ${FILES} spool files sends only new ones, and a restore equals the original`, async () => {
    await mails(FILES)
    await json('backup', 'now')
    const first = await stored()
    for (const bytes of first) assert.ok(bytes > FILES * RANDOM, String(bytes))
    await mails(5)
    await json('backup', 'now')
    for (const [index, bytes] of (await stored()).entries()) {
      const added = bytes - first[index]!
      assert.ok(added > 5 * RANDOM && added < 10 * RANDOM, `${added} at ${all.destinations[index]?.title}`)
    }
    // `backup FILE` contains everything.
    const zip = box.path('complete.zip')
    await postrider.stop()
    await json('backup', zip)
    await json('backup', 'now')
    const { back: complete } = await restore(zip)
    for (const { target } of all.destinations) {
      const { back, code, stderr } = await restore(target)
      assert.equal(code, 0, stderr)
      assert.deepEqual(spoolOf(back), spoolOf(dataDir), target)
      assert.equal(spoolOf(back).size, FILES + 5)
      assert.ok(readFileSync(join(back, 'postrider.db')).equals(readFileSync(join(complete, 'postrider.db'))), target)
    }
  })

  test('a restore names a truncated object, and the next backup sends its contents again', async () => {
    const listed = await json<{ name: string; target: string }[]>('backup', 'list')
    // The SFTP server of rclone caches files and their sizes for minutes.
    const changeable = all.destinations.filter(({ kind }) => kind !== 'rclone')
    for (const { change, title } of changeable) {
      const newest = listed.find(({ target }) => target === title)!
      const manifest = await manifestAt(title, newest.name)
      const files = manifest.objects.find(({ name }) => name.includes('.files-'))!
      await change(files.name, (bytes) => bytes.subarray(0, bytes.length - 5))
      const target = all.destinations.find((each) => each.title === title)!.target
      const { code, stderr } = await restore(target)
      assert.equal(code, 1, title)
      assert.match(stderr, new RegExp(`${files.name} has ${files.size - 5} bytes instead of the ${files.size}`))
    }
    const outcomes = await json<{ octets: number }[]>('backup', 'now')
    for (const [index, { octets }] of outcomes.entries())
      assert.equal(octets > FILES * RANDOM, changeable.includes(all.destinations[index]!))
    for (const { target } of all.destinations) {
      const { back, code, stderr } = await restore(target)
      assert.equal(code, 0, stderr)
      assert.deepEqual(spoolOf(back), spoolOf(dataDir))
    }
  })

  interface Listed {
    objects: { name: string; size: number }[]
  }

  /** Reads a manifest through the function that changes objects. */
  async function manifestAt(title: string, name: string): Promise<Listed> {
    let text = ''
    await all.destinations
      .find((each) => each.title === title)!
      .change(`${name}.json`, (bytes) => {
        text = bytes.toString()
        return bytes
      })
    return JSON.parse(text) as Listed
  }
})
