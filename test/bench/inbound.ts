// Received mail: smtp-source with 20 sessions and messages of 4 KB, against Postrider (an inbox of an active domain)
// and, in the same run, against Postfix delivering into a mailbox. A message counts if it was answered with 250 and is
// in the store. Both write it durably before the 250.
import { writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import type { ReceivingPostfix } from '../interop/rig/postfix.ts'
import { freePort } from '../interop/rig/sandbox.ts'
import { mailboxPostfix, missing } from './peer/mailbox.ts'
import { smtpSource, type Drive } from './peer/postfix.ts'
import type { Driven } from './posts.ts'
import { figure, percentile, startServer, type Server } from './rig.ts'
import { inTurn, measured, tell, type Round } from './turns.ts'
import { peakRssMb, WatchedGroups } from './usage.ts'

const BENCH = 'inbound'
const DOMAIN = 'bench.example'
export const INBOX = `inbox@${DOMAIN}`
const SESSIONS = 20
const BYTES = 4096
const ROUNDS = 3
const IDLE = 500
const TIMEOUT = 180_000
const MB = 1024 * 1024

/** Both servers with an inbox, and the function for a round of each. `arrived` counts readable messages. */
interface Both {
  server: Server
  ours: (count: number, reconnect: boolean, sessions?: number) => Promise<Round>
  theirs: (count: number, reconnect: boolean) => Promise<Round>
  arrived: () => number
}

/** Starts both, warm as servers are that have been running: code compiled, workers hired, processes forked. */
export async function withBoth<Result>(use: (both: Both) => Promise<Result>): Promise<Result> {
  const smtp = { listen: [`127.0.0.1:${await freePort()}`], max_connections_per_address: IDLE + 100 }
  const server = await startServer(1, { smtp })
  const database = new Database(join(server.dataDir, 'postrider.db'), { readonly: true })
  let peer: ReceivingPostfix | undefined
  let watched: WatchedGroups | undefined
  try {
    await makeInbox(server)
    peer = await mailboxPostfix(DOMAIN)
    watched = new WatchedGroups([peer.group])
    const rows = database.prepare('select count(*) from inbound_emails').pluck()
    const arrived = (): number => rows.get() as number
    const both: Both = {
      server,
      ours: async (count, reconnect, sessions = SESSIONS) => {
        const before = arrived()
        return measured(server, count, {
          drive: () => letters({ port: server.smtpPort, count, reconnect, sessions }),
          settle: () => all(count, () => arrived() - before),
        })
      },
      theirs: (count, reconnect) => peerRound(peer!, watched!, count, reconnect),
      arrived,
    }
    for (const side of [both.ours, both.theirs]) await side(500, true)
    return await use(both)
  } finally {
    await peer?.stop()
    watched?.close()
    database.close()
    await server.stop()
  }
}

export async function inbound(count: number): Promise<void> {
  const absent = missing()
  if (absent.length > 0) return figure(BENCH, 'accepted', `not installed: ${absent.join(', ')}`, '')
  await withBoth(async (both) => {
    figure(BENCH, 'machine_load_before', loadavg()[0]!, '')
    for (const reconnect of [true, false]) {
      const kind = reconnect ? 'connection_each' : 'connection_kept'
      const { ours, postfix } = await inTurn(ROUNDS, {
        ours: () => both.ours(count, reconnect),
        postfix: () => both.theirs(count, reconnect),
      })
      tell(BENCH, `${kind}_ours`, ours)
      tell(BENCH, `${kind}_postfix`, postfix)
      figure(BENCH, `${kind}_accepted_ratio`, ours.acceptedPerSecond! / postfix.acceptedPerSecond!, 'times')
      figure(BENCH, `${kind}_settled_ratio`, ours.perSecond / postfix.perSecond, 'times')
    }
    figure(BENCH, 'machine_load_after', loadavg()[0]!, '')
    await idleConnections(both, count)
    await largeMessage(both, 'attachment')
    await largeMessage(both, 'text')
  })
}

/** Creates the inbox that the messages are sent to. */
export async function makeInbox({ port, token }: Server): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}/api/v1/inboxes`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/vnd.api+json' },
    body: JSON.stringify({ data: { type: 'inboxes', attributes: { name: 'bench', address: INBOX } } }),
  })
  if (response.status !== 201) throw new Error(`POST /inboxes: ${response.status} ${await response.text()}`)
}

type Letters = Pick<Drive, 'port' | 'count' | 'reconnect' | 'sessions'>
const letters = (load: Letters): Promise<Driven> => smtpSource({ ...load, bytes: BYTES, timeoutMs: TIMEOUT, to: INBOX })

async function peerRound(
  peer: ReceivingPostfix,
  watched: WatchedGroups,
  count: number,
  reconnect: boolean,
): Promise<Round> {
  // A short list of names costs the machine little when it is read repeatedly.
  await peer.clear()
  const before = watched.usage()
  const { startedAt, wallMs, generator, generatorCpuMs } = await letters({
    port: peer.port,
    count,
    reconnect,
    sessions: SESSIONS,
  })
  await all(count, peer.count)
  const settledMs = performance.now() - startedAt
  // Pending cleanup is part of the round.
  await sleep(300)
  const after = watched.usage()
  return {
    perSecond: (count / settledMs) * 1000,
    acceptedPerSecond: (count / wallMs) * 1000,
    cpuMs: (after.cpuMs - before.cpuMs) / count,
    writtenKb: (after.writtenKb - before.writtenKb) / count,
    pssMb: after.memoryMb,
    generator,
    generatorCpuMs: generatorCpuMs / count,
  }
}

/** Waits until all messages can be read. */
async function all(count: number, arrived: () => number | Promise<number>): Promise<void> {
  const start = performance.now()
  let there = 0
  while ((there = await arrived()) < count) {
    if (performance.now() - start > TIMEOUT) throw new Error(`${there} of ${count} letters arrived`)
    await sleep(10)
  }
  if (there !== count) throw new Error(`${there} letters arrived of ${count} sent`)
}

/** 500 clients that stay idle after EHLO, next to one that delivers. */
async function idleConnections({ ours, server }: Both, count: number): Promise<void> {
  const rates: [number[], number[]] = [[], []]
  for (let turn = 0; turn < 5; turn++) {
    rates[0].push((await ours(count, false, 1)).acceptedPerSecond!)
    const sockets = await Promise.all(Array.from({ length: IDLE }, () => greeted(server.smtpPort)))
    rates[1].push((await ours(count, false, 1)).acceptedPerSecond!)
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
 * The memory for one message near the size limit, from its first byte until it can be read: with an attachment, or only
 * text.
 */
async function largeMessage({ server, arrived }: Both, kind: 'attachment' | 'text'): Promise<void> {
  const file = kind === 'attachment' ? join(server.dataDir, 'large.eml') : undefined
  if (file !== undefined) writeFileSync(file, largeLetter())
  const extra: number[] = []
  const times: number[] = []
  for (let turn = 0; turn < ROUNDS; turn++) {
    await sleep(1000)
    // From now on the peak is counted again (proc(5), clear_refs).
    writeFileSync(`/proc/${server.pid}/clear_refs`, '5')
    const before = peakRssMb(server.pid)
    const there = arrived()
    const start = performance.now()
    await smtpSource({
      port: server.smtpPort,
      count: 1,
      bytes: 39 * MB,
      ...(file === undefined ? {} : { file }),
      sessions: 1,
      reconnect: true,
      timeoutMs: TIMEOUT,
      to: INBOX,
    })
    while (arrived() === there) await sleep(10)
    times.push(performance.now() - start)
    extra.push(peakRssMb(server.pid) - before)
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
