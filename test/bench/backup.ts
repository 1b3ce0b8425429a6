// Backups of large databases, by the built executable: next to a server that receives mail, by the schedule's process
// to a directory and to Swift, restored, and checked by `upgrade --check`. The server is the one of the other
// benchmarks, which reports how long its event loop was blocked. `--size`: GB of the database.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { AwsClient } from 'aws4fetch'
import { besideServer } from '../../src/server/beside.ts'
import { LEFTOVER } from '../../src/store/leftovers.ts'
import { DATABASE } from '../../src/store/open.ts'
import { missingSwift, S3_KEY, startSwift } from '../interop/rig/keepers.ts'
import { Sandbox } from '../interop/rig/sandbox.ts'
import { releasedData } from '../kit/released.ts'
import { fillUp } from './bulk.ts'
import { arrived, figure, mailBody, percentile, post, startServer, startSink, type Server } from './rig.ts'
import { driverCpuMs } from './usage.ts'
import { BUILT, peaksOf, watched } from './watched.ts'

const GB = 1e9
const MB = 1e6
/** Emails per second that are posted next to a copy, in slices of this many seconds. */
const RATE = 200
const SLICE = 2
/** How long the same load is measured without a copy (s). */
const ALONE = 20

const ROWS: Record<string, (sizeGb: number) => Promise<void>> = { copy, often, scheduled, upgrade }

export async function backup(sizeGb: number, only: readonly string[]): Promise<void> {
  if (!existsSync(BUILT)) return figure('backup', 'copy', 'not measured: run npm run build', '')
  for (const name of only.length > 0 ? only : Object.keys(ROWS)) {
    const run = ROWS[name]
    if (!run) throw new Error(`There is no row "${name}"; there are ${Object.keys(ROWS).join(', ')}.`)
    figure('backup', `${name}_load_of_the_machine_before`, loadavg()[0]!, '')
    await run(sizeGb)
  }
}

const folder = (name: string): string => mkdtempSync(join(process.env['TMPDIR'] ?? tmpdir(), `postrider-${name}-`))

/** A configuration for commands next to the server. */
function configure(place: string, dataDir: string, more = ''): string {
  const file = join(place, `postrider-${readdirSync(place).length}.toml`)
  writeFileSync(file, `data_dir = ${JSON.stringify(dataDir)}\nhostname = "mx.bench.example"\n${more}`)
  return file
}

interface Large {
  server: Server
  place: string
  dataDir: string
}

/** A server with a large database. */
async function withLarge(sizeGb: number, work: (large: Large) => Promise<void>, spoolGb = sizeGb / 10): Promise<void> {
  const place = folder('backup')
  const sink = await startSink()
  const dataDir = join(place, 'data')
  mkdirSync(dataDir, { mode: 0o700 })
  const server = await startServer(sink.port, { data_dir: dataDir })
  try {
    await post({ ...server, count: 1, posters: 1, body: mailBody })
    await arrived(sink, 1)
    // Its result is written after the sink has it.
    await sleep(1000)
    const { files, mails, octets } = fillUp(dataDir, sizeGb * GB, spoolGb * GB)
    figure('backup', 'database_and_spool', octets / MB, 'MB')
    figure('backup', 'mails_and_files', `${mails}, ${files}`, '')
    await work({ server, place, dataDir })
  } finally {
    await server.stop()
    sink.stop()
    rmSync(place, { recursive: true, force: true })
  }
}

/** Posts at a fixed rate until it is stopped. Returns the response times in ms. */
async function load(server: Server, goesOn: () => boolean): Promise<number[]> {
  const latencies: number[] = []
  while (goesOn()) {
    const slice = await post({ ...server, count: RATE * SLICE, posters: 50, rate: RATE, body: mailBody })
    for (const each of slice.latencies) latencies.push(each)
  }
  return latencies
}

/** The response times and usage of the server during some work, under load. */
async function beside<T>(name: string, server: Server, work: () => Promise<T>): Promise<T> {
  await server.ask('reset')
  const began = performance.now()
  let over = false
  const loaded = load(server, () => !over)
  const done = await work().finally(() => (over = true))
  const latencies = await loaded
  const { loopMaxMs, loopP99Ms, statements } = await server.ask('report')
  const seconds = (performance.now() - began) / 1000
  figure('backup', `${name}_201_p50`, percentile(latencies, 0.5), 'ms')
  figure('backup', `${name}_201_p99`, percentile(latencies, 0.99), 'ms')
  figure('backup', `${name}_201_max`, Math.max(...latencies), 'ms')
  figure('backup', `${name}_loop_p99`, loopP99Ms, 'ms')
  figure('backup', `${name}_loop_longest`, loopMaxMs, 'ms')
  figure('backup', `${name}_commits`, (statements['commit']?.calls ?? 0) / seconds, '1/s')
  return done
}

async function copy(sizeGb: number): Promise<void> {
  await withLarge(sizeGb, async ({ dataDir, place, server }) => {
    const disk = join(place, 'disk')
    mkdirSync(disk)
    const config = configure(place, dataDir, `[backup]\nto = ["${disk}"]\n`)
    const quiet = await oneBackup('quiet', config, dataDir, disk)
    await beside('without_copy', server, () => sleep(ALONE * 1000))
    const loaded = await beside('beside_copy', server, () => oneBackup('beside_load', config, dataDir, disk))
    figure('backup', 'copy_beside_load_against_quiet', loaded.copied / quiet.copied, 'times')
    figure('backup', 'backup_beside_load_against_quiet', loaded.seconds / quiet.seconds, 'times')
  })
}

/** `postrider backup now` by hand, to a directory, with the times of its parts. */
async function oneBackup(
  name: string,
  config: string,
  dataDir: string,
  disk: string,
): Promise<{ copied: number; seconds: number }> {
  const began = performance.now()
  const since = (): number => (performance.now() - began) / 1000
  const files = new Set<number>()
  const before = readdirSync(disk).length
  let [size, copied, verified, log] = [0, 0, 0, 0]
  const { ownMb, peakRssMb, seconds } = await watched(['--config', config, '--json', 'backup', 'now'], {}, () => {
    log = Math.max(log, sizeOf(join(dataDir, `${DATABASE}-wal`)))
    const made = readdirSync(dataDir).find((each) => each.startsWith(LEFTOVER))
    const found = made && statSync(join(dataDir, made, DATABASE), { throwIfNoEntry: false })
    if (!found) return
    files.add(found.ino)
    if (found.size !== size) [size, copied] = [found.size, since()]
    if (verified === 0 && readdirSync(disk).length > before) verified = since()
  })
  figure('backup', `${name}_copy`, copied, 's')
  figure('backup', `${name}_verify`, verified - copied, 's')
  figure('backup', `${name}_pack_and_put`, seconds - verified, 's')
  figure('backup', `${name}_all`, seconds, 's')
  figure('backup', `${name}_copies_begun_again`, files.size - 1, '')
  figure('backup', `${name}_peak_rss`, peakRssMb, 'MB')
  figure('backup', `${name}_own_memory`, ownMb, 'MB')
  figure('backup', `${name}_log_of_the_database_at_most`, log / MB, 'MB')
  return { copied, seconds }
}

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

/** Emails of one interval of 5 minutes: 10 and 100 per second. */
const INTERVALS = [3000, 30_000]
/** Bytes of a spool file of an email that is posted next to the others, and how many emails share one. */
const ATTACHED = 300_000
const ONE_IN = 100

/** Backups every 5 minutes of a database of this size and five times as much spool: bytes, time and CPU time. */
async function often(sizeGb: number): Promise<void> {
  await withLarge(
    6 * sizeGb,
    async ({ dataDir, place, server }) => {
      const disk = join(place, 'disk')
      mkdirSync(disk)
      const bare = configure(place, dataDir)
      // Backups are encrypted to it.
      await watched(['--config', bare, '--json', 'backup', 'key'])
      const config = configure(place, dataDir, `[backup]\nto = ["${disk}"]\n`)
      await sentBy('first', config)
      await sentBy('unchanged', config)
      const large = (index: number): string => mailBody(index, { html: randomBytes(ATTACHED / 2).toString('hex') })
      for (const count of INTERVALS)
        for (let round = 1; round <= 3; round++) {
          await post({ ...server, count, posters: 50, body: mailBody })
          await post({ ...server, count: count / ONE_IN, posters: 5, body: large })
          await sleep(5000)
          await sentBy(`after_${count}_emails_${round}`, config)
        }
      await beside('without_backup', server, () => sleep(ALONE * 1000))
      await beside('beside_increment', server, () => sentBy('beside_load', config))
      figure('backup', 'often_state_kept_locally', octetsIn(join(dataDir, 'backup-state')) / MB, 'MB')
      for (const file of readdirSync(disk)) rmSync(join(disk, file))
      await sentBy('whole_again', config)
    },
    5 * sizeGb,
  )
}

async function sentBy(name: string, config: string): Promise<void> {
  const cpu = driverCpuMs()
  const { peakRssMb, seconds, stdout } = await watched(['--config', config, '--json', 'backup', 'now'])
  const [{ octets } = { octets: NaN }] = JSON.parse(stdout) as { octets: number }[]
  figure('backup', `often_${name}_sent`, octets / MB, 'MB')
  figure('backup', `often_${name}_seconds`, seconds, 's')
  figure('backup', `often_${name}_cpu`, (driverCpuMs() - cpu) / 1000, 's')
  figure('backup', `often_${name}_peak_rss`, peakRssMb, 'MB')
}

async function scheduled(sizeGb: number): Promise<void> {
  await withLarge(sizeGb, async ({ dataDir, place }) => {
    const { identity } = JSON.parse(
      (await watched(['--config', configure(place, dataDir), '--json', 'backup', 'key'])).stdout,
    ) as { identity: string }
    const key = join(place, 'backup.key')
    writeFileSync(key, `${identity}\n`, { mode: 0o600 })
    const disk = join(place, 'disk')
    mkdirSync(disk)
    await backedUp('directory', configure(place, dataDir, `[backup]\nto = ["${disk}"]\n`))
    await toSwift(place, dataDir)
    for (let round = 0; round < 2; round++) await putBack(place, disk, key)
  })
}

async function toSwift(place: string, dataDir: string): Promise<void> {
  const absent = missingSwift()
  if (absent.length > 0) return figure('backup', 'scheduled_swift', `not installed: ${absent.join(', ')}`, '')
  const box = new Sandbox('bench-swift')
  try {
    const { endpoint } = await startSwift(box)
    const { id, secret } = S3_KEY
    const client = new AwsClient({
      accessKeyId: id,
      secretAccessKey: secret,
      region: 'us-east-1',
      service: 's3',
    })
    await client.fetch(`${endpoint}/backups`, { method: 'PUT' })
    const file = box.write('s3.key', `${id}\n${secret}\n`)
    const s3 = `s3 = { endpoint = "${endpoint}", key_file = "${file}" }`
    await backedUp('swift', configure(place, dataDir, `[backup]\nto = ["s3://backups/mx"]\n${s3}\n`))
  } finally {
    await box.close()
  }
}

/** A backup as the schedule of a server makes it: in a process of low priority. */
async function backedUp(name: string, config: string): Promise<void> {
  // A process of ours refuses unknown settings, such as those of a bench.
  for (const variable of Object.keys(process.env)) if (variable.startsWith('POSTRIDER_')) delete process.env[variable]
  const child = besideServer(config, { program: BUILT, first: [] })(['backup', 'now'])
  const { ownMb, peakRssMb, seconds } = await peaksOf(child)
  const { how, said } = await child.ended
  if (how !== 0) throw new Error(`the backup ended with ${how}: ${said}`)
  figure('backup', `scheduled_${name}`, seconds, 's')
  figure('backup', `scheduled_${name}_peak_rss`, peakRssMb, 'MB')
  figure('backup', `scheduled_${name}_own_memory`, ownMb, 'MB')
}

/** Restores the newest backup of a directory. Then the same bytes are copied by cp(1) and synced, as a measure. */
async function putBack(place: string, disk: string, key: string): Promise<void> {
  const back = join(place, 'back')
  const words = ['--json', 'restore', '--identity', key, '--without-ledger', disk]
  const { lines, ownMb, peakRssMb, seconds, silent } = await watched(
    ['--config', configure(place, join(place, 'unused')), ...words],
    {
      POSTRIDER_DATA_DIR: back,
    },
  )
  const octets = octetsIn(back) + octetsIn(join(back, 'spool'))
  const began = performance.now()
  execFileSync('sh', ['-c', `cp -r "$0" "$0.copy" && sync -f "$0.copy"`, back])
  const copied = (performance.now() - began) / 1000
  figure('backup', 'restore', octets / MB / seconds, 'MB/s')
  figure('backup', 'restore_peak_rss', peakRssMb, 'MB')
  figure('backup', 'restore_own_memory', ownMb, 'MB')
  figure('backup', 'restore_lines_and_longest_silence', `${lines}, ${silent.toFixed(1)} s`, '')
  figure('backup', 'cp_of_the_same_octets', octets / MB / copied, 'MB/s')
  for (const each of [back, `${back}.copy`]) rmSync(each, { recursive: true })
}

const octetsIn = (path: string): number =>
  readdirSync(path).reduce((sum, name) => {
    const found = statSync(join(path, name))
    return sum + (found.isFile() ? found.size : 0)
  }, 0)

/** From the schema of 0.2.0 to that of the executable. */
async function upgrade(sizeGb: number): Promise<void> {
  const place = folder('upgrade')
  try {
    const dataDir = join(place, 'data')
    mkdirSync(dataDir, { mode: 0o700 })
    releasedData('0.2.0', dataDir)
    figure('backup', 'upgraded_database_and_spool', fillUp(dataDir, sizeGb * GB).octets / MB, 'MB')
    const words = ['--json', 'upgrade', '--check', BUILT, '--unsigned']
    const found = await watched(['--config', configure(place, dataDir), ...words])
    const { from, schema, seconds } = JSON.parse(found.stdout) as { from: number; schema: number; seconds: number }
    figure('backup', 'upgrade_check', found.seconds, 's')
    figure('backup', 'upgrade_check_migration', `${from} to ${schema} in ${seconds} s`, '')
    figure('backup', 'upgrade_check_lines', found.lines / found.seconds, '1/s')
    figure('backup', 'upgrade_check_longest_silence', found.silent, 's')
    figure('backup', 'upgrade_check_peak_rss', found.peakRssMb, 'MB')
    figure('backup', 'upgrade_check_own_memory', found.ownMb, 'MB')
    figure('backup', 'upgrade_check_trial_peak_rss', found.childPeakRssMb, 'MB')
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}
