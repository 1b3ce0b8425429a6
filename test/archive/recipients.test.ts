// The public keys that backups are encrypted to, and `postrider backup key`, which creates one: even if the file of
// public keys or the output fails, no backup is unencrypted or encrypted to a key without its secret half.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { newIdentity, recipientOf } from '../../src/archive/encryption.ts'
import { inFolder } from '../commands/beside.ts'
import { sentenceOf } from '../commands/command.ts'
import { SERVER_ENVIRONMENT } from '../kit/environment.ts'
import { makeInstallation } from '../kit/installation.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))
const { commands, place } = inFolder('postrider-recipients-')

/** Returns a data directory, a directory for its backups, and the commands that use them. */
async function scene() {
  const dataDir = place()
  const to = place()
  mkdirSync(to)
  const env = { POSTRIDER_DATA_DIR: dataDir, POSTRIDER_CONFIG: '', POSTRIDER_BACKUP_TO: to }
  const run = (...argv: string[]) => commands.run(argv, { env, bare: true })
  makeInstallation(dataDir)
  const file = join(dataDir, 'backup.recipients')
  return {
    env: { ...SERVER_ENVIRONMENT, ...env },
    file,
    run,
    lines: () => readFileSync(file, 'utf8').split('\n').filter(Boolean),
    backups: () => readdirSync(to),
  }
}

test('a backup fails, and is never unencrypted, if the file of public keys is empty, invalid, a link or a pipe', async () => {
  const { backups, file, run } = await scene()
  for (const spoil of [
    () => writeFileSync(file, ''),
    () => writeFileSync(file, '\n  \n'),
    () => writeFileSync(file, 'age1 nothing\n'),
    () => symlinkSync('/etc/passwd', file),
    () => spawnSync('mkfifo', [file]),
    () => mkdirSync(file),
  ]) {
    spoil()
    const { code, stderr, stdout } = await run('backup', 'now')
    assert.equal(code, 1)
    assert.match(stdout + stderr, /backup\.recipients.*restore it from a backup|correct it in .*backup\.recipients/)
    assert.match(sentenceOf(await run('backup', 'key')), /backup\.recipients/)
    assert.deepEqual(backups(), [])
    rmSync(file, { recursive: true })
  }
})

test('adds no public key if its secret key could not be printed', async () => {
  const { env, file } = await scene()
  for (const output of ['>/dev/full', '>&-', '>/dev/null']) {
    const shell = `exec "$0" "$@" ${output}`
    const { status, stderr } = spawnSync('sh', ['-c', shell, process.execPath, PROGRAM, 'backup', 'key'], {
      env,
      encoding: 'utf8',
    })
    assert.equal(status, 1, output)
    assert.match(stderr, /^postrider: [^\n]+\.\n$/, output)
    assert.equal(existsSync(file), false, output)
  }
})

test('stores or rejects each of several keys that are created at the same time', async () => {
  const { env, lines } = await scene()
  const made = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const child = spawn(process.execPath, [PROGRAM, '--json', 'backup', 'key'], { env })
      const [said] = await Promise.all([text(child.stdout), text(child.stderr)])
      return JSON.parse(said) as { recipient?: string; error?: object }
    }),
  )
  const told = made.flatMap(({ recipient }) => recipient ?? [])
  assert.ok(told.length > 0)
  assert.deepEqual(lines().toSorted(), told.toSorted())
  for (const { error, recipient } of made) assert.notEqual(error === undefined, recipient === undefined)
})

test('rejects the 21st public key when it is created, and reports it in a backup if the file contains it', async () => {
  const { file, lines, run } = await scene()
  const many = await Promise.all(Array.from({ length: 21 }, async () => recipientOf(await newIdentity())))
  writeFileSync(file, `${many.slice(0, 20).join('\n')}\n`)
  assert.match(sentenceOf(await run('backup', 'key')), /at most 20 public keys; remove one from .*backup\.recipients/)
  assert.equal(lines().length, 20)
  writeFileSync(file, `${many.join('\n')}\n`)
  const { stdout } = await run('backup', 'now')
  assert.match(stdout, /backup\.recipients have 21 public keys.*at most 20; remove some/)
})
