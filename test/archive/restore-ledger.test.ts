// A restore repeats the erasures since the backup (D67). It needs an erasure log of the same installation that is at
// least as new as the backup, and refuses all others.
import assert from 'node:assert/strict'
import { appendFileSync, copyFileSync, createWriteStream, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { before, test } from 'node:test'
import Database from 'better-sqlite3'
import { ZipFile } from 'yazl'
import { parseConfig } from '../../src/base/config.ts'
import { createLog, silentLog } from '../../src/base/log.ts'
import type { Domain } from '../../src/domains/find.ts'
import { answerDepsOf } from '../../src/privacy/api-recipient-requests.ts'
import { askFor } from '../../src/privacy/recipient-requests.ts'
import { DATABASE } from '../../src/store/open.ts'
import { startAppliance } from '../../src/server/appliance.ts'
import { isMark, LEDGER, readContent, textOf, type Line } from '../../src/privacy/ledger.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { filesWith } from '../kit/files-with.ts'
import { campaignKit } from '../kit/campaign.ts'
import { formKit } from '../kit/forms.ts'
import { SITE, signupKit } from '../kit/signups.ts'
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
  await using postrider = await startTestAppliance({ dataDir: source, config: { signup: { check_mx: false } } })
  const domain = await postrider.activeDomain('here.test')
  const mail = { from: 'me@here.test', to: PERSON, subject: 'Hello', html: `<p>${PERSON}</p>` }
  const { status } = await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))
  assert.equal(status, 201)
  await signedUp(postrider, domain)
  await well(source, 'backup', zip)
  copyFileSync(join(source, LEDGER), join(folder, 'before.ledger'))
  assert.equal((await postrider.api('DELETE', `/recipients/${PERSON}/forget`)).status, 202)
})

/** The person as a contact with a consent, as a sign-up at a form, and with a request for a copy of the data. */
async function signedUp(postrider: TestAppliance, domain: Domain): Promise<void> {
  const kit = campaignKit(() => postrider)
  const given = document('contacts', { email: PERSON, consent_evidence: 'A card' })
  const added = await postrider.api('POST', `/audiences/${await kit.audience(domain)}/contacts`, given)
  assert.equal(added.status, 201, JSON.stringify(added.body))
  const { slug } = await formKit(() => postrider).open({ audience: await kit.audience(domain) }, { origins: [SITE] })
  await signupKit(() => postrider).signUp(slug, PERSON)
  const { key: domain_key, user_key } = domain
  const asked = { user_key, domain_key, kind: 'export', language: 'en', email: PERSON } as const
  await askFor(answerDepsOf(postrider.appliance.deps), asked)
}

/** What a data directory has of the person's consents, sign-ups and requests. */
function storedIn(dataDir: string): Record<'consents' | 'signups' | 'requests', unknown[]> {
  const database = new Database(join(dataDir, DATABASE), { readonly: true })
  try {
    const all = (sql: string): unknown[] => database.prepare(sql).raw().all()
    return {
      consents: all(
        'select state, evidence is null and text is null and contact_key is null from consents order by key',
      ),
      signups: all('select state from signups'),
      requests: all('select state, email from recipient_requests'),
    }
  } finally {
    database.close()
  }
}

test('restore erases again the consents, sign-ups and requests that were erased after the backup (AU109)', async () => {
  const dir = place()
  await well(dir, 'restore', '--without-ledger', zip)
  const before = storedIn(dir)
  assert.deepEqual(
    [before.consents, before.signups, before.requests],
    [
      [
        ['asserted', 0],
        ['requested', 0],
      ],
      [['sent']],
      [['open', PERSON]],
    ],
  )
  await well(dir, 'restore', '--replace', '--ledger', ledger(), zip)
  await served(dir)
  const after = storedIn(dir)
  assert.deepEqual(
    [after.consents, after.signups, after.requests],
    [
      [
        ['erased', 1],
        ['erased', 1],
      ],
      [],
      [['done', null]],
    ],
  )
})

const ledger = (): string => join(source, LEDGER)
const linesOf = (path: string): Line[] => readContent(path).lines

test('restore refuses the erasure log of a new installation in the data directory', async () => {
  const dir = place()
  await served(dir)
  assert.match(await refused(dir, 'restore', '--replace', zip), /belongs to another installation.*--ledger/)
  assert.match(await well(dir, 'restore', '--replace', '--ledger', ledger(), zip), / repeats 1 erasure\./)
  await served(dir)
  assert.deepEqual(
    (await filesWith(dir, PERSON)).filter((name) => !name.includes('set-aside-')),
    [],
  )
})

test('restore refuses a file that is not an erasure log, belongs to another installation or is older than the backup', async () => {
  const other = place()
  await served(other)
  for (const [path, said] of [
    [file('hello', 'hello'), /is not an erasure log, or is corrupt at line 1/],
    [file('flipped', readFileSync(ledger(), 'utf8').replace('recipient_hash', 'recipient_hasi')), /corrupt at line \d/],
    [file('empty', ''), /does not name its installation/],
    [file('old', textOf(linesOf(ledger()).slice(0, 1))), /is older than the backup/],
    [join(other, LEDGER), /belongs to another installation/],
  ] as const)
    assert.match(await refused(place(), 'restore', '--ledger', path, zip), said)
})

test('--ledger is repeatable, and a last line cut by a crash is ignored', async () => {
  const cut = file('cut', `${readFileSync(ledger(), 'utf8')}{"id":"x","us`)
  const dir = place()
  const old = file('first', textOf(linesOf(ledger()).slice(0, 1)))
  assert.match(await well(dir, 'restore', '--ledger', old, '--ledger', cut, zip), / repeats 1 erasure\./)
})

test('an erasure log has a gap after a restore without one, and is refused for the same backup', async () => {
  const dir = place()
  await well(dir, 'restore', '--without-ledger', zip)
  await served(dir)
  assert.match(await refused(dir, 'restore', '--replace', zip), /has a gap until/)
  const later = join(folder, 'later.zip')
  await well(dir, 'backup', later)
  await well(dir, 'restore', '--replace', later)
})

test('an erasure log of 0.1.0 is matched by the key next to it or an account in it', async () => {
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
  assert.match(await refused(place(), 'restore', '--ledger', file('none', ''), old), /does not name its installation/)
  assert.match(await well(place(), 'restore', '--ledger', file('entries', entries), old), / repeats 1 erasure\./)
  assert.match(await well(unmarked, 'restore', '--replace', old), / repeats 1 erasure\./)
  await served(unmarked)
  assert.ok(linesOf(join(unmarked, LEDGER)).some((line) => isMark(line)))
  const foreign = file('strangers', entries.replace(/"user":"[^"]+"/, '"user":"nobody"'))
  assert.match(await refused(place(), 'restore', '--ledger', foreign, zip), /does not name its installation/)
})

test('a server refuses the erasure log of another installation, and updates its copy', async () => {
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
  assert.match(said.join(''), /erasure_log_copy_failed/)
  copyFileSync(ledger(), join(dir, LEDGER))
  await assert.rejects(served(dir), /erasures\.ledger does not belong to the database and key/)
})
