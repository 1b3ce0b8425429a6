// Which ledgers of erasures tell a restore who was forgotten since the backup (D67): one of the same installation that
// goes as far as the backup. All others, and what is not a ledger, stop it.
import assert from 'node:assert/strict'
import { appendFileSync, copyFileSync, createWriteStream, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { before, test } from 'node:test'
import { ZipFile } from 'yazl'
import { parseConfig } from '../../src/base/config.ts'
import { createLog, silentLog } from '../../src/base/log.ts'
import { startAppliance } from '../../src/server/appliance.ts'
import { isMark, LEDGER, readContent, textOf, type Line } from '../../src/privacy/ledger.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { filesWith } from '../kit/files-with.ts'
import { inFolder } from '../commands/beside.ts'

const { commands, folder, place } = inFolder('postrider-ledgers-')

const PERSON = 'ann.somebody@there.test'
const zip = join(folder, 'b.zip')
/** The installation that the backup is of, and its ledger after the person was forgotten. */
const source = join(folder, 'source')
const run = (dataDir: string, ...argv: string[]) =>
  commands.run(argv, { env: { POSTRIDER_DATA_DIR: dataDir }, bare: true })
async function refused(dataDir: string, ...argv: string[]): Promise<string> {
  const { code, stderr } = await run(dataDir, ...argv)
  assert.equal(code, 1, stderr)
  assert.match(stderr, /^postrider: [^\n]+\n$/)
  return stderr
}
async function well(dataDir: string, ...argv: string[]): Promise<string> {
  const { code, stderr, stdout } = await run(dataDir, ...argv)
  assert.equal(code, 0, stderr)
  return stdout
}
const file = (name: string, text: string): string => {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

async function served(dataDir: string, log = silentLog, ledger_copy = ''): Promise<void> {
  const config = parseConfig({
    hostname: 'mx.postrider.test',
    data_dir: dataDir,
    http: { listen: '127.0.0.1:0' },
    smtp: { listen: ['127.0.0.1:0'] },
    dns: { servers: ['127.0.0.1:9'] },
    privacy: { ledger_copy },
  })
  await (await startAppliance({ config, clock: new ManualClock(), log })).stop()
}

before(async () => {
  await using postrider = await startTestAppliance({ dataDir: source })
  await postrider.activeDomain('here.test')
  const mail = { from: 'me@here.test', to: PERSON, subject: 'Hello', html: `<p>${PERSON}</p>` }
  const { status } = await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))
  assert.equal(status, 201)
  await well(source, 'backup', zip)
  copyFileSync(join(source, LEDGER), join(folder, 'before.ledger'))
  assert.equal((await postrider.api('DELETE', `/recipients/${PERSON}/forget`)).status, 202)
})

const ledger = (): string => join(source, LEDGER)
const linesOf = (path: string): Line[] => readContent(path).lines

test('a new installation in the data directory knows nobody: its ledger stops the restore', async () => {
  const dir = place()
  await served(dir)
  assert.match(await refused(dir, 'restore', '--replace', zip), /belongs to another installation.*--ledger/)
  assert.match(await well(dir, 'restore', '--replace', '--ledger', ledger(), zip), /1 erasures/)
  await served(dir)
  assert.deepEqual(
    (await filesWith(dir, PERSON)).filter((name) => !name.includes('set-aside-')),
    [],
  )
})

test('a file that is not a ledger, another installation’s or older than the backup does not count', async () => {
  const other = place()
  await served(other)
  for (const [path, said] of [
    [file('hello', 'hello'), /is not a ledger of erasures, or damaged: line 1/],
    [file('flipped', readFileSync(ledger(), 'utf8').replace('recipient_hash', 'recipient_hasi')), /damaged: line \d/],
    [file('empty', ''), /does not say whose it is/],
    [file('old', textOf(linesOf(ledger()).slice(0, 1))), /is older than the backup/],
    [join(other, LEDGER), /belongs to another installation/],
  ] as const)
    assert.match(await refused(place(), 'restore', '--ledger', path, zip), said)
})

test('--ledger takes one file and may be said again; a line that a crash cut is passed over', async () => {
  const cut = file('cut', `${readFileSync(ledger(), 'utf8')}{"id":"x","us`)
  const dir = place()
  const old = file('first', textOf(linesOf(ledger()).slice(0, 1)))
  assert.match(await well(dir, 'restore', '--ledger', old, '--ledger', cut, zip), /1 erasures/)
})

test('a restore without a ledger leaves a gap: what grows behind it does not count for the same backup', async () => {
  const dir = place()
  await well(dir, 'restore', '--without-ledger', zip)
  await served(dir)
  assert.match(await refused(dir, 'restore', '--replace', zip), /has a gap until/)
  const later = join(folder, 'later.zip')
  await well(dir, 'backup', later)
  await well(dir, 'restore', '--replace', later)
})

test('ledgers of before there were marks: by the key beside them or an account that they name', async () => {
  const unmarked = place()
  mkdirSync(unmarked, { mode: 0o700 })
  for (const name of ['postrider.db', 'instance.key']) copyFileSync(join(source, name), join(unmarked, name))
  // As version 0.1.0 left it.
  const entries = textOf(linesOf(ledger()).filter((line) => !isMark(line)))
  writeFileSync(join(unmarked, LEDGER), entries)
  assert.match(await refused(unmarked, 'restore', '--replace', zip), /is older than the backup/)
  const old = join(folder, 'old.zip')
  const archive = new ZipFile()
  for (const name of ['postrider.db', 'instance.key']) archive.addFile(join(unmarked, name), name)
  archive.addBuffer(Buffer.alloc(0), LEDGER)
  archive.end()
  await pipeline(archive.outputStream as unknown as NodeJS.ReadableStream, createWriteStream(old))
  assert.match(await refused(place(), 'restore', '--ledger', file('none', ''), old), /does not say whose it is/)
  assert.match(await well(place(), 'restore', '--ledger', file('entries', entries), old), /1 erasures/)
  assert.match(await well(unmarked, 'restore', '--replace', old), /1 erasures/)
  await served(unmarked)
  assert.ok(linesOf(join(unmarked, LEDGER)).some((line) => isMark(line)))
  const foreign = file('strangers', entries.replace(/"user":"[^"]+"/, '"user":"nobody"'))
  assert.match(await refused(place(), 'restore', '--ledger', foreign, zip), /does not say whose it is/)
})

test('a server refuses the ledger of another installation, and brings the copy up to its own', async () => {
  const dir = place()
  const copy = join(folder, 'copy.ledger')
  await served(dir, silentLog, copy)
  assert.deepEqual(linesOf(copy), linesOf(join(dir, LEDGER)))
  appendFileSync(join(dir, LEDGER), textOf(linesOf(ledger()).filter((line) => !isMark(line))))
  await served(dir, silentLog, copy)
  assert.deepEqual(linesOf(copy), linesOf(join(dir, LEDGER)))
  const said: string[] = []
  const log = createLog({
    clock: new ManualClock(),
    level: 'warn',
    form: 'json',
    write: (line) => void said.push(line),
  })
  await served(dir, log, join(dir, 'no', 'such', 'folder'))
  assert.match(said.join(''), /the copy of the ledger of erasures cannot be written/)
  copyFileSync(ledger(), join(dir, LEDGER))
  await assert.rejects(served(dir), /erasures\.ledger belongs to another installation/)
})
