// Backups and restores that are killed at each of their steps, and full disks: no backup is lost, and the next run
// succeeds.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import Database from 'better-sqlite3'
import { newIdentity, recipientOf } from '../../src/archive/encryption.ts'
import { Commands, start } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { SERVER_ENVIRONMENT } from '../kit/environment.ts'
import { isOver, until } from '../kit/until.ts'
import { documentedScript } from '../archive/destination-suite.ts'
import { backupsIn } from '../archive/stored.ts'
import { makeInstallation } from '../kit/installation.ts'

const folder = temporaryDirectory('killed')
const commands = new Commands(folder)
after(async () => {
  await commands.close()
})

const dataDir = join(folder, 'data')
const to = join(folder, 'to')
const env = { POSTRIDER_DATA_DIR: dataDir, POSTRIDER_CONFIG: '', POSTRIDER_BACKUP_TO: to }
const ran = async (more: Record<string, string>, ...argv: string[]): Promise<{ stdout: string; stderr: string }> => {
  const { code, stderr, stdout } = await commands.run(argv, { env: { ...env, ...more }, bare: true })
  assert.equal(code, 0, stdout + stderr)
  return { stdout, stderr }
}
const well = async (more: Record<string, string>, ...argv: string[]): Promise<string> => {
  const { stdout, stderr } = await ran(more, ...argv)
  return stdout + stderr
}

before(async () => {
  mkdirSync(dataDir, { mode: 0o700 })
  mkdirSync(to)
  makeInstallation(dataDir)
  const database = new Database(join(dataDir, 'postrider.db'))
  // Incompressible bytes, so that a transfer takes time.
  database.exec('create table ballast (octets blob)')
  const insert = database.prepare('insert into ballast values (randomblob(1000000))')
  database.transaction(() => {
    for (let n = 0; n < 40; n++) insert.run()
  })()
  database.close()
  await well({}, 'backup', 'now')
})

/** The size of the files below a directory. Each file counts once, even with several links. */
function bytesBelow(dir: string): number {
  const sizes = new Map<number, number>()
  for (const name of readdirSync(dir, { recursive: true }) as string[]) {
    const found = statSync(join(dir, name), { throwIfNoEntry: false })
    if (found?.isFile()) sizes.set(found.ino, found.size)
  }
  return [...sizes.values()].reduce((sum, size) => sum + size, 0)
}

test('while an encrypted backup is uploaded, this disk only contains the snapshot of the database', async () => {
  const temporary = join(folder, 'temporary')
  mkdirSync(temporary)
  const database = statSync(join(dataDir, 'postrider.db')).size
  const before = bytesBelow(dataDir)
  const backup = start(['backup', 'now'], folder, {
    ...env,
    TMPDIR: temporary,
    POSTRIDER_BACKUP_BANDWIDTH: '20MB',
    POSTRIDER_BACKUP_RECIPIENTS: await recipientOf(await newIdentity()),
  })
  let most = 0
  let over = false
  void backup.ended.then(() => (over = true))
  await until(() => {
    most = Math.max(most, bytesBelow(dataDir) + bytesBelow(temporary) - before)
    return over
  }, 'its end')
  assert.equal(await backup.ended, 0)
  assert.ok(most > database / 2, `${most} bytes: the snapshot was not seen`)
  assert.ok(most < database * 1.2, `${most} bytes beside a database of ${database}`)
  assert.deepEqual(names(temporary), [])
  for (const name of names(to).filter((each) => each.includes('.age'))) rmSync(join(to, name))
})

const names = (dir: string): string[] => readdirSync(dir)
/** Makes the next backup send the whole database. */
const forgetSent = (): void => rmSync(join(dataDir, 'backup-state'), { recursive: true, force: true })

for (const [step, more, isThere] of [
  ['the copy is made', {}, () => names(dataDir).some((name) => name.startsWith('.postrider-backup-'))],
  ['it is sent', { POSTRIDER_BACKUP_BANDWIDTH: '1MB' }, () => names(to).some((name) => name.endsWith('.part'))],
] as const)
  test(`a backup killed while ${step} loses no backup and leaves no partial one, and the next run makes one`, async () => {
    const before = backupsIn(to)
    forgetSent()
    const backup = start(['backup', 'now'], folder, { ...env, ...more })
    await until(isThere, step)
    backup.child.kill('SIGKILL')
    assert.equal(await backup.ended, 'SIGKILL')
    assert.deepEqual(backupsIn(to), before)
    await well({}, 'restore', '--check', to)
    await well({}, 'backup', 'now')
    // No temporary files remain next to the data.
    assert.deepEqual(
      names(dataDir).filter((name) => name.startsWith('.postrider-backup-')),
      [],
    )
    assert.equal(backupsIn(to).length, before.length + 1)
  })

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  test(`a backup stopped by ${signal} during the upload leaves no partial object and no copy`, async () => {
    rmSync(join(to, names(to).find((name) => name.endsWith('.part')) ?? 'none'), { force: true })
    forgetSent()
    const backup = start(['backup', 'now'], folder, { ...env, POSTRIDER_BACKUP_BANDWIDTH: '1MB' })
    await until(() => names(to).some((name) => name.endsWith('.part')), 'the part')
    backup.child.kill(signal)
    assert.equal(await backup.ended, signal)
    assert.deepEqual(
      [...names(to), ...names(dataDir)].filter((name) => /\.part$|^\.postrider-backup-/.test(name)),
      [],
    )
  })

/** Begins a backup to a command, a script of sh with a folder, the action and the name, and waits until that runs. */
async function toCommand(script: string) {
  const own = mkdtempSync(join(folder, 'command-'))
  const [pid, file] = [join(own, 'pid'), join(own, 'keep.sh')]
  const kept = join(own, 'kept')
  mkdirSync(kept)
  writeFileSync(file, script)
  const line = `exec:/bin/sh -c 'test $2 != put || echo $$ >${pid}; exec /bin/sh ${file} "$@"' sh ${kept} {action} {name}`
  const backup = start(['backup', 'now'], folder, {
    ...env,
    POSTRIDER_BACKUP_TO: line,
    POSTRIDER_BACKUP_RECIPIENTS: await recipientOf(await newIdentity()),
    POSTRIDER_BACKUP_BANDWIDTH: '1MB',
  })
  await until(() => existsSync(pid) && readFileSync(pid, 'utf8').endsWith('\n'), 'the command')
  return { ...backup, kept, line, command: Number(readFileSync(pid, 'utf8')) }
}

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  test(`a backup stopped by ${signal} kills its command with all its processes`, async () => {
    const { child, command, ended } = await toCommand('test "$2" != put || exec sleep 333\n')
    child.kill(signal)
    assert.equal(await ended, signal)
    await until(() => isOver(command), 'the end of the command')
  })

test('never restores a backup to a command that was killed, although the command stores a part of it', async () => {
  const { child, command, ended, kept, line } = await toCommand(documentedScript('keep-backup'))
  await until(() => names(kept).some((name) => name.endsWith('.part')), 'the draft')
  child.kill('SIGKILL')
  assert.equal(await ended, 'SIGKILL')
  await until(() => isOver(command), 'the end of the command')
  assert.equal(names(kept).filter((name) => name.endsWith('.json')).length, 0)
  const { code, stderr } = await commands.run(['restore', '--check', line], { env, bare: true })
  assert.equal(code, 1)
  assert.match(stderr, /has no backup with its manifest|has no backup;/)
})

test('lists a backup without a manifest as incomplete, never selects it, and restores it by its name', async () => {
  const newest = backupsIn(to).at(-1) ?? ''
  rmSync(join(to, `${newest}.json`))
  const list = await ran({}, '--json', 'backup', 'list')
  const listed = JSON.parse(list.stdout) as { name: string; complete: boolean }[]
  assert.equal(listed.find(({ name }) => name === newest)?.complete, false)
  const check = await ran({}, '--json', 'restore', '--check', to)
  const { name } = JSON.parse(check.stdout) as { name: string }
  assert.ok(!name.endsWith(newest))
  // Restoring an older backup is never silent.
  assert.match(check.stderr, new RegExp(newest))
  // The backup itself is complete: the list names the command that restores it, and this command works.
  assert.match(
    await well({}, 'restore', '--list', to),
    new RegExp(`no manifest.*${newest}\n[^]*${newest}\\.json is missing; .* by its name\\.`),
  )
  assert.match(await well({}, 'restore', '--check', join(to, newest)), /was test-restored into .* and verified/)
})

test('a restore killed while it downloads and unpacks leaves the old installation, and the next one resumes', async () => {
  const restore = start(['restore', '--replace', to], folder, { ...env, POSTRIDER_BACKUP_BANDWIDTH: '1MB' })
  await until(() => names(dataDir).some((name) => name.startsWith('.restore-')), 'the restore')
  restore.child.kill('SIGKILL')
  assert.equal(await restore.ended, 'SIGKILL')
  assert.equal(
    names(dataDir).some((name) => name.startsWith('set-aside-')),
    false,
  )
  assert.match(await well({}, 'verify'), /are consistent/)
  assert.match(await well({}, 'restore', '--replace', to), /was left by an interrupted restore/)
  assert.match(await well({}, 'verify'), /are consistent/)
  assert.equal(
    names(dataDir).some((name) => name.startsWith('.restore-')),
    false,
  )
})

/** A module that kills its process after the nth rename in the data directory. */
function killing(nth: number): string {
  const file = join(folder, `kill-${nth}.mjs`)
  writeFileSync(
    file,
    `import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
const rename = fs.renameSync
let left = ${nth}
fs.renameSync = (from, to) => {
  rename(from, to)
  if (String(to).startsWith(${JSON.stringify(dataDir)}) && --left === 0) process.kill(process.pid, 'SIGKILL')
}
syncBuiltinESMExports()
`,
  )
  return `--import=${file}`
}

const setAsides = (): string[] => names(dataDir).filter((name) => name.startsWith('set-aside-'))
const key = (dir: string): string => readFileSync(join(dir, 'instance.key'), 'utf8')
const spoolOf = (dir: string): string[] => names(join(dir, 'spool')).toSorted()

// 1: before any move, 2: the database is aside, then more of it, all of it, and part of the restored one is in place.
for (const nth of [1, 2, 3, 4, 6, 8])
  test(`the next command finishes a restore that is killed at rename ${nth}, without mixed files`, async () => {
    for (const name of setAsides()) rmSync(join(dataDir, name), { recursive: true })
    const former = `former-${nth}`
    mkdirSync(join(dataDir, 'spool'), { recursive: true })
    writeFileSync(join(dataDir, 'spool', former), 'a mail')
    const own = key(dataDir)
    const restore = start(['restore', '--replace', to], folder, { ...env, NODE_OPTIONS: killing(nth) })
    assert.equal(await restore.ended, 'SIGKILL', restore.stderr())
    if (nth === 4) {
      // As systemd does when it restarts the service.
      const ports = { POSTRIDER_HTTP_LISTEN: '127.0.0.1:0', POSTRIDER_SMTP_LISTEN: '127.0.0.1:0' }
      const server = start(['serve'], folder, { ...env, ...ports, ...SERVER_ENVIRONMENT })
      await server.said(/"event":"server_ready"/)
      server.child.kill('SIGTERM')
      assert.equal(await server.ended, 0)
      assert.match(
        server.stderr(),
        /Completed the interrupted replacement of the data in .*; the earlier data is in .*set-aside-\d+\.\n/,
      )
    } else if (nth === 6) {
      const { code, stderr } = await commands.run(['restore', to], { env, bare: true })
      assert.equal(code, 1)
      assert.match(stderr, /the earlier data is in .*set-aside-\d+\.\n.*already contains a database; add --replace/)
    } else assert.match(await well({}, 'verify'), /consistent[^]*Completed the interrupted replacement/)
    const [aside = '', ...more] = setAsides()
    assert.deepEqual(more, [])
    assert.deepEqual(spoolOf(join(dataDir, aside)).includes(former), true)
    assert.deepEqual(spoolOf(dataDir).includes(former), false)
    assert.deepEqual([key(dataDir), key(join(dataDir, aside))], [own, own])
    assert.ok(existsSync(join(dataDir, aside, 'postrider.db')))
    assert.match(await well({}, 'verify'), /^Database and spool are consistent\.(?![^]*Completed the interrupted)/)
    assert.deepEqual(
      names(dataDir).filter((name) => /^\.(?:restore|exchange)-/.test(name)),
      [],
    )
  })

test('a backup fails before the copy and stores a row if the disk has no space besides the reserve', async () => {
  const { code, stderr } = await commands.run(['backup', 'now'], {
    env: { ...env, POSTRIDER_STORAGE_RESERVE: '900000GB' },
    bare: true,
  })
  assert.equal(code, 1)
  assert.match(
    stderr,
    /^postrider: The disk of .* MB free, but the backup needs .*"storage\.reserve" .*; free some space\.\n$/,
  )
  const database = new Database(join(dataDir, 'postrider.db'), { readonly: true })
  const { fault } = database.prepare<[], { fault: string }>('select fault from backup_runs order by key desc').get()!
  database.close()
  assert.match(fault, /MB free, but the backup needs .*"storage\.reserve"/)
})

test('the second of two backups at once reports the first', async () => {
  const first = start(['backup', 'now'], folder, { ...env, POSTRIDER_BACKUP_BANDWIDTH: '1MB' })
  await until(() => names(dataDir).some((name) => name.startsWith('.postrider-backup-')), 'the copy')
  for (const words of [
    ['backup', 'now'],
    ['restore', '--check', to],
  ]) {
    const { code, stderr } = await commands.run(words, { env, bare: true })
    assert.equal(code, 1)
    assert.match(stderr, /A backup, .* is in progress; wait until it is complete\.\n$/)
  }
  first.child.kill('SIGTERM')
  assert.equal(await first.ended, 'SIGTERM')
  assert.equal(existsSync(join(dataDir, 'postrider.db')), true)
  assert.deepEqual(
    names(dataDir).filter((name) => name.startsWith('.postrider-backup-')),
    [],
  )
})
