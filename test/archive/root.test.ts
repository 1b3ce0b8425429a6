// Commands of root on a data directory of the service's user, who has put links there.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { asCaller, isLedBy } from '../../src/base/ownership.ts'
import { giveDataDir } from '../../src/cli/installation.ts'
import { start } from '../commands/command.ts'

// Numbers without a name on any machine that runs this.
const owner = { uid: 61_241, gid: 61_242 }
const skip = process.getuid?.() === 0 ? false : 'only root can be led by the links of another user'
const top = mkdtempSync(join(tmpdir(), 'postrider-root-'))
after(() => rmSync(top, { recursive: true, force: true }))

/** A data directory of the owner with an installation, below a folder that is root's and open. */
async function installation(name: string): Promise<{ place: string; dataDir: string; secret: string }> {
  chmodSync(top, 0o755)
  const place = join(top, name)
  mkdirSync(place)
  chmodSync(place, 0o755)
  const dataDir = join(place, 'data')
  mkdirSync(dataDir, { mode: 0o700 })
  await well(dataDir, 'user', 'add', 'ann@here.test')
  giveDataDir(dataDir, owner)
  const secret = join(place, 'secret')
  writeFileSync(secret, 'for root alone\n', { mode: 0o600 })
  return { place, dataDir, secret }
}

async function run(dataDir: string, ...argv: string[]): Promise<{ code: number | NodeJS.Signals; stderr: string }> {
  const running = start(argv, top, { POSTRIDER_DATA_DIR: dataDir, POSTRIDER_CONFIG: '' })
  running.child.stdin.end()
  return { code: await running.ended, stderr: running.stderr() }
}

async function well(dataDir: string, ...argv: string[]): Promise<void> {
  const { code, stderr } = await run(dataDir, ...argv)
  assert.equal(code, 0, stderr)
}

/** The files below a directory that belong to root. */
const ofRoot = (dir: string): string[] =>
  (readdirSync(dir, { recursive: true }) as string[]).filter((name) => statSync(join(dir, name)).uid === 0)

describe('root', { skip }, () => {
  test('works as the owner of the data directory, and leaves there nothing that is its own (D119)', async () => {
    const { dataDir } = await installation('own')
    await well(dataDir, 'user', 'add', 'bob@here.test')
    assert.deepEqual(ofRoot(dataDir), [])
  })

  test('starts a program wholly as the owner: it is not root and cannot be again (D119)', async () => {
    const { dataDir } = await installation('started')
    const script = `
      import { becomeOwner, spawnAsOwner } from ${JSON.stringify(new URL('../../src/base/ownership.ts', import.meta.url))}
      becomeOwner(${JSON.stringify(dataDir)})
      const ids = ['/^(Uid|CapPrm):/ { print $2, $3, $4 }', '/proc/self/status']
      spawnAsOwner('awk', ids, { stdio: 'inherit' })`
    const printed = execFileSync(process.execPath, ['--input-type=module', '--eval', script], { encoding: 'utf8' })
    assert.deepEqual(printed.trim().split(/\s+/), [owner.uid, owner.uid, owner.uid, '0000000000000000'].map(String))
  })

  test('gives nothing away through a link to a directory (D119)', async () => {
    const { dataDir, place } = await installation('linked')
    const elsewhere = join(place, 'elsewhere')
    mkdirSync(elsewhere)
    writeFileSync(join(elsewhere, 'shadow'), 'x')
    symlinkSync(elsewhere, join(dataDir, 'etc'))
    await well(dataDir, 'user', 'list')
    assert.equal(statSync(elsewhere).uid, 0)
    assert.equal(statSync(join(elsewhere, 'shadow')).uid, 0)
  })

  test('writes a backup where root alone may, and reads and writes nothing through links in the data (D119)', async () => {
    const { dataDir, place, secret } = await installation('backup')
    const closed = join(place, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    mkdirSync(join(dataDir, 'spool'), { recursive: true })
    symlinkSync(secret, join(dataDir, 'spool', 'leak'))
    symlinkSync(secret, join(dataDir, 'smtp-certificate.pem'))
    symlinkSync(secret, join(dataDir, 'last-backup'))
    symlinkSync(secret, join(dataDir, 'last-backup-folder'))
    const { code, stderr } = await run(dataDir, 'backup', join(closed, 'first.zip'))
    assert.equal(code, 1)
    assert.match(stderr, /last-backup-folder is not a file \(ELOOP\); move away what is in its place/)
    rmSync(join(dataDir, 'last-backup-folder'))
    const target = join(closed, 'b.zip')
    await well(dataDir, 'backup', target)
    assert.equal(readFileSync(secret, 'utf8'), 'for root alone\n')
    assert.deepEqual([statSync(target).uid, statSync(target).mode & 0o777], [0, 0o600])
    assert.deepEqual(readdirSync(closed), ['b.zip'])
    const octets = readFileSync(target)
    for (const name of ['leak', 'smtp-certificate', 'for root alone']) assert.ok(!octets.includes(name), name)
    const restored = join(place, 'restored')
    mkdirSync(restored, { mode: 0o700 })
    chownSync(restored, owner.uid, owner.gid)
    await well(restored, 'restore', target, '--without-ledger')
    assert.deepEqual(ofRoot(restored), [])
    await well(restored, 'verify')
  })

  test('marks no ledger that is a link to a file of root (D119)', async () => {
    const { dataDir, place, secret } = await installation('ledger')
    rmSync(join(dataDir, 'erasures.ledger'), { force: true })
    symlinkSync(secret, join(dataDir, 'erasures.ledger'))
    const { code, stderr } = await run(dataDir, 'backup', join(place, 'b.zip'))
    assert.equal(code, 1, stderr)
    assert.equal(readFileSync(secret, 'utf8'), 'for root alone\n')
    assert.ok(!existsSync(join(place, 'b.zip')))
  })

  test('restores nothing from, and writes no backup to, where the owner leads it (D119)', async () => {
    const { dataDir, place, secret } = await installation('led')
    symlinkSync(secret, join(dataDir, 'b.zip'))
    const empty = join(place, 'empty')
    mkdirSync(empty, { mode: 0o700 })
    chownSync(empty, owner.uid, owner.gid)
    assert.match(
      (await run(empty, 'restore', join(dataDir, 'b.zip'))).stderr,
      /cannot be read \(EACCES for user 61241\); see that it is there/,
    )
    const closed = join(place, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    symlinkSync(closed, join(dataDir, 'folder'))
    const { code, stderr } = await run(dataDir, 'backup', join(dataDir, 'folder', 'b.zip'))
    assert.equal(code, 1, stderr)
    assert.deepEqual(readdirSync(closed), [])
  })

  test('knows who can lead a path elsewhere: by a directory on the way, or by what a link passes (D119)', async () => {
    const { dataDir, place } = await installation('way')
    assert.equal(isLedBy(join(place, 'b.zip'), owner), false)
    assert.equal(isLedBy(join(dataDir, 'b.zip'), owner), true)
    symlinkSync(place, join(dataDir, 'up'))
    assert.equal(isLedBy(join(dataDir, 'up', 'b.zip'), owner), true)
    symlinkSync(join(dataDir, 'up'), join(place, 'round'))
    assert.equal(isLedBy(join(place, 'round', 'b.zip'), owner), true)
    assert.equal(
      asCaller(() => process.geteuid!()),
      0,
    )
  })

  test('does not follow a link of another user to a data directory of its own (D119)', async () => {
    const { dataDir, place } = await installation('foreign')
    const roots = join(place, 'roots')
    mkdirSync(roots, { mode: 0o700 })
    const hidden = join(dataDir, 'moved')
    symlinkSync(roots, hidden)
    lchownSync(hidden, owner.uid, owner.gid)
    const led = start(['user', 'list'], top, { POSTRIDER_DATA_DIR: hidden, POSTRIDER_CONFIG: '' })
    assert.equal(await led.ended, 1)
    assert.deepEqual(readdirSync(roots), [])
  })

  test('serves as the owner for good, once its ports are open (D119)', async () => {
    const { dataDir, place } = await installation('serve')
    const config = join(place, 'here.toml')
    writeFileSync(
      config,
      `hostname = "mx.here.test"\ndata_dir = ${JSON.stringify(dataDir)}\n[http]\nlisten = "127.0.0.1:0"\n[smtp]\nlisten = ["127.0.0.1:0"]\n`,
    )
    const server = start(['--config', config, 'serve'], top)
    const [, http] = await server.said(/"event":"ready".*?"http":"([^"]+)"/)
    assert.equal((await fetch(`http://${http}/health`)).status, 200)
    const ids = /^Uid:\s+(\d+)\s+(\d+)\s+(\d+)/m.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))
    server.child.kill('SIGTERM')
    assert.equal(await server.ended, 0)
    assert.deepEqual(
      ids?.slice(1),
      [owner, owner, owner].map(({ uid }) => String(uid)),
    )
    assert.deepEqual(ofRoot(dataDir), [])
  })
})
