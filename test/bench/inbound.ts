// Mail received: smtp-source with 20 sessions and letters of 4 KB, against the appliance (an inbox of an active domain)
// and, in the same run, against Postfix delivering into a mailbox. What counts is answered 250 and found in the store;
// both are durable before the 250.
import { readFileSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import type { ReceivingPostfix } from '../interop/rig/postfix.ts'
import { freePort } from '../interop/rig/sandbox.ts'
import { mailboxPostfix, memoryMb, missing } from './peer/mailbox.ts'
import { cpuMs, smtpSource } from './peer/postfix.ts'
import { figure, percentile, startServer, type Server } from './rig.ts'

const BENCH = 'inbound'
const DOMAIN = 'bench.example'
export const INBOX = `inbox@${DOMAIN}`
const SESSIONS = 20
const BYTES = 4096
const ROUNDS = 3
const IDLE = 500
const TIMEOUT = 180_000
const MB = 1024 * 1024

interface Target {
  port: number
  /** Letters that lie where their readers find them. */
  arrived: () => number | Promise<number>
  cpuMs: () => number
  /** KB written to the disk so far; not counted for the peer, whose processes end. */
  writtenKb: () => number
}

interface Round {
  acceptedPerSecond: number
  readablePerSecond: number
  cpuMsPerMail: number
  writtenKbPerMail: number
}

export async function inbound(count: number): Promise<void> {
  const absent = missing()
  if (absent.length > 0) return figure(BENCH, 'accepted', `not installed: ${absent.join(', ')}`, '')
  const smtpPort = await freePort()
  const server = await startServer(1, {
    smtp: { listen: [`127.0.0.1:${smtpPort}`], max_connections_per_address: IDLE + 100 },
  })
  const database = new Database(join(server.dataDir, 'postrider.db'), { readonly: true })
  let peer: ReceivingPostfix | undefined
  try {
    await makeInbox(server)
    peer = await mailboxPostfix(DOMAIN)
    const rows = database.prepare('select count(*) as count from inbound_emails')
    const ours: Target = {
      port: smtpPort,
      arrived: () => (rows.get() as { count: number }).count,
      cpuMs: () => processCpuMs(server.pid),
      writtenKb: () => writtenKb(server.pid),
    }
    const { group } = peer
    const theirs: Target = { port: peer.port, arrived: peer.count, cpuMs: () => cpuMs([group]), writtenKb: () => 0 }
    // Warm, as servers are that have been running: code compiled, workers hired, processes forked.
    for (const target of [ours, theirs]) await round(target, 500, true)

    figure(BENCH, 'machine_load_before', loadavg()[0]!, '')
    for (const reconnect of [true, false]) {
      const kind = reconnect ? 'connection_each' : 'connection_kept'
      const results: [Round[], Round[]] = [[], []]
      let theirMemory = 0
      await server.ask('reset')
      // In turn, so that what else the machine does falls on both.
      for (let turn = 0; turn < ROUNDS; turn++) {
        results[0].push(await round(ours, count, reconnect))
        const watch = setInterval(() => (theirMemory = Math.max(theirMemory, memoryMb(group))), 500)
        results[1].push(await round(theirs, count, reconnect))
        clearInterval(watch)
      }
      const report = await server.ask('report')
      const median = (index: 0 | 1, name: keyof Round): number =>
        percentile(
          results[index].map((each) => each[name]),
          0.5,
        )
      for (const [name, title, unit] of [
        ['acceptedPerSecond', 'accepted', 'messages/s'],
        ['readablePerSecond', 'readable', 'messages/s'],
        ['cpuMsPerMail', 'cpu_per_message', 'ms'],
        ['writtenKbPerMail', 'written_per_message', 'KB'],
      ] as const) {
        figure(BENCH, `${kind}_${title}`, median(0, name), unit)
        if (name === 'writtenKbPerMail') continue
        figure(BENCH, `${kind}_postfix_${title}`, median(1, name), unit)
        figure(BENCH, `${kind}_${title}_ratio`, median(0, name) / median(1, name), 'times')
      }
      figure(BENCH, `${kind}_rss`, report.rssMb, 'MB')
      figure(BENCH, `${kind}_postfix_pss`, theirMemory, 'MB')
      figure(BENCH, `${kind}_event_loop_p99`, report.loopP99Ms, 'ms')
      figure(BENCH, `${kind}_event_loop_max`, report.loopMaxMs, 'ms')
    }
    figure(BENCH, 'machine_load_after', loadavg()[0]!, '')
    await idleConnections(ours, count)
    await largeMessage(server, ours, 'attachment')
    await largeMessage(server, ours, 'text')
  } finally {
    await peer?.stop()
    database.close()
    await server.stop()
  }
}

/** Makes the inbox that letters are sent to. */
export async function makeInbox({ port, token }: Server): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}/api/v1/inboxes`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/vnd.api+json' },
    body: JSON.stringify({ data: { type: 'inboxes', attributes: { name: 'bench', address: INBOX } } }),
  })
  if (response.status !== 201) throw new Error(`POST /inboxes: ${response.status} ${await response.text()}`)
}

/** Delivers letters and waits until all of them can be read. */
async function round(target: Target, count: number, reconnect: boolean, sessions = SESSIONS): Promise<Round> {
  const before = await target.arrived()
  const cpu = target.cpuMs()
  const written = target.writtenKb()
  const start = performance.now()
  await smtpSource({ port: target.port, count, bytes: BYTES, sessions, reconnect, timeoutMs: TIMEOUT, to: INBOX })
  const accepted = performance.now() - start
  let arrived = 0
  while ((arrived = (await target.arrived()) - before) < count) {
    if (performance.now() - start > TIMEOUT) throw new Error(`${arrived} of ${count} letters arrived`)
    await sleep(10)
  }
  const readable = performance.now() - start
  if (arrived !== count) throw new Error(`${arrived} letters arrived of ${count} sent`)
  // What is left to be tidied up belongs to them.
  await sleep(300)
  return {
    acceptedPerSecond: (count / accepted) * 1000,
    readablePerSecond: (count / readable) * 1000,
    cpuMsPerMail: (target.cpuMs() - cpu) / count,
    writtenKbPerMail: (target.writtenKb() - written) / count,
  }
}

/** User and system time of all threads of a process (proc(5), fields 14 and 15), in ticks of 10 ms. */
function processCpuMs(pid: number): number {
  const line = readFileSync(`/proc/${pid}/stat`, 'latin1')
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** What a process has given to the disk, in KB (proc(5), write_bytes). */
const writtenKb = (pid: number): number =>
  Number(/^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${pid}/io`, 'latin1'))![1]) / 1024

/** 500 clients that have said EHLO and no more, beside one that delivers. */
async function idleConnections(target: Target, count: number): Promise<void> {
  const rates: [number[], number[]] = [[], []]
  for (let turn = 0; turn < 5; turn++) {
    rates[0].push((await round(target, count, false, 1)).acceptedPerSecond)
    const sockets = await Promise.all(Array.from({ length: IDLE }, () => greeted(target.port)))
    rates[1].push((await round(target, count, false, 1)).acceptedPerSecond)
    for (const socket of sockets) socket.destroy()
    await sleep(200)
  }
  const [alone, beside] = rates.map((each) => percentile(each, 0.5)) as [number, number]
  figure(BENCH, 'one_session_accepted', alone, 'messages/s')
  figure(BENCH, `one_session_beside_${IDLE}_idle_accepted`, beside, 'messages/s')
  figure(BENCH, `one_session_beside_${IDLE}_idle_ratio`, beside / alone, 'times')
}

function greeted(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('error', reject)
    socket.once('data', () => {
      socket.write('EHLO idle.example\r\n')
      socket.once('data', () => resolve(socket))
    })
  })
}

/**
 * What one letter near the limit costs in memory, from its first byte until it can be read: a file in it, or nothing
 * but text.
 */
async function largeMessage(server: Server, target: Target, kind: 'attachment' | 'text'): Promise<void> {
  const peak = (): number =>
    Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'latin1'))![1]) / 1000
  const file = kind === 'attachment' ? join(server.dataDir, 'large.eml') : undefined
  if (file !== undefined) writeFileSync(file, largeLetter())
  const extra: number[] = []
  const times: number[] = []
  for (let turn = 0; turn < ROUNDS; turn++) {
    await sleep(1000)
    // From now on the peak is counted again (proc(5), clear_refs).
    writeFileSync(`/proc/${server.pid}/clear_refs`, '5')
    const before = peak()
    const arrived = await target.arrived()
    const start = performance.now()
    await smtpSource({
      port: target.port,
      count: 1,
      bytes: 39 * MB,
      ...(file === undefined ? {} : { file }),
      sessions: 1,
      reconnect: true,
      timeoutMs: TIMEOUT,
      to: INBOX,
    })
    while ((await target.arrived()) === arrived) await sleep(10)
    times.push(performance.now() - start)
    extra.push(peak() - before)
  }
  figure(BENCH, `message_39_mb_${kind}_readable`, percentile(times, 0.5), 'ms')
  figure(BENCH, `message_39_mb_${kind}_extra_memory`, percentile(extra, 0.5), 'MB')
  figure(BENCH, `message_39_mb_${kind}_extra_memory_first`, extra[0]!, 'MB')
}

function largeLetter(): string {
  const line = `${Buffer.alloc(57, 'What is in a file, again and again. ').toString('base64')}\n`
  return [
    'From: sender@bench.example',
    `To: ${INBOX}`,
    'Subject: A large file',
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary=b',
    '',
    '--b',
    'Content-Type: text/plain',
    '',
    'See what is attached.',
    '--b',
    'Content-Type: application/octet-stream',
    'Content-Disposition: attachment; filename=file.bin',
    'Content-Transfer-Encoding: base64',
    '',
    `${line.repeat(Math.floor((39 * MB) / 78))}--b--`,
    '',
  ].join('\n')
}
