// Backups and restores that are killed at each of their steps, and disks without room: nothing is lost, and the next
// run goes on.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import Database from 'better-sqlite3'
import { newIdentity, recipientOf } from '../../src/archive/seal.ts'
import { Commands, start } from '../commands/command.ts'
import { SERVER_ENVIRONMENT } from '../kit/environment.ts'
import { isOver, until } from '../kit/until.ts'
import { keepScript } from './place-suite.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-killed-'))
const commands = new Commands(folder)
after(async () => {
  await commands.close()
  rmSync(folder, { recursive: true, force: true })
})

const dataDir = join(folder, 'data')
const to = join(folder, 'to')
const env = { POSTRIDER_DATA_DIR: dataDir, POSTRIDER_CONFIG: '', POSTRIDER_BACKUP_TO: to }
const well = async (more: Record<string, string>, ...argv: string[]): Promise<string> => {
  const { code, stderr, stdout } = await commands.run(argv, { env: { ...env, ...more }, bare: true })
  assert.equal(code, 0, stdout + stderr)
  return stdout + stderr
}

before(async () => {
  mkdirSync(dataDir, { mode: 0o700 })
  mkdirSync(to)
  await well({}, 'user', 'list')
  const database = new Database(join(dataDir, 'postrider.db'))
  // Octets that do not get smaller: a transfer takes its time.
  database.exec('create table ballast (octets blob)')
  const insert = database.prepare('insert into ballast values (randomblob(1000000))')
  database.transaction(() => {
    for (let n = 0; n < 40; n++) insert.run()
  })()
  database.close()
  await well({}, 'backup', 'now')
})

/** The octets of the files below a directory, each once however many names it has. */
function octetsBelow(dir: string): number {
  const sizes = new Map<number, number>()
  for (const name of readdirSync(dir, { recursive: true }) as string[]) {
    const found = statSync(join(dir, name), { throwIfNoEntry: false })
    if (found?.isFile()) sizes.set(found.ino, found.size)
  }
  return [...sizes.values()].reduce((sum, size) => sum + size, 0)
}

test('while a sealed backup is sent, this disk holds the snapshot of the database, and nothing else of it (B6)', async () => {
  const temporary = join(folder, 'temporary')
  mkdirSync(temporary)
  const database = statSync(join(dataDir, 'postrider.db')).size
  const before = octetsBelow(dataDir)
  const backup = start(['backup', 'now'], folder, {
    ...env,
    TMPDIR: temporary,
    POSTRIDER_BACKUP_BANDWIDTH: '20MB',
    POSTRIDER_BACKUP_RECIPIENTS: recipientOf(newIdentity()),
  })
  let most = 0
  let over = false
  void backup.ended.then(() => (over = true))
  await until(() => {
    most = Math.max(most, octetsBelow(dataDir) + octetsBelow(temporary) - before)
    return over
  }, 'its end')
  assert.equal(await backup.ended, 0)
  assert.ok(most > database / 2, `${most} octets: the snapshot was not seen`)
  assert.ok(most < database * 1.2, `${most} octets beside a database of ${database}`)
  assert.deepEqual(names(temporary), [])
  for (const name of names(to).filter((each) => each.includes('.age'))) rmSync(join(to, name))
})

const names = (dir: string): string[] => readdirSync(dir)
const isObject = (name: string): boolean => name.startsWith('postrider-') && !name.endsWith('.json')

for (const [step, more, isThere] of [
  ['the copy is made', {}, () => names(dataDir).some((name) => name.startsWith('.postrider-backup-'))],
  ['it is sent', { POSTRIDER_BACKUP_BANDWIDTH: '1MB' }, () => names(to).some((name) => name.endsWith('.part'))],
] as const)
  test(`killed while ${step}: no backup is lost or half there, and the next run makes one (B10)`, async () => {
    const before = names(to).filter((name) => name.startsWith('postrider-'))
    const backup = start(['backup', 'now'], folder, { ...env, ...more })
    await until(isThere, step)
    backup.child.kill('SIGKILL')
    assert.equal(await backup.ended, 'SIGKILL')
    assert.deepEqual(
      names(to).filter((name) => name.startsWith('postrider-')),
      before,
    )
    await well({}, 'restore', '--check', to)
    await well({}, 'backup', 'now')
    // What was left beside the data is gone.
    assert.deepEqual(
      names(dataDir).filter((name) => name.startsWith('.postrider-backup-')),
      [],
    )
    assert.equal(names(to).filter((name) => name.startsWith('postrider-')).length, before.length + 2)
  })

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  test(`ended by ${signal} while it is sent, a backup leaves no part and no copy (B4)`, async () => {
    rmSync(join(to, names(to).find((name) => name.endsWith('.part')) ?? 'none'), { force: true })
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
  const line = `exec:/bin/sh -c 'test $2 != put || echo $$ >${pid}; exec /bin/sh ${file} "$@"' sh ${kept} {action} {name} {from}`
  const backup = start(['backup', 'now'], folder, {
    ...env,
    POSTRIDER_BACKUP_TO: line,
    POSTRIDER_BACKUP_RECIPIENTS: recipientOf(newIdentity()),
    POSTRIDER_BACKUP_BANDWIDTH: '1MB',
  })
  await until(() => existsSync(pid) && readFileSync(pid, 'utf8').endsWith('\n'), 'the command')
  return { ...backup, kept, command: Number(readFileSync(pid, 'utf8')) }
}

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  test(`ended by ${signal}, a backup ends its command with all that it started (B8)`, async () => {
    const { child, command, ended } = await toCommand('test "$2" != put || exec sleep 333\n')
    child.kill(signal)
    assert.equal(await ended, signal)
    await until(() => isOver(command), 'the end of the command')
  })

test('a command of docs/backup.md stores nothing of a backup that was killed, though its stdin ends (B8)', async () => {
  const { child, command, ended, kept } = await toCommand(keepScript)
  await until(() => names(kept).some((name) => name.endsWith('.part')), 'the part')
  child.kill('SIGKILL')
  assert.equal(await ended, 'SIGKILL')
  await until(() => isOver(command), 'the end of the command')
  assert.deepEqual(
    names(kept).filter((name) => !name.endsWith('.part')),
    [],
  )
})

test('an object without a manifest is told and chosen by nobody, and restored by its name (B10)', async () => {
  const complete = names(to).filter(isObject)
  const newest = complete.toSorted().at(-1) ?? ''
  rmSync(join(to, `${newest}.json`))
  const listed = JSON.parse(await well({}, '--json', 'backup', 'list')) as { name: string; complete: boolean }[]
  assert.equal(listed.find(({ name }) => name === newest)?.complete, false)
  const { name } = JSON.parse(await well({}, '--json', 'restore', '--check', to)) as { name: string }
  assert.ok(!name.endsWith(newest))
  // Copied without it, it is whole: the list says what to do, and that works.
  assert.match(
    await well({}, 'restore', '--list', to),
    new RegExp(`no manifest.*${newest}\n[^]*${newest}\\.json is missing; .* by its name\\.`),
  )
  assert.match(await well({}, 'restore', '--check', join(to, newest)), /was put back/)
})

test('a restore that is killed while it brings and unpacks leaves the old installation, and the next one goes on (B14)', async () => {
  const restore = start(['restore', '--replace', to], folder, { ...env, POSTRIDER_BACKUP_BANDWIDTH: '1MB' })
  await until(() => names(dataDir).some((name) => name.startsWith('.restore-')), 'the restore')
  restore.child.kill('SIGKILL')
  assert.equal(await restore.ended, 'SIGKILL')
  assert.equal(
    names(dataDir).some((name) => name.startsWith('set-aside-')),
    false,
  )
  assert.match(await well({}, 'verify'), /sound/)
  assert.match(await well({}, 'restore', '--replace', to), /is left of a restore that was ended before its time/)
  assert.match(await well({}, 'verify'), /sound/)
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

// 1: nothing is moved yet; 2: the database is aside; then more of it, all of it, and a part of the restored one is in.
for (const nth of [1, 2, 3, 4, 6, 8])
  test(`a restore that is killed at rename ${nth} is finished by the next command, and nothing is mixed (B14)`, async () => {
    for (const name of setAsides()) rmSync(join(dataDir, name), { recursive: true })
    const former = `former-${nth}`
    mkdirSync(join(dataDir, 'spool'), { recursive: true })
    writeFileSync(join(dataDir, 'spool', former), 'a mail')
    const own = key(dataDir)
    const restore = start(['restore', '--replace', to], folder, { ...env, NODE_OPTIONS: killing(nth) })
    assert.equal(await restore.ended, 'SIGKILL', restore.stderr())
    if (nth === 4) {
      // As systemd does by itself.
      const server = start(['serve'], folder, { ...env, ...SERVER_ENVIRONMENT })
      await server.said(/"event":"ready"/)
      server.child.kill('SIGTERM')
      assert.equal(await server.ended, 0)
      assert.match(server.stderr(), /is in its place now; what was there before is in .*set-aside-\d+\.\n/)
    } else if (nth === 6) {
      const { code, stderr } = await commands.run(['restore', to], { env, bare: true })
      assert.equal(code, 1)
      assert.match(stderr, /what was there before is in .*set-aside-\d+\.\n.*holds a database; add --replace/)
    } else assert.match(await well({}, 'verify'), /sound[^]*is in its place now/)
    const [aside = '', ...more] = setAsides()
    assert.deepEqual(more, [])
    assert.deepEqual(spoolOf(join(dataDir, aside)).includes(former), true)
    assert.deepEqual(spoolOf(dataDir).includes(former), false)
    assert.deepEqual([key(dataDir), key(join(dataDir, aside))], [own, own])
    assert.ok(existsSync(join(dataDir, aside, 'postrider.db')))
    assert.match(await well({}, 'verify'), /^Database and spool are sound\.(?![^]*in its place now)/)
    assert.deepEqual(
      names(dataDir).filter((name) => /^\.(?:restore|exchange)-/.test(name)),
      [],
    )
  })

test('a disk without room beside the reserve is said before anything is copied, and becomes a row (B5)', async () => {
  const { code, stderr } = await commands.run(['backup', 'now'], {
    env: { ...env, POSTRIDER_STORAGE_RESERVE: '900000GB' },
    bare: true,
  })
  assert.equal(code, 1)
  assert.match(
    stderr,
    /^postrider: The disk of .* MB free, too little for a copy of the database .*"storage\.reserve"\); free space\.\n$/,
  )
  const database = new Database(join(dataDir, 'postrider.db'), { readonly: true })
  const { fault } = database.prepare<[], { fault: string }>('select fault from backup_runs order by key desc').get()!
  database.close()
  assert.match(fault, /too little/)
})

test('two backups at once: the second says so (B10)', async () => {
  const first = start(['backup', 'now'], folder, { ...env, POSTRIDER_BACKUP_BANDWIDTH: '1MB' })
  await until(() => names(dataDir).some((name) => name.startsWith('.postrider-backup-')), 'the copy')
  for (const words of [
    ['backup', 'now'],
    ['restore', '--check', to],
  ]) {
    const { code, stderr } = await commands.run(words, { env, bare: true })
    assert.equal(code, 1)
    assert.match(stderr, /A backup, .* is under way; wait for its end\.\n$/)
  }
  first.child.kill('SIGTERM')
  assert.equal(await first.ended, 'SIGTERM')
  assert.equal(existsSync(join(dataDir, 'postrider.db')), true)
  assert.deepEqual(
    names(dataDir).filter((name) => name.startsWith('.postrider-backup-')),
    [],
  )
})
