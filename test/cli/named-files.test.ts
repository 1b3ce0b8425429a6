// Files that a user names with an option, a variable or the configuration: a pipe, a device, a directory or an endless
// file is rejected in one sentence, without waiting and without using more memory.
import assert from 'node:assert/strict'
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { inFolder } from '../commands/beside.ts'
import { sentenceOf } from '../commands/command.ts'
import { makeInstallation } from '../kit/installation.ts'
import { makePipe } from '../kit/pipe.ts'

const { commands, folder } = inFolder('postrider-named-')

const dataDir = join(folder, 'data')
const zip = join(folder, 'b.zip')
const pipe = join(folder, 'pipe')
/** A sparse file, larger than every file that is read whole. */
const endless = join(folder, 'endless')

before(async () => {
  makePipe(pipe)
  writeFileSync(endless, '')
  truncateSync(endless, 3 * 1024 ** 3)
  mkdirSync(join(folder, 'to'))
  makeInstallation(dataDir)
  const { code, stderr } = await commands.run(['backup', zip], { env: { POSTRIDER_DATA_DIR: dataDir }, bare: true })
  assert.equal(code, 0, stderr)
})

type Row = readonly [what: string, words: (file: string) => readonly string[], variable?: string]

const check = ['restore', '--check']
const s3 = { POSTRIDER_BACKUP_TO: 's3://bucket/mx?endpoint=https://s3.example.test', POSTRIDER_BACKUP_RECIPIENTS: '' }
const more: Record<string, Record<string, string>> = {
  POSTRIDER_BACKUP_S3_KEY_FILE: s3,
}

const ROWS: readonly Row[] = [
  ['--config', (file) => ['--config', file, 'user', 'list']],
  ['the configuration of a variable', () => ['user', 'list'], 'POSTRIDER_CONFIG'],
  ['a value in a file', () => ['user', 'list'], 'POSTRIDER_HOSTNAME_FILE'],
  ['the secret keys of --identity', (file) => [...check, '--identity', file, zip]],
  ['the secret keys of the configuration', () => [...check, zip], 'POSTRIDER_BACKUP_IDENTITY_FILE'],
  ['the secret keys of a drill', (file) => ['backup', 'drill', '--identity', file, zip]],
  ['a ledger', (file) => [...check, '--ledger', file, zip]],
  ['the key file of a bucket', () => ['backup', 'list'], 'POSTRIDER_BACKUP_S3_KEY_FILE'],
  ['a report', (file) => ['report', 'read', file]],
]

/** A backup and an executable can be large, because they are streams, but not a pipe or a device. */
const STREAMS: readonly Row[] = [
  ['a backup', (file) => [...check, file]],
  ['a backup that is restored', (file) => ['restore', '--replace', '--without-ledger', file]],
  ['a backup of a drill', (file) => ['backup', 'drill', file]],
  ['another version', (file) => ['upgrade', '--check', file, '--unsigned']],
]

const refusal = async ([what, words, variable]: Row, file: string): Promise<string> => {
  const env = {
    POSTRIDER_DATA_DIR: dataDir,
    ...(variable !== undefined && { ...more[variable], [variable]: file }),
  }
  return sentenceOf(await commands.run(words(file), { env, bare: true }), what)
}

for (const row of [...ROWS, ...STREAMS])
  test(`${row[0]} must be a regular file: others are rejected at once in one sentence`, async () => {
    for (const file of [pipe, '/dev/zero']) assert.match(await refusal(row, file), /not a (?:regular )?file/)
    // A directory is rejected too, except for a backup, which can be in it.
    if (ROWS.includes(row)) await refusal(row, folder)
  })

for (const row of ROWS)
  test(`${row[0]} is read within a bound`, async () => {
    assert.match(await refusal(row, endless), /larger than|more than/)
  })
