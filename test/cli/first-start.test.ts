import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import Database from 'better-sqlite3'
import { HOUR, MINUTE } from '../../src/base/clock.ts'
import { Commands, sentenceOf, start, type Running } from '../commands/command.ts'
import { startTestDns, type TestDns } from '../kit/zone.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-first-'))
after(() => rmSync(folder, { recursive: true, force: true }))

interface Line extends Record<string, unknown> {
  event: string
}
const linesOf = (text: string): Line[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line)

describe('a first start by the environment alone (C4)', () => {
  let dns: TestDns
  before(async () => {
    dns = await startTestDns()
    dns.set('mx.first.test', 'A', ['192.0.2.1'])
  })
  after(() => dns.close())
  /** The variables of an installation of its own. */
  const given = (name: string, more: Record<string, string> = {}): Record<string, string> => ({
    POSTRIDER_CONFIG: join(folder, name, 'postrider.toml'),
    POSTRIDER_DATA_DIR: join(folder, name),
    POSTRIDER_HOSTNAME: 'mx.first.test',
    POSTRIDER_HTTP_LISTEN: '127.0.0.1:0',
    POSTRIDER_SMTP_LISTEN: '127.0.0.1:0',
    POSTRIDER_DNS_SERVERS: `127.0.0.1:${dns.port}`,
    POSTRIDER_INIT_DOMAIN: 'first.test',
    POSTRIDER_INIT_EMAIL: 'me@first.test',
    ...more,
  })
  /** Starts a server and ends it when it is ready; the lines of its log. */
  async function served(env: Record<string, string>, during: (server: Running) => unknown = () => {}): Promise<Line[]> {
    const server = start(['serve'], folder, env)
    try {
      await server.said(/"event":"ready".*\n/)
      await during(server)
      server.child.kill('SIGTERM')
      await server.ended
    } finally {
      server.child.kill('SIGKILL')
    }
    return linesOf(server.stdout())
  }

  test('makes user, domain and configuration once, and says records and a link of one hour in one event', async () => {
    const env = given('whole', { POSTRIDER_LOG_LEVEL: 'error' })
    let joined: Response | undefined
    let again: Response | undefined
    const first = await served(env, async (server) => {
      const [line, ready] = ['set up', 'ready'].map((name) =>
        linesOf(server.stdout()).find(({ event }) => event === name),
      )
      const link = new URL(line!['sign_in'] as string)
      link.host = ready!['http'] as string
      joined = await fetch(link)
      link.searchParams.set('link', `${link.searchParams.get('link')}x`)
      again = await fetch(link)
    })
    const [line, ...more] = first.filter(({ event }) => event === 'set up')
    assert.deepEqual(more, [])
    assert.deepEqual(
      [line!['domain'], line!['user'], line!['hostname']],
      ['first.test', 'me@first.test', 'mx.first.test'],
    )
    assert.match((line!['records'] as string[]).join('\n'), /_domainkey\.first\.test\. \d+ IN TXT "v=DKIM1/)
    const [said, until] = [line!['time'], line!['sign_in_until']].map((time) => Date.parse(time as string))
    assert.ok(until! - said! <= HOUR && until! - said! > HOUR - MINUTE)
    assert.deepEqual([joined?.status, again?.status], [200, 410])
    assert.doesNotMatch(JSON.stringify(first), /pr_[0-9A-Za-z]{32}/, 'a token')
    const text = readFileSync(env['POSTRIDER_CONFIG']!, 'utf8')
    assert.match(text, /^hostname = "mx\.first\.test"$/m)
    assert.ok(text.includes(`data_dir = ${JSON.stringify(env['POSTRIDER_DATA_DIR'])}`), text)

    const second = await served(env)
    assert.ok(second.every(({ event }) => event !== 'set up'))
    const other = await served({ ...env, POSTRIDER_INIT_DOMAIN: 'other.test', POSTRIDER_INIT_EMAIL: 'you@other.test' })
    assert.ok(other.every(({ event }) => event !== 'set up'))

    const commands = new Commands(folder)
    try {
      const { code, stdout } = await commands.run(['domain', 'records', 'first.test'], { env })
      assert.equal(code, 0)
      for (const record of line!['records'] as string[]) assert.ok(stdout.includes(record), record)
    } finally {
      await commands.close()
    }
  })

  test('what was cut off before there was a domain is done at the next start', async () => {
    const env = given('cut')
    await served(env)
    const file = join(env['POSTRIDER_DATA_DIR']!, 'postrider.db')
    const db = new Database(file)
    // As a process leaves it that was killed between the two.
    db.pragma('foreign_keys = OFF')
    for (const table of ['records', 'dkim_keys', 'domains']) db.exec(`delete from ${table}`)
    db.close()
    assert.ok((await served(env)).some(({ event }) => event === 'set up'))
  })

  test('accepted terms of the authority open HTTPS and submission in the file that is written', async () => {
    const env = given('open', { POSTRIDER_ACME_ACCEPT_TERMS: 'true', POSTRIDER_HTTP_TLS_LISTEN: '127.0.0.1:0' })
    for (const name of ['ACME_LISTEN', 'SUBMISSION_LISTEN', 'SUBMISSION_TLS_LISTEN'])
      env[`POSTRIDER_${name}`] = '127.0.0.1:0'
    env['POSTRIDER_ACME_DIRECTORY'] = 'https://127.0.0.1:1/directory'
    const line = (await served(env)).find(({ event }) => event === 'set up')
    assert.match(line!['sign_in'] as string, /^https:\/\/mx\.first\.test\/join\?link=/)
    const text = readFileSync(env['POSTRIDER_CONFIG']!, 'utf8')
    assert.match(text, /^accept_terms = true$/m)
    assert.match(text, /^email = "me@first\.test"$/m)
  })

  for (const [what, more, words] of [
    ['no email', { POSTRIDER_INIT_EMAIL: '' }, /^POSTRIDER_INIT_EMAIL is missing/],
    ['no domain', { POSTRIDER_INIT_DOMAIN: '' }, /^POSTRIDER_INIT_DOMAIN is missing/],
    ['a domain that is none', { POSTRIDER_INIT_DOMAIN: 'com' }, /"com" is not a domain name/],
    ['a hostname without a dot', { POSTRIDER_HOSTNAME: 'box' }, /^POSTRIDER_HOSTNAME is missing/],
  ] as const)
    test(`${what} is refused in a sentence, and nothing is written`, async () => {
      const env = given('refused', more)
      const commands = new Commands(folder)
      try {
        assert.match(sentenceOf(await commands.run(['--json', 'serve'], { env })), words)
        assert.equal(existsSync(env['POSTRIDER_CONFIG']!), false)
        assert.equal(existsSync(join(env['POSTRIDER_DATA_DIR']!, 'postrider.db')), false)
      } finally {
        await commands.close()
      }
    })

  test('a variable that means nothing ends the start of a server (C1)', async () => {
    const commands = new Commands(folder)
    try {
      const env = given('typed', { POSTRIDER_HOST_NAME: 'mx.first.test' })
      assert.match(
        sentenceOf(await commands.run(['--json', 'serve'], { env })),
        /POSTRIDER_HOST_NAME.*POSTRIDER_HOSTNAME/,
      )
    } finally {
      await commands.close()
    }
  })
})
