// No 201 or 250 is sent before the data would survive a power failure. The test uses only the system calls (strace(1))
// of the executable under load: a sync happens between the writes and the reply, in any thread, and files that are
// rebuilt without unsynced data contain all accepted emails.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import Database from 'better-sqlite3'
import { seeded } from '../kit/seeded.ts'
import { RawClient } from '../smtp/raw.ts'
import { parse, tracedInto, withoutSyncs, type Call } from './rig/calls.ts'
import { diskAfter, historyOf, readDisk, writeDisk, type Change, type Disk, type History } from './rig/disk.ts'
import { missing } from './rig/kept.ts'
import { becomes, Machine, type Serving } from './rig/machine.ts'
import { withPrograms } from './rig/need.ts'
import { LOG, mailsPromised, messagesPromised, tooEarly, type Promised } from './rig/promises.ts'

const POSTERS = 10
const POSTS = 10
const SENDERS = 5
const MESSAGES = 10
/** Frames in the log before the server starts: SQLite begins it again after 4000, in the middle of the load. */
const FRAMES = 3700
/** At most so many posts after the load, until the log begins again. */
const MORE = 300
const CUTS = 20
/** More than a body of the database may have. */
const LARGE = 'large '.repeat(60_000)

let machine: Machine
let calls: Call[]
let start: Disk
let end: Disk
let history: History
let promises: Promised[]
/** What the clients were told. */
const told = { mails: new Set<string>(), messages: new Set<string>() }
/** Names of the messages that each connection sent, by its port. */
const sent = new Map<number, string[]>()

async function post(server: Serving, html = '<p>Hello</p>'): Promise<void> {
  const { body, status } = await machine.post(server, { html })
  assert.equal(status, 201, JSON.stringify(body))
  told.mails.add(body.data.id)
}

async function send(server: Serving, of: number): Promise<void> {
  const client = await RawClient.greeted(server.smtp)
  const names: string[] = []
  sent.set(client.socket.localPort!, names)
  for (let n = 0; n < MESSAGES; n++) {
    const name = `<m${of}-${n}@there.test>`
    const text = n === of ? LARGE.replaceAll(/(.{60}) /g, '$1\r\n') : 'Hello'
    names.push(name)
    await client.begin('box@here.test')
    const { code } = await client.ask(`From: ann@there.test\r\nMessage-ID: ${name}\r\n\r\n${text}\r\n.`)
    assert.equal(code, 250)
    told.messages.add(name)
  }
  client.destroy()
}

/** Fills the log as far as it is filled before SQLite begins it again, and leaves it as a power cut would. */
function fillLog(dataDir: string): Disk {
  const database = new Database(join(dataDir, 'postrider.db'))
  database.pragma('synchronous = OFF')
  database.pragma('wal_autocheckpoint = 0')
  const version = Number(database.pragma('user_version', { simple: true }))
  for (let n = 0; n < FRAMES; n++) database.pragma(`user_version = ${version}`)
  const disk = readDisk(dataDir)
  database.close()
  rmSync(dataDir, { recursive: true })
  for (const name of disk.keys()) if (name.endsWith('-shm')) disk.delete(name)
  // A server holds the queue of a directory that another one had before, and this one is made again (D209).
  disk.delete('serving.json')
  writeDisk(disk, dataDir)
  return disk
}

/** What a log has in its header, and changes when it begins again. */
const saltOf = (log: Buffer): string => log.toString('hex', 16, 24)

/** Kills what strace runs; strace writes the rest of its trace and ends. */
function killTraced({ child, over }: Serving): void {
  const children = over ? '' : readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim()
  if (children !== '') for (const pid of children.split(' ')) process.kill(Number(pid), 'SIGKILL')
}

/** Cuts the power before a line of the trace; what is missing then. */
function cut(of: History, moment: number, lucky?: (change: Change) => boolean): string[] {
  const folder = join(machine.folder, 'cut')
  rmSync(folder, { recursive: true, force: true })
  const disk = diskAfter(of, moment, lucky)
  // Memory that was shared is gone.
  disk.delete('postrider.db-shm')
  writeDisk(disk, folder)
  return missing(folder, promisedBefore(moment))
}

const promisedBefore = (moment: number): Promised[] => promises.filter(({ answered }) => answered < moment)

/** Chance decides about each call, always the same of a call. */
function chance(seed: number): (change: Change) => boolean {
  const random = seeded(seed)
  const drawn = new Map<number, boolean>()
  return ({ began }) => {
    if (!drawn.has(began)) drawn.set(began, random() < 0.5)
    return drawn.get(began)!
  }
}

const hex = (bytes: string | Buffer): string => Buffer.from(bytes).toString('hex').replaceAll(/../g, '\\x$&')

/** As many of them, from the first to the last. */
const spread = <T>(all: readonly T[], count: number): T[] =>
  Array.from({ length: count }, (_, n) => all[Math.floor((n * (all.length - 1)) / (count - 1))]!)

/** Whether a change of the log begins it again. */
const isRestart = (change: Change): boolean => change.kind === 'write' && change.at === 0

/** Moments at which the power is cut: lines of the trace. */
function moments(): Record<'answers' | 'syncs' | 'copies', number[]> {
  const { changes, syncs } = history.named.get(LOG)!
  const restarts = changes.filter(isRestart)
  const copied = history.named.get('postrider.db')!.changes
  return {
    /** Right after answers. */
    answers: spread(promises, CUTS).map(({ answered }) => answered + 1),
    /** Just before a sync ends: most is unsynced then. */
    syncs: spread(syncs, CUTS / 2).map(({ ended }) => ended),
    /** While the log is copied into the database and begins again. */
    copies: [...spread(copied, CUTS / 4), ...restarts].map(({ ended }) => ended + 1),
  }
}

test('a sync in another thread counts after it has finished, for writes before it started', () => {
  const file = (name: string): string => `<${hex(`/data/${name}`)}>`
  const call = (name: string, bytes: Buffer, at = ''): string =>
    `1 ${name}, "${hex(bytes)}", ${bytes.length}${at}) = ${bytes.length}`
  const id = '01a204cd-4434-7e8e-aaa5-557e601af398'
  const log = Buffer.alloc(32)
  log.writeUInt32BE(512, 8)
  const frame = (commits: number): string[] => {
    const header = Buffer.alloc(24)
    header.writeUInt32BE(commits, 4)
    const write = `pwrite64(5${file(LOG)}`
    return [call(write, header, ', 32'), call(write, Buffer.alloc(512, id), ', 56')]
  }
  const answer = call(
    'write(9<TCP:[127.0.0.1:80->127.0.0.1:5000]>',
    Buffer.from(`HTTP/1.1 201 Created\r\nlocation: /api/v1/outbound-emails/${id}\r\n\r\n`),
  )
  const begin = `2 fdatasync(7${file(LOG)} <unfinished ...>`
  const ends = '2 <... fdatasync resumed>)              = 0'
  const faults = (...lines: string[]): number => {
    const calls = parse([...lines, ''].join('\n'))
    const disk: Disk = new Map([
      ['', null],
      [LOG, log],
      ['postrider.db', Buffer.alloc(0)],
    ])
    const given = mailsPromised(calls, 80)
    assert.equal(given.length, 1)
    return tooEarly(historyOf(calls, '/data', disk), given).length
  }
  const row = frame(1)
  assert.equal(faults(...row, begin, ends, answer), 0)
  assert.equal(faults(...row, begin, answer, ends), 1, 'it ends behind the answer')
  assert.equal(faults(row[0]!, begin, row[1]!, ends, answer), 1, 'it begins before the last write')
  assert.equal(faults(...row, answer), 1, 'there is none')
  assert.equal(faults(...row, begin, answer), 1, 'it never ends')
  assert.equal(faults(...row, begin, ends.replace('= 0', '= -1 EIO (Input/output error)'), answer), 1, 'it fails')
  assert.equal(faults(...row, `2 fdatasync(7${file('postrider.db')}) = 0`, answer), 1, 'it is of another file')
  assert.equal(faults(...frame(0), begin, ends, answer), 1, 'the transaction does not end')
})

withPrograms('data is durable before the reply', spawnSync('strace', ['-V']).status === 0 ? [] : ['strace'], () => {
  before(async () => {
    machine = await Machine.make()
    start = fillLog(machine.dataDir)
    const trace = join(machine.folder, 'trace')
    const server = machine.begin(tracedInto(trace))
    try {
      assert.ok(await server.ready(60_000), server.said)
      await post(server)
      const poster = async (of: number): Promise<void> => {
        for (let n = 0; n < POSTS; n++) await post(server, n === of ? LARGE : undefined)
      }
      const all = (count: number, work: (of: number) => Promise<void>) =>
        Array.from({ length: count }, (_, n) => work(n))
      await Promise.all([...all(POSTERS, poster), ...all(SENDERS, (of) => send(server, of))])
      // How much a transaction holds depends on the machine; the last promise is given after the log began again.
      const salt = saltOf(start.get(LOG)!)
      const isOld = (): boolean => saltOf(readFileSync(join(machine.dataDir, LOG))) === salt
      for (let n = 0; n < MORE && isOld(); n++) await post(server)
      await post(server)
      await becomes(() => machine.exchanger.heard.length >= told.mails.size, 'every mail', 60_000)
    } finally {
      killTraced(server)
      await server.ended
    }
    end = readDisk(machine.dataDir)
    calls = parse(readFileSync(trace, 'latin1'))
    history = historyOf(calls, machine.dataDir, start)
    const http = Number(new URL(server.url).port)
    promises = [...mailsPromised(calls, http), ...messagesPromised(calls, server.smtp, sent)].sort(
      (one, two) => one.answered - two.answered,
    )
  })
  after(() => machine.close())

  test('the trace contains every written byte and every reply', () => {
    const all = diskAfter(history, Infinity, () => true)
    // A call that the kill cut off may have had its effect or not.
    const unsure = [...history.named].filter(([, { changes }]) => changes.some(({ ended }) => ended === Infinity))
    for (const name of ['postrider.db-shm', ...unsure.map(([each]) => each)])
      for (const disk of [all, end]) disk.delete(name)
    assert.deepEqual([...all.keys()].sort(), [...end.keys()].sort())
    for (const [name, bytes] of end) assert.ok(bytes === null || all.get(name)?.equals(bytes), `${name} differs`)
    const names = (kind: Promised['kind']) => promises.filter((each) => each.kind === kind).map(({ name }) => name)
    assert.deepEqual(names('mail').sort(), [...told.mails].sort())
    assert.deepEqual(names('message').sort(), [...told.messages].sort())
    assert.ok(promises.length > POSTERS * POSTS + SENDERS * MESSAGES)
    const files = [...end.keys()].filter((name) => name.includes('~'))
    assert.equal(files.length, POSTERS + SENDERS)
    const began = history.named.get(LOG)!.changes.find(isRestart)
    assert.ok(began && promises[0]!.answered < began.began && promises.at(-1)!.answered > began.ended, 'a new log')
  })

  test('a sync happens between the writes of an email and its reply', () => {
    assert.deepEqual(tooEarly(history, promises), [])
  })

  test('the same trace without its syncs has a failure for each accepted email', () => {
    const large = POSTERS + SENDERS
    const without = (which?: (on: string) => boolean): number =>
      tooEarly(historyOf(withoutSyncs(calls, which), machine.dataDir, start), promises).length
    assert.ok(without() >= promises.length)
    assert.equal(
      without((on) => on.endsWith(LOG)),
      promises.length,
    )
    assert.ok(without((on) => on.endsWith('.part')) >= large, 'files of the spool')
    assert.ok(without((on) => on.endsWith('/spool')) >= large, 'their names')
    assert.ok(without((on) => on === machine.dataDir) >= large, 'the folder of the spool')
  })

  test('every accepted email survives a power failure at any moment', async (t) => {
    const half = chance(1)
    const log = new Set(history.named.get(LOG)!.changes)
    const isHeader = (change: Change): boolean => change.kind === 'write' && change.bytes.length === 24
    const { answers, copies, syncs } = moments()
    const all = [...answers, ...syncs, ...copies]
    const found = all.flatMap((moment) => [...cut(history, moment), ...cut(history, moment, half)])
    // The disk may have written the headers of frames, and lost their pages.
    for (const moment of syncs) found.push(...cut(history, moment, (change) => isHeader(change) || half(change)))
    // It may have written all but the log.
    for (const moment of copies) found.push(...cut(history, moment, (change) => !log.has(change)))
    assert.deepEqual(found, [])
    t.diagnostic(`${all.length} moments, ${promises.length} promises`)
    // The last is the one where the log has begun again.
    machine.configure(join(machine.folder, 'cut'))
    const { code, stderr, stdout } = await machine.run('verify')
    assert.equal(code, 0, stdout + stderr)
  })

  test('a power failure without syncs loses every accepted email', () => {
    const unsynced = historyOf(withoutSyncs(calls), machine.dataDir, start)
    for (const moment of spread(moments().answers, 4))
      assert.equal(cut(unsynced, moment).length, promisedBefore(moment).length)
    const spool = historyOf(
      withoutSyncs(calls, (on) => on.includes('/spool/')),
      machine.dataDir,
      start,
    )
    assert.equal(cut(spool, Infinity).length, POSTERS + SENDERS)
  })
})
