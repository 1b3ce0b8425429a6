import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { Space } from '../../src/base/space.ts'
import { Commands, sentenceOf } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { smallDisk } from '../kit/small-disk.ts'
import { makeInstallation } from '../kit/installation.ts'

// If a start fails, the server prints one sentence on stderr, exits with 1 and leaves the data intact.

const folder = temporaryDirectory('faults')
const good = join(folder, 'good')
const commands = new Commands(folder)
let copies = 0

const settings = (dataDir: string) => ({
  env: { POSTRIDER_DATA_DIR: dataDir, POSTRIDER_HTTP_LISTEN: '127.0.0.1:0', POSTRIDER_SMTP_LISTEN: '127.0.0.1:0' },
  bare: true,
})
const succeeds = async (dataDir: string, ...argv: string[]): Promise<string> => {
  const { code, stdout, stderr } = await commands.run(argv, settings(dataDir))
  assert.equal(code, 0, stderr)
  return stdout
}
/** The sentence of a command that fails on this data directory. */
const fails = async (dataDir: string, ...argv: string[]): Promise<string> =>
  sentenceOf(await commands.run(argv, settings(dataDir)), argv.join(' '))

before(async () => {
  makeInstallation(good)
  await succeeds(good, 'user', 'add', 'ann@owner.test')
  await succeeds(good, 'domain', 'add', 'here.test', '--user', 'ann@owner.test')
})
after(async () => {
  await commands.close()
})

/** A copy of a sound data directory, to be spoilt. */
function copy(): string {
  const dir = join(folder, `copy-${++copies}`)
  cpSync(good, dir, { recursive: true })
  return dir
}

const digest = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex')

/** serve and a command print one sentence about the same problem, and the files are the same afterwards. */
async function refusedUntouched(dir: string, about: RegExp): Promise<void> {
  const files = ['postrider.db', 'instance.key'].map((name) => join(dir, name)).filter(existsSync)
  const earlier = files.map(digest)
  for (const argv of [['serve'], ['domain', 'list'], ['domain', 'add', 'new.test', '--user', 'ann@owner.test']])
    assert.match(await fails(dir, ...argv), about, argv.join(' '))
  assert.deepEqual(files.map(digest), earlier, 'a file was changed')
}

/** Overwrites a part of the database. */
function damage(dir: string, from: number, to: number): void {
  const file = join(dir, 'postrider.db')
  const bytes = readFileSync(file)
  bytes.fill(0xa5, from, Math.min(to, bytes.length))
  writeFileSync(file, bytes)
}

describe('the data directory', () => {
  test('a file at its path', async () => {
    const file = join(folder, 'file')
    writeFileSync(file, 'mine')
    for (const argv of [['serve'], ['user', 'list']]) assert.ok((await fails(file, ...argv)).includes(file))
    assert.equal(readFileSync(file, 'utf8'), 'mine')
  })

  test('a file at the path of its parent', async () => {
    const file = join(folder, 'parent')
    writeFileSync(file, 'mine')
    assert.ok((await fails(join(file, 'data'), 'serve')).includes(join(file, 'data')))
    assert.equal(readFileSync(file, 'utf8'), 'mine')
  })

  test('a directory at the path of the database, the key or the lock', async () => {
    for (const name of ['postrider.db', 'instance.key', 'serve.lock']) {
      const dir = join(folder, `directory-${name}`)
      mkdirSync(join(dir, name), { recursive: true })
      const said = await fails(dir, 'serve')
      assert.ok(said.includes(join(dir, name)) || said.includes(dir), said)
    }
  })

  test('a corrupt instance key', async () => {
    const dir = copy()
    writeFileSync(join(dir, 'instance.key'), 'not a key\n')
    await refusedUntouched(dir, /instance\.key/)
  })

  test('a directory that is not writable', async (t) => {
    const dir = copy()
    try {
      // Not even root may write through a read-only mount.
      execFileSync('mount', ['--bind', dir, dir], { stdio: 'ignore' })
      execFileSync('mount', ['-o', 'remount,bind,ro', dir], { stdio: 'ignore' })
    } catch {
      spawnSync('umount', [dir], { stdio: 'ignore' })
      if (process.getuid?.() === 0) return t.skip('root may not mount here, and nothing else refuses root')
      execFileSync('chmod', ['-R', 'a-w', dir])
    }
    try {
      await refusedUntouched(dir, /postrider\.db|copy-/)
    } finally {
      spawnSync('umount', [dir], { stdio: 'ignore' })
      execFileSync('chmod', ['-R', 'u+w', dir])
    }
  })
})

describe('the database', () => {
  test('of a newer version', async () => {
    const dir = copy()
    const newer = new Database(join(dir, 'postrider.db'))
    newer.pragma('user_version = 1000')
    newer.close()
    await refusedUntouched(dir, /newer Postrider/)
  })

  test('that is not a database', async () => {
    const dir = copy()
    writeFileSync(join(dir, 'postrider.db'), 'These are my notes.\n'.repeat(1000))
    await refusedUntouched(dir, /postrider\.db is corrupt/)
  })

  test('with a corrupt header', async () => {
    const dir = copy()
    damage(dir, 0, 16)
    await refusedUntouched(dir, /postrider\.db is corrupt/)
  })

  test('with a corrupt first page', async () => {
    const dir = copy()
    damage(dir, 100, 4096)
    await refusedUntouched(dir, /postrider\.db is corrupt/)
  })

  test('with corrupt pages after the first', async () => {
    const dir = copy()
    damage(dir, 4096, Infinity)
    await refusedUntouched(dir, /postrider\.db is corrupt/)
  })

  test('with one corrupt page that a command reads', async () => {
    const dir = copy()
    const file = join(dir, 'postrider.db')
    const page = readFileSync(file).indexOf('ann@owner.test') & ~4095
    damage(dir, page, page + 4096)
    const earlier = digest(file)
    for (const argv of [
      ['user', 'list'],
      ['user', 'add', 'bob@owner.test'],
      ['token', 'create', '--user', 'ann@owner.test', '--name', 'n', '--scopes', 'all', '--duration', '1_month'],
    ])
      assert.match(await fails(dir, ...argv), /postrider\.db is corrupt/)
    assert.equal(digest(file), earlier, 'the file was changed')
  })

  test('truncated in the middle', async () => {
    const dir = copy()
    truncateSync(join(dir, 'postrider.db'), 4096 * 5)
    await refusedUntouched(dir, /postrider\.db is corrupt/)
  })

  test('locked by another process', async () => {
    const dir = copy()
    const other = new Database(join(dir, 'postrider.db'))
    other.pragma('locking_mode = exclusive')
    other.exec('begin exclusive')
    try {
      assert.match(await fails(dir, 'domain', 'list'), /postrider\.db is locked/)
    } finally {
      other.exec('rollback')
      other.close()
    }
    assert.match(await succeeds(dir, 'domain', 'list'), /here\.test/)
  })
})

describe('a disk without inodes', () => {
  test('is full: rejects new email although it has free bytes (D73)', (t) => {
    using disk = smallDisk(join(folder, 'few'), 'size=64m,nr_inodes=1100')
    if (!disk) return t.skip('a small disk cannot be mounted here')
    const space = new Space({ dataDir: disk.dir, reserve: () => 1024 })
    assert.equal(space.low, false)
    for (let made = 0; made < 200; made++) writeFileSync(join(disk.dir, String(made)), '')
    assert.equal(space.low, true)
    assert.ok(space.free > space.reserve)
  })
})

describe('a full disk', () => {
  let disk: ReturnType<typeof smallDisk>
  let mounted: string | undefined
  before(() => (mounted = (disk = smallDisk(join(folder, 'small'), 'size=3m'))?.dir))
  after(() => disk?.[Symbol.dispose]())
  const fill = (left: number): void => disk?.fill(left)

  // Frees the disk for the next test.
  afterEach(() => disk?.clear())

  test('fails the creation of a data directory', async (t) => {
    if (!mounted) return t.skip('a small disk cannot be mounted here')
    fill(32_768)
    const dir = join(mounted, 'new')
    assert.ok((await fails(dir, 'serve')).includes(dir))
    // The failed start made no changes.
    assert.deepEqual(existsSync(dir) ? readdirSync(dir) : [], [])
    rmSync(join(mounted, 'filler'))
    // Leftovers of the failed start do not prevent the next one.
    makeInstallation(dir)
    await succeeds(dir, 'user', 'list')
  })

  // At 0 bytes even the shared memory file cannot be created. With a little more, the commit fails.
  for (const left of [0, 40_960])
    test(`rejects a write with a sentence at ${left} free bytes, and keeps the stored data intact`, async (t) => {
      if (!mounted) return t.skip('a small disk cannot be mounted here')
      const dir = join(mounted, `data-${left}`)
      cpSync(good, dir, { recursive: true })
      fill(left)
      assert.match(await fails(dir, 'domain', 'add', 'new.test', '--user', 'ann@owner.test'), /full/)
      if (left === 0) assert.match(await fails(dir, 'serve'), /full/)
      rmSync(join(mounted, 'filler'))
      const check = new Database(join(dir, 'postrider.db'))
      assert.equal(check.pragma('integrity_check', { simple: true }), 'ok')
      check.close()
      const list = JSON.parse(await succeeds(dir, '--json', 'domain', 'list')) as { name: string }[]
      assert.deepEqual(
        list.map(({ name }) => name),
        ['here.test'],
      )
      await succeeds(dir, 'domain', 'add', 'new.test', '--user', 'ann@owner.test')
    })

  test('a backup or a restore reports it, and no corrupt backup', async (t) => {
    if (!mounted) return t.skip('a small disk cannot be mounted here')
    const zip = join(folder, 'whole.zip')
    const dir = join(folder, 'backed-up')
    cpSync(good, dir, { recursive: true })
    await succeeds(dir, 'backup', zip)
    fill(131_072)
    assert.match(await fails(dir, 'backup', join(mounted, 'small.zip')), /is too full for a copy of the database/)
    const target = join(mounted, 'restored')
    const said = await fails(target, 'restore', '--without-ledger', zip)
    assert.match(said, /has \d+ MB free, and .*whole\.zip temporarily needs \d+ MB; free some space there/)
    assert.ok(said.includes(mounted))
    rmSync(join(mounted, 'filler'))
    await succeeds(target, 'restore', '--without-ledger', zip)
  })

  test('reports a file size limit of the system with a sentence, without corruption', async () => {
    const dir = join(folder, 'limited')
    const program = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))
    // In blocks of 512 bytes.
    const { status, stdout, stderr } = spawnSync(
      'sh',
      ['-c', 'ulimit -f 96; exec "$0" "$@"', process.execPath, program, 'serve'],
      { encoding: 'utf8', cwd: folder, env: { PATH: process.env['PATH'], ...settings(dir).env } },
    )
    sentenceOf({ code: status ?? -1, stdout, stderr })
    makeInstallation(dir)
    await succeeds(dir, 'user', 'add', 'ann@owner.test')
    assert.deepEqual(
      readdirSync(dir).filter((name) => !/^(postrider\.db(-wal|-shm)?|instance\.key)$/.test(name)),
      [],
      'something was left behind',
    )
  })
})

describe('settings that can only be checked at the start', () => {
  for (const [what, env, about] of [
    ['an address of another machine', { POSTRIDER_HTTP_LISTEN: '192.0.2.1:0' }, /192\.0\.2\.1:0.*http\.listen/],
    [
      'a name that is none',
      { POSTRIDER_HTTP_LISTEN: 'no.such.host.invalid:0' },
      /no\.such\.host\.invalid.*http\.listen/,
    ],
    ['a DNS server by name', { POSTRIDER_DNS_SERVERS: 'dns.example.org:53' }, /dns\.servers/],
  ] as const)
    test(what, async () => {
      const dir = copy()
      const given = settings(dir)
      const said = sentenceOf(await commands.run(['serve'], { ...given, env: { ...given.env, ...env } }))
      assert.match(said, about)
    })
})
