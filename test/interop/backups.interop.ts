// Scheduled backups at real places: Swift by S3, OpenSSH by SFTP, a directory. Each is made while mail is handed in, is
// restored and verified, and the last ones send under another name of the host; a drill finds a flipped bit (B10, B11,
// B14).
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { after, before, test } from 'node:test'
import { AwsClient } from 'aws4fetch'
import { SECOND } from '../../src/base/clock.ts'
import { newIdentity, recipientOf } from '../../src/archive/seal.ts'
import { listDomains } from '../../src/domains/find.ts'
import { besideServer } from '../../src/server/beside.ts'
import { Commands } from '../commands/command.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'
import { missingKeepers, newSshKey, S3_KEY, startSshd, startSwift } from './rig/keepers.ts'
import { withPrograms } from './rig/need.ts'
import { Sandbox } from './rig/sandbox.ts'
import { executable } from './rig/postrider.ts'

/** Rounds to three places; each backup is restored. */
const ROUNDS = 3
/** What a backup may take of memory in the built program; from sources Node alone takes more (B5). */
const MOST_MEMORY = 150 * 1024

const send = async (postrider: TestAppliance, to: string): Promise<void> => {
  const mail = { from: 'me@here.test', to, subject: 'Hello', html: `<p>Dear ${to}</p>${'x'.repeat(20_000)}` }
  assert.equal((await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))).status, 201)
}

withPrograms('backups under load', missingKeepers(), () => {
  const box = new Sandbox('backups')
  const commands = new Commands(box.dir)
  const identity = newIdentity()
  const key = box.write('backup.key', `${identity}\n`, 0o600)
  const disk = box.path('disk')
  const config = box.path('postrider.toml')
  const dataDir = box.path('data')
  let targets: string[]
  after(async () => {
    await commands.close()
    await box.close()
  })

  before(async () => {
    mkdirSync(disk)
    mkdirSync(dataDir, { mode: 0o700 })
    const swift = await startSwift(box)
    const client = new AwsClient({
      accessKeyId: S3_KEY.id,
      secretAccessKey: S3_KEY.secret,
      region: 'us-east-1',
      service: 's3',
    })
    assert.equal((await client.fetch(`${swift.endpoint}/backups`, { method: 'PUT' })).status, 200)
    const login = newSshKey(box, 'login')
    const host = newSshKey(box, 'host')
    const { port } = await startSshd(box, [host.file], login.line)
    mkdirSync(box.path('by-ssh'))
    targets = [disk, 's3://backups/mx', `sftp://${userInfo().username}@127.0.0.1:${port}${box.path('by-ssh')}`]
    const s3Key = box.write('s3.key', `${S3_KEY.id}\n${S3_KEY.secret}\n`)
    writeFileSync(
      config,
      `data_dir = ${JSON.stringify(dataDir)}
[backup]
to = ${JSON.stringify(targets)}
recipients = ["${recipientOf(identity)}"]
s3 = { endpoint = "${swift.endpoint}", key_file = "${s3Key}" }
sftp = { key_file = "${login.file}", host_keys = ["[127.0.0.1]:${port} ${host.line}"] }
`,
    )
  })

  const run = async (words: readonly string[], env: Record<string, string> = {}): Promise<string> => {
    const { code, stderr, stdout } = await commands.run(['--config', config, '--json', ...words], { env, bare: true })
    assert.equal(code, 0, `${words.join(' ')}: ${stdout}${stderr}`)
    return stdout
  }

  test('backups to three places beside mail, each restored elsewhere and verified, the last of each place sending; memory stays low (B5, B10, B14)', async () => {
    const postrider = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
    let peak = 0
    try {
      await postrider.activeDomain('here.test')
      const beside = besideServer(config, executable())
      for (let round = 0; round < ROUNDS; round++) {
        const backup = beside(['backup', 'now'])
        let done = false
        void backup.ended.then(() => (done = true))
        for (let n = 0; !done; n++) {
          await send(postrider, `r${round}n${n}@there.test`)
          const [, kB = '0'] = /VmHWM:\s+(\d+)/.exec(readStatus(backup.pid)) ?? []
          peak = Math.max(peak, Number(kB))
        }
        assert.deepEqual(await backup.ended, { how: 0, said: '' })
        // The next rounds remove what is more than "keep" says.
        for (const [index, target] of targets.entries()) {
          const back = box.path(`back-${index}-${round}`)
          await restored(target, back)
          if (round === ROUNDS - 1) await sends(target, back)
        }
      }
      if (process.env['POSTRIDER_BIN']) assert.ok(peak < MOST_MEMORY, `${peak} kB`)
    } finally {
      await postrider.stop()
    }
    const listed = JSON.parse(await run(['backup', 'list'])) as { target: string; complete: boolean }[]
    assert.deepEqual(new Set(listed.map(({ target }) => target)), new Set(targets))
    assert.ok(listed.every(({ complete }) => complete))
  })

  /** The newest backup put back, and verified. */
  async function restored(target: string, back: string): Promise<void> {
    const env = { POSTRIDER_DATA_DIR: back }
    await run(['restore', '--identity', key, '--without-ledger', target], env)
    const { sound } = JSON.parse(await run(['verify'], env)) as { sound: boolean }
    assert.equal(sound, true)
  }

  /** A server on restored data sends, under another name of the host. */
  async function sends(target: string, back: string): Promise<void> {
    const exchanger = testExchanger()
    await using other = await startTestAppliance({
      dataDir: back,
      clock: new ManualClock(Date.now()),
      exchanger,
      config: { hostname: 'other.postrider.test' },
      routes: ['there.test'],
    })
    for (const domain of listDomains(other.appliance.deps.store)) other.publish(domain)
    await send(other, 'again@there.test')
    await until(() => {
      other.clock.advance(SECOND)
      return exchanger.heard.length > 0
    }, `mail from ${target}`)
    assert.equal((await other.raw('/health')).status, 200)
  }

  test('a drill finds a flipped bit in what lies at a place, and the others are well (B11)', async () => {
    const [name = ''] = readdirSync(disk)
      .filter((each) => each.endsWith('.age'))
      .toSorted()
      .toReversed()
    const octets = readFileSync(box.path('disk', name))
    octets[Math.floor(octets.length / 2)]! ^= 1
    writeFileSync(box.path('disk', name), octets)
    const words = ['--config', config, '--json', 'backup', 'drill', '--identity', key]
    const { code, stdout } = await commands.run(words, { bare: true })
    assert.equal(code, 1)
    const { drills, faults } = JSON.parse(stdout) as { drills: { way: string }[]; faults: string[] }
    assert.deepEqual(
      drills.map(({ way }) => way),
      ['restored', 'restored'],
    )
    assert.equal(faults.length, 1)
    assert.match(faults[0] ?? '', /changed/)
  })
})

function readStatus(pid: number | undefined): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}
