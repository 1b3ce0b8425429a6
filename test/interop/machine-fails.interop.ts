// Machine failures with the executable: a missing, full or corrupt disk, no file descriptors, lost files. Each test
// covers a failure that once lost or blocked accepted mail.
import assert from 'node:assert/strict'
import {
  chmodSync,
  chownSync,
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { document } from '../kit/appliance.ts'
import { filesWith } from '../kit/files-with.ts'
import { deliver } from '../kit/sender.ts'
import { becomes, Machine, smallDisk, type MachineOptions, type Serving } from './rig/machine.ts'
import { passBy } from './rig/need.ts'

const LARGE = `<p>${'large '.repeat(60_000)}</p>`
/** How long a fault lasts, in ms. */
const OUTAGE = 4000
const NOT_NOW = '451 4.7.1 Try again later'

async function withMachine(options: MachineOptions, work: (machine: Machine) => Promise<void>): Promise<void> {
  const machine = await Machine.make(options)
  try {
    await work(machine)
  } finally {
    await machine.close()
  }
}

const spoolOf = ({ dataDir }: Machine): string => join(dataDir, 'spool')
const database = ({ dataDir }: Machine): string => join(dataDir, 'postrider.db')

/** Mail that waits: posted while the exchanger says "not now"; their ids. */
async function waiting(machine: Machine, server: Serving, count: number): Promise<string[]> {
  machine.exchanger.script.answer = (line) => (line.startsWith('RCPT') ? NOT_NOW : undefined)
  const ids: string[] = []
  for (let n = 0; n < count; n++) {
    const { body, status } = await machine.post(server, { to: `n${n}@there.test`, html: LARGE })
    assert.equal(status, 201, JSON.stringify(body))
    ids.push(body.data.id)
  }
  return ids
}

/** Every mail arrives, once, and is called delivered. */
async function allDelivered(machine: Machine, server: Serving, ids: readonly string[], limit = 60_000): Promise<void> {
  machine.exchanger.script.answer = () => undefined
  for (const id of ids)
    await becomes(
      async () => {
        const { response, status } = await machine.show(server, id)
        assert.ok(['queued', 'sent', 'delivered'].includes(status), `a promised mail is ${status}: ${response}`)
        return status === 'delivered'
      },
      `the delivery of ${id}`,
      limit,
    )
  const heard = machine.exchanger.heard.map(({ to }) => to[0]!).sort()
  assert.deepEqual(heard, ids.map((_, n) => `n${n}@there.test`).sort(), 'each once')
}

describe('an accepted email survives', () => {
  test('a spool directory that is missing for some seconds', () =>
    withMachine({}, async (machine) => {
      const server = await machine.start()
      const ids = await waiting(machine, server, 2)
      renameSync(spoolOf(machine), join(machine.folder, 'away'))
      machine.exchanger.script.answer = () => undefined
      await pause(OUTAGE)
      for (const id of ids) {
        const { response, status } = await machine.show(server, id)
        assert.equal(status, 'queued', response ?? '')
        assert.ok(!response?.includes(machine.dataDir), `a path is shown to the customer: ${response}`)
      }
      rmSync(spoolOf(machine), { recursive: true, force: true })
      renameSync(join(machine.folder, 'away'), spoolOf(machine))
      await allDelivered(machine, server, ids)
    }))

  test('a lack of file descriptors', () =>
    withMachine({}, async (machine) => {
      const server = await machine.start()
      const ids = await waiting(machine, server, 2)
      machine.exchanger.script.answer = () => undefined
      server.limit(`--nofile=${server.descriptors}:`)
      await pause(OUTAGE)
      server.unlimited()
      await allDelivered(machine, server, ids)
    }))
})

describe('results are stored once the disk accepts writes again', () => {
  test('an email that the receiving server accepted leaves the state active, and is not sent twice after a restart', () =>
    withMachine({}, async (machine) => {
      const answers: (() => void)[] = []
      machine.exchanger.script.final = () => new Promise((resolve) => answers.push(() => resolve('250 2.0.0 Taken')))
      let server = await machine.start()
      const ids: string[] = []
      for (let n = 0; n < 8; n++) ids.push((await machine.post(server, { to: `n${n}@there.test` })).body.data.id)
      await becomes(() => answers.length > 0, 'the first mail at the exchanger')
      // No file grows any more: every commit is an I/O error.
      server.limit('--fsize=4096:')
      const going = setInterval(() => {
        for (const answer of answers.splice(0)) answer()
      }, 20)
      try {
        await pause(OUTAGE)
        server.unlimited()
        await allDelivered(machine, server, ids)
        assert.equal(await server.kill('SIGTERM'), 0)
        server = await machine.start()
        await pause(2000)
        assert.equal(machine.exchanger.heard.length, ids.length, 'sent again after the restart')
      } finally {
        clearInterval(going)
      }
    }))

  test('received messages are processed soon after', () =>
    withMachine({}, async (machine) => {
      const server = await machine.start()
      const [verdict] = await deliver({ host: '127.0.0.1', port: server.smtp }, { to: 'box@here.test' })
      assert.equal(verdict!.kind, 'delivered')
      // The thread that reads it takes longer to begin than this.
      server.limit('--fsize=4096:')
      await pause(OUTAGE)
      server.unlimited()
      await becomes(
        async () => (await machine.api(server, 'GET', '/inbound-emails')).body.data.length === 1,
        'the message in its inbox',
        60_000,
      )
    }))
})

describe('the server does not start on incomplete data', () => {
  for (const [state, spoil] of [
    ['no database', (file: string) => rmSync(file)],
    ['an empty database', (file: string) => truncateSync(file, 0)],
  ] as const)
    test(`${state} next to a spool: the start fails, names restore and init --new, and email is sent once the database is back`, () =>
      withMachine({}, async (machine) => {
        let server = await machine.start()
        const ids = await waiting(machine, server, 5)
        assert.equal(await server.kill('SIGTERM'), 0)
        const files = readdirSync(spoolOf(machine)).sort()
        const kept = join(machine.folder, 'kept.db')
        copyFileSync(database(machine), kept)
        spoil(database(machine))
        for (const name of ['-wal', '-shm']) rmSync(`${database(machine)}${name}`, { force: true })
        server = machine.begin()
        assert.equal(await server.ready(), false, 'it serves')
        assert.equal(await server.ended, 1)
        assert.match(server.said, /restore/)
        assert.match(server.said, /init --new/)
        assert.deepEqual(readdirSync(spoolOf(machine)).sort(), files, 'the spool was touched')
        copyFileSync(kept, database(machine))
        server = await machine.start()
        await allDelivered(machine, server, ids)
      }))

  test('no instance key next to encrypted rows: the start fails and creates no key', () =>
    withMachine({}, async (machine) => {
      rmSync(join(machine.dataDir, 'instance.key'))
      const server = machine.begin()
      assert.equal(await server.ready(), false, 'it serves')
      assert.equal(await server.ended, 1)
      assert.match(server.said, /instance\.key/)
      assert.match(server.said, /restore/)
      assert.ok(!existsSync(join(machine.dataDir, 'instance.key')), 'a key was made')
      const verified = await machine.run('verify')
      assert.equal(verified.code, 1, verified.stdout)
    }))
})

describe('a disk that is full', () => {
  const onSmallDisk = async (
    t: TestContext,
    work: (machine: Machine, fill: () => void, free: () => void) => Promise<void>,
  ) => {
    const disk = smallDisk(48)
    if (!disk) return passBy(t, 'a small disk cannot be mounted here')
    const filler = join(disk.folder, 'filler')
    const fill = (): void => {
      const file = openSync(filler, 'a')
      try {
        for (;;) writeSync(file, Buffer.alloc(4096))
      } catch (thrown) {
        assert.equal((thrown as NodeJS.ErrnoException).code, 'ENOSPC')
      } finally {
        closeSync(file)
      }
    }
    try {
      await withMachine(
        { folder: disk.folder, more: '[storage]\nreserve = "8MB"\n[inbound]\nmax_message_bytes = "2MB"\n' },
        (machine) => work(machine, fill, () => rmSync(filler)),
      )
    } finally {
      disk.close()
    }
  }

  test('at startup: the server runs without new email, never next to another server, and recovers when there is space', (t) =>
    onSmallDisk(t, async (machine, fill, free) => {
      let server = await machine.start()
      const ids = await waiting(machine, server, 2)
      await server.kill()
      fill()
      server = machine.begin()
      assert.ok(await server.ready(), 'the room that was kept is enough for a start (D121)')
      assert.doesNotMatch(server.said, /remove it|remove .*serve\.lock/i)
      const second = machine.begin()
      assert.equal(await second.ready(), false, 'two servers on one database')
      assert.match(second.said, /Another Postrider already uses /)
      assert.equal((await machine.post(server)).status, 507)
      free()
      await allDelivered(machine, server, ids, 120_000)
    }))

  test('while the server runs: API and SMTP reply 507 and 452 until there is space', (t) =>
    onSmallDisk(t, async (machine, fill, free) => {
      const server = await machine.start()
      assert.equal((await machine.post(server)).status, 201)
      fill()
      // It looks from time to time.
      const answer = await becomes(async () => {
        const said = await machine.post(server)
        return said.status === 201 ? undefined : said
      }, 'a refusal')
      assert.equal(answer.status, 507, JSON.stringify(answer.body))
      assert.equal(answer.body.errors[0].code, 'insufficient_storage')
      const [verdict] = await deliver({ host: '127.0.0.1', port: server.smtp }, { to: 'box@here.test' })
      assert.equal(verdict!.code, 452, verdict!.text)
      assert.equal(verdict!.stage, 'mail')
      const health = await fetch(`${server.url}/health`)
      assert.equal(health.status, 200)
      assert.match(await health.text(), /degraded/)
      free()
      await becomes(async () => (await machine.post(server)).status === 201, 'posts again')
    }))
})

test('the server accepts no more email and exits with an error if its data directory is deleted', () =>
  withMachine({}, async (machine) => {
    const server = await machine.start()
    // The server may write a file meanwhile.
    rmSync(machine.dataDir, { recursive: true, maxRetries: 5 })
    // It looks each second.
    await pause(2000)
    const answer = await machine.post(server).catch(() => undefined)
    assert.notEqual(answer?.status, 201, 'promised into a file that nobody finds')
    const verdict = await deliver({ host: '127.0.0.1', port: server.smtp }, { to: 'box@here.test' }).catch(() => [])
    assert.notEqual(verdict[0]?.kind, 'delivered')
    const code = await Promise.race([server.ended, pause(15_000)])
    assert.equal(code, 1)
    assert.match(server.said, /postrider\.db/)
  }))

describe('verify finds corruption', () => {
  const flip = (file: string, at: number): void => {
    const bytes = readFileSync(file)
    bytes[at]! ^= 1 << (at % 8)
    writeFileSync(file, bytes)
  }

  test('of one bit in the database, in each of 24 tries', () =>
    withMachine({}, async (machine) => {
      const server = await machine.start()
      machine.exchanger.script.answer = (line) => (line.startsWith('RCPT') ? NOT_NOW : undefined)
      for (let n = 0; n < 30; n++)
        assert.equal(
          (await machine.post(server, { subject: `marker ${n}`, html: `<p>${`marker ${n} `.repeat(200)}</p>` })).status,
          201,
        )
      await deliver(
        { host: '127.0.0.1', port: server.smtp },
        { to: 'box@here.test', message: `Subject: x\n\n${'marker '.repeat(400)}\n` },
      )
      await becomes(
        async () => (await machine.api(server, 'GET', '/inbound-emails')).body.data.length === 1,
        'the message',
      )
      assert.equal(await server.kill('SIGTERM'), 0)
      assert.equal((await machine.run('verify')).code, 0)
      const whole = join(machine.folder, 'whole')
      cpSync(machine.dataDir, whole, { recursive: true })
      const bytes = readFileSync(database(machine))
      const places: number[] = []
      for (let at = bytes.indexOf('marker'); at >= 0; at = bytes.indexOf('marker', at + 1)) places.push(at)
      const unseen: number[] = []
      for (let n = 0; n < 24; n++) {
        const at = places[Math.floor((n * places.length) / 24)]! + (n % 6)
        flip(database(machine), at)
        if ((await machine.run('verify')).code !== 1) unseen.push(at)
        rmSync(machine.dataDir, { recursive: true })
        cpSync(whole, machine.dataDir, { recursive: true })
      }
      assert.deepEqual(unseen, [], `${unseen.length} of 24 not found`)
    }))

  test('of a spool file that is truncated or has a changed bit', () =>
    withMachine({}, async (machine) => {
      const server = await machine.start()
      await waiting(machine, server, 1)
      assert.equal(await server.kill('SIGTERM'), 0)
      const [name] = readdirSync(spoolOf(machine)).filter((each) => each !== 'quarantine')
      const file = join(spoolOf(machine), name!)
      const bytes = readFileSync(file)
      flip(file, 1000)
      assert.equal((await machine.run('verify')).code, 1, 'a changed bit')
      writeFileSync(file, bytes)
      assert.equal((await machine.run('verify')).code, 0)
      truncateSync(file, bytes.length >> 1)
      assert.equal((await machine.run('verify')).code, 1, 'half a file')
      // Half a mail is not sent.
      const next = await machine.start()
      machine.exchanger.script.answer = () => undefined
      await pause(3000)
      assert.deepEqual(machine.exchanger.heard, [])
      assert.equal(await next.kill('SIGTERM'), 0)
    }))

  test('of the middle of the write-ahead log: the start reports the lost frames', () =>
    withMachine({}, async (machine) => {
      let server = await machine.start()
      machine.exchanger.script.answer = (line) => (line.startsWith('RCPT') ? NOT_NOW : undefined)
      for (let n = 0; n < 40; n++) assert.equal((await machine.post(server)).status, 201)
      await server.kill()
      const log = `${database(machine)}-wal`
      flip(log, statSync(log).size >> 1)
      server = machine.begin()
      await server.ready()
      const line = server.said
        .split('\n')
        .find((text) => /"level":"(?:warn|error)"/.test(text) && /frame|log/i.test(text) && /\d/.test(text))
      assert.ok(line ?? /frame/i.test(server.said), `nothing was said: ${server.said}`)
    }))
})

test('backup and restore sync their files before they report success', (t) =>
  withMachine({}, async (machine) => {
    try {
      execFileSync('strace', ['-V'], { stdio: 'ignore' })
    } catch {
      return passBy(t, 'strace is not on this machine')
    }
    const traced = async (...args: string[]): Promise<string> => {
      const trace = join(machine.folder, 'trace')
      const file = process.env['POSTRIDER_BIN'] ?? join(import.meta.dirname, '../../dist/postrider')
      const line = existsSync(file) ? [file] : [process.execPath, join(import.meta.dirname, '../../bin/postrider.ts')]
      execFileSync('strace', [
        '-f',
        '-y',
        '-e',
        'trace=fsync,fdatasync',
        '-o',
        trace,
        ...line,
        '--config',
        machine.config,
        ...args,
      ])
      return readFileSync(trace, 'utf8')
    }
    const zip = join(machine.folder, 'backup.zip')
    const made = await traced('backup', zip)
    assert.match(made, /f(?:data)?sync\(\d+<[^>]*(?:zip|part|new)>/, 'the zip')
    assert.match(made, new RegExp(`fsync\\(\\d+<${machine.folder}>`), 'its folder')
    const place = join(machine.folder, 'place')
    machine.configure(place)
    const put = await traced('restore', zip, '--without-ledger')
    assert.match(put, /f(?:data)?sync\(\d+<[^>]*postrider\.db>/, 'the database')
    assert.match(put, /f(?:data)?sync\(\d+<[^>]*instance\.key>/, 'the key')
    assert.match(put, new RegExp(`fsync\\(\\d+<${place}>`), 'the data directory')
  }))

test('the server rejects a data directory that others can read, names the chmod, and creates files for its owner only', () =>
  withMachine({}, async (machine) => {
    chmodSync(machine.dataDir, 0o755)
    const server = machine.begin()
    assert.equal(await server.ready(), false, 'it serves')
    assert.match(server.said, /chmod/)
    const fresh = join(machine.folder, 'fresh')
    machine.configure(fresh)
    await machine.start()
    assert.equal((await machine.run('user', 'add', 'ann@owner.test')).code, 0)
    for (const name of ['', ...readdirSync(fresh)]) {
      const { mode } = statSync(join(fresh, name))
      assert.equal(mode & 0o077, 0, `${name || 'the directory'} has mode ${(mode & 0o777).toString(8)}`)
    }
  }))

test('an erasure is not reported as complete if it cannot read a file', (t) => {
  if (process.getuid?.() !== 0) return passBy(t, 'only root can make a file that the server cannot read')
  const NOBODY = 65_534
  return withMachine({ uid: NOBODY }, async (machine) => {
    const give = (path: string): void => {
      chownSync(path, NOBODY, NOBODY)
      if (statSync(path).isDirectory()) for (const name of readdirSync(path)) give(join(path, name))
    }
    give(machine.folder)
    const server = await machine.start()
    const { body } = await machine.post(server)
    await becomes(async () => (await machine.show(server, body.data.id)).status === 'delivered', 'the delivery')
    const shut = join(machine.dataDir, 'notes.txt')
    writeFileSync(shut, 'bob@there.test\n', { mode: 0o600 })
    assert.equal((await machine.api(server, 'DELETE', '/recipients/bob%40there.test/forget')).status, 202)
    await becomes(() => /erasure|privacy|notes\.txt/.test(server.said), 'a word in the log')
    await pause(2000)
    assert.ok((await filesWith(machine.dataDir, 'bob@there.test')).includes('notes.txt'))
    assert.doesNotMatch(server.said, /privacy_request_completed/)
    rmSync(shut)
  })
})

test('links from contact fields in a campaign are limited to web, email and telephone', () =>
  withMachine({}, async (machine) => {
    const server = await machine.start()
    const relationships = { domain: { data: { type: 'domains', id: machine.domain } } }
    const made = await machine.api(server, 'POST', '/audiences', {
      data: { type: 'audiences', attributes: { name: 'Readers' }, relationships },
    })
    const { id } = made.body.data
    const contacts = [
      'javascript:alert(1)',
      'JaVa\tScript:alert(1)',
      'data:text/html,x',
      'vbscript:x',
      'https://good.test/',
    ].map((link, n) => ({
      email: `c${n}@there.test`,
      name: 'Reader',
      custom_fields: { link },
    }))
    await machine.api(server, 'POST', `/audiences/${id}/contacts/import`, document('contacts', { contacts }))
    const attributes = { name: 'Spring', subject: 'Hello', body_html: '<p><a href="{{link}}">Here</a></p>' }
    const draft = await machine.api(server, 'POST', '/campaigns', {
      data: { type: 'campaigns', attributes, relationships: { audience: { data: { type: 'audiences', id } } } },
    })
    const campaign = draft.body.data.id
    await machine.api(server, 'PATCH', `/campaigns/${campaign}`, {
      data: { type: 'campaigns', id: campaign, attributes: { status: 'scheduled' } },
    })
    await becomes(() => machine.exchanger.heard.length === contacts.length, 'the mails')
    for (const { message } of machine.exchanger.heard) {
      const plain = message.replaceAll('=\r\n', '').replaceAll('=3D', '=')
      assert.doesNotMatch(plain, /href=["']?\s*(?:j\s*a\s*v\s*a|data:|vbscript)/i)
    }
    assert.ok(
      machine.exchanger.heard.some(({ message }) => message.replaceAll('=\r\n', '').includes('https://good.test/')),
    )
  }))
