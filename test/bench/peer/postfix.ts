// The peer of the benchmark: Postfix with OpenDKIM, fed by smtp-source, emptied by smtp-sink, all on loopback. Measures
// the time from the start of smtp-source until the sink has received the last message, every message signed with RSA
// 2048 and on disk (fsync) before Postfix replies 250. CPU time is that of all of Postfix and of OpenDKIM, including
// workers that have exited. Driver, sink and kernel threads are not included. Unsigned mail cannot pass: Postfix
// rejects mail while the milter is down, and before the measurement some messages are captured, each with a valid
// signature.

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
  /** Number of messages. */
  count: number
  /** Body size of each message. */
  bytes: number
  /** Sessions that smtp-source keeps open at once. */
  concurrency: number
  /** Messages captured and checked before the measurement. Default 20. */
  probe?: number
  /** A new SMTP session for each message instead of one kept open. Costs Postfix more. Default false. */
  reconnect?: boolean
  /** Other settings in the peer's main.cf, to see whether a different tuning would serve it better. */
  settings?: Record<string, string | number>
  timeoutMs?: number
  /** The cores on which its processes may run, "0" or "0,1". Default all. */
  cores?: string
}

const DOMAIN = 'bench.example'
/** Messages before the measurement. */
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
      // The sink must not wait for mail that will not arrive.
      failed = true
      throw error
    })
    const arrived = until(
      () => failed || delivered(box.read('sink.out')) >= WARM + count,
      timeoutMs,
      () => `${delivered(box.read('sink.out')) - WARM} of ${count} letters at the sink:\n${peer?.log().slice(-2000)}`,
    ).then(() => performance.now() - start)
    const [{ wallMs: acceptedMs, generator, generatorCpuMs }, wallMs] = await Promise.all([accepted, arrived])
    // The last messages still have to be removed from the queue, which is part of their cost.
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

/** Starts an smtp-sink that writes to a file of the sandbox. It drops root privileges and needs the name of a user. */
async function sinkIn(box: Sandbox, port: number, file: string, args: string[]): Promise<Daemon> {
  const sink = box.daemon(PROGRAMS.smtpSink, [...args, '-u', 'nobody', `127.0.0.1:${port}`, '1000'], file)
  await until(
    () => answers(port),
    5000,
    () => `smtp-sink does not listen: ${box.read(file)}`,
  )
  return sink
}

/** Sends some messages to a capturing sink and throws unless each has a valid signature. */
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
  // Postfix keeps idle connections for two seconds. One to a closed sink would be an error caused by the benchmark.
  await sleep(3000)
}

export interface Drive {
  port: number
  count: number
  bytes: number
  sessions: number
  reconnect: boolean
  timeoutMs: number
  /** The one recipient of all messages. By default each has another address, so that caches do not help Postfix. */
  to?: string
  /** A file with the message, instead of a text of this many bytes. */
  file?: string
}

/** Resolves when smtp-source has its last 250. It ends with an error as soon as anything else is answered. */
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
