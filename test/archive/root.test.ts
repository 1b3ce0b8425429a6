// Commands of root on a data directory of the service's user, who has created links in it.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { giveDataDir } from '../../src/cli/installation.ts'
import { start } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makeInstallation } from '../kit/installation.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))
// Numbers without a name on any machine that runs this.
const owner = { uid: 61_241, gid: 61_242 }
const skip = process.getuid?.() === 0 ? false : 'only root can be led by the links of another user'
const top = temporaryDirectory('root')

/** A data directory of the owner with an installation, below a folder that is root's and open. */
async function installation(name: string): Promise<{ place: string; dataDir: string; secret: string }> {
  chmodSync(top, 0o755)
  const place = join(top, name)
  mkdirSync(place)
  chmodSync(place, 0o755)
  const dataDir = join(place, 'data')
  mkdirSync(dataDir, { mode: 0o700 })
  makeInstallation(dataDir)
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

/** The standard output of a command. */
const printed = (dataDir: string, ...argv: string[]): Buffer =>
  execFileSync(process.execPath, [PROGRAM, ...argv], {
    cwd: top,
    env: { ...process.env, POSTRIDER_DATA_DIR: dataDir, POSTRIDER_CONFIG: '' },
  })

async function well(dataDir: string, ...argv: string[]): Promise<void> {
  const { code, stderr } = await run(dataDir, ...argv)
  assert.equal(code, 0, stderr)
}

/** The files below a directory that belong to root. */
const ofRoot = (dir: string): string[] =>
  (readdirSync(dir, { recursive: true }) as string[]).filter((name) => statSync(join(dir, name)).uid === 0)

describe('root', { skip }, () => {
  test('works as the owner of the data directory, and leaves no files of root in it (D119)', async () => {
    const { dataDir } = await installation('own')
    await well(dataDir, 'user', 'add', 'bob@here.test')
    assert.deepEqual(ofRoot(dataDir), [])
  })

  test('cannot become root again, and neither can an executable that it starts (D119)', async () => {
    const { dataDir } = await installation('started')
    const script = `
      import { execFileSync } from 'node:child_process'
      import { becomeOwner } from ${JSON.stringify(new URL('../../src/base/ownership.ts', import.meta.url))}
      becomeOwner(${JSON.stringify(dataDir)})
      try { process.setuid(0); console.log('root') } catch { console.log('denied') }
      const ids = ['/^(Uid|CapPrm):/ { print $2, $3, $4 }', '/proc/self/status']
      execFileSync('awk', ids, { stdio: 'inherit' })`
    const printed = execFileSync(process.execPath, ['--input-type=module', '--eval', script], { encoding: 'utf8' })
    assert.deepEqual(
      printed.trim().split(/\s+/),
      ['denied', owner.uid, owner.uid, owner.uid, '0000000000000000'].map(String),
    )
  })

  test('changes no owner through a link to a directory (D119)', async () => {
    const { dataDir, place } = await installation('linked')
    const elsewhere = join(place, 'elsewhere')
    mkdirSync(elsewhere)
    writeFileSync(join(elsewhere, 'shadow'), 'x')
    symlinkSync(elsewhere, join(dataDir, 'etc'))
    await well(dataDir, 'user', 'list')
    assert.equal(statSync(elsewhere).uid, 0)
    assert.equal(statSync(join(elsewhere, 'shadow')).uid, 0)
  })

  test('writes a backup to standard output, and neither follows nor backs up links in the data (D119)', async () => {
    const { dataDir, place, secret } = await installation('backup')
    const closed = join(place, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    mkdirSync(join(dataDir, 'spool'), { recursive: true })
    symlinkSync(secret, join(dataDir, 'spool', 'leak'))
    symlinkSync(secret, join(dataDir, 'smtp-certificate.pem'))
    symlinkSync(secret, join(dataDir, 'last-backup'))
    symlinkSync(secret, join(dataDir, 'last-backup-folder'))
    const target = join(closed, 'b.zip')
    const { code, stderr } = await run(dataDir, 'backup', target)
    assert.equal(code, 1)
    assert.match(stderr, /last-backup-folder is not a regular file \(ELOOP\); move it away\.$/m)
    rmSync(join(dataDir, 'last-backup-folder'))
    const denied = await run(dataDir, 'backup', target)
    assert.match(
      denied.stderr,
      /b\.zip cannot be written \(EACCES\): user 61241 .*write to standard output \("-"\)\.$/m,
    )
    const bytes = printed(dataDir, 'backup', '-')
    writeFileSync(target, bytes)
    assert.equal(readFileSync(secret, 'utf8'), 'for root alone\n')
    for (const name of ['leak', 'smtp-certificate', 'for root alone']) assert.ok(!bytes.includes(name), name)
    const restored = join(place, 'restored')
    mkdirSync(restored, { mode: 0o700 })
    chownSync(restored, owner.uid, owner.gid)
    assert.match((await run(restored, 'restore', target)).stderr, /EACCES for user 61241.*standard input \("-"\)\.$/m)
    const running = start(['restore', '-', '--without-ledger'], top, {
      POSTRIDER_DATA_DIR: restored,
      POSTRIDER_CONFIG: '',
    })
    running.child.stdin.end(bytes)
    assert.equal(await running.ended, 0, running.stderr())
    assert.deepEqual(ofRoot(restored), [])
    await well(restored, 'verify')
  })

  test('does not write to an erasure log that is a link to a file of root (D119)', async () => {
    const { dataDir, place, secret } = await installation('ledger')
    rmSync(join(dataDir, 'erasures.ledger'), { force: true })
    symlinkSync(secret, join(dataDir, 'erasures.ledger'))
    const { code, stderr } = await run(dataDir, 'backup', join(place, 'b.zip'))
    assert.equal(code, 1, stderr)
    assert.equal(readFileSync(secret, 'utf8'), 'for root alone\n')
    assert.ok(!existsSync(join(place, 'b.zip')))
  })

  test("does not follow the owner's links when it reads or writes a backup (D119)", async () => {
    const { dataDir, place, secret } = await installation('led')
    symlinkSync(secret, join(dataDir, 'b.zip'))
    const empty = join(place, 'empty')
    mkdirSync(empty, { mode: 0o700 })
    chownSync(empty, owner.uid, owner.gid)
    assert.match(
      (await run(empty, 'restore', join(dataDir, 'b.zip'))).stderr,
      /cannot be read \(EACCES for user 61241\); check its path and permissions, or /m,
    )
    const closed = join(place, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    symlinkSync(closed, join(dataDir, 'folder'))
    const { code, stderr } = await run(dataDir, 'backup', join(dataDir, 'folder', 'b.zip'))
    assert.equal(code, 1, stderr)
    assert.deepEqual(readdirSync(closed), [])
  })

  test("does not follow another user's link to a data directory of root (D119)", async () => {
    const { dataDir, place } = await installation('foreign')
    const roots = join(place, 'roots')
    mkdirSync(roots, { mode: 0o700 })
    const hidden = join(dataDir, 'moved')
    symlinkSync(roots, hidden)
    lchownSync(hidden, owner.uid, owner.gid)
    const around = join(place, 'around')
    symlinkSync(hidden, around)
    for (const path of [hidden, around]) {
      const { code, stderr } = await run(path, 'user', 'list')
      assert.deepEqual([code, /symbolic link of user 61241/.test(stderr)], [1, true], stderr)
    }
    assert.deepEqual(readdirSync(roots), [])
  })

  test('serves as the owner permanently (D119)', async () => {
    const { dataDir, place } = await installation('serve')
    const config = join(place, 'here.toml')
    writeFileSync(
      config,
      `hostname = "mx.here.test"\ndata_dir = ${JSON.stringify(dataDir)}\n[http]\nlisten = "127.0.0.1:0"\n[smtp]\nlisten = ["127.0.0.1:0"]\n`,
    )
    const server = start(['--config', config, 'serve'], top)
    const [, http] = await server.said(/"event":"server_ready".*?"http":"([^"]+)"/)
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
