// The peer of the benchmark: Postfix with OpenDKIM, fed by smtp-source, emptied by smtp-sink, all on loopback.
//
// What is measured: from the start of smtp-source until the sink has taken the last letter, every letter signed with
// RSA 2048 and on disk (fsync) before Postfix says 250. CPU time is that of all of Postfix and of OpenDKIM, with the
// workers that came and went; driver and sink are not in it, nor are the kernel's own threads. What is not signed
// cannot pass: Postfix refuses mail while the milter is away, and before the measurement some letters go the same way,
// are captured, and each must bear a signature that verifies.

import { spawn } from 'node:child_process'
import { chmodSync, mkdirSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { relayingPostfix, type RelayingPostfix } from '../../interop/rig/postfix.ts'
import { answers, freePort, PROGRAMS, Sandbox, until, type Daemon } from '../../interop/rig/sandbox.ts'
import { opendkimVerify } from '../../interop/rig/verifiers.ts'
import { driven, type Driven } from '../posts.ts'
import { sinkUsage, type Round } from '../turns.ts'
import { pidsOf, pin, WatchedGroups } from '../usage.ts'

export { missing } from '../../interop/rig/sandbox.ts'

export interface PeerOptions {
  /** Letters. */
  count: number
  /** Size of each letter's body. */
  bytes: number
  /** Sessions that smtp-source keeps open at once. */
  concurrency: number
  /** Letters captured and judged before the measurement. Default 20. */
  probe?: number
  /** A new SMTP session for each letter instead of one kept open; costs Postfix more. Default false. */
  reconnect?: boolean
  /** Other settings in the peer's main.cf, to see whether a different tuning would serve it better. */
  settings?: Record<string, string | number>
  timeoutMs?: number
  /** The cores on which its processes may run, "0" or "0,1"; default all. */
  cores?: string
}

const DOMAIN = 'bench.example'
/** Letters before those that count. */
const WARM = 300

export async function benchPostfix(options: PeerOptions): Promise<Round> {
  const {
    count,
    bytes,
    concurrency,
    probe = 20,
    reconnect = false,
    settings = {},
    timeoutMs = 180_000,
    cores,
  } = options
  const sinkPort = await freePort()
  const box = new Sandbox('bench')
  let peer: RelayingPostfix | undefined
  let watched: WatchedGroups | undefined
  try {
    peer = await relayingPostfix({ sinkPort, signDomain: DOMAIN, settings }).start()
    const drive = { port: peer.port, bytes, reconnect, timeoutMs }
    if (probe > 0)
      await judgeSome(box, peer, sinkPort, { ...drive, count: probe, sessions: Math.min(probe, concurrency) })

    const sink = await sinkIn(box, sinkPort, 'sink.out', ['-c'])
    // Warm, as ours is: its processes are there.
    await smtpSource({ ...drive, count: WARM, sessions: concurrency })
    const empty = async () => delivered(box.read('sink.out')) >= WARM && (await peer!.queued()) === 0
    await until(empty, 30_000, () => `the first letters stay in the queue:\n${peer?.log().slice(-2000)}`)
    if (cores !== undefined) for (const pid of pidsOf(peer.groups)) pin(pid, cores)
    watched = new WatchedGroups(peer.groups)
    const [before, sunk] = [watched.usage(), sinkUsage(sink.pid)]
    const start = performance.now()
    let failed = false
    const accepted = smtpSource({ ...drive, count, sessions: concurrency }).catch((error: unknown) => {
      // Nobody waits at the sink for what will not come.
      failed = true
      throw error
    })
    const arrived = until(
      () => failed || delivered(box.read('sink.out')) >= WARM + count,
      timeoutMs,
      () => `${delivered(box.read('sink.out')) - WARM} of ${count} letters at the sink:\n${peer?.log().slice(-2000)}`,
    ).then(() => performance.now() - start)
    const [{ wallMs: acceptedMs, generator, generatorCpuMs }, wallMs] = await Promise.all([accepted, arrived])
    // The last letters are still to be struck off the queue: work that belongs to them.
    await until(empty, 10_000, () => 'the queue does not empty')
    const after = watched.usage()
    const sank = sunk(count)
    await sink.stop()

    const log = peer.log()
    if (/status=(deferred|bounced)/.test(log))
      throw new Error(`not every letter went at the first try:\n${log.slice(-2000)}`)
    return {
      perSecond: (count / wallMs) * 1000,
      acceptedPerSecond: (count / acceptedMs) * 1000,
      cpuMs: (after.cpuMs - before.cpuMs) / count,
      writtenKb: (after.writtenKb - before.writtenKb) / count,
      ...sank,
      pssMb: after.memoryMb,
      generator,
      generatorCpuMs: generatorCpuMs / count,
    }
  } finally {
    await peer?.stop()
    await box.close()
    watched?.close()
  }
}

/** Starts an smtp-sink that writes to a file of the sandbox. It gives up root, and wants to be told for whom. */
async function sinkIn(box: Sandbox, port: number, file: string, args: string[]): Promise<Daemon> {
  const sink = box.daemon(PROGRAMS.smtpSink, [...args, '-u', 'nobody', `127.0.0.1:${port}`, '1000'], file)
  await until(
    () => answers(port),
    5000,
    () => `smtp-sink does not listen: ${box.read(file)}`,
  )
  return sink
}

/** Sends some letters through to a capturing sink and throws unless each is signed rightly. */
async function judgeSome(box: Sandbox, peer: RelayingPostfix, sinkPort: number, drive: Drive): Promise<void> {
  const captured = box.path('captured')
  mkdirSync(captured)
  chmodSync(captured, 0o777)
  const sink = await sinkIn(box, sinkPort, 'probe.out', ['-d', `${captured}/`])
  await smtpSource(drive)
  const gone = async () => (await peer.queued()) === 0
  await until(gone, 30_000, () => `the probe letters stay in the queue:\n${peer.log().slice(-2000)}`)
  const names = await readdir(captured)
  if (names.length !== drive.count) throw new Error(`${names.length} letters captured of ${drive.count}`)
  for (const name of names) {
    const letter = await readFile(`${captured}/${name}`)
    const { ok, detail } = await opendkimVerify(letter, [peer.key])
    if (!ok) throw new Error(`the peer sent a letter without a good signature: ${detail}`)
  }
  await sink.stop()
  // Postfix keeps idle connections for two seconds; one to the sink that has gone would be a failure of our own making.
  await sleep(3000)
}

export interface Drive {
  port: number
  count: number
  bytes: number
  sessions: number
  reconnect: boolean
  timeoutMs: number
  /** The one recipient of all letters. Default: each goes to another address, so that no cache flatters Postfix. */
  to?: string
  /** A file whose letter is sent, instead of one of so many bytes of text. */
  file?: string
}

/** Resolves when smtp-source has its last 250; it ends with an error as soon as anything else is answered. */
export async function smtpSource({
  port,
  count,
  bytes,
  sessions,
  reconnect,
  timeoutMs,
  to,
  file,
}: Drive): Promise<Driven> {
  const what = file === undefined ? ['-l', String(bytes)] : ['-F', file]
  const load = [...what, '-m', String(count), '-s', String(sessions), ...(reconnect ? [] : ['-d'])]
  const whom = to === undefined ? ['-N', '-t', 'reader@receiver.example'] : ['-t', to]
  const mail = ['-M', 'client.example', '-f', `sender@${DOMAIN}`, ...whom]
  return driven('smtp-source', async () => {
    const start = performance.now()
    const child = spawn(PROGRAMS.smtpSource, [...load, ...mail, `127.0.0.1:${port}`], {
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: timeoutMs,
      killSignal: 'SIGKILL',
    })
    let said = ''
    child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', resolve)
    })
    if (code !== 0) throw new Error(`smtp-source ended with ${code}: ${said}`)
    return { latencies: [], wallMs: performance.now() - start }
  })
}

/** The last `mesg=N` of smtp-sink's running counter. */
function delivered(counter: string): number {
  return Number(counter.slice(-100).match(/.*mesg=(\d+)[\r\n]/s)?.[1] ?? 0)
}

if (import.meta.main) {
  const [count = 2000, bytes = 4096, concurrency = 50] = process.argv.slice(2).map(Number)
  console.log(await benchPostfix({ count, bytes, concurrency }))
}
