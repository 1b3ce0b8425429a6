// Commands find a name in any form in which a user types it: in capitals, in any script, and with the trailing dot of a
// zone file. Every command compares the stored form.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Commands } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makeInstallation } from '../kit/installation.ts'

const folder = temporaryDirectory('names')
const config = join(folder, 'here.toml')
const commands = new Commands(folder, ['--config', config])
after(async () => {
  await commands.close()
})

before(async () => {
  writeFileSync(
    config,
    `hostname = "mx.owner.test."\ndata_dir = ${JSON.stringify(join(folder, 'data'))}\n[dns]\nservers = ["127.0.0.1:9"]\n`,
  )
  makeInstallation(join(folder, 'data'))
  await commands.json('user', 'add', 'Ann@BÜCHER.test')
  await commands.json('domain', 'add', 'BÜCHER.test.', '--user', 'ann@Bücher.TEST')
  await commands.json('suppression', 'add', 'Bob@There.TEST', '--domain', 'Bücher.test.')
  const token = ['token', 'create', '--user', 'ANN@bücher.test', '--name', 'n', '--scopes', 'all']
  await commands.json(...token, '--duration', '1_month')
  await commands.json('inbox', 'add', 'Help@Bücher.test', '--user', 'ann@BÜCHER.test')
})

const STORED = { domain: 'xn--bcher-kva.test', user: 'Ann@xn--bcher-kva.test', lane: 'xn--ltere-fra.test' }
const GIVEN = { domain: 'BÜCHER.Test.', user: 'aNN@Bücher.TEST', lane: 'Ältere.TEST.' }

/** The arguments of commands, with the names as typed. */
const QUESTIONS: Record<string, (names: typeof STORED) => string[]> = {
  'domain show': ({ domain }) => [domain],
  'domain records': ({ domain, user }) => [domain, '--user', user],
  'domain dmarc': ({ domain }) => [domain],
  'domain reports': ({ domain }) => [domain],
  'queue list': ({ domain }) => ['--domain', domain],
  'queue hold': ({ lane }) => ['--lane', lane],
  'mail find': ({ domain, user }) => [user, '--domain', domain],
  'suppression list': ({ domain, user }) => ['--domain', domain, '--user', user],
  'token list': ({ user }) => ['--user', user],
  'subscription set': ({ user }) => [user, '--plan', 'unlimited'],
  why: ({ domain, user }) => [domain, '--user', user],
}

for (const [command, words] of Object.entries(QUESTIONS))
  test(`${command} accepts a name in capitals and with a trailing dot`, async () => {
    const [stored, given] = [
      await commands.json(...command.split(' '), ...words(STORED)),
      await commands.json(...command.split(' '), ...words(GIVEN)),
    ]
    const bare = (answer: unknown): string => JSON.stringify(answer).replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'then')
    assert.equal(bare(given), bare(stored))
  })

test('queue release accepts a name in capitals and with a trailing dot', async () => {
  const { hold } = await commands.json<{ hold: boolean }>('queue', 'release', '--lane', GIVEN.lane)
  assert.equal(hold, false)
})

test('inbox remove accepts an address in capitals', async () => {
  const { removed } = await commands.json<{ removed: string[] }>('inbox', 'remove', 'help@BÜCHER.test')
  assert.equal(removed.length, 1)
})

test('the hostname setting loses its trailing dot', async () => {
  const { records } = await commands.json<{ records: { value: string }[] }>('domain', 'records', STORED.domain)
  assert.ok(!JSON.stringify(records).includes('mx.owner.test..'), JSON.stringify(records))
})
